//! A child process seen from outside: signals to it, and what /proc says of it.

use std::path::PathBuf;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process id.
#[derive(Clone, Copy, Debug)]
pub struct Process(u32);

impl Process {
    /// The process with this id.
    #[must_use]
    pub fn of(id: u32) -> Self {
        Self(id)
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(self) {
        self.signal(Signal::SIGTERM);
    }

    /// Asks it to end as Ctrl-C does (SIGINT).
    pub fn interrupt(self) {
        self.signal(Signal::SIGINT);
    }

    /// Has it end without any care (SIGQUIT).
    pub fn quit(self) {
        self.signal(Signal::SIGQUIT);
    }

    /// Freezes it (SIGSTOP).
    pub fn freeze(self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on (SIGCONT).
    pub fn thaw(self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(self, signal: Signal) {
        let id = i32::try_from(self.0).expect("a process id");
        kill(Pid::from_raw(id), signal).expect("the process is there to be signalled");
    }

    /// Resident memory in bytes.
    ///
    /// # Panics
    /// When the process has ended, or the system has no /proc.
    #[must_use]
    pub fn resident_bytes(self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The most resident memory that it ever had, in bytes.
    ///
    /// # Panics
    /// When the process has ended, or the system has no /proc.
    #[must_use]
    pub fn peak_bytes(self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(self, name: &str) -> u64 {
        let status = std::fs::read_to_string(self.proc("status")).expect("a process that runs");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of its memory");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("kB");
        kib * 1024
    }

    /// Number of open file descriptors.
    ///
    /// # Panics
    /// When the process has ended, or the system has no /proc.
    #[must_use]
    pub fn open_files(self) -> usize {
        std::fs::read_dir(self.proc("fd")).expect("a process that runs").count()
    }

    fn proc(self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.0))
    }
}

/// Raises this process's limit of open files as far as allowed; children inherit it. Answers the new limit.
///
/// # Panics
/// When the limit can be neither read nor set.
pub fn raise_open_files_limit() -> u64 {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("raises to what is allowed");
    hard
}
