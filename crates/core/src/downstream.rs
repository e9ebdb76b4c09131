//! Keys for calls to other systems (SEMANTICS 1): the same in every attempt, after a restart and under a new
//! release; another one for another step. The caller's own key cannot be read from them.

use crate::digest::Parts;
use crate::identity::{IdentityKey, OperationId};
use crate::to_hex;

const PURPOSE: &str = "onefold/downstream/1";

/// The key for one step of an operation: 32 lower-case hexadecimal digits, which fits every provider's rules.
pub fn key(operation: OperationId, step: &str, secret: &IdentityKey) -> String {
    let mut parts = Parts::new(PURPOSE, secret.bytes());
    parts.part(operation.as_bytes());
    parts.part(step.as_bytes());
    to_hex(&parts.finish()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_depends_on_operation_and_step_alone() {
        let (one, two) = (OperationId::from_bytes([1; 32]), OperationId::from_bytes([2; 32]));
        let none = IdentityKey::none();
        assert_eq!(key(one, "capture", &none), key(one, "capture", &none));
        assert_ne!(key(one, "capture", &none), key(one, "refund", &none));
        assert_ne!(key(one, "capture", &none), key(two, "capture", &none));
        assert_ne!(key(one, "capture", &none), key(one, "capture", &IdentityKey::secret([3; 32])));
        assert_eq!(key(one, "capture", &none).len(), 32);
    }

    #[test]
    fn the_derivation_of_version_1_never_changes() {
        let key = key(OperationId::from_bytes([1; 32]), "upstream", &IdentityKey::none());
        assert_eq!(
            key, "df2602b5bc87520b00355bb89d0b48bc",
            "a restarted release would ask under another key"
        );
    }
}
