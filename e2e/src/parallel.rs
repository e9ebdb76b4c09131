//! Many requests at once.

use std::net::SocketAddr;

use onefold_testkit::{Answer, Request};
use tokio::task::JoinHandle;

/// Sends one request from a task of its own.
#[must_use]
pub fn send(request: Request, to: SocketAddr) -> JoinHandle<Answer> {
    tokio::spawn(async move { request.send(to).await })
}

/// Sends `times` equal requests at once, each over a connection of its own, spread over the addresses.
#[must_use]
pub fn send_all(request: &Request, times: usize, to: &[SocketAddr]) -> Vec<JoinHandle<Answer>> {
    (0..times).map(|nth| send(request.clone(), to[nth % to.len()])).collect()
}

/// Waits for all answers.
///
/// # Panics
/// When one was not answered.
pub async fn answers(sent: Vec<JoinHandle<Answer>>) -> Vec<Answer> {
    let mut answers = Vec::with_capacity(sent.len());
    for answer in sent {
        answers.push(answer.await.expect("answered"));
    }
    answers
}

/// Every answer is the one result, fresh once at most, or the layer's "in progress".
///
/// # Panics
/// Otherwise.
pub fn assert_one_result(answers: &[Answer], body: &[u8]) {
    let mut fresh = 0;
    for answer in answers {
        match answer.problem().as_deref() {
            None => {
                assert!(answer.status == 200 && answer.body == body, "another result: {answer}");
                fresh += usize::from(!answer.is_replay());
            }
            Some(problem) => assert_eq!((answer.status, problem), (409, "in-progress"), "{answer}"),
        }
    }
    assert!(fresh <= 1, "{fresh} answers claim to be the first");
}
