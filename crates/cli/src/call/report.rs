//! What `onefold call` says on stderr: text, or with `--output json` one object a line; and its JSON on stdout.

use std::io::{self, Write};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use onefold_client::limits::ANSWER_BYTES_MAX;
use onefold_client::meaning::Page;
use onefold_client::{Ended, Means, NotSettled, OperationKey, Progress, Until, Verdict};
use serde_json::{Value, json};

use crate::args::Output;

#[derive(Clone, Copy)]
pub(super) struct Report {
    output: Output,
}

impl Report {
    pub(super) fn new(output: Output) -> Report {
        Report { output }
    }

    /// Before anything is sent.
    ///
    /// # Errors
    /// The key could not be written: nobody could come back with it.
    pub(super) fn key(self, key: Option<&OperationKey>) -> io::Result<()> {
        match key {
            Some(key) => self.written(
                &format!("key {} (--key takes it again)", shown(key)),
                &json!({"event": "key", "key": key.as_str()}),
            ),
            None => {
                self.say("no key".into(), json!({"event": "key", "key": null}));
                Ok(())
            }
        }
    }

    /// The answer is here and stdout did not take it. It changes nothing about the operation.
    pub(super) fn not_handed_on(self, error: &io::Error) {
        self.say(
            format!("the answer could not be written to stdout: {error}"),
            json!({"event": "not_written", "why": error.to_string()}),
        );
    }

    pub(super) fn watch(self) -> impl Fn(Progress) + Send + Sync + 'static {
        move |progress| self.progress(progress)
    }

    pub(super) fn ended(self, ended: &Ended, key: Option<&OperationKey>) {
        let said = NotSettled { verdict: ended.verdict, stopped: ended.stopped, attempts: ended.attempts };
        let replayed = if ended.replayed { ", a replay" } else { "" };
        let mut text = match (ended.verdict, &ended.answer) {
            (Verdict::Succeeded, Some(answer)) => {
                format!("done: {}{replayed} (attempts: {})", answer.status, ended.attempts)
            }
            (Verdict::Rejected, Some(answer)) => {
                format!("rejected: {}{replayed} (attempts: {})", answer.status, ended.attempts)
            }
            (Verdict::AnswerNotKept, _) if super::was_rejected(ended) => {
                format!(
                    "answer not kept: it was rejected, and its answer was not kept (attempts: {})",
                    ended.attempts
                )
            }
            _ => format!("{}: {said}", ended.verdict.name().replace('_', " ")),
        };
        if let Some(after) = ended.retry_after {
            text.push_str(&format!("; come back after {}", seconds(after)));
        }
        if let (Verdict::OutcomeUnknown | Verdict::InProgress | Verdict::NotDone, Some(key)) =
            (ended.verdict, key)
        {
            text.push_str(&format!("\nthe same operation again: --key {}", shown(key)));
        }
        if ended.answer.as_ref().is_some_and(|answer| answer.is_cut) {
            text.push_str(&format!(
                "\nthe answer is longer: only its first {ANSWER_BYTES_MAX} bytes are kept"
            ));
        }
        let mut value = json(ended);
        value["event"] = json!("ended");
        if let Some(value) = value.as_object_mut() {
            for of_the_answer in ["headers", "body", "body_base64"] {
                value.remove(of_the_answer);
            }
        }
        self.say(text, value);
    }

    fn progress(self, progress: Progress) {
        match progress {
            Progress::Sending { attempt, time } => self.say(
                format!("attempt {attempt}, for {} at most", seconds(time)),
                json!({"event": "attempt", "attempt": attempt, "timeout_ms": millis(time)}),
            ),
            Progress::Answered { attempt, status, means, replayed } => {
                let means = meaning(means);
                let replay = if replayed { ", a replay" } else { "" };
                self.say(
                    format!("attempt {attempt}: {status}, {means}{replay}"),
                    json!({"event": "answer", "attempt": attempt, "status": status, "means": means, "replayed": replayed}),
                );
            }
            Progress::NoAnswer { attempt, why } => self.say(
                format!("attempt {attempt}: {why}"),
                json!({"event": "no_answer", "attempt": attempt, "why": why}),
            ),
            Progress::Waiting { time, until } => {
                let until = match until {
                    Until::Retry => "next attempt",
                    Until::AskAgain => "asking again",
                    Until::CircuitCloses => "the destination to recover",
                };
                self.say(
                    format!("waiting {} for {until}", seconds(time)),
                    json!({"event": "waiting", "time_ms": millis(time), "for": until}),
                );
            }
            Progress::Asked { path, page } => {
                let page = match page {
                    None => "cannot be asked",
                    Some(Page::Settled) => "settled",
                    Some(Page::Free) => "nothing happened",
                    Some(Page::Running { .. }) => "running",
                    Some(Page::Unknown { .. }) => "unknown",
                    Some(Page::Gone) => "not found",
                };
                self.say(
                    format!("{path}: {page}"),
                    json!({"event": "operation", "path": path, "state": page}),
                );
            }
        }
    }

    /// A reader that has gone does not end the call.
    fn say(self, text: String, value: Value) {
        let _ = self.written(&text, &value);
    }

    fn written(self, text: &str, value: &Value) -> io::Result<()> {
        let line = match self.output {
            Output::Text => format!("{}\n", printable(text)),
            Output::Json => format!("{value}\n"),
        };
        io::stderr().lock().write_all(line.as_bytes())
    }
}

/// Everything about the end, the answer included.
pub(super) fn json(ended: &Ended) -> Value {
    let mut value = json!({
        "verdict": ended.verdict.name(),
        "stopped": ended.stopped.name(),
        "key": ended.key.as_ref().map(OperationKey::as_str),
        "attempts": ended.attempts,
        "replayed": ended.replayed,
        "safe_to_use_new_key": ended.safe_to_use_new_key,
        "retry_after_ms": ended.retry_after.map(millis),
        "status": ended.answer.as_ref().map(|answer| answer.status.as_u16()),
    });
    if let Some(answer) = &ended.answer {
        let lines = answer
            .headers
            .iter()
            .map(|(name, value)| json!([name.as_str(), String::from_utf8_lossy(value.as_bytes())]));
        value["headers"] = lines.collect();
        value["cut"] = json!(answer.is_cut);
        match std::str::from_utf8(&answer.body) {
            Ok(text) => value["body"] = json!(text),
            Err(_) => value["body_base64"] = json!(STANDARD.encode(&answer.body)),
        }
    }
    value
}

fn meaning(means: Means) -> &'static str {
    match means {
        Means::Succeeded => "done",
        Means::Rejected => "rejected",
        Means::Refused => "refused",
        Means::NotDone => "not done",
        Means::InProgress => "in progress",
        Means::Conflict => "conflict",
        Means::Unknown | Means::UnknownFinal => "unknown",
        Means::Expired => "expired",
        Means::NotKept => "answer not kept",
    }
}

/// The key as a shell takes it.
fn shown(key: &OperationKey) -> String {
    let key = key.as_str();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.:/@%+=".contains(&b);
    match key.bytes().all(plain) {
        true => key.to_owned(),
        false => format!("'{}'", key.replace('\'', "'\\''")),
    }
}

/// Nothing that a server or a key says moves the cursor.
fn printable(text: &str) -> String {
    let escape =
        |c: char| if c.is_control() && c != '\n' { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

fn seconds(time: Duration) -> String {
    format!("{:.1}s", time.as_secs_f64())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
