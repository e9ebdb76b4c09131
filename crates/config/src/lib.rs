//! Settings of Onefold: `onefold.toml` and the flags that overrule it, read into types that cannot be wrong.
//!
//! *Invariants.* [`Settings`] exist only when everything in them holds together: what is returned needs no second
//! look. An error names file, line, field, what is wrong and what is allowed, and all errors of a file are told at
//! once. What is not a setting is an error, never ignored. A secret is never in an error, a warning or a `Debug`.
//! Nothing here opens a socket, a store or a certificate, and nothing reads a clock.
//!
//! The list of settings is one table ([`reference()`] prints it); what is read and what is documented come from it.

mod error;
mod kind;
mod network;
mod path_pattern;
mod quantity;
mod read;
mod reference;
mod settings;
mod spelling;
mod urls;

pub use error::{ConfigError, Mistake, Place};
pub use network::Network;
pub use path_pattern::PathPattern;
pub use quantity::{NotAQuantity, duration, size};
pub use reference::reference;
pub use settings::{
    CONFIG_BYTES_MAX, ClaimKey, Claims, Destination, Flags, Forward, Inbox, Limits, LostAnswers, Match,
    Operation, Paths, Reply, Server, Settings, StoreAccess, StoreSettings, TlsFiles, To, Upstream,
};
pub use urls::{NotAUrl, StoreUrl, UpstreamUrl};
