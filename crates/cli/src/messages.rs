//! `onefold outbox`, `inbox` and `permits`: messages that wait for a person.

use std::process::ExitCode;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use onefold_core::{InboxEntry, Key, OutboxEntry, OutboxState, Permit, printable};
use onefold_http::message_view as view;
use onefold_messages::{
    ActError, ActOnIncoming, ActOnOutgoing, Acted, HandleAgain, Messages, Which, WhichIncoming,
};
use onefold_store::{InboxQuery, NewPermit, OutboxQuery, Redrive};
use serde_json::{Value, json};

use crate::args::{
    Common, Grant, Inbox, InboxList, InboxRedrive, InboxRerun, Outbox, OutboxList, OutboxRedrive, Output,
    Permits, RedriveAs,
};
use crate::exit::Failure;
use crate::operations::{age, operation_id, unavailable, usage, who};
use crate::out::print;
use crate::store::Place;

/// `onefold outbox`
pub(crate) async fn outbox(common: &Common, command: Outbox) -> Result<ExitCode, Failure> {
    let messages = open(common).await?;
    match command {
        Outbox::List(wanted) => list_outgoing(&messages, common.output, wanted).await,
        Outbox::Show { id } => {
            let id = Key::new(id).map_err(|error| usage("ID", &error))?;
            let shown = messages.outgoing(&id).await.map_err(unavailable)?.ok_or_else(no_message)?;
            show(common.output, &view::outgoing_with_history(&shown.entry, &shown.acts, shown.now))
        }
        Outbox::Redrive(wanted) => {
            let act = act_on_outgoing(wanted)?;
            told(common.output, &messages.act_on_outgoing(act).await.map_err(refused)?)
        }
    }
}

/// `onefold inbox`
pub(crate) async fn inbox(common: &Common, command: Inbox) -> Result<ExitCode, Failure> {
    let messages = open(common).await?;
    match command {
        Inbox::List(wanted) => list_incoming(&messages, common.output, wanted).await,
        Inbox::Show { id } => {
            let shown = messages.incoming(operation_id(&id)?).await.map_err(unavailable)?;
            let shown = shown.ok_or_else(no_message)?;
            let kept =
                shown.kept.as_ref().map(|kept| view::Content { headers: &kept.headers, body: &kept.body });
            let view = view::incoming_with_history(&shown.entries, kept, &shown.acts, shown.now);
            show(common.output, &view.ok_or_else(no_message)?)
        }
        Inbox::Redrive(wanted) => {
            let act = act_on_incoming(wanted)?;
            told(common.output, &messages.act_on_incoming(act).await.map_err(refused)?)
        }
        Inbox::Rerun(InboxRerun { permit, reason, per_second }) => {
            let again = HandleAgain { permit, per_second: Some(per_second), who: who(), reason };
            told(common.output, &messages.handle_again(again).await.map_err(refused)?)
        }
    }
}

