// Adds the seconds in the file that PLANTD_TESTS_CLOCK names to the time of one process. Only root could set the
// time of the system, and for all processes.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = (int)syscall(SYS_clock_gettime, clock, time);
    const char *path = getenv("PLANTD_TESTS_CLOCK");
    if (failed || clock != CLOCK_REALTIME || !path)
        return failed;
    char text[32] = {0};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        if (read(file, text, sizeof text - 1) > 0)
            time->tv_sec += atoll(text);
        close(file);
    }
    return 0;
}
