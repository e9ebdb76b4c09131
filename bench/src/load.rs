//! The load: so many connections, each of which asks again as soon as it is answered.
//!
//! It runs on one thread, the caller's. An answer that is not the expected one ends the whole measurement: a rate of
//! refusals is no figure.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::task::JoinSet;

use crate::args::{KeysKind, Settings};
use crate::histogram::Histogram;
use crate::keys::{KeyMaker, KeyText};
use crate::wire::{Heard, Wire};

/// Under which keys orders are placed.
#[derive(Clone)]
pub(crate) enum Keys {
    /// A new one each time.
    New(KeysKind),
    /// One of these at random, each of which has been used before.
    Used(Arc<[KeyText]>),
}

/// What one measurement found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) per_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Answers in all, those of the warm-up included.
    pub(crate) answers: u64,
}

/// Places orders for the warm-up and the window, and measures the window.
pub(crate) fn measure(
    address: SocketAddr,
    connections: u32,
    keys: &Keys,
    settings: &Settings,
) -> Result<Sample> {
    let window = settings.window();
    let (histogram, answers) = runtime()?.block_on(async {
        let wires = connect(address, connections).await?;
        let from = Instant::now() + settings.warmup();
        let mut tasks = JoinSet::new();
        for wire in wires {
            tasks.spawn(ask_until(wire, keys.clone(), from, window));
        }
        let (mut all, mut answers) = (Histogram::new(), 0);
        while let Some(done) = tasks.join_next().await {
            let (histogram, heard) = done??;
            all.merge(&histogram);
            answers += heard;
        }
        anyhow::Ok((all, answers))
    })?;
    if histogram.count() == 0 {
        bail!("no answer came within the {} s of a measurement", window.as_secs());
    }
    Ok(Sample {
        per_s: histogram.count() as f64 / window.as_secs_f64(),
        p50_ms: histogram.quantile_ms(0.5),
        p99_ms: histogram.quantile_ms(0.99),
        answers,
    })
}

/// Places one order under each of these keys.
pub(crate) fn place_each(address: SocketAddr, connections: u32, keys: &Arc<[KeyText]>) -> Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let keys = keys.clone();
    place(address, connections, move || {
        let (keys, next) = (keys.clone(), next.clone());
        move || keys.get(next.fetch_add(1, Ordering::Relaxed) as usize).copied()
    })
}

/// Places this many orders, each under a new key.
pub(crate) fn place_new(address: SocketAddr, connections: u32, orders: u64, kind: KeysKind) -> Result<()> {
    let placed = Arc::new(AtomicU64::new(0));
    place(address, connections, move || {
        let (placed, mut maker) = (placed.clone(), KeyMaker::new(kind));
        move || (placed.fetch_add(1, Ordering::Relaxed) < orders).then(|| maker.text())
    })
}

/// Places an order for each key that the connections' sources give, all of them new.
fn place<S>(address: SocketAddr, connections: u32, source: impl Fn() -> S) -> Result<()>
where
    S: FnMut() -> Option<KeyText> + Send + 'static,
{
    runtime()?.block_on(async {
        let mut tasks = JoinSet::new();
        for mut wire in connect(address, connections).await? {
            let mut next = source();
            tasks.spawn(async move {
                while let Some(key) = next() {
                    expect(wire.ask(&key).await?, false)?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    })
}

async fn connect(address: SocketAddr, connections: u32) -> Result<Vec<Wire>> {
    let mut wires = Vec::new();
    for _ in 0..connections {
        wires.push(Wire::connect(address).await?);
    }
    Ok(wires)
}

async fn ask_until(mut wire: Wire, keys: Keys, from: Instant, window: Duration) -> Result<(Histogram, u64)> {
    let kind = match &keys {
        Keys::New(kind) => *kind,
        Keys::Used(_) => KeysKind::V4,
    };
    let mut maker = KeyMaker::new(kind);
    let (mut histogram, mut answers) = (Histogram::new(), 0);
    let until = from + window;
    let mut asked = Instant::now();
    while asked < until {
        let (heard, replayed) = match &keys {
            Keys::New(_) => (wire.ask(&maker.text()).await?, false),
            Keys::Used(keys) => (wire.ask(maker.pick(keys)).await?, true),
        };
        expect(heard, replayed)?;
        answers += 1;
        let answered = Instant::now();
        if answered >= from && answered < until {
            histogram.add(answered - asked);
        }
        asked = answered;
    }
    Ok((histogram, answers))
}

fn expect(heard: Heard, replayed: bool) -> Result<()> {
    let expected = Heard { status: 201, replayed };
    if heard != expected {
        bail!("an order was answered {heard:?} instead of {expected:?}");
    }
    Ok(())
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
