//! A closure in the open transaction: what it leaves, and what ends it.
//!
//! It ends with its time, with a panic, and with the first statement that failed, whatever it says itself.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use onefold_core::{InboxState, Kept, OperationId, Resource, State, StoreTime};
use onefold_store::codec::{encode_kept, kept_length};
use onefold_store::{Atomically, Ended, Finish, StoreError};
use tokio::time::timeout;

use super::{Closure, PostgresWork, Stopped};
use crate::PostgresTx;
use crate::about::About;
use crate::error::Failed;
use crate::held::Held;
use crate::store::PostgresStore;
use crate::tx::Makes;

/// What a closure has left, with the payload sealed.
pub(crate) struct Finished {
    pub(crate) finish: Finish,
    pub(crate) kept: Kept,
    pub(crate) resource: Option<Resource>,
    pub(crate) form: Option<Vec<u8>>,
    /// Whether messages are on their way out with it.
    pub(crate) made_messages: bool,
    /// Whether what it was run for came too late.
    pub(crate) too_late: bool,
    /// Whether the end of its last statement was not seen.
    pub(crate) unseen: bool,
}

impl Finished {
    pub(crate) fn state(&self) -> State {
        match self.finish {
            Finish::Succeeded => State::Succeeded,
            Finish::Rejected => State::Rejected,
        }
    }

    /// What a handler that succeeded leaves its message as.
    pub(crate) fn handled(&self) -> InboxState {
        if self.too_late { InboxState::Superseded } else { InboxState::Processed }
    }

    pub(super) fn committed(
        self,
        now: StoreTime,
        attempt: u32,
        expires_at: Option<StoreTime>,
        store: &PostgresStore,
    ) -> Atomically {
        let Finished { finish, kept, resource, made_messages, .. } = self;
        if made_messages && finish == Finish::Succeeded {
            store.hints().give();
        }
        Atomically::Committed { now, attempt, expires_at, finish, kept, resource }
    }
}

/// Runs the closure in the open transaction.
pub(crate) async fn closure(
    held: Held,
    id: OperationId,
    about: About,
    now: StoreTime,
    work: &mut PostgresWork,
    store: &PostgresStore,
) -> Result<(Held, Finished), Stopped> {
    let (mut held, most) = (held, store.closure_time_max());
    held.closure_begins(most);
    let mut tx = PostgresTx::new(held, id, about, now, Makes::of(store));
    let ended = timeout(most, caught(work.0.as_mut(), &mut tx)).await;
    let (made_messages, too_late) = (tx.made_messages(), tx.versions().came_too_late());
    let (unseen, half_done) = (tx.is_unseen(), tx.is_half_done());
    let (held, failed) = tx.into_parts();
    let ended = match ended {
        Ok(Ok(ended)) => ended,
        // What it was in the middle of is unknown: the connection is closed.
        Ok(Err(panic)) => {
            return Err(Stopped::undone(Atomically::Stopped(format!("the closure panicked: {panic}"))));
        }
        Err(_) => {
            let why = format!("the closure held its transaction for longer than {most:?}");
            return Err(Stopped::undone(Atomically::Stopped(why)));
        }
    };
    if failed.as_ref().is_some_and(Failed::ends_connection) {
        let why = failed.map(StoreError::from).map_or_else(String::new, |why| why.to_string());
        return Err(Stopped::undone(Atomically::Stopped(why)));
    }
    if let Some(Failed::Rerun(why)) = failed {
        held.roll_back().await;
        return Err(Stopped::contended(why));
    }
    match (ended, failed) {
        (Ended::Finished { .. }, Some(why)) => {
            held.roll_back().await;
            let why = StoreError::from(why);
            let why = format!("a statement of the closure failed and the closure went on: {why}");
            Err(Stopped::undone(Atomically::Stopped(why)))
        }
        (Ended::Finished { .. }, None) if half_done => {
            held.roll_back().await;
            let why = "the closure gave up a step of the layer in the middle and went on".to_owned();
            Err(Stopped::undone(Atomically::Stopped(why)))
        }
        (Ended::Finished { finish, kept, resource }, None) => {
            let seal = || store.sealer().seal(&id, kept_length(&kept), |out| encode_kept(&kept, out));
            let form = (kept != Kept::Nothing).then(seal);
            let bytes = form.as_ref().map_or(0, Vec::len)
                + resource.as_ref().map_or(0, |resource| resource.kind.len() + resource.id.len());
            if let Err(refused) = store.takes(bytes) {
                held.roll_back().await;
                return Err(Stopped::Store(refused));
            }
            Ok((held, Finished { finish, kept, resource, form, made_messages, too_late, unseen }))
        }
        (Ended::NotDone, _) => {
            held.roll_back().await;
            Err(Stopped::undone(Atomically::NotDone))
        }
        (Ended::Again(why), _) => {
            held.roll_back().await;
            Err(Stopped::contended(why))
        }
    }
}

/// Runs the closure's future; a panic is an error.
async fn caught(closure: &mut Closure, tx: &mut PostgresTx) -> Result<Ended, String> {
    let mut future = Box::pin(async move { closure(tx).await });
    poll_fn(move |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(message(&*panic))),
    })
    .await
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".into())
}
