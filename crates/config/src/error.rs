//! What is wrong with a configuration: where, which field, what, and what is allowed instead.
//!
//! A message quotes what was written, cut to a screen's width, except where it could be a secret.

use std::fmt;

/// Why there are no settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read at all.
    #[error("{file}: {reason}")]
    Unreadable {
        /// The file, as it was named.
        file: String,
        /// Why.
        reason: String,
    },
    /// Everything that is wrong, by line; one line of text for each.
    #[error("{}", lines(.0))]
    Mistakes(Vec<Mistake>),
    /// Warnings, where they are refused.
    #[error("{}", .0.join("\n"))]
    Warnings(Vec<String>),
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// Where it was written.
    pub place: Place,
    /// The dotted field, such as `operation[0].lease`; empty where the text is not TOML.
    pub field: String,
    /// What is wrong and what is allowed.
    pub message: String,
}

/// Where a setting was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In a file; the line counts from 1 and is absent where nothing was written.
    File {
        /// The file, as it was named.
        file: String,
        /// The line.
        line: Option<usize>,
    },
    /// In a flag of the command line.
    Flag(&'static str),
}

fn lines(mistakes: &[Mistake]) -> String {
    mistakes.iter().map(Mistake::to_string).collect::<Vec<_>>().join("\n")
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { file, line: Some(line) } => write!(f, "{file}:{line}"),
            Place::File { file, line: None } => f.write_str(file),
            Place::Flag(flag) => f.write_str(flag),
        }
    }
}
