//! What a person did to a message that waited for one: written with the act, and kept as long as the message
//! (SEMANTICS 12).

use std::fmt;

use crate::StoreTime;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActKind {
    /// It was let go on: sent again, or handled again.
    Redriven,
    /// It was said to be delivered.
    Delivered,
    /// It was taken out.
    Discarded,
}

impl ActKind {
    /// Every kind.
    pub const ALL: [ActKind; 3] = [ActKind::Redriven, ActKind::Delivered, ActKind::Discarded];

    /// The name in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            ActKind::Redriven => "redriven",
            ActKind::Delivered => "delivered",
            ActKind::Discarded => "discarded",
        }
    }
}

impl fmt::Display for ActKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An entry in the history of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// When.
    pub at: StoreTime,
    /// What.
    pub kind: ActKind,
    /// The attempt after which an outgoing message was acted on; the round of an incoming one.
    pub attempt: u32,
    /// Who.
    pub who: String,
    /// Why.
    pub reason: String,
}
