//! Keys for the calls that an operation makes to other systems (SEMANTICS 1).
//!
//! Derived from the operation, the step's name and the version of the step's input: the same in every attempt, after a
//! restart and under a new release (recorded values are tested), another one when the input changes. The caller's own
//! key goes into a digest under a secret and cannot be read from what comes out.
//!
//! ```
//! use onefold_client::{Downstream, OperationKey, Profile};
//!
//! let key = OperationKey::business("checkout-7f82")?;
//! let steps = Downstream::of_key("orders", &key, &[7; 32]);
//! let capture = steps.step("capture").input(b"EUR 10.00");
//! assert_eq!(capture.key_for(&Profile::shipped("stripe").unwrap())?, capture.key());
//! assert_ne!(capture.key(), steps.step("capture").input(b"EUR 9.00").key());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use onefold_core::key::KeyTime;
use onefold_core::{Identity, IdentityKey, OperationId, Scope, downstream, to_hex};

use crate::OperationKey;
use crate::profile::{Alphabet, DoesNotFit, KeyRule, Profile};

/// The fewest values that derived keys may have: with 2^64 of them, a million keys have odds of 3 in 10⁸ to collide.
const BITS_MIN: f64 = 64.0;

/// The calls that one operation makes to other systems.
#[derive(Clone, Debug)]
pub struct Downstream {
    operation: OperationId,
    secret: IdentityKey,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    of: &'a Downstream,
    name: &'a str,
    input: Option<&'a [u8]>,
}

impl Downstream {
    /// Of an operation that Onefold knows (`ONEFOLD_OPERATION_ID`, or the id in `Onefold-Operation`).
    pub fn of(operation: OperationId, secret: IdentityKey) -> Downstream {
        Downstream { operation, secret }
    }

    /// Of an intention of this program. `service` says whose keys these are: two services with one secret and equal
    /// keys get different ones. The secret is needed: without one, whoever gets a derived key could try out e-mail
    /// addresses or order numbers until one gives it.
    pub fn of_key(service: &str, key: &OperationKey, secret: &[u8; 32]) -> Downstream {
        let secret = IdentityKey::secret(*secret);
        let identity = Identity {
            scope: Scope::new([("service", service)]),
            operation: String::new(),
            key: key.key().clone(),
        };
        Downstream { operation: identity.id(&secret, KeyTime::Off), secret }
    }

    /// A step, such as `capture`. Its name is part of the key for ever: a renamed step asks under another key.
    pub fn step<'a>(&'a self, name: &'a str) -> Step<'a> {
        Step { of: self, name, input: None }
    }
}

