//! What is collected while a file is read: mistakes and warnings with their lines.

use std::cell::RefCell;

use crate::{ConfigError, Mistake, Place};

/// The most mistakes that are told of one file: nobody reads more, and each is compared with all before it.
const MISTAKES_MAX: usize = 1_000;

/// The mistakes and warnings of one file.
pub(super) struct Report<'f> {
    file: &'f str,
    /// The offset at which each line starts.
    starts: Vec<usize>,
    mistakes: RefCell<Vec<Mistake>>,
    warnings: RefCell<Vec<Mistake>>,
}

impl<'f> Report<'f> {
    pub(super) fn new(file: &'f str, text: &str) -> Report<'f> {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Report { file, starts, mistakes: RefCell::default(), warnings: RefCell::default() }
    }

    /// The line of an offset, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at)
    }

    pub(super) fn mistake(&self, at: usize, field: &str, message: impl Into<String>) {
        self.add(&self.mistakes, Some(at), field, message.into());
    }

    /// A mistake of the whole file.
    pub(super) fn missing(&self, field: &str, message: impl Into<String>) {
        self.add(&self.mistakes, None, field, message.into());
    }

    pub(super) fn flag_mistake(&self, flag: &'static str, message: impl Into<String>) {
        let mistake = Mistake { place: Place::Flag(flag), field: String::new(), message: message.into() };
        self.mistakes.borrow_mut().push(mistake);
    }

    pub(super) fn warning(&self, at: usize, field: &str, message: impl Into<String>) {
        self.add(&self.warnings, Some(at), field, message.into());
    }

    /// A setting of `[defaults]` is looked at once for each operation, and its mistake told once.
    fn add(&self, to: &RefCell<Vec<Mistake>>, at: Option<usize>, field: &str, message: String) {
        let place = Place::File { file: self.file.to_owned(), line: at.map(|at| self.line(at)) };
        let mistake = Mistake { place, field: field.to_owned(), message };
        let mut list = to.borrow_mut();
        if list.len() < MISTAKES_MAX && !list.contains(&mistake) {
            list.push(mistake);
        }
    }

    /// Whether a mistake was found in this field or in a part of it.
    pub(super) fn has_mistake(&self, field: &str) -> bool {
        let is_in = |m: &Mistake| {
            m.field.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.mistakes.borrow().iter().any(is_in)
    }

    pub(super) fn is_clean(&self) -> bool {
        self.mistakes.borrow().is_empty()
    }

    pub(super) fn into_error(self) -> ConfigError {
        let mut mistakes = self.mistakes.into_inner();
        mistakes.sort();
        ConfigError::Mistakes(mistakes)
    }

    pub(super) fn into_warnings(self) -> Vec<String> {
        let mut warnings = self.warnings.into_inner();
        warnings.sort();
        warnings.iter().map(Mistake::to_string).collect()
    }
}
