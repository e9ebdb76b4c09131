//! Sealing of payloads: XChaCha20-Poly1305 under configured keys.
//!
//! A sealed form names its key by the first four bytes of the key's SHA-256 and is bound to its operation: moved to
//! another row it does not open. The first key writes, all of them read, so keys are rotated by putting a new one in
//! front. Without keys payloads stay plain, and plain forms are read whatever keys there are. Keys are never shown.
//! What stands beside the payload (identity, state, times) is not sealed.

use std::borrow::Cow;
use std::fmt;

use chacha20poly1305::{AeadInOut, KeyInit, Tag, XChaCha20Poly1305, XNonce};
use onefold_core::OperationId;
use sha2::{Digest, Sha256};

/// First byte of a plain form.
const PLAIN: u8 = 0;
/// First byte of a form sealed by XChaCha20-Poly1305: key id, nonce, ciphertext, tag follow.
const XCHACHA: u8 = 1;
const KEY_ID: usize = 4;
const NONCE: usize = 24;
const TAG: usize = 16;
const HEAD: usize = 1 + KEY_ID + NONCE;

/// The public name of a sealing key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub [u8; KEY_ID]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// Why a sealed form does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It was sealed under a key that is not configured.
    #[error("it is sealed under the key {0}, which is not configured")]
    KeyMissing(KeyId),
    /// It was changed, or belongs to another operation, or the key only looks like the right one.
    #[error("it does not open under the key {0}: it was changed, moved, or sealed under another key")]
    Broken(KeyId),
    /// The bytes are no sealed form.
    #[error("the sealed form cannot be read")]
    Form,
}

/// Seals and opens payloads.
pub struct Sealer(Vec<(KeyId, XChaCha20Poly1305)>);

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.key_ids()).finish()
    }
}

impl Sealer {
    /// A sealer of these keys: the first writes, all read. None: payloads stay plain.
    pub fn new(keys: &[[u8; 32]]) -> Sealer {
        Sealer(keys.iter().map(|key| (key_id(key), XChaCha20Poly1305::new(key.into()))).collect())
    }

    /// The names of the keys, the writing one first.
    pub fn key_ids(&self) -> impl Iterator<Item = KeyId> {
        self.0.iter().map(|(id, _)| *id)
    }

    /// The stored form of what `write` appends to the buffer. `length` is about how long that will be.
    pub fn seal(&self, id: &OperationId, length: usize, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        self.seal_as(|| *id, length, write)
    }

    /// As [`Sealer::seal`], for an id that is made where it is needed: a plain form is bound to none.
    pub fn seal_as(
        &self,
        id: impl FnOnce() -> OperationId,
        length: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Vec<u8> {
        let mut form = Vec::with_capacity(HEAD + length + TAG);
        let Some((key_id, cipher)) = self.0.first() else {
            form.push(PLAIN);
            write(&mut form);
            return form;
        };
        let mut nonce = [0; NONCE];
        rand::fill(&mut nonce);
        form.push(XCHACHA);
        form.extend_from_slice(&key_id.0);
        form.extend_from_slice(&nonce);
        write(&mut form);
        let tag = cipher
            .encrypt_inout_detached(&XNonce::from(nonce), id().as_bytes(), (&mut form[HEAD..]).into())
            .expect("a payload is far shorter than the cipher's limit of 256 GiB");
        form.extend_from_slice(&tag);
        form
    }

    /// What was sealed. A plain form opens without a copy.
    pub fn open<'a>(&self, id: &OperationId, form: &'a [u8]) -> Result<Cow<'a, [u8]>, SealError> {
        self.open_as(|| *id, form)
    }

    /// As [`Sealer::open`], for an id that is made where it is needed.
    pub fn open_as<'a>(
        &self,
        id: impl FnOnce() -> OperationId,
        form: &'a [u8],
    ) -> Result<Cow<'a, [u8]>, SealError> {
        match form.first() {
            Some(&PLAIN) => Ok(Cow::Borrowed(&form[1..])),
            Some(&XCHACHA) => self.open_sealed(&id(), form).map(Cow::Owned),
            _ => Err(SealError::Form),
        }
    }

    /// The key under which a form is sealed; `None` for a plain one.
    pub fn sealed_under(form: &[u8]) -> Option<KeyId> {
        match form {
            [XCHACHA, a, b, c, d, ..] => Some(KeyId([*a, *b, *c, *d])),
            _ => None,
        }
    }

    fn open_sealed(&self, id: &OperationId, form: &[u8]) -> Result<Vec<u8>, SealError> {
        let (Some(key_id), true) = (Sealer::sealed_under(form), form.len() >= HEAD + TAG) else {
            return Err(SealError::Form);
        };
        let (sealed, tag) = form[HEAD..].split_at(form.len() - HEAD - TAG);
        let nonce: [u8; NONCE] = form[1 + KEY_ID..HEAD].try_into().map_err(|_| SealError::Form)?;
        let tag: [u8; TAG] = tag.try_into().map_err(|_| SealError::Form)?;
        let mut known = self.0.iter().filter(|(known, _)| *known == key_id).peekable();
        known.peek().ok_or(SealError::KeyMissing(key_id))?;
        for (_, cipher) in known {
            let mut plain = sealed.to_vec();
            let opened = cipher.decrypt_inout_detached(
                &XNonce::from(nonce),
                id.as_bytes(),
                plain.as_mut_slice().into(),
                &Tag::from(tag),
            );
            if opened.is_ok() {
                return Ok(plain);
            }
        }
        Err(SealError::Broken(key_id))
    }
}

