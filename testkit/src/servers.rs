//! Servers that tests need beside the product: an own one from an installed binary, as an unprivileged user.
//!
//! A *shared* server is started by the first test that wants it and serves every test process of the same run: all
//! that have the same parent (the runner). A guardian outside ends it and removes its files when that parent has ended,
//! however it ended. A server of one's *own* ends with the value.

mod certificate;
mod guardian;
mod user;

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) use certificate::Certificate;
pub(crate) use guardian::guard;
pub(crate) use user::User;

/// How long a server may take to start: generous, since test machines are slow.
pub(crate) const START_DEADLINE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);

/// The folder of this run's shared servers.
///
/// # Panics
/// When it cannot be made.
pub(crate) fn run_folder() -> PathBuf {
    let parent = std::os::unix::process::parent_id();
    // A process id may be given again; the time at which the parent began tells which one is meant.
    let begun = std::fs::read_to_string(format!("/proc/{parent}/stat")).unwrap_or_default();
    let begun =
        begun.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19)).unwrap_or("0").to_owned();
    let folder = std::env::temp_dir().join(format!("onefold-test-servers-{parent}-{begun}"));
    std::fs::create_dir_all(&folder).expect("a folder for the servers of this run");
    folder
}

/// What `start` answered in the first process of this run that asked for `name`; the others read it.
pub(crate) fn shared(
    name: &str,
    start: impl FnOnce(&Path) -> Result<String, String>,
) -> Result<String, String> {
    let folder = run_folder();
    let lock = File::create(folder.join(format!("{name}.lock"))).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    let (told, failed) = (folder.join(format!("{name}.address")), folder.join(format!("{name}.failed")));
    if let Ok(address) = std::fs::read_to_string(&told) {
        return Ok(address);
    }
    if let Ok(why) = std::fs::read_to_string(&failed) {
        return Err(why);
    }
    let done = start(&folder.join(name));
    let (file, text) = match &done {
        Ok(address) => (told, address),
        Err(why) => (failed, why),
    };
    std::fs::write(file, text).map_err(|error| error.to_string())?;
    done
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
    listener.local_addr().expect("its address").port()
}

/// A program in one of these folders or on the path.
pub(crate) fn program(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let system = [PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")];
    folders.iter().chain(&paths).chain(&system).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Starts a server in a process group of its own, as `user`, with its output in a file.
pub(crate) fn spawn(command: &mut Command, user: &User, log: &Path) -> Result<Child, String> {
    use std::os::unix::process::CommandExt;
    let out = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let err = out.try_clone().map_err(|error| error.to_string())?;
    command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
    user.become_it(command);
    command.spawn().map_err(|error| format!("{command:?}: {error}"))
}

/// Waits until `holds`, or says what the log says.
pub(crate) fn wait_until(what: &str, log: &Path, mut holds: impl FnMut() -> bool) -> Result<(), String> {
    let begun = Instant::now();
    while !holds() {
        if begun.elapsed() > START_DEADLINE {
            let text = std::fs::read_to_string(log).unwrap_or_default();
            return Err(format!("{what} took longer than {START_DEADLINE:?}; its log: {text}"));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
