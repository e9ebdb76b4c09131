//! The outside world: a payment provider and a mail server, which do what they are told to do wrong.
//!
//! It is no service of bfstore and knows nothing of Onefold. What it has done is the truth that the chapters are compared
//! with, and it is kept in memory: the outside world is never killed.

mod provider;
mod smtp;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

pub use provider::Captured;
pub use smtp::Mail;

use crate::service::serve;

/// What is done wrong with the next request, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The provider captures, and its answer is lost.
    CaptureAnswerLost,
    /// The provider's answer is lost, and the request reaches its books only later: until it is told to land.
    CaptureLandsLate,
    /// The provider refuses: now, and whenever it is asked under that key.
    CaptureRefused,
    /// The mail server takes the mail, and its answer is lost.
    MailAnswerLost,
}

/// What has become of a mail to which the mail server gives no answer: it keeps the connection until whoever sends is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Held {
    /// It has not come yet.
    Awaited,
    /// It is taken, and its sender waits for the answer.
    Open,
    /// Its sender has gone, so long after the mail was taken.
    Gone(Duration),
}

/// Everything that happened outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happened {
    /// Requests for captures that came.
    pub capture_requests: usize,
    /// Captures: money that was taken.
    pub captures: Vec<Captured>,
    /// Mails that were taken.
    pub mails: Vec<Mail>,
}

#[derive(Debug, Default)]
struct World {
    happened: parking_lot::Mutex<Happened>,
    faults: parking_lot::Mutex<Vec<Fault>>,
    late: parking_lot::Mutex<Vec<Captured>>,
    refused: parking_lot::Mutex<Vec<String>>,
    /// Recipients: the answer to the next mail for each of them will be lost.
    unanswered: parking_lot::Mutex<HashSet<String>>,
    /// The same, and the connection stays.
    held: parking_lot::Mutex<HashMap<String, Held>>,
}

impl World {
    /// Whether this is to be done wrong now.
    fn takes(&self, fault: Fault) -> bool {
        let mut faults = self.faults.lock();
        faults.iter().position(|told| *told == fault).map(|at| faults.remove(at)).is_some()
    }
}

/// Runs it: HTTP on `listen`, SMTP on a port of its own, which is said first.
pub async fn run(listen: SocketAddr) -> anyhow::Result<()> {
    let world = Arc::new(World::default());
    let mails = TcpListener::bind("127.0.0.1:0").await?;
    println!("mails on smtp://{}", mails.local_addr()?);
    tokio::spawn(smtp::serve(mails, world.clone()));
    let router = Router::new()
        .route("/captures", post(provider::capture))
        .route("/captures/{key}", get(provider::find))
        .route("/mails/{id}", get(has_mail))
        .route("/faults", post(told))
        .route("/mails/{id}/unanswered", post(unanswered))
        .route("/mails/{id}/held", post(hold).get(held))
        .route("/late", post(provider::land))
        .route("/happened", get(happened))
        .with_state(world);
    serve(listen, router).await
}

async fn told(State(world): State<Arc<World>>, Json(fault): Json<Fault>) -> StatusCode {
    world.faults.lock().push(fault);
    StatusCode::NO_CONTENT
}

async fn unanswered(State(world): State<Arc<World>>, Path(to): Path<String>) -> StatusCode {
    world.unanswered.lock().insert(to);
    StatusCode::NO_CONTENT
}

async fn hold(State(world): State<Arc<World>>, Path(to): Path<String>) -> StatusCode {
    world.held.lock().insert(to, Held::Awaited);
    StatusCode::NO_CONTENT
}

async fn held(State(world): State<Arc<World>>, Path(to): Path<String>) -> Json<Option<Held>> {
    Json(world.held.lock().get(&to).copied())
}

async fn happened(State(world): State<Arc<World>>) -> Json<Happened> {
    Json(world.happened.lock().clone())
}

async fn has_mail(State(world): State<Arc<World>>, Path(id): Path<String>) -> StatusCode {
    let found = world.happened.lock().mails.iter().any(|mail| mail.message_id == id);
    if found { StatusCode::OK } else { StatusCode::NOT_FOUND }
}
