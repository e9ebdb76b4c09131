//! Signing one's own webhooks, as Standard Webhooks 1.0 says.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::Mac;

use crate::Secret;
use crate::verify::{STANDARD_ID, STANDARD_SIGNATURE, STANDARD_TIME};

/// The headers that go with a webhook, each name with its value.
pub type Signed = [(&'static str, String); 3];

/// Why a webhook cannot be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// There is no secret to sign with.
    #[error("there is no secret to sign with")]
    NoSecret,
    /// Such an id cannot be signed without a doubt or does not fit into a header.
    #[error("an id is visible ASCII without a dot")]
    Id,
}

/// The headers of a webhook that is sent at `now_s`, in seconds of Unix time. While secrets change it is signed with
/// each of them, so that receivers with either accept it. The id is the same in every sending; the time is not.
pub fn sign(id: &str, now_s: i64, body: &[u8], secrets: &[Secret]) -> Result<Signed, SignError> {
    if secrets.is_empty() {
        return Err(SignError::NoSecret);
    }
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'.') {
        return Err(SignError::Id);
    }
    let time = now_s.to_string();
    let signature = |secret: &Secret| {
        let mac = secret.mac(&[id.as_bytes(), b".", time.as_bytes(), b".", body]);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    };
    let signatures: Vec<_> = secrets.iter().map(signature).collect();
    Ok([(STANDARD_ID, id.to_owned()), (STANDARD_SIGNATURE, signatures.join(" ")), (STANDARD_TIME, time)])
}
