//! Cleans up after this process, regardless of how it ends.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the end of its standard input, which this process holds open. Then ends the server that runs in the
/// folder, if there is one, and removes the folder until it stays removed: the server's children take a moment
/// to notice, and may write to the folder until then.
///
/// `postmaster.pid` may be that of a killed server, and its id another process's by now. So the server is the
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

/// A process that ends the server in a folder and removes the folder when this is dropped or this process ends:
/// also when it is killed, and for statics, which are never dropped.
#[derive(Debug)]
pub(crate) struct Guardian {
    child: Child,
}

impl Guardian {
    /// Guards a folder from now on.
    pub(crate) fn of(folder: &Path) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "guardian"]).arg(folder);
        // It outlives the tests, so it must not keep their standard error open.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // A signal to the process group of the tests must not reach it.
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
        // This fails only when it has ended.
        let _ = self.child.wait();
    }
}
