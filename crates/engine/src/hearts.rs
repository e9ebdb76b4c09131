//! The heartbeats of the attempts that run in this process.
//!
//! Most attempts end long before their lease has to be renewed, so none of them has a task or a timer of its own until
//! then: one loop sleeps until the first renewal is due, and gives an attempt that still runs a task that renews from
//! then on, so that a store which is slow for one holds up no other. The loop ends when nothing waits, and the next
//! attempt starts it again. When the loop's runtime ends before those of other attempts, these get their tasks at once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

/// When a first renewal is due, and a number that makes it the attempt's own.
type Due = (Instant, u64);

/// What renews from the moment when it is due until it is aborted.
type Beat = Box<dyn FnOnce(&Handle, Instant) -> AbortHandle + Send>;

#[derive(Default)]
pub(crate) struct Hearts(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Something is due before all that the loop knows.
    sooner: Notify,
}

#[derive(Default)]
struct State {
    numbers: u64,
    waiting: BTreeMap<Due, (Handle, Beat)>,
    beating: HashMap<u64, AbortHandle>,
    loops: bool,
}

/// An attempt's heart: beats until it is dropped.
pub(crate) struct Heart {
    hearts: Arc<Shared>,
    due: Due,
}

impl Hearts {
    /// A heart that beats first at `first`.
    pub(crate) fn beat(
        &self,
        first: Instant,
        beat: impl FnOnce(&Handle, Instant) -> AbortHandle + Send + 'static,
    ) -> Heart {
        let mut state = self.0.state.lock();
        state.numbers += 1;
        let due = (first, state.numbers);
        let sooner = state.waiting.first_key_value().is_none_or(|(known, _)| due < *known);
        state.waiting.insert(due, (Handle::current(), Box::new(beat)));
        let loops = std::mem::replace(&mut state.loops, true);
        drop(state);
        if !loops {
            tokio::spawn(Looping { hearts: self.0.clone(), ended: false }.run());
        } else if sooner {
            self.0.sooner.notify_one();
        }
        Heart { hearts: self.0.clone(), due }
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        let mut state = self.hearts.state.lock();
        let waited = state.waiting.remove(&self.due);
        let beating = if waited.is_none() { state.beating.remove(&self.due.1) } else { None };
        drop(state);
        if let Some(beating) = beating {
            beating.abort();
        }
    }
}

impl State {
    /// Gives the first that waits its task.
    fn start_first(&mut self) {
        if let Some((due, (runtime, beat))) = self.waiting.pop_first() {
            self.beating.insert(due.1, beat(&runtime, due.0));
        }
    }

    /// Starts what is due, and says when the next is. `None`: nothing waits.
    fn start_due(&mut self, now: Instant) -> Option<Instant> {
        loop {
            let (first, _) = *self.waiting.first_key_value()?.0;
            if first > now {
                return Some(first);
            }
            self.start_first();
        }
    }
}

struct Looping {
    hearts: Arc<Shared>,
    ended: bool,
}

impl Looping {
    async fn run(mut self) {
        while let Some(next) = self.start_due() {
            tokio::select! {
                () = sleep_until(next) => {}
                () = self.hearts.sooner.notified() => {}
            }
        }
    }

    fn start_due(&mut self) -> Option<Instant> {
        let mut state = self.hearts.state.lock();
        let next = state.start_due(Instant::now());
        self.ended = next.is_none();
        state.loops = !self.ended;
        next
    }
}

impl Drop for Looping {
    fn drop(&mut self) {
        if self.ended {
            // Another one may run already.
            return;
        }
        let mut state = self.hearts.state.lock();
        state.loops = false;
        while !state.waiting.is_empty() {
            state.start_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn beats(beats: &mpsc::Sender<u32>, name: u32) -> impl FnOnce(&Handle, Instant) -> AbortHandle + use<> {
        let beats = beats.clone();
        move |runtime, first| {
            let beating = async move {
                sleep_until(first).await;
                let _ = beats.try_send(name);
                std::future::pending::<()>().await;
            };
            runtime.spawn(beating).abort_handle()
        }
    }

    #[tokio::test]
    async fn hearts_beat_in_the_order_in_which_they_are_due_and_stopped_ones_do_not() {
        let (sender, mut heard) = mpsc::channel(4);
        let hearts = Hearts::default();
        let now = Instant::now();
        let _never = hearts.beat(now + LONG, beats(&sender, 0));
        tokio::task::yield_now().await;
        let _second = hearts.beat(now + Duration::from_millis(40), beats(&sender, 2));
        let stopped = hearts.beat(now + Duration::from_millis(20), beats(&sender, 9));
        let _first = hearts.beat(now + Duration::from_millis(10), beats(&sender, 1));
        drop(stopped);
        assert_eq!((heard.recv().await, heard.recv().await), (Some(1), Some(2)));
        assert!(heard.is_empty());
    }

    #[tokio::test]
    async fn the_loop_ends_with_the_last_heart_and_begins_with_the_next() {
        let (sender, mut heard) = mpsc::channel(4);
        let hearts = Hearts::default();
        for name in [1, 2] {
            let _heart = hearts.beat(Instant::now(), beats(&sender, name));
            assert_eq!(heard.recv().await, Some(name));
            assert!(!hearts.0.state.lock().loops);
        }
        assert!(hearts.0.state.lock().beating.is_empty());
    }

    #[test]
    fn hearts_of_another_runtime_survive_that_of_the_loop() {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (sender, mut heard) = mpsc::channel(4);
        let hearts = Hearts::default();
        let (first, second) = (runtime(), runtime());
        let _gone = first.block_on(async { hearts.beat(Instant::now() + LONG, beats(&sender, 9)) });
        let _lives = second.block_on(async {
            let soon = Instant::now() + Duration::from_millis(10);
            let heart = hearts.beat(soon, beats(&sender, 1));
            tokio::task::yield_now().await;
            heart
        });
        drop(first);
        assert_eq!(second.block_on(heard.recv()), Some(1));
    }
}
