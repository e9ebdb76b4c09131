//! What is done under a crash, and what a client, and a person, do afterwards.
//!
//! The client makes the same call again until it has an answer, as often as it is told to wait. Where nobody knows, a
//! person looks at the provider's books and settles the operation by them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use onefold::{
    BoxError, CallError, Onefold, OperationId, Resolution, ResolvedAs, Resource, Settlement, State, Verdict,
};
use onefold_testkit::wait;

use crate::base::{Answer, Base, Business, at, call};
use crate::messages::{self, Deed};

/// Something that is done with the one call of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Atomic(Business),
    /// Atomically, in a transaction of the caller's own.
    Borrowed,
    /// The same, where no live keys are counted.
    Uncounted,
    Reserved(Business),
    Resumable(Business),
    /// In reserved mode, with an order that its companion places.
    Accompanied(Business),
    /// A person settles it.
    Resolve,
    /// Something with messages.
    Message(Deed),
    /// The same, through the service, whose companion places the order.
    ResolveAccompanied,
}

/// One row of the matrix.
#[derive(Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// What was there before, undisturbed.
    pub before: Option<Act>,
    /// What the process does that dies.
    pub deed: Act,
    /// What the client does afterwards.
    pub again: Act,
}

use Act::{
    Accompanied, Atomic, Borrowed, Message, Reserved, Resolve, ResolveAccompanied, Resumable, Uncounted,
};
use Business::{LosesAnswer, NotDone, OutlivesALease, Rejects, Sends, Succeeds};
use Deed::{Accept, Consume, GiveUp, LetGoOn, Redrive, Relay, RelayAtTheSecondTry, Unpark};

const fn row(name: &'static str, before: Option<Act>, deed: Act, again: Act) -> Scenario {
    Scenario { name, before, deed, again }
}

pub const ATOMIC: [Scenario; 4] = [
    row("atomic", None, Atomic(Succeeds), Atomic(Succeeds)),
    row("atomic, rejected", None, Atomic(Rejects), Atomic(Rejects)),
    row("atomic, of a free key", Some(Reserved(NotDone)), Atomic(Succeeds), Atomic(Succeeds)),
    row("atomic, of a free key, rejected", Some(Reserved(NotDone)), Atomic(Rejects), Atomic(Rejects)),
];

pub const BORROWED: [Scenario; 3] = [
    row("the caller's transaction", None, Borrowed, Borrowed),
    row("the caller's transaction, uncounted", None, Uncounted, Uncounted),
    row("the caller's transaction, of a free key", Some(Reserved(NotDone)), Borrowed, Borrowed),
];

pub const RESERVED: [Scenario; 5] = [
    row("reserved", None, Reserved(Succeeds), Reserved(Succeeds)),
    row("reserved, nothing done", None, Reserved(NotDone), Reserved(Succeeds)),
    row("reserved, answer lost", None, Reserved(LosesAnswer), Reserved(Succeeds)),
    row("reserved, lease renewed", None, Reserved(OutlivesALease), Reserved(Succeeds)),
    row("reserved, settled by a person", Some(Reserved(LosesAnswer)), Resolve, Reserved(Succeeds)),
];

pub const ACCOMPANIED: [Scenario; 4] = [
    row("accompanied", None, Accompanied(Succeeds), Accompanied(Succeeds)),
    row("accompanied, rejected", None, Accompanied(Rejects), Accompanied(Rejects)),
    row("accompanied, answer lost", None, Accompanied(LosesAnswer), Accompanied(Succeeds)),
    row(
        "accompanied, settled by a person",
        Some(Accompanied(LosesAnswer)),
        ResolveAccompanied,
        Accompanied(Succeeds),
    ),
];

pub const RESUMABLE: [Scenario; 3] = [
    row("resumable", None, Resumable(Succeeds), Resumable(Succeeds)),
    row("resumable, answer lost", None, Resumable(LosesAnswer), Resumable(Succeeds)),
    row("resumable, taken over", Some(Resumable(LosesAnswer)), Resumable(Succeeds), Resumable(Succeeds)),
];