impl<'a> Step<'a> {
    /// The version of the step's input: its bytes, or a number that changes with it.
    #[must_use]
    pub fn input(mut self, input: &'a [u8]) -> Step<'a> {
        self.input = Some(input);
        self
    }

    /// The key as 32 lower-case hexadecimal digits.
    pub fn key(&self) -> OperationKey {
        OperationKey::business(to_hex(&self.bytes())).expect("32 digits are a key")
    }

    /// The key in the form that this provider takes.
    ///
    /// # Errors
    /// Its rule leaves less than 64 bits: keys could collide.
    pub fn key_for(&self, profile: &Profile) -> Result<OperationKey, DoesNotFit> {
        let text = fit(self.bytes(), profile.rule).ok_or_else(|| DoesNotFit::TooNarrow {
            bytes_max: profile.rule.bytes_max,
            alphabet: profile.rule.alphabet,
            profile: profile.name.clone(),
        })?;
        Ok(OperationKey::business(text).expect("no longer than a key"))
    }

    fn bytes(&self) -> [u8; 16] {
        downstream::bytes(self.of.operation, self.name, self.input, &self.of.secret)
    }
}

/// The digest in this alphabet: whole where there is room, else its first digits while 64 bits are left.
fn fit(bytes: [u8; 16], rule: KeyRule) -> Option<String> {
    const LETTERS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let base = match rule.alphabet {
        Alphabet::Uuid => {
            return (rule.bytes_max >= 36)
                .then(|| uuid::Builder::from_custom_bytes(bytes).into_uuid().hyphenated().to_string());
        }
        _ if rule.alphabet != Alphabet::Digits && rule.bytes_max >= 32 => return Some(to_hex(&bytes)),
        Alphabet::Visible | Alphabet::Alphanumeric => 36u32,
        Alphabet::Hex => 16,
        Alphabet::Digits => 10,
    };
    let (mut rest, mut text) = (u128::from_be_bytes(bytes), String::new());
    while rest > 0 && text.len() < rule.bytes_max {
        text.push(char::from(LETTERS[(rest % u128::from(base)) as usize]));
        rest /= u128::from(base);
    }
    let bits = f64::from(base).log2() * rule.bytes_max as f64;
    (bits >= BITS_MIN).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(bytes_max: usize, alphabet: Alphabet) -> KeyRule {
        KeyRule { bytes_max, alphabet }
    }

    fn profile(key: &str) -> Profile {
        Profile::from_toml(&format!("name = \"p\"\nsource = \"a test\"\nkey = {key}")).unwrap()
    }

    /// Recorded with release 0.1.0. A key that changes makes every open step of every user a second effect.
    #[test]
    fn recorded_keys_never_change() {
        let key = OperationKey::business("checkout-7f82").unwrap();
        let steps = Downstream::of_key("orders", &key, &[7; 32]);
        let uuid = profile("{ header = \"k\", max = 36, alphabet = \"uuid\" }");
        let digits = profile("{ header = \"k\", max = 20, alphabet = \"digits\" }");
        let short = profile("{ header = \"k\", max = 16 }");
        let capture = steps.step("capture").input(b"EUR 10.00");
        let of_id = Downstream::of(OperationId::from_bytes([1; 32]), IdentityKey::none());
        let recorded = [
            steps.step("capture").key(),
            capture.key(),
            capture.key_for(&uuid).unwrap(),
            capture.key_for(&digits).unwrap(),
            capture.key_for(&short).unwrap(),
            of_id.step("upstream").key(),
        ];
        assert_eq!(
            recorded.each_ref().map(OperationKey::as_str),
            include_str!("../tests/fixtures/downstream-0.1.0.txt").lines().collect::<Vec<_>>()[..]
        );
    }

    #[test]
    fn a_key_fits_the_rule_of_every_shipped_profile() {
        let steps = Downstream::of_key("orders", &OperationKey::generate(), &[7; 32]);
        for profile in Profile::names().filter_map(Profile::shipped).filter(|p| p.carrier.is_some()) {
            let key = steps.step("capture").key_for(&profile).unwrap();
            assert!(profile.fit(&key).is_ok(), "{}", profile.name);
        }
    }

    #[test]
    fn a_rule_that_leaves_too_few_keys_is_refused() {
        let bytes = [0xab; 16];
        assert_eq!(fit(bytes, rule(19, Alphabet::Digits)), None);
        assert_eq!(fit(bytes, rule(12, Alphabet::Alphanumeric)), None);
        assert_eq!(fit(bytes, rule(35, Alphabet::Uuid)), None);
        assert_eq!(fit(bytes, rule(0, Alphabet::Visible)), None);
        assert_eq!(fit(bytes, rule(16, Alphabet::Hex)).map(|key| key.len()), Some(16));
    }

    #[test]
    fn the_callers_key_is_not_in_the_derived_one_and_another_secret_gives_another() {
        let key = OperationKey::business("alice@example.com").unwrap();
        let one = Downstream::of_key("orders", &key, &[1; 32]).step("mail").key();
        let other = Downstream::of_key("orders", &key, &[2; 32]).step("mail").key();
        let elsewhere = Downstream::of_key("billing", &key, &[1; 32]).step("mail").key();
        assert!(!one.as_str().contains("alice") && one != other && one != elsewhere);
    }
}
