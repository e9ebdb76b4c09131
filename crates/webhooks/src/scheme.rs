//! The ways in which senders sign, and what they change between deliveries of one message.

use onefold_canon::Pointer;

/// How a sender signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// [Standard Webhooks](https://www.standardwebhooks.com) 1.0, the symmetric signatures: `webhook-id`,
    /// `webhook-timestamp`, and `v1` entries in `webhook-signature`.
    Standard,
    /// Stripe: `t` and `v1` in `Stripe-Signature`.
    Stripe,
    /// GitHub: `X-Hub-Signature-256`. Neither time nor id is signed.
    GitHub,
    /// Shopify: `X-Shopify-Hmac-Sha256`. Neither time nor id is signed.
    Shopify,
    /// HMAC-SHA-256 of the body in a header.
    Hmac(HmacRule),
    /// Nothing is signed: whoever reaches the listener is believed.
    None,
}

/// Where a plain HMAC-SHA-256 of the body is and how it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HmacRule {
    /// The header.
    pub header: String,
    /// How the signature is written.
    pub encoding: Encoding,
    /// What stands in front of it, such as `sha256=`; may be empty.
    pub prefix: String,
    /// How the secret is written.
    pub key: KeyForm,
    /// What is signed in front of the body, such as the URL of the endpoint; may be empty.
    pub before_body: String,
}

/// How bytes are written as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Hexadecimal digits of either case.
    #[default]
    Hex,
    /// Base 64 with padding.
    Base64,
}

/// How a secret becomes the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyForm {
    /// It is taken as it stands.
    #[default]
    Text,
    /// It is hexadecimal.
    Hex,
    /// It is base 64.
    Base64,
    /// It is base 64, perhaps behind `whsec_`.
    Whsec,
}

impl Scheme {
    /// How the secrets of this scheme are written.
    pub fn key_form(&self) -> KeyForm {
        match self {
            Scheme::Standard => KeyForm::Whsec,
            Scheme::Hmac(rule) => rule.key,
            Scheme::Stripe | Scheme::GitHub | Scheme::Shopify | Scheme::None => KeyForm::Text,
        }
    }

    /// Members of its bodies that differ between deliveries of one message by design: of Stripe's, how many endpoints
    /// have not answered yet, and which call of its API is behind it.
    pub fn differs(&self) -> Vec<Pointer> {
        let pointers: &[&str] = match self {
            Scheme::Stripe => &["/pending_webhooks", "/request"],
            _ => &[],
        };
        pointers.iter().map(|pointer| pointer.parse().expect("a JSON pointer")).collect()
    }

    /// Whether it signs a time.
    pub fn has_timestamp(&self) -> bool {
        matches!(self, Scheme::Standard | Scheme::Stripe)
    }
}

impl Encoding {
    /// The bytes of a text; `None` when it is not written so.
    pub(crate) fn decode(self, text: &[u8]) -> Option<Vec<u8>> {
        match self {
            Encoding::Base64 => base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).ok(),
            Encoding::Hex => {
                let digit =
                    |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                let pairs = text.chunks(2).map(|pair| match pair {
                    [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
                    _ => None,
                });
                pairs.collect()
            }
        }
    }
}