pub const INCOMING: [Scenario; 6] = [
    row("handled", None, Message(Consume(Succeeds)), Message(Consume(Succeeds))),
    row("handled, rejected", None, Message(Consume(Rejects)), Message(Consume(Rejects))),
    row("handled, parked", None, Message(Consume(NotDone)), Message(Consume(NotDone))),
    row("let go on", Some(Message(Consume(NotDone))), Message(Unpark), Message(Consume(Succeeds))),
    row(
        "handled when let go on",
        Some(Message(LetGoOn)),
        Message(Consume(Succeeds)),
        Message(Consume(Succeeds)),
    ),
    row("taken in", None, Message(Accept), Message(Accept)),
];

pub const OUTGOING: [Scenario; 4] = [
    row("sent with an order", None, Atomic(Sends), Atomic(Sends)),
    row("relayed", Some(Atomic(Sends)), Message(Relay), Message(Relay)),
    row(
        "relayed, at the second try",
        Some(Atomic(Sends)),
        Message(RelayAtTheSecondTry),
        Message(RelayAtTheSecondTry),
    ),
    row("given up, sent again", Some(Message(GiveUp)), Message(Redrive), Message(Redrive)),
];

/// Every row.
pub fn all() -> impl Iterator<Item = &'static Scenario> {
    static ROWS: [&[Scenario]; 7] =
        [&ATOMIC, &BORROWED, &RESERVED, &ACCOMPANIED, &RESUMABLE, &INCOMING, &OUTGOING];
    ROWS.into_iter().flatten()
}

/// Another system, which honours keys: what it was asked for, in its books. It is no part of any database.
#[derive(Clone)]
pub struct Provider(PathBuf);

impl Provider {
    pub fn of(folder: &Path) -> Provider {
        Provider(folder.join("provider"))
    }

    pub fn asked(&self, step: &str, key: &str) {
        use std::io::Write;
        at("provider.asked.before");
        let mut books = std::fs::OpenOptions::new().append(true).create(true).open(&self.0).unwrap();
        books.write_all(format!("{step} {key}\n").as_bytes()).unwrap();
        at("provider.asked.after");
    }

    /// Every request, in order.
    pub fn requests(&self) -> Vec<String> {
        let books = std::fs::read_to_string(&self.0).unwrap_or_default();
        books.lines().map(str::to_owned).collect()
    }
}

/// Does it, once.
pub async fn perform<B: Base>(
    act: Act,
    lease: Duration,
    base: &B,
    onefold: &Onefold<B::Store>,
    provider: &Provider,
) -> Answer {
    let call = call(lease);
    match act {
        Atomic(business) => B::atomic(onefold, call, business).await,
        Borrowed => base.borrowed(onefold, call).await,
        Uncounted => base.borrowed(&base.uncounted().await, call).await,
        Reserved(business) => reserved::<B>(onefold, call, business, provider.clone()).await,
        Resumable(business) => resumable::<B>(onefold, call, business, provider.clone()).await,
        Accompanied(business) => {
            B::accompany(onefold, call.operation()).await;
            reserved::<B>(onefold, call, business, provider.clone()).await
        }
        Resolve | ResolveAccompanied => {
            let id = call.id(onefold);
            if act == ResolveAccompanied {
                B::accompany(onefold, call.operation()).await;
            }
            resolve::<B>(act, onefold, id, provider).await;
            Err(no_value(id, "a person has settled it"))
        }
        Message(deed) => {
            messages::perform::<B>(deed, lease, onefold, provider).await;
            Err(no_value(call.id(onefold), "it is about messages"))
        }
    }
}

fn no_value(id: OperationId, why: &'static str) -> CallError {
    CallError::ValueNotKept { id, state: State::Succeeded, resource: None, reason: "nothing", why }
}

async fn reserved<B: Base>(
    onefold: &Onefold<B::Store>,
    call: onefold::Call,
    business: Business,
    provider: Provider,
) -> Answer {
    let work = move |attempt: onefold::Performing| async move {
        if business == NotDone {
            return Ok(Verdict::not_done("out of stock"));
        }
        if business == OutlivesALease {
            renewed::<B>().await;
        }
        provider.asked("charge", &attempt.downstream_key("charge"));
        match business {
            LosesAnswer => Err("no answer".into()),
            Rejects => Ok(Verdict::rejected(0)),
            _ => Ok(Verdict::succeeded(1)),
        }
    };
    onefold.reserved(call, work).await
}

