//! What the demo says: the story as it goes, then the table.
//!
//! The story is for people: it goes to stdout, or to stderr when stdout is for a program. Colour is for terminals. A
//! reader that has gone does not stop the demo, which has processes to end.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{Cell as Field, CellAlignment, Color, ContentArrangement, Table};
use serde_json::{Value, json};

use crate::args::Output;
use crate::demo::books::{ORDERS, STORE};
use crate::demo::caller::CREDENTIAL;
use crate::demo::chapter::{Answers, Row};
use crate::demo::stage::{Addresses, SETTINGS, Stage};
use crate::exit::Failure;

/// Columns of text: what the narrowest usual terminal shows.
const WIDTH: usize = 80;

const BOLD: &str = "1";
const GREEN: &str = "32";
const DIM: &str = "2";

/// Tells the story.
pub(crate) struct Teller {
    output: Output,
    colour: bool,
    chapters: Cell<usize>,
}

impl Teller {
    pub(crate) fn to(output: Output) -> Teller {
        let terminal = match output {
            Output::Text => io::stdout().is_terminal(),
            Output::Json => io::stderr().is_terminal(),
        };
        let colour = terminal && std::env::var_os("NO_COLOR").is_none();
        Teller { output, colour, chapters: Cell::new(0) }
    }

    pub(crate) fn opening(&self, seed: u64) {
        self.line(&self.painted(BOLD, "Many attempts, one effect."));
        let about = "An order service that makes an order of every request it gets, behind `onefold serve`. Both are \
                     processes with a database each, and every request has a connection of its own.";
        self.wrapped("", about);
        self.line(&self.painted(DIM, &format!("(the pauses come from --seed {seed})")));
    }

    pub(crate) fn chapter(&self, title: &str) {
        self.chapters.set(self.chapters.get() + 1);
        self.line("");
        self.line(&self.painted(BOLD, &format!("{}. {title}", self.chapters.get())));
    }

    pub(crate) fn says(&self, text: &str) {
        self.wrapped("   ", text);
    }

    /// A command as somebody would type it.
    pub(crate) fn types(&self, command: &str) {
        self.line(&self.painted(DIM, &format!("     $ {command}")));
    }

    /// The table: what a program asked for to stdout, or the end of the story.
    pub(crate) fn result(&self, rows: &[Row]) -> Result<(), Failure> {
        if self.output == Output::Json {
            let rows: Vec<Value> = rows.iter().map(as_json).collect();
            return writeln!(io::stdout(), "{}", json!(rows))
                .map_err(|error| Failure::failed(format!("stdout: {error}")));
        }
        self.line("\nRead back from both databases:");
        self.line(&self.table(rows).trim_fmt());
        if let ([chapters @ .., all], true) = (rows, rows.iter().all(|row| row.faults.is_empty())) {
            let done = format!(
                "All {} chapters are as they should be: {} requests, {} orders, none too many and none lost.",
                chapters.len(),
                all.sent,
                all.orders
            );
            self.line(&self.painted(GREEN, &done));
        }
        Ok(())
    }

    /// Where everything is, and what to try by hand.
    pub(crate) fn open_to_all(&self, stage: &Stage) {
        let Addresses { gateway, admin, orders } = stage.addresses();
        let at = stage.directory().display();
        self.line(&format!("\nEverything keeps running until Ctrl-C.\n\n  gateway        http://{gateway}"));
        self.line(&format!("  admin          http://{admin} (/healthz, /metrics)"));
        self.line(&format!("  order service  http://{orders} (/orders, without protection)"));
        self.line(&format!("  settings       {at}/{SETTINGS}\n  store          {at}/{STORE}"));
        self.line(&format!("  orders         {at}/{ORDERS}\n\nSend this twice, then with another item:\n"));
        self.line(&format!("  curl -i http://{gateway}/orders -H 'Authorization: {CREDENTIAL}' \\"));
        self.line("    -H 'Idempotency-Key: \"by-hand-1\"' -H 'Content-Type: application/json' \\");
        self.line("    -d '{\"item\": \"honey\", \"quantity\": 1}'\n\nAnd look at both sides:\n");
        self.line(&format!(
            "  curl http://{orders}/orders\n  onefold operations list --store sqlite:{at}/{STORE}"
        ));
    }

    pub(crate) fn left_in(&self, directory: &Path) {
        self.line(&format!("\nThe databases, settings and logs are left in {}", directory.display()));
    }

    fn table(&self, rows: &[Row]) -> Table {
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
        if self.colour {
            table.enforce_styling();
        }
        table.set_header(["", "what happened", "sent", "orders", "what the callers got", "right?"]);
        for (row, number) in rows.iter().zip(1..) {
            let is_sum = number == rows.len();
            let number = if is_sum { String::new() } else { number.to_string() };
            let right = row.faults.is_empty();
            let (mark, colour) = if right { ("✓", Color::Green) } else { ("✗", Color::Red) };
            let mark = Field::new(mark);
            table.add_row([
                Field::new(number),
                Field::new(row.title),
                Field::new(row.sent).set_alignment(CellAlignment::Right),
                Field::new(row.orders).set_alignment(CellAlignment::Right),
                Field::new(if is_sum { String::new() } else { answers(row) }),
                if self.colour { mark.fg(colour) } else { mark },
            ]);
        }
        table
    }

    fn wrapped(&self, indent: &str, text: &str) {
        let mut line = String::new();
        for word in text.split_whitespace() {
            if !line.is_empty() && indent.len() + line.chars().count() + 1 + word.chars().count() > WIDTH {
                self.line(&format!("{indent}{line}"));
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.line(&format!("{indent}{line}"));
    }

    fn line(&self, text: &str) {
        let _ = match self.output {
            Output::Text => writeln!(io::stdout(), "{text}"),
            Output::Json => writeln!(io::stderr(), "{text}"),
        };
    }

    fn painted(&self, colour: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn answers(row: &Row) -> String {
    let lines: Vec<String> = row.answers.iter().map(answers_of_one_kind).collect();
    lines.join("\n")
}

fn answers_of_one_kind(answers: &Answers) -> String {
    let Answers { kind, count, orders } = answers;
    let numbers: Vec<String> = orders.iter().map(i64::to_string).collect();
    match numbers.len() {
        0 => format!("{count} × {kind}"),
        1 => format!("{count} × {kind} (order {})", numbers[0]),
        2..=3 => format!("{count} × {kind} (orders {})", numbers.join(", ")),
        many => format!("{count} × {kind} ({many} orders)"),
    }
}

fn as_json(row: &Row) -> Value {
    let answers: serde_json::Map<String, Value> =
        row.answers.iter().map(|a| (a.kind.clone(), json!(a.count))).collect();
    json!({
        "chapter": row.title,
        "attempts_sent": row.sent,
        "orders_created": row.orders,
        "callers_got": answers,
        "operations": row.operations,
        "right": row.faults.is_empty(),
        "faults": row.faults,
    })
}
