//! Why messages are put aside without having been handled. Each waits for a person who decides about it alone: it may
//! have had its effect already, or be none of its sender's.

pub(crate) const NO_ID: &str = "it has no id";
pub(crate) const TOO_OLD: &str = "it is older than the marks";
pub(crate) const OTHERS_ID: &str = "another message has its id";
/// Of a webhook at the gateway; the id follows.
pub(crate) const OTHERS_ID_IS: &str = "it came under the id of another message";

/// Whether it was put aside, by the reason that is kept with it; otherwise its handler failed.
pub(crate) fn is_put_aside(reason: &str) -> bool {
    [NO_ID, TOO_OLD, OTHERS_ID].contains(&reason) || reason.starts_with(OTHERS_ID_IS)
}
