//! What a piece of business says about its effect (SEMANTICS 5).

use onefold_core::Resource;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What became of the effect, with the value that every caller of the operation gets.
#[derive(Debug)]
pub enum Verdict<T> {
    /// It happened.
    Succeeded {
        /// What it brought forth.
        resource: Option<Resource>,
        /// The result.
        value: T,
    },
    /// It was refused for good, and no effect exists: duplicates get the same refusal. In atomic mode the work's own
    /// writes are undone.
    Rejected {
        /// Why, for the caller.
        value: T,
    },
    /// Nothing happened, for certain; the key is free.
    NotDone {
        /// Why.
        error: BoxError,
        /// Whether the same request may help later.
        retryable: bool,
    },
    /// Something may have happened. In atomic mode the rollback proves that nothing did, so it counts as not done
    /// there.
    Unknown {
        /// What went wrong.
        error: BoxError,
    },
}

impl<T> Verdict<T> {
    /// It happened, with this result.
    pub fn succeeded(value: T) -> Verdict<T> {
        Verdict::Succeeded { resource: None, value }
    }

    /// It happened and brought this forth: a kind of thing, such as `order`, and its id.
    pub fn created(kind: impl Into<String>, id: impl ToString, value: T) -> Verdict<T> {
        let resource = Some(Resource { kind: kind.into(), id: id.to_string() });
        Verdict::Succeeded { resource, value }
    }

    /// It was refused for good.
    pub fn rejected(value: T) -> Verdict<T> {
        Verdict::Rejected { value }
    }

    /// Nothing happened, and the same request may help later.
    pub fn not_done(error: impl Into<BoxError>) -> Verdict<T> {
        Verdict::NotDone { error: error.into(), retryable: true }
    }

    /// Something may have happened.
    pub fn unknown(error: impl Into<BoxError>) -> Verdict<T> {
        Verdict::Unknown { error: error.into() }
    }
}
