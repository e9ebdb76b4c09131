//! What an upstream's answer means for the operation (SEMANTICS 8, last table).

use std::fmt;
use std::str::FromStr;

use crate::State;

/// What an answer says about the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The outcome is known: below 400 `succeeded`, from 400 on `rejected`.
    Final,
    /// Nothing happened; the key is free.
    NotDone,
    /// Something may have happened.
    Unknown,
}

/// One status (`503`) or a class (`5xx`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusPattern {
    /// Exactly this status, 200 to 599.
    Exactly(u16),
    /// Every status with this first digit, 2 to 5.
    Class(u16),
}

/// The rules of one contract. An exact status beats a class; what no rule names follows the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remember(pub Vec<(StatusPattern, Meaning)>);

impl Remember {
    /// The meaning of an answer. `retry_after`: whether it names a time to come back.
    pub fn meaning(&self, status: u16, retry_after: bool) -> Meaning {
        self.rule(status).unwrap_or_else(|| default_meaning(status, retry_after))
    }

    /// The meaning of an answer to an attempt that resumes one whose outcome was lost. A refusal may be about this
    /// attempt alone (409: the first one is still running there), so without a rule only a success settles.
    pub fn meaning_when_resumed(&self, status: u16) -> Meaning {
        let default = if (200..400).contains(&status) { Meaning::Final } else { Meaning::Unknown };
        self.rule(status).unwrap_or(default)
    }

    fn rule(&self, status: u16) -> Option<Meaning> {
        let rule = |wanted: StatusPattern| self.0.iter().find(|(p, _)| *p == wanted).map(|(_, m)| *m);
        rule(StatusPattern::Exactly(status)).or_else(|| rule(StatusPattern::Class(status / 100)))
    }

    /// The state in which an answer of this status leaves a finished operation.
    pub fn final_state(status: u16) -> State {
        if status < 400 { State::Succeeded } else { State::Rejected }
    }
}

fn default_meaning(status: u16, retry_after: bool) -> Meaning {
    match status {
        401 | 403 | 407 | 408 | 421 | 425 | 429 | 431 => Meaning::NotDone,
        503 if retry_after => Meaning::NotDone,
        200..=499 => Meaning::Final,
        // 5xx; and what is no final status at all, which RFC 9110 says to treat alike.
        _ => Meaning::Unknown,
    }
}

/// The text is no status pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a status is a number from 200 to 599, or a class: 2xx, 3xx, 4xx, 5xx")]
pub struct NotAPattern;

impl FromStr for StatusPattern {
    type Err = NotAPattern;
    fn from_str(text: &str) -> Result<StatusPattern, NotAPattern> {
        if let Some(class) = text.strip_suffix("xx") {
            return match class {
                "2" => Ok(StatusPattern::Class(2)),
                "3" => Ok(StatusPattern::Class(3)),
                "4" => Ok(StatusPattern::Class(4)),
                "5" => Ok(StatusPattern::Class(5)),
                _ => Err(NotAPattern),
            };
        }
        match text.parse() {
            Ok(status @ 200..=599) => Ok(StatusPattern::Exactly(status)),
            _ => Err(NotAPattern),
        }
    }
}

impl fmt::Display for StatusPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatusPattern::Exactly(status) => write!(f, "{status}"),
            StatusPattern::Class(class) => write!(f, "{class}xx"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_table_of_the_semantics() {
        let none = Remember::default();
        for (status, retry_after, meaning) in [
            (200, false, Meaning::Final),
            (303, false, Meaning::Final),
            (400, false, Meaning::Final),
            (409, true, Meaning::Final),
            (401, false, Meaning::NotDone),
            (403, false, Meaning::NotDone),
            (407, false, Meaning::NotDone),
            (408, false, Meaning::NotDone),
            (421, false, Meaning::NotDone),
            (425, false, Meaning::NotDone),
            (429, false, Meaning::NotDone),
            (431, false, Meaning::NotDone),
            (503, true, Meaning::NotDone),
            (503, false, Meaning::Unknown),
            (500, true, Meaning::Unknown),
            (502, false, Meaning::Unknown),
            (504, false, Meaning::Unknown),
            (101, false, Meaning::Unknown),
            (600, false, Meaning::Unknown),
            (999, true, Meaning::Unknown),
        ] {
            assert_eq!(none.meaning(status, retry_after), meaning, "{status}");
        }
    }

    #[test]
    fn after_a_lost_outcome_only_a_success_or_a_rule_settles() {
        let none = Remember::default();
        for (status, meaning) in [(201, Meaning::Final), (409, Meaning::Unknown), (429, Meaning::Unknown)] {
            assert_eq!(none.meaning_when_resumed(status), meaning, "{status}");
        }
        let rules = Remember(vec![("422".parse().unwrap(), Meaning::Final)]);
        assert_eq!(rules.meaning_when_resumed(422), Meaning::Final);
    }

    #[test]
    fn an_exact_status_beats_its_class() {
        let rules = Remember(vec![
            ("5xx".parse().unwrap(), Meaning::NotDone),
            ("500".parse().unwrap(), Meaning::Final),
        ]);
        assert_eq!(rules.meaning(500, false), Meaning::Final);
        assert_eq!(rules.meaning(502, false), Meaning::NotDone);
        assert_eq!(rules.meaning(200, false), Meaning::Final);
    }

    #[test]
    fn a_pattern_is_a_status_or_a_class() {
        for bad in ["1xx", "6xx", "xx", "99", "600", "5XX", "all"] {
            assert!(bad.parse::<StatusPattern>().is_err(), "{bad}");
        }
        assert_eq!("5xx".parse::<StatusPattern>().unwrap().to_string(), "5xx");
    }
}
