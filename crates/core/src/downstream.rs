//! Keys for calls to other systems (SEMANTICS 1): the same in every attempt, after a restart and under a new
//! release; another one for another step, and for another version of the step's input. The caller's own key cannot
//! be read from them.

use crate::digest::Parts;
use crate::identity::{IdentityKey, OperationId};
use crate::to_hex;

const PURPOSE: &str = "onefold/downstream/1";

/// The key for one step of an operation: 32 lower-case hexadecimal digits, which fits every provider's rules.
pub fn key(operation: OperationId, step: &str, secret: &IdentityKey) -> String {
    to_hex(&bytes(operation, step, None, secret))
}

/// The 16 bytes of the key for one step with one version of its input. Without an input they are those of [`key`].
///
/// A changed input gets another key: under the old one a provider would refuse it, or answer with the result of the
/// old input.
pub fn bytes(operation: OperationId, step: &str, input: Option<&[u8]>, secret: &IdentityKey) -> [u8; 16] {
    let mut parts = Parts::new(PURPOSE, secret.bytes());
    parts.part(operation.as_bytes());
    parts.part(step.as_bytes());
    if let Some(input) = input {
        parts.part(input);
    }
    let digest = parts.finish();
    std::array::from_fn(|i| digest[i])
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
    fn another_input_is_another_key_and_an_empty_one_is_an_input() {
        let (one, none) = (OperationId::from_bytes([1; 32]), IdentityKey::none());
        let of = |step, input: Option<&str>| bytes(one, step, input.map(str::as_bytes), &none);
        assert_eq!(of("launch", Some("size a")), of("launch", Some("size a")));
        let all = [of("launch", None), of("launch", Some("")), of("launch", Some("a")), of("launcha", None)];
        for (i, key) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|other| other != key), "key {i} is not distinct");
        }
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
