//! Why a delivery is refused.

/// Why a delivery is refused. Nothing is noted of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A header that the scheme needs is not there.
    #[error("the header {0} is missing")]
    Missing(String),
    /// A header is there and is not what the scheme says.
    #[error("the header {header}: {wrong}")]
    Malformed {
        /// Which.
        header: String,
        /// What is wrong with it.
        wrong: &'static str,
    },
    /// It was signed too long ago, or too far in the future.
    #[error("the timestamp is {off_s} seconds off; at most {tolerance_s} are allowed")]
    Stale {
        /// How far it is from now, in seconds.
        off_s: u64,
        /// How far it may be.
        tolerance_s: u64,
    },
    /// No signature of it was made with a secret of the source.
    #[error("no signature matches")]
    Mismatch,
    /// The signature is good, and the delivery does not say what it must.
    #[error("{place}: {wrong}")]
    Unreadable {
        /// Where it was looked for.
        place: String,
        /// What is wrong there.
        wrong: &'static str,
    },
}

impl Refusal {
    /// Whether the sender is not known to be who it says it is.
    pub fn is_of_the_signature(&self) -> bool {
        !matches!(self, Refusal::Unreadable { .. })
    }
}
