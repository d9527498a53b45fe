// Adds the number of seconds in the file named by PLANTD_TESTS_CLOCK to the clock of one process. Setting the
// system's clock would need root, and would affect all processes.
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
