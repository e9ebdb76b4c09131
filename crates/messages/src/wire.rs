//! The one wire contract for the headers of messages (`docs/messages.md`).
//!
//! Names are lower case, as HTTP/2 and most brokers have them, and compared without regard to case.

pub use onefold_core::{CAUSATION_ID, CORRELATION_ID, TRACEPARENT};
use onefold_core::{Key, Message};

/// The message's id, the same in every delivery. A broker's own place for ids carries it as well.
pub const MESSAGE_ID: &str = "onefold-message-id";
/// The ordering key.
pub const ORDERING_KEY: &str = "onefold-ordering-key";
/// The version of what the ordering key names, where the inbox compares versions: with what it keeps of a message.
pub const VERSION: &str = "onefold-version";
/// The media type of the body.
pub const CONTENT_TYPE: &str = "content-type";

/// Every header line of a message: its id and ordering key, and its own lines but for those that would say these again.
pub fn lines(message: &Message) -> Vec<(String, String)> {
    let mut lines = vec![(MESSAGE_ID.to_owned(), message.id.as_str().to_owned())];
    lines.extend(message.ordering_key.iter().map(|key| (ORDERING_KEY.to_owned(), key.clone())));
    let ours = |name: &str| name.eq_ignore_ascii_case(MESSAGE_ID) || name.eq_ignore_ascii_case(ORDERING_KEY);
    lines.extend(message.headers.iter().filter(|(name, _)| !ours(name)).cloned());
    lines
}

/// The value of the first line of this name.
pub fn line<'a>(lines: &'a [(String, String)], name: &str) -> Option<&'a str> {
    lines.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// The id of a message that came with these lines: the one that its sender gave it, else the broker's.
pub fn id(lines: &[(String, String)], of_broker: Option<&str>) -> Option<Key> {
    line(lines, MESSAGE_ID).or(of_broker).and_then(|id| Key::new(id).ok())
}
