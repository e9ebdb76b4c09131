//! The payment provider as **payment** sees it: one request for each attempt, and the look-up of what became of it.

use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use onefold::client::{once_client, reqwest};
use onefold::reconcile::{Fence, Found, Kept, Known, Probed, Reconciler, Subject, TypedValue};
use onefold::{BoxError, Verdict};
use prost::Message;
use reqwest::StatusCode;
use serde::{Deserialize, Serialize};

use crate::rpc::{CaptureRequest, Receipt};
use crate::safeguard::{self, Safeguard};

/// How long the provider has to answer; after that nobody knows.
pub const ANSWER_MAX: Duration = Duration::from_secs(3);

/// The provider. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Provider {
    http: reqwest::Client,
    url: String,
}

/// What the provider is asked.
#[derive(Debug, Serialize, Deserialize)]
pub struct Asked {
    /// How much.
    pub cents: i64,
    /// What for.
    pub order_id: i64,
}

/// What the provider has done.
#[derive(Debug, Serialize, Deserialize)]
pub struct Charge {
    /// Its number.
    pub charge: String,
}

impl Provider {
    /// At this URL.
    pub fn at(url: &str) -> anyhow::Result<Provider> {
        Ok(Provider { http: once_client(|ours| ours.timeout(ANSWER_MAX))?, url: format!("{url}/captures") })
    }

    /// Asks once, in this attempt. What is not certain is unknown.
    pub async fn capture(&self, asked: &CaptureRequest, attempt: u32) -> Result<Verdict<Receipt>, BoxError> {
        let CaptureRequest { payment_attempt_id, order_id, cents, .. } = asked;
        let body = serde_json::to_vec(&Asked { cents: *cents, order_id: *order_id })?;
        let request = self.http.post(&self.url).header("content-type", "application/json");
        let key = safeguard::key(Safeguard::ProviderKey, payment_attempt_id);
        // After a look-up that found nothing it is asked for again, and under no other key.
        let key = if attempt == 1 { key } else { safeguard::key(Safeguard::Fence, &key) };
        let request = request.header("idempotency-key", key).body(body);
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => return Ok(Verdict::not_done(error)),
            Err(error) => return Ok(Verdict::unknown(error)),
        };
        let receipt = |charge| Receipt { payment_attempt_id: payment_attempt_id.clone(), charge };
        match answer.status() {
            StatusCode::CREATED => {
                let charge = serde_json::from_slice::<Charge>(&answer.bytes().await?)?.charge;
                Ok(Verdict::created("charge", charge.clone(), receipt(charge)))
            }
            StatusCode::PAYMENT_REQUIRED => Ok(Verdict::rejected(receipt(String::new()))),
            StatusCode::SERVICE_UNAVAILABLE => Ok(Verdict::not_done("the provider is down")),
            other => Ok(Verdict::unknown(format!("the provider says {other}"))),
        }
    }

    async fn look_up(&self, payment_attempt_id: &str) -> Result<Option<String>, BoxError> {
        let answer = self.http.get(format!("{}/{payment_attempt_id}", self.url)).send().await?;
        match answer.status() {
            StatusCode::OK => Ok(Some(serde_json::from_slice::<Charge>(&answer.bytes().await?)?.charge)),
            StatusCode::NOT_FOUND => Ok(None),
            other => Err(format!("the provider says {other}").into()),
        }
    }
}

#[async_trait]
impl Reconciler for Provider {
    async fn probe(&self, subject: &Subject) -> Probed {
        // The key of the operation is the provider's key.
        let Some(payment_attempt_id) = subject.record().key.as_ref().map(|key| key.as_str().to_owned())
        else {
            return Probed::inconclusive("the record has no key any more", "");
        };
        let (verdict, reason) = match self.look_up(&payment_attempt_id).await {
            Ok(Some(charge)) => {
                let evidence = format!("the provider has {charge}");
                (Known::Happened(found(Receipt { payment_attempt_id, charge })), evidence)
            }
            // "Not found" proves nothing, for the first request may still be on its way. But the provider takes each key
            // once, so asking again under this one is safe.
            Ok(None) => (Known::DidNotHappen(Some(Fence::SameKey)), "the provider knows no such key".into()),
            Err(error) => return Probed::inconclusive("the provider could not say", error.to_string()),
        };
        Probed { verdict, reason, evidence: "GET /captures/{payment_attempt_id}".into() }
    }
}

/// What duplicates get from now on: the receipt in the form in which `onefold-grpc` keeps a message.
fn found(receipt: Receipt) -> Found {
    let message = serde_json::json!({ "message": STANDARD.encode(receipt.encode_to_vec()) });
    let kept = Kept::Value(TypedValue { version: 1, json: message.to_string().into_bytes() });
    let resource = Some(onefold::Resource { kind: "charge".into(), id: receipt.charge });
    Found { kept, resource }
}
