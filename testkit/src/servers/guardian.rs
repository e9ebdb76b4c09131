//! The guardian of a shared server: a shell that waits for the end of the runner, stops the server and removes its
//! folder. No test process can do it, since none knows whether it is the last.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// `$1` is the runner, `$2` the server, `$3` the folder of the run.
const SCRIPT: &str = r#"
while kill -0 "$1" 2>/dev/null; do sleep 1; done
kill -INT "$2" 2>/dev/null
while kill -0 "$2" 2>/dev/null; do sleep 1; done
rm -rf "$3"
"#;

/// Has the server stopped and the folder removed once this process's parent has ended.
pub(crate) fn guard(server: u32, folder: &Path) -> Result<(), String> {
    let parent = std::os::unix::process::parent_id();
    Command::new("sh")
        .args(["-c", SCRIPT, "guardian", &parent.to_string(), &server.to_string()])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map(drop)
        .map_err(|error| format!("the guardian of a server cannot be started: {error}"))
}
