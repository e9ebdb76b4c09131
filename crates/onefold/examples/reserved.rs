//! Reserved mode: the effect is at a payment provider. A lost answer is held as unknown and never silently repeated:
//! `cargo run --example reserved`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use onefold::{BoxError, CallError, Onefold, Operation, Scope, Verdict};

/// A provider that charges at once and sometimes loses its answer on the way.
#[derive(Default)]
struct Provider {
    charges: AtomicU32,
}

impl Provider {
    async fn charge(&self, _key: &str, answers: bool) -> Result<String, BoxError> {
        let number = self.charges.fetch_add(1, Ordering::Relaxed) + 1;
        if answers { Ok(format!("charge-{number}")) } else { Err("the connection was lost".into()) }
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let onefold = Onefold::sqlite(directory.path().join("payments.db"))?;
    let provider = Arc::new(Provider::default());
    let capture = Operation::new("Capture", "one charge at the provider for each payment");

    for (payment, answers) in [("payment-1", true), ("payment-2", false)] {
        for attempt in 1..=2 {
            let provider = provider.clone();
            let call = capture.call(Scope::new([("merchant", "5")]), payment, &payment)?;
            let captured = onefold
                .reserved(call, move |attempt| async move {
                    // The same key in every attempt: the provider can recognise a repetition too.
                    let charge = provider.charge(&attempt.downstream_key("charge"), answers).await?;
                    Ok(Verdict::created("charge", &charge, charge.clone()))
                })
                .await;
            match captured {
                Ok(done) => {
                    println!("{payment}, call {attempt}: {}, replayed: {}", done.value(), done.replayed())
                }
                Err(error @ CallError::OutcomeUnknown { .. }) => {
                    println!(
                        "{payment}, call {attempt}: {error}; a new key is safe: {}",
                        error.new_key_is_safe()
                    );
                }
                Err(other) => return Err(other.into()),
            }
        }
    }

    let charges = provider.charges.load(Ordering::Relaxed);
    println!("charges at the provider: {charges}");
    if charges == 2 { Ok(()) } else { Err("two charges were expected".into()) }
}
