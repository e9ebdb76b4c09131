//! `onefold operations`: for whoever is called at three in the morning.

use std::process::ExitCode;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use onefold_core::{
    Answer, Event, Lease, OperationId, Reconciliation, Record, Resource, State, StoreTime, printable,
};
use onefold_engine::{ActError, Engine, Release, Resolution, ResolvedAs, Shown};
use onefold_http::{capture, view};
use onefold_store::{Query, StoreError};
use serde_json::{Value, json};

use crate::args::{Common, List, Operations, Output, Resolve, ResolveAs};
use crate::exit::Failure;
use crate::out::print;
use crate::store;

/// Runs one of the commands.
pub(crate) async fn run(common: &Common, command: Operations) -> Result<ExitCode, Failure> {
    let engine = store::engine(common).await?;
    match command {
        Operations::List(wanted) => list(&engine, common.output, wanted).await,
        Operations::Show { id } => {
            let shown = engine.show(operation_id(&id)?).await.map_err(unavailable)?;
            let shown = shown.ok_or_else(|| Failure::failed("there is no such operation"))?;
            show(common.output, &shown)
        }
        Operations::Resolve(resolve) => {
            let id = operation_id(&resolve.id)?;
            let shown = engine.resolve(id, resolution(resolve)?).await.map_err(refused)?;
            show(common.output, &shown)
        }
        Operations::Release { id, reason, force } => {
            let release = Release { reason, force, who: who() };
            let shown = engine.release(operation_id(&id)?, release).await.map_err(refused)?;
            show(common.output, &shown)
        }
    }
}

