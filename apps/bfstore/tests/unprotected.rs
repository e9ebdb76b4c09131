//! Each protection prevents a duplicate: the scene that is made for it shows one as soon as it is taken away. And no
//! service runs without one but on the rig's stage.

use std::path::Path;
use std::process::{Command, Stdio};

use bfstore::safeguard::{Safeguard, WITHOUT_VARIABLE};
use bfstore::unprotected::Scene;

const BINARY: &str = env!("CARGO_BIN_EXE_bfstore");

async fn is_missed(protection: Safeguard) {
    let scene = Scene::of(protection);
    let shown = scene.play(Path::new(BINARY)).await.unwrap();
    assert_eq!(shown.faults(&scene), Vec::<String>::new());
}

#[tokio::test]
async fn without_the_checkout_key_there_are_two_orders() {
    is_missed(Safeguard::CheckoutKey).await;
}

#[tokio::test]
async fn without_the_unique_column_there_are_two_orders_when_the_record_is_gone() {
    is_missed(Safeguard::UniqueColumn).await;
}

#[tokio::test]
async fn without_the_reservation_key_there_are_two_reservations() {
    is_missed(Safeguard::ReservationKey).await;
}

#[tokio::test]
async fn without_the_providers_key_there_are_two_captures() {
    is_missed(Safeguard::ProviderKey).await;
}

#[tokio::test]
async fn without_the_fence_of_the_look_up_there_are_two_captures() {
    is_missed(Safeguard::Fence).await;
}

#[tokio::test]
async fn without_the_inbox_mark_an_event_is_handled_twice() {
    is_missed(Safeguard::InboxMark).await;
}

#[tokio::test]
async fn without_the_mails_effect_key_there_are_two_mails() {
    is_missed(Safeguard::MailKey).await;
}

#[tokio::test]
async fn without_the_points_effect_key_there_are_two_awards() {
    is_missed(Safeguard::PointsKey).await;
}

#[tokio::test]
async fn without_apply_if_newer_an_old_price_wins() {
    is_missed(Safeguard::NewerPrice).await;
}

#[test]
fn outside_of_the_rig_no_service_runs_without_a_protection() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = Command::new(BINARY);
    let database = format!("sqlite:{}", folder.path().join("loyalty.db").display());
    service.args(["service", "loyalty", "--listen", "127.0.0.1:0", "--database", &database]);
    service.args(["--events", "webhooks", "--place", "bfstore"]);
    service.env("BFSTORE_SECRETS", "{}").env(WITHOUT_VARIABLE, Safeguard::PointsKey.name());
    let ended = service.stdin(Stdio::piped()).output().unwrap();
    assert!(!ended.status.success());
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains(WITHOUT_VARIABLE), "{said}");
    assert!(!folder.path().join("loyalty.db").exists(), "it has begun to work");
}
