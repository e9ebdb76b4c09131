//! Those who press the button, until they are told of their order.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use rand::RngExt;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::mails::recipient;
use super::plan::{Effect, Plan, Source};
use super::traffic::{Traffic, customer};
use crate::story::shopper::Shopper;

/// Shoppers at once.
const AT_ONCE: usize = 16;
/// Presses of somebody who presses twice.
const PRESSES_AT_ONCE: usize = 3;
/// Patience between two presses, in milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 100..500;

/// All of them. Returns how often the button was pressed.
pub async fn all(
    plans: &[Plan],
    shopper: &Shopper,
    traffic: &Arc<Traffic>,
    until: Instant,
) -> anyhow::Result<usize> {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut shopping = JoinSet::new();
    for (checkout, plan) in plans.iter().cloned().enumerate() {
        let (shopper, traffic, places) = (shopper.clone(), traffic.clone(), places.clone());
        shopping.spawn(async move {
            let _place = places.acquire().await?;
            one(checkout, &plan, &shopper, &traffic, until).await
        });
    }
    let mut presses = 0;
    while let Some(pressed) = shopping.join_next().await {
        presses += pressed??;
    }
    Ok(presses)
}

async fn one(
    checkout: usize,
    plan: &Plan,
    shopper: &Shopper,
    traffic: &Traffic,
    until: Instant,
) -> anyhow::Result<usize> {
    let customer_id = customer(checkout);
    if plan.source(Effect::Notification) == Source::Reconciliation {
        shopper.lose_answer_to_mail(&recipient(checkout)).await?;
    }
    if plan.dies_mailing {
        shopper.hold_answer_to_mail(&recipient(checkout)).await?;
    }
    let checkout_id = loop {
        match shopper.begin_as(&customer_id, 1).await {
            Ok(checkout_id) => break checkout_id,
            Err(error) if Instant::now() > until => return Err(error),
            Err(_) => patience().await,
        }
    };
    traffic.begun(checkout, &checkout_id);
    let at_once = match plan.source(Effect::Order) {
        Source::DoubleSubmit => PRESSES_AT_ONCE,
        _ => 1,
    };
    let (mut presses, mut orders) = (0, BTreeSet::new());
    loop {
        presses += at_once;
        let mut pressing = JoinSet::new();
        for _ in 0..at_once {
            let (shopper, checkout_id) = (shopper.clone(), checkout_id.clone());
            pressing.spawn(async move { shopper.buy(&checkout_id).await });
        }
        while let Some(got) = pressing.join_next().await {
            orders.extend(got?.order());
        }
        ensure!(orders.len() <= 1, "{customer_id} was told of several orders: {orders:?}");
        if !orders.is_empty() {
            return Ok(presses);
        }
        if Instant::now() > until {
            bail!("{customer_id} was told of no order");
        }
        patience().await;
    }
}

async fn patience() {
    let pause = rand::rng().random_range(PAUSE_MS);
    sleep(Duration::from_millis(pause)).await;
}
