//! The services, each to be read alone.

mod fulfilment;
mod inventory;
mod loyalty;
mod notification;
mod orders;
mod payments;
pub mod provider;
mod storefront;

use crate::service::Settings;

/// The services in the order in which they are started: each knows only those before it.
pub const NAMES: [&str; 6] = ["loyalty", "notification", "inventory", "payment", "order", "storefront"];

/// Runs the service of this name until its parent is gone.
pub async fn run(settings: &Settings) -> anyhow::Result<()> {
    match settings.name.as_str() {
        "storefront" => storefront::run(settings).await,
        "order" => orders::run(settings).await,
        "inventory" => inventory::run(settings).await,
        "payment" => payments::run(settings).await,
        "notification" => notification::run(settings).await,
        "loyalty" => loyalty::run(settings).await,
        other => anyhow::bail!("there is no service {other}; there are {}", NAMES.join(", ")),
    }
}
