//! The table: for each source and each effect, deliveries and attempts → effects.

use std::fmt;
use std::time::Duration;

use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;

use super::ledger::Ledger;
use super::plan::{Effect, Plan, Source};
use super::traffic::Traffic;
use crate::story::Books;

/// What was played beside the table.
#[derive(Debug)]
pub struct Totals {
    /// How often the button was pressed.
    pub presses: usize,
    /// Messages in which the catalogue has told of prices.
    pub prices: usize,
    /// Dead letters that were sent again.
    pub dead_letters: usize,
    /// How often each service was killed, and let end.
    pub deaths: Vec<(&'static str, usize, usize)>,
    /// Every table.
    pub books: Books,
    /// How long it took.
    pub took: Duration,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// What is wrong: an effect that is doubled or missing, a row that is too much or missing, a cell that was not
    /// exercised.
    pub faults: Vec<String>,
    table: String,
    totals: Totals,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    checkouts: usize,
    deliveries: usize,
    effects: usize,
}

impl Outcome {
    /// Of all checkouts; a cell counts those that its source has struck at.
    pub fn of(plans: &[Plan], traffic: &Traffic, ledger: Ledger, totals: Totals) -> Outcome {
        let mut faults = Vec::new();
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY);
        table.set_header([""].into_iter().chain(Effect::ALL.map(Effect::name)));
        for source in Source::ALL {
            let cells = Effect::ALL.map(|effect| Cell::of(source, effect, plans, traffic, &ledger));
            for (effect, cell) in Effect::ALL.into_iter().zip(cells) {
                if cell.checkouts == 0 {
                    faults.push(format!("{} × {} was not exercised", source.name(), effect.name()));
                }
            }
            let texts = cells.map(|cell| cell.to_string());
            table.add_row([source.name().to_owned()].into_iter().chain(texts));
        }
        for (checkout, plan) in plans.iter().enumerate() {
            for effect in Effect::ALL {
                let effects = ledger.effects(checkout, effect);
                if effects != 1 {
                    let source = plan.source(effect).name();
                    faults.push(format!("checkout {checkout}: {effects} × {} ({source})", effect.name()));
                }
            }
        }
        faults.extend(ledger.faults);
        if totals.old_prices() < plans.len() {
            faults.push(format!("of {} old prices {} were not applied", plans.len(), totals.old_prices()));
        }
        let mut mail_crashes = plans.iter().enumerate().filter(|(_, plan)| plan.dies_mailing);
        if !mail_crashes.any(|(checkout, _)| traffic.is_exercised(checkout, Effect::Notification)) {
            faults.push("no worker has died while the mail server had its mail".to_owned());
        }
        Outcome { faults, table: table.to_string(), totals }
    }
}

impl Totals {
    /// Messages whose price was known to be old.
    fn old_prices(&self) -> usize {
        let counts = self.books.table("storefront.incoming").iter();
        counts.filter_map(|line| line.strip_prefix("catalogue superseded ")?.parse::<usize>().ok()).sum()
    }
}

impl Cell {
    fn of(source: Source, effect: Effect, plans: &[Plan], traffic: &Traffic, ledger: &Ledger) -> Cell {
        let is_struck = |checkout: &usize| {
            plans[*checkout].source(effect) == source && traffic.is_exercised(*checkout, effect)
        };
        let add = |cell: Cell, checkout: usize| Cell {
            checkouts: cell.checkouts + 1,
            deliveries: cell.deliveries + traffic.deliveries(checkout, effect),
            effects: cell.effects + ledger.effects(checkout, effect),
        };
        (0..plans.len()).filter(is_struck).fold(Cell::default(), add)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { checkouts, deliveries, effects } = self;
        match (*checkouts, *effects) {
            (0, _) => write!(f, "NOT EXERCISED"),
            (checkouts, effects) if checkouts == effects => write!(f, "{deliveries} → {effects}"),
            _ => write!(f, "{deliveries} → {effects} WRONG: {checkouts} checkouts"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { presses, prices, dead_letters, deaths, books, took } = &self.totals;
        writeln!(f, "{}", self.table)?;
        writeln!(f, "the button was pressed {presses} times; {dead_letters} dead letters were recovered")?;
        let old = self.totals.old_prices();
        writeln!(
            f,
            "prices were told in {prices} messages; {old} came behind a newer one and changed nothing"
        )?;
        let died = |(name, killed, ended): &(&str, usize, usize)| format!("{name} {killed} + {ended}");
        let deaths: Vec<String> = deaths.iter().map(died).collect();
        writeln!(f, "killed + restarted: {}", deaths.join(", "))?;
        for (table, lines) in books.tables().filter(|(table, _)| table.ends_with(".evidence")) {
            writeln!(f, "{table}: {}", lines.join(", "))?;
        }
        writeln!(f, "all was at rest after {} s", took.as_secs())?;
        for fault in &self.faults {
            writeln!(f, "WRONG {fault}")?;
        }
        Ok(())
    }
}
