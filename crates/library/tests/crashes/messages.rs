//! What is done with messages under a crash: handled, taken in, sent, and let go on by a person. Whoever delivers
//! delivers again until he is told that it is settled; relays go on until nothing waits.

use std::time::Duration;

use onefold::inbox::{Handling, Inbound, InboxStore, MessageIdentity};
use onefold::messages::{IfLost, OutboxState, OutboxStore, Redrive};
use onefold::{Key, Onefold, OperationId, Retention};
use onefold_core::FingerprintBuilder;
use onefold_store::{
    Consumed, Mark, OperationStore, Redriving, Sent, Settlement, Take, Taken, Unparking, Versioned,
};
use onefold_testkit::wait;

use crate::base::{Base, Business, MAIL, at, consumer, mails};
use crate::scenario::{PAUSE, Provider};

/// Something that is done with messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A delivery is handled.
    Consume(Business),
    /// A delivery whose effect is a message that goes on.
    Accept,
    /// A person lets a message go on that was parked.
    Unpark,
    /// A delivery fails and is parked, and a person lets it go on.
    LetGoOn,
    /// Everything that waits is sent.
    Relay,
    /// The same, where each first try fails.
    RelayAtTheSecondTry,
    /// A message is made by itself, and sending it is given up.
    GiveUp,
    /// A person has what was given up sent again.
    Redrive,
}

const WHO: &str = "ops";
const WHY: &str = "the supplier is open again";

fn delivery() -> Inbound {
    Inbound::new("shop", "evt-1", "lamp")
}

fn identity() -> MessageIdentity {
    MessageIdentity {
        consumer: consumer().consumer,
        source: delivery().source,
        message: Key::new("evt-1").unwrap(),
    }
}

fn id<B: Base>(onefold: &Onefold<B::Store>) -> OperationId {
    identity().id(onefold.store().identity_key())
}

/// Does it, once.
pub async fn perform<B: Base>(deed: Deed, lease: Duration, onefold: &Onefold<B::Store>, provider: &Provider) {
    match deed {
        Deed::Consume(business) => {
            B::consume(onefold, delivery(), business).await;
        }
        Deed::Accept => {
            accept::<B>(onefold).await;
        }
        Deed::Unpark => unpark::<B>(onefold).await,
        Deed::LetGoOn => {
            B::consume(onefold, delivery(), Business::NotDone).await;
            unpark::<B>(onefold).await;
        }
        Deed::Relay | Deed::RelayAtTheSecondTry => relay::<B>(deed, lease, onefold, provider).await,
        Deed::GiveUp => {
            onefold.store().enqueue(mails()[..1].to_vec()).await.unwrap();
            relay::<B>(deed, lease, onefold, provider).await;
        }
        Deed::Redrive => {
            redrive::<B>(onefold).await;
            relay::<B>(Deed::Relay, lease, onefold, provider).await;
        }
    }
}

/// Does it until it is done.
pub async fn until_done<B: Base>(
    deed: Deed,
    lease: Duration,
    onefold: &Onefold<B::Store>,
    provider: &Provider,
) {
    let done = async {
        while !is_done::<B>(deed, lease, onefold, provider).await {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(wait::DEADLINE, done).await.expect("the message is settled");
}

async fn is_done<B: Base>(
    deed: Deed,
    lease: Duration,
    onefold: &Onefold<B::Store>,
    provider: &Provider,
) -> bool {
    match deed {
        Deed::Consume(business) => match B::consume(onefold, delivery(), business).await {
            Handling::Done(_) | Handling::Duplicate => true,
            Handling::Parked if business == Business::NotDone => true,
            Handling::Parked => {
                unpark::<B>(onefold).await;
                false
            }
            Handling::Again { .. } => false,
            Handling::Conflict => panic!("it is the same message"),
        },
        Deed::Accept => accept::<B>(onefold).await,
        _ => {
            perform::<B>(deed, lease, onefold, provider).await;
            true
        }
    }
}

/// Whether it is done.
async fn accept<B: Base>(onefold: &Onefold<B::Store>) -> bool {
    let store = onefold.store();
    let mark = Mark {
        id: id::<B>(onefold),
        round: 0,
        identity: identity(),
        handler: "build 1".into(),
        fingerprint: FingerprintBuilder::new(store.identity_key()).part("body", b"lamp").finish(),
        retention: Retention::Forever,
        too_old_at: None,
        body: None,
        versioned: Some(Versioned { entity: "order 1".into(), version: 7 }),
    };
    let accepted = store.accept(mark, mails().to_vec()).await;
    matches!(accepted.unwrap(), Consumed::Done { .. } | Consumed::Found { .. })
}

async fn unpark<B: Base>(onefold: &Onefold<B::Store>) {
    let (after, who, reason) = (Duration::ZERO, WHO.into(), WHY.into());
    let unparking = Unparking { id: id::<B>(onefold), round: 0, after, who, reason };
    onefold.store().unpark(unparking).await.unwrap();
}

async fn redrive<B: Base>(onefold: &Onefold<B::Store>) {
    let id = mails()[0].id.clone();
    let entry = onefold.store().outgoing(&id).await.unwrap().expect("the message");
    if entry.state == OutboxState::Dead {
        let (who, reason) = (WHO.into(), WHY.into());
        let (attempt, redrive) = (entry.attempt, Redrive::SendAgain);
        let act = Redriving { id, attempt, redrive, after: Duration::ZERO, who, reason };
        onefold.store().redrive(act).await.unwrap();
    }
}

/// Sends what waits until nothing does, as a relay does: what has been sent is settled in the commit that takes more.
async fn relay<B: Base>(deed: Deed, lease: Duration, onefold: &Onefold<B::Store>, provider: &Provider) {
    let store = onefold.store();
    let sent = async {
        let mut ended: Vec<Settlement> = Vec::new();
        loop {
            let take = Take {
                destination: MAIL.into(),
                limit: 10,
                bytes: u64::MAX,
                lease,
                if_lost: IfLost::SendAgain,
            };
            let taken = match ended.is_empty() {
                true => store.take(take).await.unwrap(),
                false => {
                    at("relay.settle.before");
                    let (_, taken) = store.settle_and_take(std::mem::take(&mut ended), take).await.unwrap();
                    at("relay.settle.after");
                    taken
                }
            };
            for Taken { message, attempt, .. } in taken {
                let sent = send(deed, message.id.as_str(), attempt, provider);
                ended.push(Settlement { id: message.id, attempt, sent });
            }
            if ended.is_empty() {
                if store.survey_outbox().await.unwrap().iter().all(|of| of.depth == 0) {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    tokio::time::timeout(wait::DEADLINE, sent).await.expect("everything is sent");
}

fn send(deed: Deed, id: &str, attempt: u32, provider: &Provider) -> Sent {
    match deed {
        Deed::GiveUp => Sent::Dead { reason: "nobody is there".into() },
        Deed::RelayAtTheSecondTry if attempt == 1 => {
            Sent::Again { after: Duration::ZERO, counted: false, reason: "not now".into() }
        }
        _ => {
            provider.asked(MAIL, id);
            Sent::Delivered
        }
    }
}
