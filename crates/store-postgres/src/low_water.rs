//! From where on a claim looks for messages that are due.
//!
//! What was taken leaves dead entries at the front of its index, and as long as one old transaction is open anywhere
//! in the server nobody may remove them: whoever begins at the front walks over all of them each time. So a claim
//! begins a little before the end of what the one before has looked at. That is a hint and no more: what became due
//! further back, since its transaction took long or its row was locked just then, is found by looks that begin
//! earlier: some seconds back ten times a second, from the very front once a second, each more rarely where it has
//! become long. Nothing is lost with it: a process that starts looks from the front.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How far before the end of the last look the next one begins: transactions that are shorter than this are found at
/// once.
const NEAR_MS: i64 = 100;
/// How far back a look begins now and then: transactions that are shorter than this are found soon.
const FAR_MS: i64 = 2_000;
/// Between two looks from far back, at least.
const FAR_EVERY: Duration = Duration::from_millis(100);
/// Between two looks from the very front, at least.
const WHOLE_EVERY: Duration = Duration::from_secs(1);
/// Looks from far back, and those from the front, may take this share of the time: one part in so many.
const SHARE: u32 = 20;

/// The hints of a process, one for each destination.
#[derive(Default)]
pub(crate) struct LowWater(Mutex<HashMap<String, Mark>>);

/// Where looks of one destination begin.
struct Mark {
    near: i64,
    far: i64,
    next_far: Instant,
    next_whole: Instant,
}

/// How far back a look begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Near,
    Far,
    Whole,
}

/// One look.
pub(crate) struct Look {
    /// From this time on; `None` from the front.
    pub(crate) from: Option<i64>,
    reach: Reach,
    begun: Instant,
}

impl LowWater {
    /// Where the next look begins.
    pub(crate) fn look(&self, destination: &str) -> Look {
        let begun = Instant::now();
        let (from, reach) = match self.0.lock().get(destination) {
            Some(mark) if begun < mark.next_far => (Some(mark.near), Reach::Near),
            Some(mark) if begun < mark.next_whole => (Some(mark.far), Reach::Far),
            _ => (None, Reach::Whole),
        };
        Look { from, reach, begun }
    }

    /// It has looked at everything up to this time, at this time of the store.
    pub(crate) fn looked(&self, destination: &str, look: &Look, until: i64, now: i64) {
        let back = |ms: i64| until.min(now.saturating_sub(ms));
        let (near, far) = (back(NEAR_MS), back(FAR_MS));
        let next = |every: Duration| look.begun + (look.begun.elapsed() * SHARE).max(every);
        let mut marks = self.0.lock();
        match marks.get_mut(destination) {
            Some(mark) => {
                (mark.near, mark.far) = (near, far);
                if look.reach != Reach::Near {
                    mark.next_far = next(FAR_EVERY);
                }
                if look.reach == Reach::Whole {
                    mark.next_whole = next(WHOLE_EVERY);
                }
            }
            None => {
                let mark = Mark { near, far, next_far: next(FAR_EVERY), next_whole: next(WHOLE_EVERY) };
                marks.insert(destination.to_owned(), mark);
            }
        }
    }
}
