//! What a benchmark prints: a table for people, or one JSON object for each figure.

use std::process::ExitCode;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use crate::args::Output;
use crate::figure::Figure;

/// One benchmark's figures.
pub(crate) struct Report {
    bench: &'static str,
    about: Vec<String>,
    texts: usize,
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    figures: Vec<Figure>,
    skipped: Vec<String>,
}

impl Report {
    /// A report of a benchmark; the columns of its table are named by `header`, and those after the first `texts`
    /// hold numbers.
    pub(crate) fn new(bench: &'static str, texts: usize, header: &[&'static str]) -> Report {
        Report {
            bench,
            about: Vec::new(),
            texts,
            header: header.to_vec(),
            rows: Vec::new(),
            figures: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// A line above the table: how it was measured.
    pub(crate) fn about(&mut self, line: impl Into<String>) {
        self.about.push(line.into());
    }

    /// A row of the table, with the figures that it shows.
    pub(crate) fn row(&mut self, cells: Vec<String>, figures: impl IntoIterator<Item = Figure>) {
        self.rows.push(cells);
        self.figures.extend(figures);
    }

    /// Something that could not be run, and why.
    pub(crate) fn skip(&mut self, what: impl Into<String>) {
        self.skipped.push(what.into());
    }

    /// Prints it.
    pub(crate) fn print(&self, output: Output) {
        match output {
            Output::Json => {
                for figure in &self.figures {
                    println!("{}", figure.to_json(self.bench));
                }
            }
            Output::Text => {
                println!("{}", self.bench);
                for line in &self.about {
                    println!("  {line}");
                }
                println!("{}\n", self.table());
            }
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(&self.header);
        for row in &self.rows {
            table.add_row(row);
        }
        for column in table.column_iter_mut().skip(self.texts) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

/// The end of a run: how many goals were met, and what could not be run.
pub(crate) fn close(reports: &[Report], output: Output) -> ExitCode {
    let met: Vec<bool> = reports.iter().flat_map(|r| &r.figures).filter_map(Figure::met).collect();
    let reached = met.iter().filter(|met| **met).count();
    if output == Output::Text && !met.is_empty() {
        println!("goals met: {reached} of {}", met.len());
    }
    let mut skipped = reports.iter().flat_map(|report| &report.skipped).peekable();
    if skipped.peek().is_none() {
        return ExitCode::SUCCESS;
    }
    for what in skipped {
        eprintln!("could not be run: {what}");
    }
    ExitCode::FAILURE
}
