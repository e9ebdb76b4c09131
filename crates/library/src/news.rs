//! What a process has told in its log once: a service that makes its operations and inboxes anew for each request tells
//! the same of each.

use std::collections::HashSet;
use std::sync::LazyLock;

use parking_lot::Mutex;

/// Kinds of findings that are remembered: names are written in programs, so there are few. Those beyond are not told.
const TOLD_MAX: usize = 1000;

static TOLD: LazyLock<Mutex<HashSet<(String, &'static str)>>> = LazyLock::new(Mutex::default);

/// Whether this setting of what has this name was not told yet; it is from now on.
pub(crate) fn is_news(name: &str, setting: &'static str) -> bool {
    let mut told = TOLD.lock();
    told.len() < TOLD_MAX && told.insert((name.to_owned(), setting))
}
