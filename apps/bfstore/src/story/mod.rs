//! The story: chapters that go wrong as things do in the field, each on a stage of its own, and the table *deliveries and
//! attempts → effects*. One effect that is doubled or missing makes the exit code 1.

mod books;
mod chapters;
mod operator;
pub(crate) mod play;
pub(crate) mod shopper;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;

use crate::ground::Ground;

pub use books::Books;
pub(crate) use chapters::FORGET;
pub use chapters::{CHAPTERS, Chapter};
pub use play::Played;

/// How long payment is down in the story.
const A_MINUTE: Duration = Duration::from_secs(60);

/// Plays the chapters of these numbers (all, where there is none) and prints the table.
pub async fn tell(binary: &Path, ground: &Ground, numbers: &[u8]) -> anyhow::Result<ExitCode> {
    let wanted = |chapter: &&Chapter| numbers.is_empty() || numbers.contains(&chapter.number());
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    let attempts = ["submits", "at the provider", "sendings", "lost", "killed"];
    let effects = ["→ orders", "reservations", "captures", "mails", "awards"];
    table.set_header(["", "chapter"].into_iter().chain(attempts).chain(effects).chain([""]));
    let mut faults = Vec::new();
    for chapter in CHAPTERS.iter().filter(wanted) {
        eprintln!("{} {}", chapter.name, chapter.title);
        let folder = tempfile::tempdir()?;
        let played = chapter.play(binary, folder.path(), &ground.renamed(), A_MINUTE).await?;
        let differences = played.books.differences(chapter.books);
        let counts = played.attempts().into_iter().chain(played.books.effects());
        let verdict = if differences.is_empty() { "as promised" } else { "WRONG" };
        let told = [chapter.name, chapter.title].map(str::to_owned).into_iter();
        table.add_row(told.chain(counts.map(|count| count.to_string())).chain([verdict.to_owned()]));
        faults.extend(differences.into_iter().map(|difference| format!("{}: {difference}", chapter.name)));
    }
    println!("{table}");
    for fault in &faults {
        println!("{fault}");
    }
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
