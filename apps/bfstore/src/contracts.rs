//! What each operation promises: one contract for each effect. `bfstore contracts` prints them.
//!
//! The keys are business keys, so each scope is the service that owns them; who may ask is the network's business here.

use std::time::Duration;

use onefold::{Operation, Scope};

/// How long the work of a process that has died stands still before another one goes on. Living work renews its lease.
const LEASE: Duration = Duration::from_secs(6);

/// Every order is placed under the `checkout_id` that the storefront made.
pub fn place_order() -> Operation {
    Operation::new(
        "PlaceOrder",
        "one order row for each checkout_id; the row's unique key outlives the record",
    )
}

/// The workflow of an order: reserve, capture, confirm. Each step asks under a key of its own.
pub fn fulfil_order() -> Operation {
    Operation::new("FulfilOrder", "one reservation, one capture and one confirmation for each order")
        .keep_forever()
        .lease(LEASE)
}

/// The last step of the workflow, in the order's own database.
pub fn confirm_order() -> Operation {
    Operation::new("ConfirmOrder", "one change of status with its events for each order").keep_forever()
}

/// Stock is taken under the `reservation_id`.
pub fn reserve() -> Operation {
    Operation::new("Reserve", "one reservation row, and stock taken once, for each reservation_id")
        .keep_forever()
}

/// The provider is asked under the `payment_attempt_id`.
pub fn capture() -> Operation {
    Operation::new("Capture", "one capture at the provider for each payment_attempt_id")
        .keep_forever()
        .lease(LEASE)
}

/// What the provider has done is noted here, with the event that says so.
pub fn note_capture() -> Operation {
    Operation::new("NoteCapture", "one capture row with its event for each payment_attempt_id").keep_forever()
}

/// The scope of keys that this service makes or is given as its own.
pub fn scope(service: &str) -> Scope {
    Scope::new([("service", service)])
}

/// All contracts as text: the operation, its boundary, how long its record answers.
pub fn printed() -> String {
    let all = [place_order(), fulfil_order(), confirm_order(), reserve(), capture(), note_capture()];
    let lines = all.iter().map(|operation| {
        let contract = operation.contract();
        format!("{:<13} {} (kept: {:?})\n", contract.operation, contract.boundary, contract.retention)
    });
    let effects = "\
{order}/ORDER_CONFIRMED  one mail, whichever event asks for it
{order}/POINTS           one award of points
product/{product}        absolute state with a version: never overwritten by an older event
";
    lines.chain([effects.to_owned()]).collect()
}
