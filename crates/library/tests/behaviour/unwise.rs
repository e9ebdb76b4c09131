//! What is unwise about an operation or an inbox is told, and what is too short is raised and told.

use std::time::Duration;

use onefold::inbox::InboxSettings;
use onefold::{AfterExpiry, Operation, Retention, Scope};
use onefold_testkit::logged::Logged;

use crate::shop::Shop;

#[test]
fn what_is_shorter_than_the_shortest_is_raised_and_told() {
    let logged = Logged::here();
    let operation = Operation::new("PlaceOrder", "one order for each key");
    let operation = operation.lease(Duration::ZERO).retention(Duration::from_millis(999));
    let contract = operation.contract();
    let second = Duration::from_secs(1);
    assert_eq!((contract.lease, contract.retention), (second, Retention::For(second)));
    for (setting, asked) in [("lease", "0ns"), ("retention", "999ms")] {
        let warnings = logged.warnings(&format!("setting=\"{setting}\""));
        assert!(
            matches!(&warnings[..], [one] if one.contains(&format!("{asked} is raised to 1s"))),
            "{warnings:?}"
        );
    }
}

#[test]
fn what_is_unwise_is_told_once_at_the_first_call() {
    let logged = Logged::here();
    let short = Operation::new("PlaceOrder", "one order for each key").retention(Duration::from_secs(60));
    let short = short.after_expiry(AfterExpiry::New);
    let settings: Vec<_> = short.findings().iter().map(|finding| finding.setting).collect();
    assert_eq!(settings, ["retention", "after_expiry"]);
    assert!(logged.warnings("PlaceOrder").is_empty(), "nobody has called it");
    for key in ["k-1", "k-2"] {
        short.call(Scope::shared(), key, "lamp").unwrap();
        short.clone().call(Scope::shared(), key, "lamp").unwrap();
        // As a service does that makes it for each request.
        let made_anew =
            Operation::new("PlaceOrder", "one order for each key").retention(Duration::from_secs(60));
        made_anew.after_expiry(AfterExpiry::New).call(Scope::shared(), key, "lamp").unwrap();
    }
    assert_eq!(logged.warnings("PlaceOrder").len(), 2);
    let sound = Operation::new("ShipOrder", "one parcel for each order");
    sound.call(Scope::shared(), "k-1", "lamp").unwrap();
    assert!(logged.warnings("ShipOrder").is_empty());
}

#[tokio::test]
async fn an_inbox_whose_marks_go_sooner_than_others_deliver_again_is_told() {
    let shop = Shop::open();
    let logged = Logged::here();
    let hours = |hours: u64| InboxSettings {
        retention: Retention::For(Duration::from_secs(hours * 3600)),
        ..InboxSettings::new(format!("{hours} hours"))
    };
    shop.onefold.inbox(hours(23));
    shop.onefold.inbox(hours(24));
    assert_eq!(logged.warnings("retention").len(), 1);
    assert_eq!(logged.warnings("consumer=\"23 hours\"").len(), 1);
}
