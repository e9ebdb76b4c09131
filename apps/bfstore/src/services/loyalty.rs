//! **loyalty**: points. Adding them is a relative change on purpose, so it stands behind an effect of its own: one award
//! for each order, whichever message asks for it and however often.

use std::sync::Arc;

use axum::Router;
use onefold::BoxError;
use onefold::any::AnyTx;
use onefold::inbox::{Handled, Incoming};

use crate::events::{self, Event, Inlets};
use crate::safeguard::{self, Safeguard};
use crate::service::{Database, Settings};

const TABLES: &[&str] =
    &["CREATE TABLE IF NOT EXISTS points (customer_id TEXT PRIMARY KEY, points BIGINT NOT NULL)"];
const AWARD: &str = "INSERT INTO points VALUES ($1, $2)
    ON CONFLICT (customer_id) DO UPDATE SET points = points.points + excluded.points";
/// A point for each euro.
const CENTS_PER_POINT: i64 = 100;
/// A build with a bug, which the story repairs: it gives nothing for orders of this much and more.
const DAMAGED_BUILD: (&str, i64) = ("41", 10_000);

/// Runs the service.
pub async fn run(settings: &Settings) -> anyhow::Result<()> {
    let database = Database::open(settings, TABLES).await?;
    let build = settings.build.clone();
    let inbox = database.onefold.inbox(settings.inbox("loyalty"));
    let consumer = inbox
        .consumer(async move |tx: &mut AnyTx, message: Arc<Incoming>| handle(tx, &message, &build).await);
    tokio::spawn(events::rerun(consumer.clone()));
    Inlets::default().of(settings, "order", consumer).await?.serve(settings, Router::new()).await
}

/// What this writes and the mark of the message are one commit.
async fn handle(tx: &mut AnyTx, message: &Incoming, build: &str) -> Result<Handled, BoxError> {
    let Event::OrderConfirmed { order_id, customer_id, cents } = serde_json::from_slice(&message.body)?
    else {
        return Ok(Handled::rejected("not an event for loyalty"));
    };
    if build == DAMAGED_BUILD.0 && cents >= DAMAGED_BUILD.1 {
        return Ok(Handled::Done);
    }
    // Its key as it is; only `bfstore unprotected` changes it (safeguard.rs).
    let award = safeguard::key(Safeguard::PointsKey, &format!("order-{order_id}/POINTS"));
    if tx.effect(&award).await? {
        tx.execute(AWARD, &[&customer_id, &(cents / CENTS_PER_POINT)]).await?;
    }
    Ok(Handled::Done)
}