fn key_id(key: &[u8; 32]) -> KeyId {
    let digest = Sha256::digest(key);
    KeyId([digest[0], digest[1], digest[2], digest[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: OperationId = OperationId::from_bytes([1; 32]);
    const OTHER: OperationId = OperationId::from_bytes([2; 32]);

    fn sealed(sealer: &Sealer, text: &[u8]) -> Vec<u8> {
        sealer.seal(&ID, text.len(), |out| out.extend_from_slice(text))
    }

    #[test]
    fn what_is_sealed_opens_and_does_not_show() {
        let sealer = Sealer::new(&[[7; 32]]);
        let form = sealed(&sealer, b"top secret");
        assert!(!form.windows(10).any(|w| w == b"top secret"));
        assert_eq!(sealer.open(&ID, &form).unwrap().as_ref(), b"top secret");
        assert_ne!(form, sealed(&sealer, b"top secret"), "every nonce is new");
    }

    #[test]
    fn a_form_of_another_operation_or_a_changed_one_does_not_open() {
        let sealer = Sealer::new(&[[7; 32]]);
        let key_id = sealer.key_ids().next().unwrap();
        let mut form = sealed(&sealer, b"secret");
        assert_eq!(sealer.open(&OTHER, &form), Err(SealError::Broken(key_id)));
        *form.last_mut().unwrap() ^= 1;
        assert_eq!(sealer.open(&ID, &form), Err(SealError::Broken(key_id)));
    }

    #[test]
    fn the_first_key_writes_and_all_of_them_read() {
        let (old, new) = ([7; 32], [8; 32]);
        let form = sealed(&Sealer::new(&[old]), b"secret");
        let rotated = Sealer::new(&[new, old]);
        assert_eq!(rotated.open(&ID, &form).unwrap().as_ref(), b"secret");
        let form = sealed(&rotated, b"secret");
        assert!(Sealer::new(&[new]).open(&ID, &form).is_ok());
        let missing = Sealer::new(&[old]).open(&ID, &form).unwrap_err();
        assert_eq!(missing, SealError::KeyMissing(key_id(&new)));
        assert!(missing.to_string().contains(&key_id(&new).to_string()));
    }

    #[test]
    fn plain_forms_open_with_and_without_keys_and_sealed_ones_need_theirs() {
        let form = sealed(&Sealer::new(&[]), b"");
        assert_eq!(Sealer::new(&[]).open(&ID, &form).unwrap().as_ref(), b"");
        assert_eq!(Sealer::new(&[[7; 32]]).open(&ID, &form).unwrap().as_ref(), b"");
        let form = sealed(&Sealer::new(&[[7; 32]]), b"");
        assert!(matches!(Sealer::new(&[]).open(&ID, &form), Err(SealError::KeyMissing(_))));
    }

    #[test]
    fn a_cut_form_is_an_error_and_never_a_panic() {
        let sealer = Sealer::new(&[[7; 32]]);
        let form = sealed(&sealer, b"secret");
        for length in 0..form.len() {
            assert!(sealer.open(&ID, &form[..length]).is_err(), "{length} bytes");
        }
        assert_eq!(sealer.open(&ID, &[9, 9]), Err(SealError::Form));
    }

    #[test]
    fn a_sealer_shows_the_names_of_its_keys_only() {
        assert_eq!(format!("{:?}", Sealer::new(&[[7; 32]])), format!("[KeyId({})]", key_id(&[7; 32])));
    }
}
