//! The caller's side of Onefold: one intention, one key, bounded retries.
//!
//! A caller decides what is one intention, and only the caller can. This crate makes its key once, keeps it before the
//! first attempt when asked to, sends every attempt with it, understands what comes back, and stops in time. Which key
//! to use for what: `docs/keys.md`.
//!
//! ```
//! use onefold_client::{Client, Intentions, OperationKey, Verdict, reqwest::Method};
//! # use std::io::{Read, Write};
//! # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
//! # let api = format!("http://{}", listener.local_addr()?);
//! # std::thread::spawn(move || for stream in listener.incoming() {
//! #     let mut stream = stream.unwrap();
//! #     let mut seen = Vec::new();
//! #     while !seen.ends_with(b"}") { let mut byte = [0]; stream.read_exact(&mut byte).unwrap(); seen.extend(byte); }
//! #     stream.write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
//! # });
//! # let folder = std::env::temp_dir().join(format!("onefold-client-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let journal = folder.join("payouts.journal");
//! # tokio::runtime::Runtime::new()?.block_on(async {
//!
//! let client = Client::builder().intentions(Intentions::open(journal)?).build()?;
//!
//! // A key of the business, or a new one (`OperationKey::generate()`): the same in every attempt of this call.
//! let order = client.request(Method::POST, format!("{api}/orders")).body(r#"{"item":"book"}"#).build()?;
//! let ended = client.send(order, &OperationKey::business("checkout-7f82")?).await?;
//! match ended.verdict {
//!     Verdict::Succeeded | Verdict::Rejected => println!("{:?}", ended.answer),
//!     // It may have happened: the same key again later, or ask the authority. Never a new key.
//!     Verdict::OutcomeUnknown | Verdict::InProgress => println!("it is being checked"),
//!     other => println!("{}: {}", other.name(), ended.stopped.name()),
//! }
//!
//! // A key on the disk before the first attempt: after a crash the same line asks under the same key.
//! let payout = client.request(Method::POST, format!("{api}/payouts")).body(r#"{"amount":"10.00"}"#).build()?;
//! let answer = client.send_intention(payout, "payout-4711").await?.settled()?;
//! assert_eq!(answer.status, 201);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # std::fs::remove_dir_all(folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! *Invariants.* A key is made once and never by a retry. Without a key nothing is sent again after bytes were sent,
//! unless its method is idempotent (RFC 9110). What may have happened is never reported as not done. A wait is never
//! shorter than asked. Everything is bounded: attempts, time, retries of all operations together, memory.
//!
//! | to | see |
//! | --- | --- |
//! | send with reqwest | [`Client`] (feature `reqwest`) |
//! | send with tonic or another tower service | [`OperationLayer`] (feature `tower`) |
//! | send with something else | [`Transport`] and [`drive()`], or [`Call`] alone, which does no I/O |
//! | make and keep keys | [`OperationKey`], [`Intentions`] |
//! | make keys for calls to others | [`Downstream`] |
//! | describe a provider | [`Profile`] |
//! | see budgets and circuits | [`Destinations::snapshot`], or as metrics (feature `metrics`) |

mod answer;
mod call;
mod circuit;
mod clock;
mod destination;
mod downstream;
mod drive;
#[cfg(feature = "reqwest")]
mod http_client;
mod intentions;
mod key;
#[cfg(feature = "tower")]
mod layer;
pub mod limits;
pub mod meaning;
#[cfg(feature = "metrics")]
mod metrics;
mod policy;
mod profile;
mod retry_after;

pub use answer::{Answer, Ended, NotSettled};
pub use call::{Call, End, Event, Next, Past, Stopped, Verdict};
pub use circuit::{CircuitSettings, CircuitState};
pub use destination::{Destination, Destinations, Snapshot, origin};
pub use downstream::{Downstream, Step};
pub use drive::{NoAnswer, Progress, Transport, Until, Watch, drive};
#[cfg(feature = "reqwest")]
pub use reqwest;

#[cfg(feature = "reqwest")]
pub use http_client::{Client, ClientBuilder, ClientError, once_client};
pub use intentions::{Intention, IntentionError, Intentions};
pub use key::OperationKey;
#[cfg(feature = "tower")]
pub use layer::{OperationBody, OperationLayer, OperationService, Told};
pub use onefold_core::budget::BudgetSettings;
pub use policy::{Policy, Repeat};
pub use profile::{Alphabet, Carrier, DoesNotFit, KeyRule, Means, Profile, ProfileError};
pub use retry_after::retry_after;
