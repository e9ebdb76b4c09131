//! A worker that dies inside its exchange with the mail server: the mail is taken, and who sent it is killed before it
//! reads the answer. Nobody else can tell afterwards whether it was sent: the mail server is asked.

use std::time::Duration;

use tokio::time::sleep;

use super::deaths::{Death, Deaths};
use super::plan::Effect;
use super::traffic::{Traffic, customer};
use crate::outside::Held;
use crate::story::shopper::Shopper;

/// Whoever is gone by then has not given up waiting for the answer: it is killed.
const DEAD_WITHIN: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Where the mail for this checkout goes.
pub fn recipient(checkout: usize) -> String {
    format!("{}@example.org", customer(checkout))
}

/// Kills the notification service while the mail server has the mail of this checkout, whose answer is held. Without an
/// effect where the service has given up before it could be killed.
pub async fn die(checkout: usize, shopper: &Shopper, traffic: &Traffic, deaths: &Deaths) {
    loop {
        match shopper.held_mail(&recipient(checkout)).await {
            Ok(Some(Held::Open)) => drop(deaths.wait("notification", Death::Killed).await),
            Ok(Some(Held::Gone(after))) if after < DEAD_WITHIN => {
                return traffic.struck(checkout, Effect::Notification);
            }
            Ok(Some(Held::Gone(_))) => return traffic.missed(checkout, Effect::Notification),
            Ok(Some(Held::Awaited) | None) | Err(_) => {}
        }
        sleep(LOOK_EVERY).await;
    }
}
