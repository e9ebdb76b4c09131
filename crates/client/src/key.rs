//! Operation keys: made once for each intention, before its first attempt.
//!
//! A generated key is a UUID of version 7: 48 bits of time, so that stores keep neighbours together, and 74 bits from
//! the system's random source. No counter and no state: two threads, two processes, a forked process and a restored
//! snapshot under one frozen clock differ by these 74 bits alone. Among 10 million keys of one millisecond the odds of
//! a collision are 3 in 10⁹.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onefold_core::{Key, KeyError};
use uuid::{NoContext, Timestamp, Uuid};

use crate::clock;

/// The key of one intention. The same in every attempt; never made again by a retry.
#[derive(Clone)]
pub struct OperationKey {
    key: Key,
    /// It may have been sent. Clones share it.
    used: Arc<AtomicBool>,
}

impl OperationKey {
    /// A new key that nobody else has: a UUID of version 7.
    ///
    /// # Panics
    /// When the system has no random source.
    pub fn generate() -> OperationKey {
        OperationKey::generate_at(clock::since_epoch())
    }

    /// A new key that carries this time (since 1970, in UTC, whole milliseconds). Keys of one instant differ.
    ///
    /// # Panics
    /// When the system has no random source.
    pub fn generate_at(since_epoch: Duration) -> OperationKey {
        let time = Timestamp::from_unix(NoContext, since_epoch.as_secs(), since_epoch.subsec_nanos());
        let text = Uuid::new_v7(time).hyphenated().to_string();
        OperationKey::of(Key::new(text).expect("a UUID is a key"), false)
    }

    /// A key that the business already has for this one intention, such as `checkout-7f82`. It must name the
    /// intention and nothing wider: `customer-12` would make the customer's second order a duplicate of the first.
    ///
    /// # Errors
    /// Empty, all blanks, or more than 255 bytes. Whether a provider takes it is asked by
    /// [`Profile::fit`](crate::Profile::fit).
    pub fn business(key: impl Into<String>) -> Result<OperationKey, KeyError> {
        Key::new(key).map(|key| OperationKey::of(key, true))
    }

    fn of(key: Key, used: bool) -> OperationKey {
        OperationKey { key, used: Arc::new(AtomicBool::new(used)) }
    }

    /// Whether the key may have been sent before: every key that was not made here, and every one that was sent here.
    /// From now on it has been.
    pub(crate) fn was_used(&self) -> bool {
        self.used.swap(true, Ordering::Relaxed)
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        self.key.as_str()
    }

    /// The key as an RFC 9651 String, for a header. `None` when it holds what no such String can carry.
    pub(crate) fn quoted(&self) -> Option<String> {
        self.key.to_header()
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }
}

impl PartialEq for OperationKey {
    fn eq(&self, other: &OperationKey) -> bool {
        self.key == other.key
    }
}

impl Eq for OperationKey {}

impl Hash for OperationKey {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.key.hash(hasher);
    }
}

impl fmt::Debug for OperationKey {
    /// Never the key itself: keys can be mail addresses (SEMANTICS 13).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationKey({} bytes)", self.as_str().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_core::key::KeyTime;

    #[test]
    fn a_generated_key_carries_its_time() {
        let key = OperationKey::generate_at(Duration::from_millis(1_700_000_000_123));
        assert_eq!(key.key().time(KeyTime::Uuidv7).map(|time| time.0), Some(1_700_000_000_123));
    }

    #[test]
    fn a_business_key_is_taken_as_it_is_or_refused() {
        assert_eq!(OperationKey::business(" Checkout-7f82").unwrap().as_str(), " Checkout-7f82");
        assert!(OperationKey::business("").is_err() && OperationKey::business("k".repeat(256)).is_err());
    }

    #[test]
    fn a_key_is_not_shown_by_debug() {
        let key = OperationKey::business("alice@example.com").unwrap();
        assert_eq!(format!("{key:?}"), "OperationKey(17 bytes)");
    }
}
