//! The one wire contract for the headers of messages (`docs/messages.md`).
//!
//! Names are lower case, as HTTP/2 and most brokers have them, and compared without regard to case.

/// The message's id, the same in every delivery. A broker's own place for ids carries it as well.
pub const MESSAGE_ID: &str = "onefold-message-id";
/// The ordering key.
pub const ORDERING_KEY: &str = "onefold-ordering-key";
/// Ties the operations of one workflow together; never deduplicates.
pub const CORRELATION_ID: &str = "onefold-correlation-id";
/// The message or operation that caused this one.
pub const CAUSATION_ID: &str = "onefold-causation-id";
/// W3C trace context.
pub const TRACEPARENT: &str = "traceparent";
/// The media type of the body.
pub const CONTENT_TYPE: &str = "content-type";
