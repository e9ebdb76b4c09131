//! Tables and values of a TOML document that know their field, their place and where to report.

use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::report::Report;
use crate::kind::{Kind, quoted};
use crate::quantity::SIZE;
use crate::reference;
use crate::spelling;

/// A table with its dotted field.
#[derive(Clone)]
pub(super) struct Table<'a> {
    pub(super) report: &'a Report<'a>,
    pub(super) field: String,
    pub(super) at: usize,
    /// The section of the reference that lists its settings.
    section: String,
    entries: &'a DeTable<'a>,
}

/// A value with its dotted field.
#[derive(Clone)]
pub(super) struct Value<'a> {
    pub(super) report: &'a Report<'a>,
    pub(super) field: String,
    pub(super) at: usize,
    section: String,
    pub(super) value: &'a DeValue<'a>,
}

impl<'a> Table<'a> {
    pub(super) fn root(report: &'a Report<'a>, document: &'a Spanned<DeTable<'a>>) -> Table<'a> {
        Table { report, field: String::new(), at: 0, section: String::new(), entries: document.get_ref() }
    }

    /// The dotted field of a setting in this table.
    pub(super) fn field_of(&self, name: &str) -> String {
        join(&self.field, name)
    }

    /// The value as it was written.
    pub(super) fn get(&self, name: &str) -> Option<Value<'a>> {
        let value = self.entries.get(name)?;
        let (field, section) = (self.field_of(name), join(&self.section, name));
        Some(Value { report: self.report, field, at: value.span().start, section, value: value.get_ref() })
    }

    /// Every name with its offset and value.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, usize, Value<'a>)> {
        entries(self.report, &self.field, &self.section, self.entries)
    }

    /// Reports every name that is no setting of this table.
    pub(super) fn check_names(&self) {
        let known = reference::names(&self.section);
        for (name, at, _) in self.entries().filter(|(name, _, _)| !known.contains(name)) {
            let message = if reference::comes_later(&self.section, name) {
                "not available in this release".to_owned()
            } else {
                let meant = spelling::nearest(name, known.iter().copied());
                let meant = meant.map_or("allowed".into(), |name| format!("did you mean {name}? Allowed"));
                format!("unknown setting; {meant}: {}", known.join(", "))
            };
            self.report.mistake(at, &self.field_of(name), message);
        }
    }

    pub(super) fn text<T>(&self, name: &str, kind: &Kind<T>) -> Option<T> {
        self.get(name)?.text(kind)
    }

    /// A list of texts; one that cannot be read spoils the list.
    pub(super) fn texts<T>(&self, name: &str, kind: &Kind<T>) -> Option<Vec<T>> {
        self.get(name)?.texts(kind)
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        self.get(name)?.choice(choices)
    }

    pub(super) fn truth(&self, name: &str) -> Option<bool> {
        let value = self.get(name)?;
        let truth = value.value.as_bool();
        truth.or_else(|| {
            value.refuse(format!(
                "{} is neither true nor false; write one of them without quotes",
                value.shown()
            ))
        })
    }

    /// A whole number within limits.
    pub(super) fn number(&self, name: &str, allowed: RangeInclusive<u64>) -> Option<u64> {
        let value = self.get(name)?;
        value.integer().filter(|number| allowed.contains(number)).or_else(|| {
            let (shown, min, max) = (value.shown(), allowed.start(), allowed.end());
            value.refuse(format!(
                "{shown} is not a number that is allowed; write one from {min} to {max} without quotes"
            ))
        })
    }

    /// A size in bytes, as text or as a plain number, at least `min`.
    pub(super) fn size(&self, name: &str, min: u64) -> Option<u64> {
        let value = self.get(name)?;
        let bytes = if value.value.is_integer() {
            value.integer()
        } else {
            return value.text(&SIZE).and_then(|b| value.at_least(b, min));
        };
        match bytes {
            Some(bytes) => value.at_least(bytes, min),
            None => value.refuse(SIZE.refusal(&value.shown())),
        }
    }

    /// Reports a mistake in this setting, which may be missing.
    pub(super) fn refuse(&self, name: &str, message: &str) {
        let at = self.get(name).map_or(self.at, |value| value.at);
        self.report.mistake(at, &self.field_of(name), message);
    }

    /// A table within this one, its names checked.
    pub(super) fn table(&self, name: &str) -> Option<Table<'a>> {
        self.get(name)?.table()
    }

    /// The tables of `[[name]]`, their names checked.
    pub(super) fn tables(&self, name: &str) -> Vec<Table<'a>> {
        let Some(value) = self.get(name) else { return Vec::new() };
        let Some(items) = value.items() else {
            value.refuse::<()>(format!("{} is not a list of tables; write [[{name}]]", value.shown()));
            return Vec::new();
        };
        items.filter_map(|item| item.table()).collect()
    }
}

