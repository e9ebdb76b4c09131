//! `bfstore check` names each mark whose effect is not there, in the database of every service.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use bfstore::ground::Ground;
use bfstore::story::CHAPTERS;
use rusqlite::Connection;

/// What is taken away by hand: the service, the statement, and what the check says of it. `{}` is a key made by dice.
const TAKEN: [(&str, &str, &str); 7] = [
    (
        "storefront",
        "UPDATE prices SET version = 5",
        "storefront: product/lamp 7: the version is applied, and the price is another",
    ),
    (
        "order",
        "UPDATE orders SET checkout_id = 'c'",
        "order: {}: PlaceOrder has succeeded, and there is no order",
    ),
    (
        "order",
        "UPDATE orders SET status = 'placed'",
        "order: order-1: FulfilOrder has succeeded, and the order is not fulfilled",
    ),
    (
        "inventory",
        "DELETE FROM reservations",
        "inventory: {}: Reserve has succeeded, and there is no reservation",
    ),
    ("payment", "DELETE FROM captures", "payment: {}: Capture has succeeded, and there is no capture"),
    (
        "notification",
        "DELETE FROM requests WHERE event = 'payment.captured'",
        "notification: order-1/captured/notification: the message is processed, and nobody has asked for a mail",
    ),
    (
        "loyalty",
        "DELETE FROM onefold_effects",
        "loyalty: order-1/confirmed/loyalty: the message is processed, and there is no award",
    ),
];

#[tokio::test]
async fn each_mark_without_its_effect_is_named_in_every_database() {
    let folder = tempfile::tempdir().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_bfstore"));
    let chapter = CHAPTERS.iter().find(|chapter| chapter.name == "8").unwrap();
    chapter.play(binary, folder.path(), &Ground::default(), Duration::ZERO).await.unwrap();
    let whole = check(binary, folder.path());
    assert!(whole.status.success(), "{whole:?}");

    for (service, statement, _) in TAKEN {
        let database = Connection::open(folder.path().join(format!("{service}.db"))).unwrap();
        assert!(database.execute(statement, []).unwrap() > 0, "{statement}");
    }
    let broken = check(binary, folder.path());
    assert_eq!(broken.status.code(), Some(1), "{broken:?}");
    let said = String::from_utf8(broken.stdout).unwrap();
    for (service, _, wanted) in TAKEN {
        let (begin, end) = wanted.split_once("{}").unwrap_or((wanted, ""));
        let named = said.lines().any(|line| line.starts_with(begin) && line.ends_with(end));
        assert!(named, "{service}: {wanted}\nis not among\n{said}");
    }
}

fn check(binary: &Path, folder: &Path) -> Output {
    Command::new(binary).arg("check").arg("--folder").arg(folder).output().unwrap()
}
