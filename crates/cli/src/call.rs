//! `onefold call`: curl for operations.
//!
//! The key is on stderr before the first byte is sent, so that a call that is killed can be made again under the same
//! key. The body of the final answer goes to stdout byte for byte; everything else goes to stderr.

mod report;

use std::io::{ErrorKind, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method, header};
use onefold_client::reqwest::Request;
use onefold_client::{
    BudgetSettings, CircuitSettings, Client, Destinations, Ended, OperationKey, Policy, Profile, Verdict,
};

use crate::args::{Call, Common, Output};
use crate::exit::{self, Failure};
use report::Report;

pub(crate) async fn run(common: &Common, call: Call) -> Result<ExitCode, Failure> {
    let report = Report::new(common.output);
    let profile = profile(&call.profile)?;
    let policy = Policy {
        deadline: onefold_config::duration(&call.deadline).map_err(|e| usage("--deadline", &e))?,
        attempts_max: call.attempts,
        ..Policy::default()
    };
    let method: Method = call.method.to_ascii_uppercase().parse().map_err(|e| usage("METHOD", &e))?;
    let key = key(&method, call.key.as_deref(), &profile)?;
    let client = Client::builder().profile(profile).policy(policy).watch(report.watch());
    let client = client.destinations(one_operation(call.attempts));
    let client = client.build().map_err(|e| Failure::failed(e.to_string()))?;
    let request = request(&client, method, &call)?;
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

fn request(client: &Client, method: Method, call: &Call) -> Result<Request, Failure> {
    let mut request = client.request(method, &call.url).build().map_err(|e| usage("URL", &e))?;
    if !matches!(request.url().scheme(), "http" | "https") {
        return Err(Failure::usage("URL: write one that begins with http:// or https://"));
    }
    for line in &call.header {
        let (name, value) = header_line(line)?;
        request.headers_mut().append(name, value);
    }
    if let Some(data) = data(call.data.as_deref())? {
        if !request.headers().contains_key(header::CONTENT_TYPE) {
            let is_json = serde_json::from_slice::<serde_json::Value>(&data).is_ok();
            let media = if is_json { "application/json" } else { "application/octet-stream" };
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        }
        *request.body_mut() = Some(data.into());
    }
    Ok(request)
}

fn header_line(line: &str) -> Result<(HeaderName, HeaderValue), Failure> {
    let wrong = || Failure::usage(format!("--header: write 'Name: value'; this is none: {line:?}"));
    let (name, value) = line.split_once(':').ok_or_else(wrong)?;
    let name = name.trim().parse().map_err(|_| wrong())?;
    let value = value.trim().parse().map_err(|_| wrong())?;
    Ok((name, value))
}

fn data(given: Option<&str>) -> Result<Option<Vec<u8>>, Failure> {
    let Some(given) = given else { return Ok(None) };
    let read = match given.strip_prefix('@') {
        None => return Ok(Some(given.as_bytes().to_vec())),
        Some("-") => {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        }
        Some(file) => std::fs::read(file),
    };
    read.map(Some).map_err(|error| Failure::usage(format!("--data: {given} cannot be read: {error}")))
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
        // What ended without an answer was either performed or rejected.
        Verdict::AnswerNotKept if !ended.safe_to_use_new_key => 0,
        Verdict::AnswerNotKept | Verdict::Rejected => 1,
        Verdict::Conflict => exit::CONFLICT,
        Verdict::InProgress => exit::BUSY,
        Verdict::OutcomeUnknown | Verdict::Expired => exit::UNKNOWN,
        Verdict::NotDone => match status {
            Some(408 | 425 | 429) => exit::BUSY,
            Some(400..=499) => 1,
            _ => exit::UNAVAILABLE,
        },
    }
}

fn usage(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("{what}: {error}"))
}
