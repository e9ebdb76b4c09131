//! Which version of an entity counts.
//!
//! Versions grow, and what is not newer than the one that stands has no effect. In the round of a permit messages come
//! again of which the versions are known already. There they compare with what the round has brought so far, as if
//! they came for the first time, while whatever the round does not bring again stands: a version of another build,
//! source or consumer that the permit does not let through, one of an operation, one that came since the permit was
//! granted. So a permit for a few messages never puts an entity back behind what others brought, and a rebuild from
//! the start takes each entity through all of its versions.

use onefold_core::{InboxEntry, OperationId, Permit};

use crate::Applied;

/// The version of an entity that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownVersion {
    /// The version.
    pub version: i64,
    /// The round in which it was brought.
    pub round: u32,
    /// The message that brought the version. `None`: an operation did, or it is not known.
    pub message: Option<OperationId>,
}

/// A message that brings a version in a permit's round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again<'a> {
    /// The number of the permit.
    pub round: u32,
    /// The message.
    pub message: OperationId,
    /// The build that handles it.
    pub handler: &'a str,
}

impl KnownVersion {
    /// What becomes of a version that comes outside of any permit's round.
    pub fn judge(&self, version: i64) -> Applied {
        match version.cmp(&self.version) {
            std::cmp::Ordering::Greater => Applied::Newer,
            std::cmp::Ordering::Equal => Applied::Equal,
            std::cmp::Ordering::Less => Applied::Superseded,
        }
    }

    /// What becomes of a version that comes in a permit's round; `permits` are those of its consumer, `entries` those of
    /// the message that brought the version that stands.
    pub fn judge_again(
        &self,
        version: i64,
        again: &Again<'_>,
        permits: &[Permit],
        entries: &[InboxEntry],
    ) -> Applied {
        let is_let_through = || {
            let permit = permits.iter().find(|permit| permit.number == again.round);
            permit.is_some_and(|permit| permit.brings_again(entries, again.handler))
        };
        let comes_again = again.round > self.round
            && self.message.is_some_and(|message| message == again.message || is_let_through());
        if comes_again { Applied::Newer } else { self.judge(version) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THIS: OperationId = OperationId::from_bytes([1; 32]);
    const OTHER: OperationId = OperationId::from_bytes([2; 32]);
    const AGAIN: Again<'_> = Again { round: 3, message: THIS, handler: "42" };

    fn known(round: u32, message: Option<OperationId>) -> KnownVersion {
        KnownVersion { version: 7, round, message }
    }

    #[test]
    fn a_message_does_not_stand_against_itself_but_within_its_round() {
        assert_eq!(known(0, Some(THIS)).judge(7), Applied::Equal);
        assert_eq!(known(0, Some(THIS)).judge_again(7, &AGAIN, &[], &[]), Applied::Newer);
        assert_eq!(known(3, Some(THIS)).judge_again(7, &AGAIN, &[], &[]), Applied::Equal);
        assert_eq!(known(3, Some(THIS)).judge_again(8, &AGAIN, &[], &[]), Applied::Newer);
    }

    #[test]
    fn what_no_permit_brings_again_stands() {
        for message in [None, Some(OTHER)] {
            assert_eq!(known(0, message).judge_again(6, &AGAIN, &[], &[]), Applied::Superseded);
            assert_eq!(known(0, message).judge_again(7, &AGAIN, &[], &[]), Applied::Equal);
            assert_eq!(known(0, message).judge_again(8, &AGAIN, &[], &[]), Applied::Newer);
        }
    }
}
