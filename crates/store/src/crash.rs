//! Crash points: places at which a process can be told to die, so that tests see what it leaves there.
//!
//! A point stands right before or right after a statement, a commit, or an answer. Without the feature
//! `crash-points`, which only tests switch on, [`point`] is an empty function and nothing of this is in a program.
//! With it two variables of the environment are read once, at the first passage: `ONEFOLD_CRASH_AT=NAME:COUNT` ends
//! the process by SIGKILL at the COUNT-th passage of that point (from 1), and `ONEFOLD_CRASH_TRACE=FILE` appends the
//! name of each passage to a file, so that a test can learn which points an operation passes and then die at each
//! (decision 0015).
//!
//! A name is a literal and stands at one place of the code: tests find the points by reading it.

#[cfg(feature = "crash-points")]
pub use armed::{passages, point};

/// A place at which a test can have the process die. Does nothing in any other build.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub fn point(_name: &'static str) {}

#[cfg(feature = "crash-points")]
mod armed {
    use std::collections::HashMap;
    use std::fs::File;
    use std::io::Write;
    use std::sync::LazyLock;

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    use parking_lot::Mutex;

    /// `NAME:COUNT`: where to die.
    const AT: &str = "ONEFOLD_CRASH_AT";
    /// A file that gets the name of each passage.
    const TRACE: &str = "ONEFOLD_CRASH_TRACE";

    static POINTS: LazyLock<Mutex<Points>> = LazyLock::new(|| Mutex::new(Points::of_environment()));

    struct Points {
        at: Option<(String, u64)>,
        trace: Option<File>,
        passages: HashMap<&'static str, u64>,
    }

    impl Points {
        fn of_environment() -> Points {
            let at = std::env::var(AT).ok().map(|at| {
                let (name, count) = at.rsplit_once(':').expect("a crash point is NAME:COUNT");
                (name.to_owned(), count.parse().expect("a crash point's count is a number"))
            });
            let trace = std::env::var_os(TRACE).map(|file| {
                File::options().append(true).create(true).open(file).expect("the trace can be written")
            });
            Points { at, trace, passages: HashMap::new() }
        }
    }

    /// A place at which a test can have the process die.
    ///
    /// # Panics
    /// When the environment says something that cannot be read, or the trace cannot be written.
    pub fn point(name: &'static str) {
        // Held to the end, so that nobody passes another point meanwhile.
        let mut points = POINTS.lock();
        let count = points.passages.entry(name).or_default();
        *count += 1;
        let count = *count;
        if let Some(trace) = &mut points.trace {
            trace.write_all(format!("{name}\n").as_bytes()).expect("the trace can be written");
        }
        if points.at.as_ref().is_some_and(|(at, when)| at == name && *when == count) {
            kill(Pid::this(), Signal::SIGKILL).expect("a process may end itself");
        }
    }

    /// How often this process has passed the point.
    pub fn passages(name: &str) -> u64 {
        POINTS.lock().passages.get(name).copied().unwrap_or_default()
    }
}
