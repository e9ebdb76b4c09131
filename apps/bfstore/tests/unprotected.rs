//! Each protection prevents a duplicate: the scene that is made for it shows one as soon as it is taken away. And no
//! service runs without one but on the rig's stage.

mod servers;

use std::path::Path;
use std::process::{Command, Stdio};

use bfstore::ground::{Events, Ground};
use bfstore::safeguard::{Safeguard, WITHOUT_VARIABLE};
use bfstore::unprotected::Scene;
use servers::on_postgres;

const BINARY: &str = env!("CARGO_BIN_EXE_bfstore");

async fn is_missed(protection: Safeguard, ground: &Ground) {
    let scene = Scene::of(protection);
    let shown = scene.play(Path::new(BINARY), ground).await.unwrap();
    assert_eq!(shown.faults(&scene), Vec::<String>::new());
}

/// Makes a test of each protection on each database.
macro_rules! missed {
    ($($test:ident: $protection:ident;)+) => {
        mod sqlite {
            $(
                #[tokio::test]
                async fn $test() {
                    super::is_missed(super::Safeguard::$protection, &super::Ground::default()).await;
                }
            )+
        }

        mod postgresql {
            $(
                #[tokio::test]
                async fn $test() {
                    let what = concat!(stringify!($test), " on PostgreSQL");
                    if let Some(ground) = super::on_postgres(what, super::Events::Webhooks) {
                        super::is_missed(super::Safeguard::$protection, &ground).await;
                    }
                }
            )+
        }
    };
}

missed! {
    without_the_checkout_key_there_are_two_orders: CheckoutKey;
    without_the_unique_column_there_are_two_orders_when_the_record_is_gone: UniqueColumn;
    without_the_reservation_key_there_are_two_reservations: ReservationKey;
    without_the_providers_key_there_are_two_captures: ProviderKey;
    without_the_fence_of_the_look_up_there_are_two_captures: Fence;
    without_the_inbox_mark_an_event_is_handled_twice: InboxMark;
    without_the_mails_effect_key_there_are_two_mails: MailKey;
    without_the_points_effect_key_there_are_two_awards: PointsKey;
    without_apply_if_newer_an_old_price_wins: NewerPrice;
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