async fn list(engine: &Engine, output: Output, wanted: List) -> Result<ExitCode, Failure> {
    let query = Query {
        state: wanted.state.map(|s| s.parse()).transpose().map_err(|e| usage("--state", &e))?,
        operation: wanted.operation,
        scope: (!wanted.scope.is_empty()).then(|| wanted.scope.join(",")),
        key: wanted.key,
        resource: wanted.resource,
        older_than: wanted
            .older_than
            .map(|text| onefold_config::duration(&text))
            .transpose()
            .map_err(|e| usage("--older-than", &e))?,
        cursor: wanted.cursor,
        limit: wanted.limit,
    };
    let page = engine.list(query).await.map_err(unavailable)?;
    if output == Output::Json {
        let items: Vec<Value> = page.records.iter().map(|r| view::for_operator(r, page.now)).collect();
        print(json!({"items": items, "next_cursor": page.next_cursor}))?;
        return Ok(ExitCode::SUCCESS);
    }
    if page.records.is_empty() {
        print("no such operation")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["id", "operation", "state", "attempt", "age", "key", "scope"]);
    for record in &page.records {
        table.add_row([
            record.id.to_string(),
            printable(&record.operation),
            state(record),
            record.attempt.to_string(),
            age(record.created_at, page.now),
            key(record),
            scope(record),
        ]);
    }
    print(table)?;
    if let Some(cursor) = page.next_cursor {
        print(format!("there are more: --cursor {cursor}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(output: Output, shown: &Shown) -> Result<ExitCode, Failure> {
    match output {
        Output::Json => print(view::with_history(&shown.record, &shown.events, shown.now))?,
        Output::Text => print(lines(shown).join("\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn lines(shown: &Shown) -> Vec<String> {
    let record = &shown.record;
    let tombstone = record.key.is_none();
    let mut lines = vec![
        format!("operation   {}", printable(&record.operation)),
        format!("id          {}", record.id),
        format!("scope       {}", scope(record)),
        format!("key         {}", key(record)),
        format!("state       {}", state(record)),
        match tombstone {
            false => format!("attempt     {} (by {})", record.attempt, printable(&record.owner)),
            true => format!(
                "attempt     {} (a tombstone: the rest was dropped with the retention)",
                record.attempt
            ),
        },
        format!("created     {} ({} ago)", view::time(record.created_at), age(record.created_at, shown.now)),
    ];
    for (name, at) in [("completed", record.completed_at), ("expires", record.expires_at)] {
        lines.extend(at.map(|at| format!("{name:<12}{}", view::time(at))));
    }
    if let Some(resource) = &record.resource {
        lines.push(format!("resource    {}:{}", printable(&resource.kind), printable(&resource.id)));
    }
    let response = &view::for_operator(record, shown.now)["response"];
    if !response.is_null() {
        lines.push(format!("response    {response}"));
    }
    let counters = record.counters;
    lines.push(format!(
        "met by      {} duplicates, {} replays, {} conflicts",
        counters.duplicates, counters.replays, counters.conflicts
    ));
    lines.extend(shown.events.iter().map(history));
    if let Some(next) = next_step(record) {
        lines.push(format!("\n{next}"));
    }
    lines
}

fn history(event: &Event) -> String {
    let (at, kind, attempt) = (view::time(event.at), view::event_kind(event.kind), event.attempt);
    let (who, reason) = (printable(&event.who), printable(&event.reason));
    let evidence = match event.evidence.as_str() {
        "" => String::new(),
        evidence => format!(" [{}]", printable(evidence)),
    };
    format!("{at}  attempt {attempt} {kind} by {who}: {reason}{evidence}")
}

/// What the operator can do about it.
fn next_step(record: &Record) -> Option<String> {
    match (record.state, record.lease) {
        (State::OutcomeUnknown, _) if record.may_retry() => {
            Some("It did not happen so far. The caller's next request under this key is sent on.".to_owned())
        }
        (State::OutcomeUnknown, _) | (State::Processing, Lease::Over) => Some(format!(
            "Find out from the service whether this happened, then settle it:\n  \
             onefold operations resolve {0} --as succeeded --reason … --evidence …\n  \
             onefold operations resolve {0} --as failed --reason … --evidence …   (frees the key)",
            record.id
        )),
        _ => None,
    }
}

fn resolution(resolve: Resolve) -> Result<Resolution, Failure> {
    let resource = match resolve.resource.as_deref().map(|text| text.split_once(':')) {
        None => None,
        Some(Some((kind, id))) if !kind.is_empty() && !id.is_empty() => {
            Some(Resource { kind: kind.to_owned(), id: id.to_owned() })
        }
        Some(_) => return Err(Failure::usage("--resource: write TYPE:ID, such as order:5001")),
    };
    let answer = match resolve.status {
        None => None,
        Some(status) => {
            let body = body(resolve.body.as_deref())?;
            fits(status, body.as_deref(), &resolve.content_type)?;
            let headers = match body {
                Some(_) => vec![("content-type".to_owned(), resolve.content_type)],
                None => Vec::new(),
            };
            let headers = capture::given_lines(headers).map_err(|e| usage("--content-type", &e))?;
            Some(Answer { status, headers, body: body.unwrap_or_default(), trailers: Vec::new() })
        }
    };
    let resolved_as = match resolve.resolved_as {
        ResolveAs::Succeeded => ResolvedAs::Succeeded,
        ResolveAs::Failed => ResolvedAs::Failed,
    };
    Ok(Resolution {
        resolved_as,
        reason: resolve.reason,
        evidence: resolve.evidence,
        resource,
        answer,
        who: who(),
    })
}

/// What duplicates get from now on is looked at before it is kept.
fn fits(status: u16, body: Option<&[u8]>, content_type: &str) -> Result<(), Failure> {
    let Some(body) = body else { return Ok(()) };
    if matches!(status, 204 | 205 | 304) {
        return Err(Failure::usage(format!("--body: an answer of status {status} has no body")));
    }
    if content_type == "application/json"
        && let Err(error) = serde_json::from_slice::<Value>(body)
    {
        return Err(Failure::usage(format!("--body is no JSON ({error}); name another --content-type")));
    }
    Ok(())
}

fn body(text: Option<&str>) -> Result<Option<Vec<u8>>, Failure> {
    match text.map(|text| text.strip_prefix('@').ok_or(text)) {
        None => Ok(None),
        Some(Err(text)) => Ok(Some(text.as_bytes().to_vec())),
        Some(Ok(file)) => {
            let read = std::fs::read(file);
            read.map(Some).map_err(|error| Failure::usage(format!("--body: {file} cannot be read: {error}")))
        }
    }
}

/// An id, or the path that callers are given: `/operations/ID`.
pub(crate) fn operation_id(text: &str) -> Result<OperationId, Failure> {
    let id = text.rsplit('/').next().unwrap_or_default();
    id.parse().map_err(|error| Failure::usage(format!("{error}; see `onefold operations list`")))
}

pub(crate) fn who() -> String {
    let user =
        std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "somebody".into());
    format!("{user} (command line)")
}

fn state(record: &Record) -> String {
    match (record.state, record.lease) {
        (State::Processing, Lease::Over) => "processing (lease over)".to_owned(),
        (State::OutcomeUnknown, _) if record.reconciliation == Reconciliation::Escalated => {
            "outcome_unknown (needs a person)".to_owned()
        }
        (State::OutcomeUnknown, _) if record.may_retry() => "outcome_unknown (may be retried)".to_owned(),
        (state, _) => state.to_string(),
    }
}

/// The key, as long as the record knows it: a tombstone does not.
fn key(record: &Record) -> String {
    record.key.as_ref().map_or("-".to_owned(), |key| printable(key.as_str()))
}

fn scope(record: &Record) -> String {
    record.key.as_ref().map_or("-".to_owned(), |_| record.scope.to_string())
}

pub(crate) fn age(from: StoreTime, now: StoreTime) -> String {
    let seconds = from.until(now).as_secs();
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        7200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

pub(crate) fn usage(flag: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("{flag}: {error}"))
}

pub(crate) fn unavailable(error: StoreError) -> Failure {
    Failure::unavailable(error.to_string())
}

fn refused(error: ActError) -> Failure {
    match error {
        ActError::Store(error) => unavailable(error),
        ActError::TextMissing(_)
        | ActError::NothingToKeep
        | ActError::NothingSaid
        | ActError::ValueNotKept(_) => Failure::usage(error.to_string()),
        ActError::OwnerAlive { .. } => {
            Failure::busy(format!("{error}; wait for it, or release it with --force"))
        }
        ActError::NotFound
        | ActError::NotUnknown { .. }
        | ActError::AlreadyUnknown
        | ActError::HasCompanion { .. } => Failure::failed(error.to_string()),
    }
}
