//! A secret that a sender and a receiver share.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::{Encoding, KeyForm};

/// A key of HMAC-SHA-256; never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// The text is no secret of this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotASecret {
    /// There is nothing in it: everybody could sign with it.
    #[error("the secret is empty")]
    Empty,
    /// It is not hexadecimal.
    #[error("the secret is not hexadecimal")]
    NotHex,
    /// It is not base 64.
    #[error("the secret is not base64")]
    NotBase64,
}

impl Secret {
    /// The key that a text says.
    pub fn new(text: &str, form: KeyForm) -> Result<Secret, NotASecret> {
        let bytes = match form {
            KeyForm::Text => text.as_bytes().to_vec(),
            KeyForm::Hex => Encoding::Hex.decode(text.as_bytes()).ok_or(NotASecret::NotHex)?,
            KeyForm::Base64 => Encoding::Base64.decode(text.as_bytes()).ok_or(NotASecret::NotBase64)?,
            KeyForm::Whsec => {
                let text = text.strip_prefix("whsec_").unwrap_or(text);
                Encoding::Base64.decode(text.as_bytes()).ok_or(NotASecret::NotBase64)?
            }
        };
        if bytes.is_empty() { Err(NotASecret::Empty) } else { Ok(Secret(bytes)) }
    }

    /// The HMAC over the parts, one behind the other, not yet finished.
    pub(crate) fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        parts.iter().for_each(|part| mac.update(part));
        mac
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
