//! An inbox in a database that was restored from a dump: marks, dead letters, permits and rounds are as they were,
//! whatever its counters say.

use onefold_core::InboxState;
use onefold_messages::{Handling, InboxSettings, Rerun};
use onefold_store::{InboxQuery, NewPermit};
use onefold_testkit::postgres::{Database, Isolation};

use crate::rig::{Does, Shop, message, settings};

const WHAT: &str = "an inbox in a restored database";
const DONE: Handling = Handling::Done(InboxState::Processed);

fn keeping(build: &str) -> InboxSettings {
    InboxSettings { keep_bodies: true, park_after: Some(1), ..settings(build) }
}

fn permit() -> NewPermit {
    NewPermit {
        consumer: "loyalty".into(),
        source: None,
        damaged: Some("41".into()),
        handler: None,
        message: None,
        who: "ann".into(),
        reason: "build 41 gave too few points".into(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_inbox_knows_what_was_handled_and_numbers_no_permit_twice() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let shop = Shop::open_at(&database.url()).await;
    let (old, _) = shop.scripted(keeping("41"), [Does::Fails("no stock")]);
    assert_eq!(old.handle(message("evt-0", "parked")).await, Handling::Parked);
    assert_eq!(old.handle(message("evt-1", "a")).await, DONE);
    let first = shop.store.grant_permit(permit()).await.expect("the store works").number;
    let (mended, _) = shop.scripted(keeping("42"), []);
    let rerun = mended.rerun().await.expect("the store works");
    assert_eq!(rerun.handled, 1, "{rerun:?}");
    let before = shop.entries().await;
    drop((old, mended, shop));

    let Some(restored) = Database::restored_from(WHAT, &database).await else { return };
    let shop = Shop::reopen(&restored.url()).await;
    assert_eq!(shop.entries().await, before);
    let (mended, _) = shop.scripted(keeping("42"), []);
    assert_eq!(mended.handle(message("evt-1", "a")).await, Handling::Duplicate);
    assert_eq!(mended.handle(message("evt-1", "b")).await, Handling::Conflict);
    assert_eq!(mended.rerun().await.expect("the store works"), Rerun::default(), "the permit is used up");
    let second = shop.store.grant_permit(permit()).await.expect("the store works").number;
    assert!(second > first, "{second} after {first}");
    let parked = InboxQuery { state: Some(InboxState::Parked), ..InboxQuery::default() };
    let parked: Vec<_> = shop.listed(parked).await.iter().map(|entry| entry.id).collect();
    assert_eq!(parked.len(), 2, "the dead letter and the conflict");
    let acted = shop.people().unpark(&parked[..1], "ann", "mended").await.expect("the store works");
    assert_eq!(acted.done.len(), 1);
    shop.comes_to(&["a", "a", "parked"]).await;
}