impl<'a> Value<'a> {
    /// Reports a mistake in this value.
    pub(super) fn refuse<T>(&self, message: impl Into<String>) -> Option<T> {
        self.report.mistake(self.at, &self.field, message);
        None
    }

    /// What was written, for an error.
    pub(super) fn shown(&self) -> String {
        match self.value {
            DeValue::String(text) => quoted(text),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(truth) => truth.to_string(),
            DeValue::Datetime(time) => time.to_string(),
            DeValue::Array(_) => "a list".into(),
            DeValue::Table(_) => "a table".into(),
        }
    }

    pub(super) fn text<T>(&self, kind: &Kind<T>) -> Option<T> {
        match self.value.as_str() {
            Some(text) => kind.read(text).map_or_else(|wrong| self.refuse(wrong), Some),
            None => self.refuse(kind.refusal_of_no_text(&self.shown())),
        }
    }

    pub(super) fn texts<T>(&self, kind: &Kind<T>) -> Option<Vec<T>> {
        let Some(items) = self.items() else {
            return self.refuse(format!(
                "{} is not a list; write [\"…\"], each of them {}: {}",
                self.shown(),
                kind.what,
                kind.write
            ));
        };
        // All of them are read before one that failed spoils the list: every mistake is told.
        items.map(|item| item.text(kind)).collect::<Vec<_>>().into_iter().collect()
    }

    pub(super) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let written = self.value.as_str();
        if let Some((_, choice)) = choices.iter().find(|(word, _)| Some(*word) == written) {
            return Some(*choice);
        }
        let words: Vec<String> = choices.iter().map(|(word, _)| format!("{word:?}")).collect();
        if written.is_some_and(|word| reference::comes_later(&self.section, word)) {
            return self.refuse(format!(
                "{} is not available in this release; allowed: {}",
                self.shown(),
                words.join(", ")
            ));
        }
        self.refuse(format!("{} is not allowed; allowed: {}", self.shown(), words.join(", ")))
    }

    pub(super) fn table(&self) -> Option<Table<'a>> {
        let Some(entries) = self.value.as_table() else {
            let names = reference::names(&self.section).join(", ");
            return self.refuse(format!("{} is not a table; write one with {names}", self.shown()));
        };
        let (field, section) = (self.field.clone(), self.section.clone());
        let table = Table { report: self.report, field, at: self.at, section, entries };
        table.check_names();
        Some(table)
    }

    /// The items of a list; `None` if it is none.
    pub(super) fn items(&self) -> Option<impl Iterator<Item = Value<'a>>> {
        let items = self.value.as_array()?;
        Some(items.iter().enumerate().map(|(i, item)| Value {
            field: format!("{}[{i}]", self.field),
            at: item.span().start,
            value: item.get_ref(),
            ..self.clone()
        }))
    }

    /// Every name of a table with its offset and value; `None` if it is none. The names are not checked.
    pub(super) fn entries(&self) -> Option<impl Iterator<Item = (&'a str, usize, Value<'a>)>> {
        Some(entries(self.report, &self.field, &self.section, self.value.as_table()?))
    }

    fn integer(&self) -> Option<u64> {
        let number = self.value.as_integer()?;
        let number = u64::from_str_radix(number.as_str(), number.radix()).ok()?;
        i64::try_from(number).is_ok().then_some(number)
    }

    fn at_least(&self, bytes: u64, min: u64) -> Option<u64> {
        match bytes >= min {
            true => Some(bytes),
            false => self.refuse(format!("{} is too small; the smallest size is {min}", self.shown())),
        }
    }
}

fn entries<'a>(
    report: &'a Report<'a>,
    field: &str,
    section: &str,
    entries: &'a DeTable<'a>,
) -> impl Iterator<Item = (&'a str, usize, Value<'a>)> {
    entries.iter().map(move |(key, value)| {
        let name: &str = key.get_ref();
        let (field, section) = (join(field, name), join(section, name));
        let value = Value { report, field, at: value.span().start, section, value: value.get_ref() };
        (name, key.span().start, value)
    })
}

fn join(parent: &str, name: &str) -> String {
    let is_bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    let name = if is_bare { name.to_owned() } else { quoted(name) };
    if parent.is_empty() { name } else { format!("{parent}.{name}") }
}
