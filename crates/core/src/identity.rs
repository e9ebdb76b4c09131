//! The identity of an operation and its digest, the primary key of every store (SEMANTICS 2).
//!
//! A digest is never truncated or folded, so two identities share one only if SHA-256 is broken. A key that
//! carries its time keeps that time as the digest's first six bytes: neighbours in time are neighbours in the
//! index. The prefix is a matter of place only.

use std::fmt;
use std::str::FromStr;

use crate::digest::Parts;
use crate::key::{Key, KeyTime};
use crate::scope::Scope;
use crate::{from_hex, to_hex};

/// Version 1 of the derivation. A changed derivation gets a new purpose, and stores look up both for one
/// retention period.
const PURPOSE: &str = "onefold/identity/1";

/// The digest of an identity: what a record is found by, and the `{id}` of an operation URL (64 hex digits).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId([u8; 32]);

impl OperationId {
    /// An id from stored bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> OperationId {
        OperationId(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationId({self})")
    }
}

/// The text is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id is 64 hexadecimal digits here")]
pub struct NotAnId;

impl FromStr for OperationId {
    type Err = NotAnId;
    fn from_str(text: &str) -> Result<OperationId, NotAnId> {
        from_hex(text).map(OperationId).ok_or(NotAnId)
    }
}

/// The secret under which identities, fingerprints and downstream keys are digested, where one is configured.
#[derive(Clone, Default)]
pub struct IdentityKey(Option<[u8; 32]>);

impl IdentityKey {
    /// No secret: plain SHA-256.
    pub const fn none() -> IdentityKey {
        IdentityKey(None)
    }

    /// HMAC-SHA-256 under this secret.
    pub const fn secret(secret: [u8; 32]) -> IdentityKey {
        IdentityKey(Some(secret))
    }

    pub(crate) fn bytes(&self) -> Option<&[u8; 32]> {
        self.0.as_ref()
    }
}

impl fmt::Debug for IdentityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "IdentityKey(secret)" } else { "IdentityKey(none)" })
    }
}

/// `(scope, operation name, key)`: two attempts with one identity belong to one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Whose key it is.
    pub scope: Scope,
    /// The operation's name in its contract.
    pub operation: String,
    /// The caller's key, byte for byte.
    pub key: Key,
}

impl Identity {
    /// The digest under `secret`. `key_time` says which kind of key carries a time; it only places the digest.
    pub fn id(&self, secret: &IdentityKey, key_time: KeyTime) -> OperationId {
        let mut parts = Parts::new(PURPOSE, secret.bytes());
        parts.number(self.scope.parts().len());
        for part in self.scope.parts() {
            parts.part(part.name.as_bytes());
            parts.part(part.value.as_bytes());
        }
        parts.part(self.operation.as_bytes());
        parts.part(self.key.as_str().as_bytes());
        let mut digest = parts.finish();
        if let Some(time) = self.key.time(key_time) {
            digest.copy_within(0..26, 6);
            digest[..6].copy_from_slice(&time.0.to_be_bytes()[2..]);
        }
        OperationId(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(scope: &[(&str, &str)], operation: &str, key: &str) -> Identity {
        Identity {
            scope: Scope::new(scope.iter().copied()),
            operation: operation.into(),
            key: Key::new(key).unwrap(),
        }
    }

    fn id(scope: &[(&str, &str)], operation: &str, key: &str) -> OperationId {
        identity(scope, operation, key).id(&IdentityKey::none(), KeyTime::Uuidv7)
    }

    #[test]
    fn every_part_of_the_identity_counts_and_none_runs_into_the_next() {
        let all = [
            id(&[("a", "b:c")], "op", "k"),
            id(&[("a:b", "c")], "op", "k"),
            id(&[], "op", "k"),
            id(&[("a", "b"), ("c", "d")], "op", "k"),
            id(&[("c", "d"), ("a", "b")], "op", "k"),
            id(&[], "opk", "k"),
            id(&[], "op", "K"),
            id(&[], "op", "k "),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|other| other != one), "identity {i} is not distinct");
        }
    }

    #[test]
    fn a_time_carrying_key_keeps_its_time_as_the_prefix() {
        let uuid = "0190163d-8694-739b-aea5-966c26f8ad91";
        let digest = id(&[], "op", uuid);
        assert_eq!(digest.as_bytes()[..6], [0x01, 0x90, 0x16, 0x3d, 0x86, 0x94]);
        let upper = id(&[], "op", &uuid.to_uppercase());
        assert_ne!(digest, upper, "keys are compared byte for byte");
        let off = identity(&[], "op", uuid).id(&IdentityKey::none(), KeyTime::Off);
        assert_ne!(digest, off);
    }

    #[test]
    fn a_secret_changes_the_digest_and_is_never_shown() {
        let secret = IdentityKey::secret([9; 32]);
        let one = identity(&[], "op", "k");
        assert_ne!(one.id(&secret, KeyTime::Off), one.id(&IdentityKey::none(), KeyTime::Off));
        assert_eq!(format!("{secret:?}"), "IdentityKey(secret)");
    }

    #[test]
    fn an_id_is_read_back_from_its_text() {
        let one = id(&[], "op", "k");
        assert_eq!(one.to_string().parse(), Ok(one));
        assert_eq!("42".parse::<OperationId>(), Err(NotAnId));
    }

    #[test]
    fn the_derivation_of_version_1_never_changes() {
        assert_eq!(
            id(&[("tenant", "acme")], "CreateOrder", "k-1").to_string(),
            "be193557f60fa662eb5117ba42e4f2679e9ba56386e16e8b8741d9aaef5a7717",
            "live keys would become new ones"
        );
    }
}
