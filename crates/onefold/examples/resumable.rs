//! Resumable mode: a workflow that is interrupted in its second step goes on there, and asks again under the same key:
//! `cargo run --example resumable`.

use std::sync::Arc;

use onefold::{BoxError, CallError, Onefold, Operation, Scope, Verdict};
use parking_lot::Mutex;

/// Two systems that write down under which key they were asked.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Vec<(&'static str, String)>>>);

impl World {
    async fn ask(&self, step: &'static str, key: String, answers: bool) -> Result<String, BoxError> {
        println!("  {step} is asked under {key}");
        self.0.lock().push((step, key));
        if answers { Ok(format!("{step} done")) } else { Err("the connection was lost".into()) }
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let onefold = Onefold::sqlite(directory.path().join("checkout.db"))?;
    let world = World::default();
    let checkout = Operation::new("Checkout", "one reservation and one shipment for each checkout");

    for attempt in 1..=3 {
        println!("call {attempt}");
        let world = world.clone();
        let call = checkout.call(Scope::shared(), "checkout-7f82", &"lamp")?;
        let done = onefold
            .resumable(call, move |steps| async move {
                let reserved = steps.run("reserve", |key| world.ask("reserve", key, true)).await?;
                let answers = attempt > 1;
                let shipped = steps.run("ship", |key| world.ask("ship", key, answers)).await?;
                Ok(Verdict::succeeded(vec![reserved, shipped]))
            })
            .await;
        match done {
            Ok(done) => println!("  {:?}, replayed: {}", done.value(), done.replayed()),
            Err(error @ CallError::Interrupted { .. }) => println!("  {error}"),
            Err(other) => return Err(other.into()),
        }
    }

    let asked = world.0.lock();
    let steps: Vec<_> = asked.iter().map(|(step, _)| *step).collect();
    if steps == ["reserve", "ship", "ship"] && asked[1].1 == asked[2].1 {
        return Ok(());
    }
    Err(format!("a finished step was repeated, or under another key: {asked:?}").into())
}
