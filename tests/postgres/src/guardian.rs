//! What cleans up behind a process, however that ends.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the end of its standard input, which comes when the process is gone that has the other end.
/// Then it has the server end, if one runs in the folder, and removes the folder. The folder is removed
/// again while it fills: what a server has started takes a moment to see that its files are gone.
///
/// The file that names the server may be of one that was killed, and its id another program's by now; the
/// server is the one that is in its folder.
///
/// The signals are those that a terminal sends to all that was started there.
const SCRIPT: &str = r#"
trap '' INT TERM HUP QUIT
echo ready
cat > /dev/null
for _ in $(seq 200); do
    pid=$(head -n 1 "$1/data/postmaster.pid")
    test "$(readlink "/proc/$pid/cwd")" = "$1/data" && kill -s QUIT "$pid" && kill -s CONT "$pid"
    rm -rf "$1"
    test -e "$1" || exit 0
    sleep 0.05
done
"#;

/// A process beside this one that removes a folder, and ends the server in it, when this is dropped or
/// this process has ended in any way: also when it was killed, and what is static is never dropped.
#[derive(Debug)]
pub(crate) struct Guardian {
    child: Child,
}

impl Guardian {
    /// Guards a folder, from when this returns.
    pub(crate) fn of(folder: &Path) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "guardian"]).arg(folder);
        // Standard error belongs to whoever waits for the end of what the tests say.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Nobody who ends a group of processes ends this one with the tests.
        let mut child = command.process_group(0).spawn().expect("sh can be started");
        let mut ready = child.stdout.take().expect("its standard output is a pipe");
        let mut byte = [0];
        ready.read_exact(&mut byte).expect("the guardian says that it is ready");
        Self { child }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It fails only when it has ended, which is what is waited for.
        let _ = self.child.wait();
    }
}
