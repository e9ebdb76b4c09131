//! Where a store notes that an operation is settled together with rows of its service.

use onefold_core::to_hex;

/// The name under which it is noted among what belongs to the store itself. Any name of an operation is a text there.
pub fn companion_note(operation: &str) -> String {
    format!("companion/{}", to_hex(operation.as_bytes()))
}