/// `onefold permits`
pub(crate) async fn permits(common: &Common, command: Permits) -> Result<ExitCode, Failure> {
    let messages = open(common).await?;
    match command {
        Permits::Grant(wanted) => {
            let permit = messages.grant(new_permit(wanted)?).await.map_err(refused)?;
            match common.output {
                Output::Json => print(view::permit(&permit))?,
                Output::Text => print(format!("permit {} is granted", permit.number))?,
            }
            Ok(ExitCode::SUCCESS)
        }
        Permits::List { consumer } => {
            let permits = messages.permits(consumer.as_deref()).await.map_err(unavailable)?;
            if common.output == Output::Json {
                let items: Vec<Value> = permits.iter().map(view::permit).collect();
                print(json!({"items": items, "next_cursor": null}))?;
            } else if permits.is_empty() {
                print("no permit")?;
            } else {
                print(permits_table(&permits))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Permits::Revoke { number, reason } => {
            let permit = messages.revoke(number, &who(), &reason).await.map_err(refused)?;
            match common.output {
                Output::Json => print(view::permit(&permit))?,
                Output::Text => print(format!("permit {number} lets nothing through any longer"))?,
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn open(common: &Common) -> Result<Messages, Failure> {
    Ok(Place::of(common)?.open_existing().await?.messages())
}

async fn list_outgoing(messages: &Messages, output: Output, wanted: OutboxList) -> Result<ExitCode, Failure> {
    let older_than = wanted.older_than.map(|text| onefold_config::duration(&text)).transpose();
    let query = OutboxQuery {
        destination: wanted.destination,
        state: wanted.state.map(|s| s.parse()).transpose().map_err(|e| usage("--state", &e))?,
        ordering_key: wanted.ordering_key,
        older_than: older_than.map_err(|e| usage("--older-than", &e))?,
        cursor: wanted.page.cursor,
        limit: wanted.page.limit,
    };
    let page = messages.list_outgoing(query).await.map_err(unavailable)?;
    let row = |entry: &OutboxEntry| {
        vec![
            printable(entry.message.id.as_str()),
            printable(&entry.message.destination),
            printable(&entry.message.address),
            entry.state.to_string(),
            entry.failures.to_string(),
            age(entry.created_at, page.now),
            entry.reason.as_deref().map_or("-".into(), printable),
        ]
    };
    listed(
        output,
        &["id", "destination", "address", "state", "failures", "age", "reason"],
        (&page.entries, page.next_cursor),
        |entry| view::outgoing(entry, page.now),
        row,
    )
}

async fn list_incoming(messages: &Messages, output: Output, wanted: InboxList) -> Result<ExitCode, Failure> {
    let message = wanted.message.map(Key::new).transpose();
    let query = InboxQuery {
        consumer: wanted.consumer,
        source: wanted.source,
        state: wanted.state.map(|s| s.parse()).transpose().map_err(|e| usage("--state", &e))?,
        handler: wanted.handler,
        message: message.map_err(|e| usage("--message", &e))?,
        conflicts: wanted.conflicts,
        cursor: wanted.page.cursor,
        limit: wanted.page.limit,
    };
    let page = messages.list_incoming(query).await.map_err(unavailable)?;
    let row = |entry: &InboxEntry| {
        vec![
            entry.id.to_string(),
            printable(&entry.identity.consumer),
            printable(&entry.identity.source),
            printable(entry.identity.message.as_str()),
            entry.state.to_string(),
            printable(&entry.handler),
            entry.round.to_string(),
            age(entry.received_at, page.now),
            entry.reason.as_deref().map_or("-".into(), printable),
        ]
    };
    listed(
        output,
        &["id", "consumer", "source", "message", "state", "handler", "round", "age", "reason"],
        (&page.entries, page.next_cursor),
        |entry| view::incoming(entry, page.now),
        row,
    )
}

/// Prints one page.
fn listed<T>(
    output: Output,
    header: &[&str],
    (entries, next_cursor): (&[T], Option<i64>),
    as_json: impl Fn(&T) -> Value,
    as_row: impl Fn(&T) -> Vec<String>,
) -> Result<ExitCode, Failure> {
    if output == Output::Json {
        let items: Vec<Value> = entries.iter().map(as_json).collect();
        print(json!({"items": items, "next_cursor": next_cursor}))?;
    } else if entries.is_empty() {
        print("no such message")?;
    } else {
        let mut table = plain(header);
        for entry in entries {
            table.add_row(as_row(entry));
        }
        print(table)?;
        if let Some(cursor) = next_cursor {
            print(format!("there are more: --cursor {cursor}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn plain(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    table
}

fn permits_table(permits: &[Permit]) -> Table {
    let or_any = |text: Option<&str>| text.map_or("any".to_owned(), printable);
    let mut table = plain(&["permit", "consumer", "source", "damaged", "handler", "message", "by", "reason"]);
    for permit in permits {
        let number = match permit.revoked {
            Some(_) => format!("{} (revoked)", permit.number),
            None => permit.number.to_string(),
        };
        table.add_row([
            number,
            printable(&permit.consumer),
            or_any(permit.source.as_deref()),
            or_any(permit.damaged.as_deref()),
            or_any(permit.handler.as_deref()),
            or_any(permit.message.as_ref().map(Key::as_str)),
            printable(&permit.who),
            printable(&permit.reason),
        ]);
    }
    table
}

/// One message: its members a line each, then its history.
fn show(output: Output, shown: &Value) -> Result<ExitCode, Failure> {
    if output == Output::Json {
        print(shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = Vec::new();
    for (name, value) in shown.as_object().into_iter().flatten() {
        match (name.as_str(), value) {
            ("history" | "rounds_before" | "headers", Value::Array(items)) => {
                lines.extend(items.iter().map(|item| format!("{name:<15} {item}")));
            }
            (_, Value::Null) => {}
            (_, Value::String(text)) => lines.push(format!("{name:<15} {}", printable(text))),
            (_, other) => lines.push(format!("{name:<15} {other}")),
        }
    }
    lines.extend(next_step(shown));
    print(lines.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// What the operator can do about it.
fn next_step(shown: &Value) -> Option<String> {
    let (id, attempt) = (shown["id"].as_str()?, &shown["attempt"]);
    match shown["state"].as_str()? {
        "dead" => Some(format!(
            "\nSee that its destination takes it now, then send it again:\n  \
             onefold outbox redrive {id} --as send-again --reason …"
        )),
        "outcome_unknown" => Some(format!(
            "\nFind out whether it arrived, then settle it:\n  \
             onefold outbox redrive {id} --attempt {attempt} --as delivered --reason …\n  \
             onefold outbox redrive {id} --attempt {attempt} --as send-again --reason …   (only when it did not)"
        )),
        "sending" => Some(
            "\nIt is on its way. If the process that sends it was lost, it is taken up again when its lease is over: the \
             `timeout` of its destination (of the webhook's `forward`) and 15 s more."
                .into(),
        ),
        "parked" => Some(format!(
            "\nMend what failed, then let it be handled again:\n  onefold inbox redrive {id} --reason …"
        )),
        _ => None,
    }
}

fn told(output: Output, acted: &Acted) -> Result<ExitCode, Failure> {
    if output == Output::Json {
        print(view::acted(&acted.done, &acted.passed_over))?;
    } else {
        let mut lines: Vec<String> = acted.done.iter().map(|id| format!("done         {id}")).collect();
        lines.extend(acted.passed_over.iter().map(|(id, why)| format!("passed over  {id}: {why}")));
        if lines.is_empty() {
            lines.push("no such message".into());
        }
        print(lines.join("\n"))?;
    }
    match acted.done.is_empty() && !acted.passed_over.is_empty() {
        true => Err(Failure::failed("nothing was done")),
        false => Ok(ExitCode::SUCCESS),
    }
}

fn act_on_outgoing(wanted: OutboxRedrive) -> Result<ActOnOutgoing, Failure> {
    let which = match wanted.destination {
        Some(destination) => {
            let state: OutboxState = wanted.state.parse().map_err(|error| usage("--state", &error))?;
            Which::All { destination, state, ordering_key: wanted.ordering_key }
        }
        None => {
            let ids = wanted.ids.into_iter().map(Key::new).collect::<Result<_, _>>();
            Which::Ids(ids.map_err(|error| usage("ID", &error))?)
        }
    };
    let redrive = match wanted.redrive_as {
        RedriveAs::SendAgain => Redrive::SendAgain,
        RedriveAs::Delivered => Redrive::Delivered,
        RedriveAs::Discarded => Redrive::Discard,
    };
    let (seen_attempt, per_second, reason) = (wanted.attempt, Some(wanted.per_second), wanted.reason);
    Ok(ActOnOutgoing { which, seen_attempt, redrive, per_second, who: who(), reason })
}

fn act_on_incoming(wanted: InboxRedrive) -> Result<ActOnIncoming, Failure> {
    let InboxRedrive { ids, consumer, source, reason, per_second } = wanted;
    let which = match ids.is_empty() {
        true => WhichIncoming::All { consumer, source },
        false => WhichIncoming::Ids(ids.iter().map(|id| operation_id(id)).collect::<Result<_, _>>()?),
    };
    Ok(ActOnIncoming { which, per_second: Some(per_second), who: who(), reason })
}

fn new_permit(wanted: Grant) -> Result<NewPermit, Failure> {
    let message = wanted.message.map(Key::new).transpose();
    Ok(NewPermit {
        consumer: wanted.consumer,
        source: wanted.source,
        damaged: wanted.damaged,
        handler: wanted.handler,
        message: message.map_err(|error| usage("--message", &error))?,
        who: who(),
        reason: wanted.reason,
    })
}

fn no_message() -> Failure {
    Failure::failed("there is no such message")
}

fn refused(error: ActError) -> Failure {
    match error {
        ActError::Store(error) => unavailable(error),
        ActError::ReasonMissing | ActError::NotWaiting(_) | ActError::Invalid(_) => {
            Failure::usage(error.to_string())
        }
        ActError::NotFound(_) | ActError::Revoked => Failure::failed(error.to_string()),
    }
}
