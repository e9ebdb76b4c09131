//! From where on a claim looks for messages that are due.
//!
//! What was taken leaves dead entries at the front of its index, and as long as one old transaction is open anywhere
//! in the server nobody may remove them: whoever begins at the front walks over all of them each time. So a claim
//! begins a little before the end of what the one before has looked at. That is a hint and no more: what became due
//! further back, since its transaction took long or its row was locked just then, is found by a look from the very
//! front, once a second or more rarely where such a look has become long. Nothing is lost with it: a process that
//! starts looks from the front.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How far before the end of the last look the next one begins: transactions that are shorter than this are found at
/// once.
const MARGIN_MS: i64 = 2_000;
/// Between two looks from the very front, at least.
const WHOLE_EVERY: Duration = Duration::from_secs(1);
/// Looks from the front may take this share of the time: one part in so many.
const WHOLE_SHARE: u32 = 20;

/// The hints of a process, one for each destination.
#[derive(Default)]
pub(crate) struct LowWater(Mutex<HashMap<String, Mark>>);

struct Mark {
    from: i64,
    whole_at: Instant,
    pause: Duration,
}

/// One look.
pub(crate) struct Look {
    /// From this time on; `None` from the front.
    pub(crate) from: Option<i64>,
    begun: Instant,
}

impl LowWater {
    /// Where the next look begins.
    pub(crate) fn look(&self, destination: &str) -> Look {
        let begun = Instant::now();
        let marks = self.0.lock();
        let mark = marks.get(destination).filter(|mark| begun.duration_since(mark.whole_at) < mark.pause);
        Look { from: mark.map(|mark| mark.from), begun }
    }

    /// It has looked at everything up to this time, at this time of the store.
    pub(crate) fn looked(&self, destination: &str, look: &Look, until: i64, now: i64) {
        let from = until.min(now.saturating_sub(MARGIN_MS));
        let mut marks = self.0.lock();
        match marks.get_mut(destination) {
            Some(mark) if look.from.is_some() => mark.from = from,
            known => {
                let pause = (look.begun.elapsed() * WHOLE_SHARE).max(WHOLE_EVERY);
                let mark = Mark { from, whole_at: look.begun, pause };
                match known {
                    Some(known) => *known = mark,
                    None => drop(marks.insert(destination.to_owned(), mark)),
                }
            }
        }
    }
}
