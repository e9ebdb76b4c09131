//! Interrupted workflows that nobody asks for any more come to their end.

use std::sync::Arc;

use onefold::drive::{Drive, Interrupted};
use onefold::{BoxError, CallError, State, Steps, Verdict};
use onefold_testkit::{Store, on_each_store};
use parking_lot::Mutex;

use crate::service::{Service, Writing, call, charge, operation};

on_each_store!(an_interrupted_workflow_is_driven_to_its_end_by_another_process,);

type Asked = Arc<Mutex<Vec<(&'static str, String)>>>;

async fn workflow(steps: Steps, asked: Asked, answers: bool) -> Result<Verdict<String>, BoxError> {
    let ask = async |step, key, answer: Result<String, BoxError>| {
        asked.lock().push((step, key));
        answer
    };
    steps.run("reserve", |key| ask("reserve", key, Ok("place 9".into()))).await?;
    let answer = if answers { Ok("charge-1".into()) } else { Err("no answer".into()) };
    Ok(Verdict::succeeded(steps.run("charge", |key| ask("charge", key, answer)).await?))
}

async fn an_interrupted_workflow_is_driven_to_its_end_by_another_process(store: &Store) {
    let (first, asked) = (Service::first(store, &Writing::default()).await, Asked::default());
    let own = asked.clone();
    let lost = first.resumable(call("k"), move |steps| workflow(steps, own, false)).await;
    let Err(CallError::Interrupted { id, .. }) = lost else { panic!("{lost:?}") };
    drop(first);

    let service = Service::open(store).await;
    service.accompany(&Writing::default()).await;
    let (calls, notes) = (service.clone(), asked.clone());
    let drive = Drive::new(&operation(), move |interrupted: Interrupted| {
        let (service, asked) = (calls.clone(), notes.clone());
        async move {
            // Answers only when it is driven for the second time.
            let answers = interrupted.attempt() > 1;
            let key = interrupted.key().to_owned();
            service.resumable(call(&key), move |steps| workflow(steps, asked, answers)).await?;
            Ok(())
        }
    });
    let _driving = service.drive(drive);
    service.comes_to(id, State::Succeeded).await;
    assert_eq!(charge(store).await, "charge-1");
    let asked = asked.lock();
    assert_eq!(
        asked.iter().map(|(step, _)| *step).collect::<Vec<_>>(),
        ["reserve", "charge", "charge", "charge"]
    );
    assert!(asked[1].1 == asked[2].1 && asked[2].1 == asked[3].1);
}
