//! The protections of the checkout, and how the rig takes one of them away to show what it prevents
//! (`bfstore unprotected`).
//!
//! Every one of them comes down to a key that is the same whenever the same thing is meant. So one that is taken away is a
//! key that is made anew each time. A service has all of them, whatever its environment says, unless the rig starts it.

use std::sync::OnceLock;

use anyhow::{Context, ensure};

/// The environment variable that names the protection which a service of the rig is without.
pub const WITHOUT_VARIABLE: &str = "BFSTORE_WITHOUT";

static WITHOUT: OnceLock<Safeguard> = OnceLock::new();

/// What keeps one effect from happening twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safeguard {
    /// The `checkout_id`, made once for each checkout: storefront.
    CheckoutKey,
    /// The unique column of the order's table, which outlives the record of the operation: order.
    UniqueColumn,
    /// The `reservation_id`, the same in every attempt of the workflow: order.
    ReservationKey,
    /// The `payment_attempt_id` as the provider's key: payment.
    ProviderKey,
    /// The fence behind which "not found" is believed: asked again under the same key alone: payment.
    Fence,
    /// The mark of a message that was handled: whoever receives events.
    InboxMark,
    /// The effect's key of the mail, the same for every event that asks for it: notification.
    MailKey,
    /// The effect's key of the award: loyalty.
    PointsKey,
    /// The version that was applied last of a product: storefront.
    NewerPrice,
}

impl Safeguard {
    /// All of them.
    pub const ALL: [Safeguard; 9] = [
        Safeguard::CheckoutKey,
        Safeguard::UniqueColumn,
        Safeguard::ReservationKey,
        Safeguard::ProviderKey,
        Safeguard::Fence,
        Safeguard::InboxMark,
        Safeguard::MailKey,
        Safeguard::PointsKey,
        Safeguard::NewerPrice,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Safeguard::CheckoutKey => "checkout key",
            Safeguard::UniqueColumn => "unique column",
            Safeguard::ReservationKey => "reservation key",
            Safeguard::ProviderKey => "provider's key",
            Safeguard::Fence => "fence of the look-up",
            Safeguard::InboxMark => "inbox mark",
            Safeguard::MailKey => "mail's effect key",
            Safeguard::PointsKey => "points' effect key",
            Safeguard::NewerPrice => "apply_if_newer",
        }
    }
}

/// The key under which this protection knows what is meant.
pub fn key(protection: Safeguard, key: &str) -> String {
    match WITHOUT.get() {
        Some(without) if *without == protection => format!("{key}-{:016x}", rand::random::<u64>()),
        _ => key.to_owned(),
    }
}

/// Takes away what the environment says, in a process of the rig; refused in every other.
pub fn take_away(is_of_the_rig: bool) -> anyhow::Result<()> {
    let Ok(name) = std::env::var(WITHOUT_VARIABLE) else { return Ok(()) };
    ensure!(is_of_the_rig, "{WITHOUT_VARIABLE} is for `bfstore unprotected` alone: no service runs with it");
    let without = Safeguard::ALL.into_iter().find(|protection| protection.name() == name);
    let without = without.with_context(|| format!("there is no protection {name:?}"))?;
    WITHOUT.set(without).ok().context("a protection was taken away before")?;
    tracing::warn!(name, "runs without a protection");
    Ok(())
}
