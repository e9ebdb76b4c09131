//! What makes two requests the same request: a versioned digest of their significant parts (SEMANTICS 7).

use std::fmt;

use crate::digest::Parts;
use crate::identity::IdentityKey;
use crate::to_hex;

/// The version of the derivation. A record keeps the version it was made with.
pub type FingerprintVersion = u16;

const VERSION: FingerprintVersion = 1;
const PURPOSE: &str = "onefold/fingerprint/1";

/// The digest of the significant request and the version of its derivation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// Which derivation made the digest.
    pub version: FingerprintVersion,
    /// The digest.
    pub digest: [u8; 32],
}

impl Fingerprint {
    /// What is significant of a message, by the canonical digest of its body. Headers change on the way (trace context,
    /// counts of deliveries) and are not in it.
    pub fn of_message(body: &[u8; 32], secret: &IdentityKey) -> Fingerprint {
        FingerprintBuilder::new(secret).part("body", body).finish()
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint(v{} {}…)", self.version, &to_hex(&self.digest)[..8])
    }
}

/// Collects the significant parts of a request, each under its name.
pub struct FingerprintBuilder(Parts);

impl FingerprintBuilder {
    /// An empty one, keyed where a secret is configured.
    pub fn new(secret: &IdentityKey) -> FingerprintBuilder {
        FingerprintBuilder(Parts::new(PURPOSE, secret.bytes()))
    }

    /// Adds one named part. The same parts must come in the same order.
    pub fn part(mut self, name: &str, value: &[u8]) -> FingerprintBuilder {
        self.0.part(name.as_bytes());
        self.0.part(value);
        self
    }

    /// The fingerprint of all parts.
    pub fn finish(self) -> Fingerprint {
        Fingerprint { version: VERSION, digest: self.0.finish() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_both_count() {
        let of = |name, value: &str| {
            FingerprintBuilder::new(&IdentityKey::none()).part(name, value.as_bytes()).finish()
        };
        assert_ne!(of("path", "/a"), of("path", "/b"));
        assert_ne!(of("path", "/a"), of("query", "/a"));
        assert_eq!(of("path", "/a"), of("path", "/a"));
    }
}
