//! `onefold call`: curl for operations.
//!
//! The key is on stderr before the first byte is sent, so that a call that is killed can be made again under the same
//! key. The body of the final answer goes to stdout byte for byte; everything else goes to stderr.

mod report;
mod request;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::Arc;

use http::Method;
use onefold_client::{
    BudgetSettings, CircuitSettings, Client, Destinations, Ended, OperationKey, Policy, Profile, Stopped,
    Verdict,
};
use serde_json::Value;
use tokio::time::Instant;

use crate::args::{Call, Common, Output};
use crate::exit::{self, Failure};
use report::Report;
use request::Head;

pub(crate) async fn run(common: &Common, call: Call) -> Result<ExitCode, Failure> {
    let begun = Instant::now();
    let report = Report::new(common.output);
    let profile = profile(&call.profile)?;
    let deadline = onefold_config::duration(&call.deadline).map_err(|e| usage("--deadline", &e))?;
    let method: Method = call.method.to_ascii_uppercase().parse().map_err(|e| usage("METHOD", &e))?;
    let key = key(&method, call.key.as_deref(), &profile)?;
    let head = Head::of(method, &call)?;
    let data = request::data(call.data.as_deref(), deadline).await?;
    let policy = Policy {
        deadline: deadline.saturating_sub(begun.elapsed()),
        attempts_max: call.attempts,
        ..Policy::default()
    };
    let client = Client::builder().profile(profile).policy(policy).watch(report.watch());
    let client = client.destinations(one_operation(call.attempts));
    let client = client.build().map_err(|e| Failure::failed(e.to_string()))?;
    let request = head.request(&client, data)?;
    if let Some(key) = &key {
        // A key that is refused is not shown as one to come back with.
        client.check(&request, key).map_err(|error| Failure::usage(error.to_string()))?;
    }
    if report.key(key.as_ref()).is_err() {
        // Nobody could come back with this key, and stderr cannot be told why.
        return Ok(ExitCode::from(2));
    }
    let ended = match &key {
        Some(key) => client.send(request, key).await,
        None => client.send_without_key(request).await,
    };
    let ended = ended.map_err(|error| Failure::usage(error.to_string()))?;
    report.ended(&ended, key.as_ref());
    hand_on(&ended, common.output, report);
    Ok(ExitCode::from(code(&ended)))
}

/// A process with one operation has nothing to share a budget with: its attempts are its bound.
fn one_operation(attempts: u32) -> Arc<Destinations> {
    let budget = BudgetSettings { reserve: attempts, ..BudgetSettings::default() };
    Destinations::new(budget, CircuitSettings { failures: 0, ..CircuitSettings::default() })
}

fn profile(named: &str) -> Result<Profile, Failure> {
    match named.strip_prefix('@') {
        None => Profile::shipped(named).ok_or_else(|| {
            let names: Vec<_> = Profile::names().collect();
            Failure::usage(format!(
                "--profile: there is no profile {named:?}; there are {}",
                names.join(", ")
            ))
        }),
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::usage(format!("--profile: {file} cannot be read: {error}")))?;
            Profile::from_toml(&text).map_err(|error| Failure::usage(format!("--profile: {file}: {error}")))
        }
    }
}

/// The key that was given, a new one, or none where a key is of no use.
fn key(method: &Method, given: Option<&str>, profile: &Profile) -> Result<Option<OperationKey>, Failure> {
    match given {
        Some(key) => OperationKey::business(key).map(Some).map_err(|e| usage("--key", &e)),
        None if method.is_safe() || profile.carrier.is_none() => Ok(None),
        None => Ok(Some(OperationKey::generate())),
    }
}

/// The body as it came; with `--output json` the report holds it. What became of the operation does not depend on who
/// reads the answer: a failure is said and keeps the verdict's exit code.
fn hand_on(ended: &Ended, output: Output, report: Report) {
    let bytes = match output {
        Output::Text => ended.answer.as_ref().map(|answer| answer.body.to_vec()).unwrap_or_default(),
        Output::Json => format!("{}\n", report::json(ended)).into_bytes(),
    };
    let mut out = std::io::stdout().lock();
    match out.write_all(&bytes).and_then(|()| out.flush()) {
        // A reader that has gone (`| head`) has seen what it wanted.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => report.not_handed_on(&error),
        _ => {}
    }
}

fn code(ended: &Ended) -> u8 {
    let status = ended.answer.as_ref().map(|answer| answer.status.as_u16());
    match ended.verdict {
        Verdict::Succeeded => 0,
        Verdict::AnswerNotKept => u8::from(was_rejected(ended)),
        Verdict::Rejected => 1,
        Verdict::Conflict => exit::CONFLICT,
        Verdict::InProgress => exit::BUSY,
        Verdict::OutcomeUnknown | Verdict::Expired => exit::UNKNOWN,
        // The same request would be answered alike.
        Verdict::NotDone if ended.stopped == Stopped::Useless => 1,
        Verdict::NotDone => match status {
            Some(408 | 425 | 429) => exit::BUSY,
            _ => exit::UNAVAILABLE,
        },
    }
}

/// Whether what ended without an answer that was kept is a rejection: by the status of the lost answer, else by the
/// state that the document names, else by what it says about a new key.
fn was_rejected(ended: &Ended) -> bool {
    let body = ended.answer.as_ref().map(|answer| &answer.body[..]).unwrap_or_default();
    let document = serde_json::from_slice::<Value>(body).unwrap_or_default();
    match (document["original_status"].as_u64(), document["state"].as_str()) {
        (Some(status), _) => (400..=499).contains(&status),
        (None, Some(state)) => state == "rejected",
        (None, None) => ended.safe_to_use_new_key,
    }
}

fn usage(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("{what}: {error}"))
}
