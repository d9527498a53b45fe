//! Cleans up after this process, however it ends.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the end of its standard input, which this process holds open. Then ends the server in the folder, if one
/// runs, and removes the folder until it stays removed: the server's children may write to it until they notice.
///
/// `postmaster.pid` may be from a killed server, and its id that of another process by now. So the script ends only a
/// process with that id whose current folder is the data folder. The trap ignores the signals of a terminal.
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

/// A process that ends the server in a folder and removes the folder, when this is dropped or when this process ends:
/// even by a kill, and for statics, which are never dropped.
#[derive(Debug)]
pub(crate) struct Guardian {
    child: Child,
}

impl Guardian {
    /// Guards a folder from now on.
    pub(crate) fn of(folder: &Path) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "guardian"]).arg(folder);
        // The guardian outlives the tests, so it must not keep their standard error open.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Signals to the process group of the tests must not reach the guardian.
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
        // Fails only if the guardian has ended.
        let _ = self.child.wait();
    }
}
