//! `onefold demo`: the mission acted out over real connections, and counted in two real databases.
//!
//! A small order service that knows nothing of idempotency runs as a process of its own, behind the gateway as
//! another. Connections are cut and processes killed on the way. In the end the orders and the operations are read
//! back; one count that is wrong makes the exit code 1. Everything lies in a temporary directory, which stays only with
//! `--keep` or when something went wrong. No process outlives this one.

mod books;
mod caller;
mod chapter;
mod child;
mod crashes;
mod mishaps;
mod order_service;
mod parent;
mod stage;
mod teller;

use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::{Common, Demo, DemoOrders, Serve};
use crate::demo::chapter::{Chapter, Row};
use crate::demo::stage::Stage;
use crate::demo::teller::Teller;
use crate::exit::Failure;
use crate::serve;

/// Plays the story and says whether every count was right.
pub(crate) async fn run(common: &Common, demo: &Demo) -> Result<ExitCode, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let seed = demo.seed.unwrap_or_else(|| u64::from(rand::random::<u16>()));
    let tell = Teller::to(common.output);
    tell.opening(seed);
    let mut stage = tokio::select! {
        set = Stage::set(seed) => set?,
        () = interrupts.come() => return Err(stopped()),
    };
    let played = tokio::select! {
        played = play(&mut stage, &tell) => played,
        () = interrupts.come() => {
            stage.leave().await;
            return Err(stopped());
        }
    };
    let result = played.and_then(|rows| tell.result(&rows).and_then(|()| verdict(&rows)));
    if demo.keep {
        tell.open_to_all(&stage);
        interrupts.come().await;
    }
    if demo.keep || result.is_err() {
        tell.left_in(&stage.leave_files().await);
    } else {
        stage.leave().await;
    }
    result
}

/// The hidden command of the order service.
pub(crate) async fn orders(orders: &DemoOrders) -> Result<ExitCode, Failure> {
    order_service::run(orders).await
}

/// The hidden command of the gateway: `onefold serve`, which ends with the demo even if that is killed.
pub(crate) async fn gateway(common: &Common, flags: &Serve) -> Result<ExitCode, Failure> {
    tokio::select! {
        ended = serve::run(common, flags) => ended,
        () = parent::gone() => Ok(ExitCode::SUCCESS),
    }
}

async fn play(stage: &mut Stage, tell: &Teller) -> Result<Vec<Row>, Failure> {
    let mut chapters: Vec<Chapter> = Vec::new();
    chapters.push(mishaps::answer_lost(stage, tell).await?);
    chapters.push(mishaps::fifty_at_once(stage, tell).await?);
    chapters.push(mishaps::other_request(stage, tell).await?);
    chapters.push(mishaps::caller_hangs_up(stage, tell).await?);
    chapters.push(crashes::gateway_killed(stage, tell).await?);
    chapters.push(crashes::service_killed(stage, tell).await?);
    chapters.push(mishaps::two_intentions(stage, tell).await?);

    let orders = stage.books().orders()?;
    let operations = stage.books().operations(&[]).await?;
    let mut rows: Vec<Row> = chapters.iter().map(|c| c.compare(&orders, &operations)).collect();
    rows.push(chapter::together(&chapters, &orders, &operations));
    Ok(rows)
}

/// The exit code: a demonstration that is wrong about one count is wrong.
fn verdict(rows: &[Row]) -> Result<ExitCode, Failure> {
    let faults: Vec<String> = rows
        .iter()
        .flat_map(|row| row.faults.iter().map(move |fault| format!("{}: {fault}", row.title)))
        .collect();
    if faults.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::failed(format!("the counts are not as they should be:\n  {}", faults.join("\n  "))))
}

fn stopped() -> Failure {
    Failure::failed("stopped before the end of the story")
}

/// Ctrl-C, SIGTERM and a terminal that closes: each ends the demo with its processes.
struct Interrupts([Signal; 3]);

impl Interrupts {
    fn listen() -> Result<Interrupts, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::failed(format!("signals cannot be waited for: {error}")))
        };
        let [int, term, hup] = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        Ok(Interrupts([listen(int)?, listen(term)?, listen(hup)?]))
    }

    async fn come(&mut self) {
        let [int, term, hup] = &mut self.0;
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
            _ = hup.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_count_is_a_failure() {
        let right = Row { title: "right", ..Row::default() };
        let wrong = Row { title: "wrong", faults: vec!["2 orders instead of 1".into()], ..Row::default() };
        assert!(verdict(std::slice::from_ref(&right)).is_ok());
        let failure = verdict(&[right, wrong]).unwrap_err();
        assert!(format!("{failure:?}").contains("wrong: 2 orders instead of 1"), "{failure:?}");
        assert!(format!("{failure:?}").contains("code: 1"), "{failure:?}");
    }
}