/// Waits for a heartbeat of this process.
async fn renewed<B: Base>() {
    let waiting = async {
        while onefold_store::crash::passages(B::RENEWED) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(wait::DEADLINE, waiting).await.expect("the lease is renewed");
}

async fn resumable<B: Base>(
    onefold: &Onefold<B::Store>,
    call: onefold::Call,
    business: Business,
    provider: Provider,
) -> Answer {
    let work = move |steps: onefold::Steps| async move {
        for step in ["reserve", "ship"] {
            let provider = provider.clone();
            let done = steps.run(step, async move |key: String| {
                provider.asked(step, &key);
                match (business, step) {
                    (LosesAnswer, "ship") => Err::<i64, BoxError>("no answer".into()),
                    _ => Ok(7),
                }
            });
            assert_eq!(done.await?, 7);
            at("business.step.after");
        }
        Ok(Verdict::succeeded(1))
    };
    onefold.resumable(call, work).await
}

/// A person looks at the provider's books.
async fn resolve<B: Base>(
    act: Act,
    onefold: &Onefold<B::Store>,
    id: onefold::OperationId,
    provider: &Provider,
) {
    let happened = !provider.requests().is_empty();
    if matches!(act, Accompanied(_) | ResolveAccompanied) {
        let settlement = Settlement {
            verdict: match (happened, act) {
                (false, _) => Verdict::not_done("the provider was not asked"),
                (true, Accompanied(Rejects)) => Verdict::rejected(0),
                (true, _) => Verdict::succeeded(1),
            },
            reason: "the process has died".into(),
            evidence: "the provider's books".into(),
            who: "ops".into(),
        };
        onefold.resolve(call(LEASE).operation(), id, settlement).await.unwrap();
        return;
    }
    let resolution = Resolution {
        resolved_as: if happened { ResolvedAs::Succeeded } else { ResolvedAs::Failed },
        reason: "the process has died".into(),
        evidence: "the provider's books".into(),
        resource: None::<Resource>,
        answer: None,
        who: "ops".into(),
    };
    onefold.engine().resolve(id, resolution).await.unwrap();
}

/// What a client and a person have come to.
pub struct Recovered {
    /// `None`: a person has settled it, and no result is kept.
    pub value: Option<i64>,
    /// How often a person had to settle it.
    pub settled: usize,
}

/// Makes the call again until there is an answer.
pub async fn recover<B: Base>(
    scenario: &Scenario,
    lease: Duration,
    base: &B,
    onefold: &Onefold<B::Store>,
    provider: &Provider,
) -> Recovered {
    if let Message(deed) = scenario.again {
        messages::until_done::<B>(deed, lease, onefold, provider).await;
        return Recovered { value: None, settled: 0 };
    }
    let mut settled = 0;
    // clock: a deadline of the test.
    let until = Instant::now() + wait::DEADLINE;
    loop {
        match perform(scenario.again, lease, base, onefold, provider).await {
            Ok(done) => return Recovered { value: Some(*done.value()), settled },
            Err(CallError::ValueNotKept { .. }) => return Recovered { value: None, settled },
            Err(CallError::OutcomeUnknown { id, .. }) => {
                resolve::<B>(scenario.again, onefold, id, provider).await;
                settled += 1;
            }
            // clock: as above.
            Err(CallError::InProgress { retry_after, .. }) if Instant::now() < until => {
                tokio::time::sleep(retry_after.min(PAUSE)).await;
            }
            Err(other) => panic!("the client is told {other:?}"),
        }
    }
}

/// A client that is more impatient than it is asked to be.
pub const PAUSE: Duration = Duration::from_millis(50);

/// Short, since somebody waits for the end of a dead process's lease.
pub const LEASE: Duration = Duration::from_secs(1);
/// So long that no heart beats while an operation is watched.
pub const LONG_LEASE: Duration = Duration::from_secs(60);

impl Scenario {
    pub fn named(name: &str) -> &'static Scenario {
        all().find(|scenario| scenario.name == name).expect("a scenario")
    }

    /// It is about the lease, so its lease is short even while it is watched.
    pub fn renews(&self) -> bool {
        self.deed == Reserved(OutlivesALease)
    }
}
