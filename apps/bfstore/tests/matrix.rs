//! Every source of repetition at every effect, while every service is killed at random, in small: each checkout has one
//! of everything in the end.

mod servers;

use std::path::Path;

use bfstore::ground::{Events, Ground};
use bfstore::matrix::Matrix;
use onefold_testkit::{NatsServer, RabbitServer, TestDirectory};
use servers::on_postgres;

const CHECKOUTS: usize = 50;

#[tokio::test]
async fn fifty_checkouts_have_one_effect_each_whatever_repeats_and_whoever_dies() {
    play(Ground::default()).await;
}

#[tokio::test]
async fn on_postgresql_and_nats_fifty_checkouts_have_one_effect_each() {
    let what = "the matrix on PostgreSQL and NATS";
    let directory = TestDirectory::create();
    let Some(nats) = NatsServer::any(what, &directory) else { return };
    if let Some(ground) = on_postgres(what, Events::Nats(nats.url().to_owned())) {
        play(ground).await;
    }
}

#[tokio::test]
async fn on_postgresql_and_rabbitmq_fifty_checkouts_have_one_effect_each() {
    let what = "the matrix on PostgreSQL and RabbitMQ";
    let Some(rabbit) = RabbitServer::any(what) else { return };
    if let Some(ground) = on_postgres(what, Events::RabbitMq(rabbit.url().to_owned())) {
        play(ground).await;
    }
}

async fn play(ground: Ground) {
    let seed = rand::random();
    let folder = tempfile::tempdir().unwrap();
    let matrix = Matrix { ground: ground.renamed(), checkouts: CHECKOUTS, seed };
    let outcome = matrix.run(Path::new(env!("CARGO_BIN_EXE_bfstore")), folder.path()).await;
    // What the services had to say is the only trace of what went wrong.
    let outcome = match outcome {
        Ok(outcome) if outcome.faults.is_empty() => return println!("seed {seed}\n{outcome}"),
        Ok(outcome) => outcome.to_string(),
        Err(error) => format!("{error:#}"),
    };
    panic!("seed {seed}\n{outcome}\nthe files are in {}", folder.keep().display());
}
