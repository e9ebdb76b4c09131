//! Digests over parts that cannot run into one another.
//!
//! Every part is preceded by its length, every digest by its purpose and version, so that `("a","b:c")` and
//! `("a:b","c")` differ and a digest made for one purpose never equals one made for another (SEMANTICS 2). With a
//! secret the digest is an HMAC: whoever reads the store cannot try keys against it.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// Collects length-prefixed parts into a SHA-256 or HMAC-SHA-256 digest.
pub(crate) enum Parts {
    Plain(Sha256),
    Keyed(Box<Hmac<Sha256>>),
}

impl Parts {
    /// `purpose` names what is digested and its version, such as `onefold/identity/1`.
    pub(crate) fn new(purpose: &str, secret: Option<&[u8; 32]>) -> Parts {
        let mut parts = match secret {
            None => Parts::Plain(Sha256::new()),
            Some(secret) => Parts::Keyed(Box::new(
                Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes a key of any length"),
            )),
        };
        parts.part(purpose.as_bytes());
        parts
    }

    pub(crate) fn part(&mut self, bytes: &[u8]) {
        let length = (bytes.len() as u64).to_be_bytes();
        match self {
            Parts::Plain(hash) => {
                hash.update(length);
                hash.update(bytes);
            }
            Parts::Keyed(mac) => {
                mac.update(&length);
                mac.update(bytes);
            }
        }
    }

    pub(crate) fn number(&mut self, number: usize) {
        self.part(&(number as u64).to_be_bytes());
    }

    pub(crate) fn finish(self) -> [u8; 32] {
        match self {
            Parts::Plain(hash) => hash.finalize().into(),
            Parts::Keyed(mac) => mac.finalize().into_bytes().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(parts: &[&str]) -> [u8; 32] {
        let mut all = Parts::new("test/1", None);
        for part in parts {
            all.part(part.as_bytes());
        }
        all.finish()
    }

    #[test]
    fn parts_do_not_run_into_one_another() {
        assert_ne!(digest(&["a", "b:c"]), digest(&["a:b", "c"]));
        assert_ne!(digest(&["ab"]), digest(&["a", "b"]));
        assert_ne!(digest(&["a", ""]), digest(&["a"]));
    }

    #[test]
    fn purpose_and_secret_change_the_digest() {
        let plain = Parts::new("test/1", None).finish();
        assert_ne!(plain, Parts::new("test/2", None).finish());
        assert_ne!(plain, Parts::new("test/1", Some(&[7; 32])).finish());
    }
}
