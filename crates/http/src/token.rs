//! JSON Web Tokens of callers (RFC 7519): a claim counts only when the signature over it verifies.
//!
//! What is trusted is a function of the token, the configured keys and the time that comes in: there is no clock here
//! and nothing is fetched. A token never chooses how it is verified. Its algorithm must be one that a key is for, so
//! a public key is never a secret, and `none` is no algorithm at all. Nothing of a token is in an error.

mod key;
mod signature;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde_json::{Map, Value};

pub use key::{KeyRefused, TokenKey};

/// How far the clocks of the issuer and of this host may be apart, in seconds.
pub const LEEWAY_SECONDS: i64 = 60;

/// The claims of a token that is believed.
pub type Claims = Map<String, Value>;

/// Which tokens are believed.
#[derive(Clone, Debug, Default)]
pub struct TokenRule {
    keys: Vec<TokenKey>,
    issuer: Option<String>,
    audience: Option<String>,
}

/// Why a token is not believed: a sentence for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disbelieved {
    /// Not three parts of base64url with JSON in them, encrypted, or of an unknown algorithm, `none` among them.
    #[error("the bearer token is not a JSON Web Token with a signature that is known here")]
    NotSigned,
    /// There is no key for its algorithm.
    #[error("the token is signed with an algorithm that no key here is for")]
    Algorithm,
    /// The signature verifies under no key.
    #[error("the token's signature does not verify under any key here")]
    Signature,
    /// The signature verifies, but over something that is not an object of claims, or names one of RFC 7519 twice or
    /// in a form that it has not.
    #[error("the token's claims are not those of a JSON Web Token")]
    Claims,
    /// `exp` is over.
    #[error("the token has expired; send a fresh one, with the same key")]
    Expired,
    /// `nbf` is still to come.
    #[error("the token is not valid yet")]
    NotYet,
    /// `exp` or `nbf` is not a number.
    #[error("the token's {0} is not a time")]
    Time(&'static str),
    /// `iss` is not the one that is asked for.
    #[error("the token is of another issuer, or names none")]
    Issuer,
    /// The audience that is asked for is not in `aud`.
    #[error("the token is for another audience, or names none")]
    Audience,
}

impl TokenRule {
    /// Tokens that verify under any of these keys; with an issuer and an audience only those of the one, for the
    /// other.
    pub fn new(keys: Vec<TokenKey>, issuer: Option<String>, audience: Option<String>) -> TokenRule {
        signature::install();
        TokenRule { keys, issuer, audience }
    }

    /// The claims of a token, if it is believed at this time, in seconds since the Unix epoch. A token without `exp`
    /// does not expire.
    pub fn claims(&self, token: &str, now: i64) -> Result<Claims, Disbelieved> {
        let claims = self.signed(token)?;
        let expires = time(&claims, "exp")?;
        let begins = time(&claims, "nbf")?;
        let seconds = |time: i64| time as f64;
        if expires.is_some_and(|end| seconds(now.saturating_sub(LEEWAY_SECONDS)) >= end) {
            return Err(Disbelieved::Expired);
        }
        if begins.is_some_and(|begin| seconds(now.saturating_add(LEEWAY_SECONDS)) < begin) {
            return Err(Disbelieved::NotYet);
        }
        if let Some(issuer) = &self.issuer
            && claims.get("iss").and_then(Value::as_str) != Some(issuer)
        {
            return Err(Disbelieved::Issuer);
        }
        if let Some(audience) = &self.audience
            && !claims.get("aud").is_some_and(|aud| names(aud, audience))
        {
            return Err(Disbelieved::Audience);
        }
        Ok(claims)
    }

    /// The claims of a token whose signature verifies.
    fn signed(&self, token: &str) -> Result<Claims, Disbelieved> {
        let algorithm = decode_header(token).map_err(|_| Disbelieved::NotSigned)?.alg;
        let mut refused = Disbelieved::Algorithm;
        for key in self.keys.iter().filter(|key| key.algorithms.contains(&algorithm)) {
            match decode::<Claims>(token, &key.decoding, &signature_alone(algorithm)) {
                Ok(token) => return Ok(token.claims),
                Err(error) if matches!(error.kind(), ErrorKind::InvalidSignature) => {
                    refused = Disbelieved::Signature;
                }
                Err(error) if matches!(error.kind(), ErrorKind::Json(_)) => return Err(Disbelieved::Claims),
                Err(_) => return Err(Disbelieved::NotSigned),
            }
        }
        Err(refused)
    }
}

/// The library verifies the signature; the claims are looked at here, by a time that comes in.
fn signature_alone(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation
}

fn time(claims: &Claims, name: &'static str) -> Result<Option<f64>, Disbelieved> {
    let time = |value: &Value| value.as_f64().ok_or(Disbelieved::Time(name));
    claims.get(name).map(time).transpose()
}

/// Whether `aud`, one name or a list of them, names this audience.
fn names(aud: &Value, audience: &str) -> bool {
    match aud {
        Value::Array(listed) => listed.iter().any(|one| one.as_str() == Some(audience)),
        one => one.as_str() == Some(audience),
    }
}

#[cfg(test)]
mod tests;
