//! The payment provider as **payment** sees it: one request for each attempt, and the look-up of what became of it.

use std::time::Duration;

use onefold::client::{once_client, reqwest};
use onefold::reconcile::{Fence, Found};
use onefold::{BoxError, Verdict};
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
        // Its key as it is; only `bfstore unprotected` changes it (safeguard.rs).
        let key = safeguard::key(Safeguard::ProviderKey, payment_attempt_id);
        // After a look-up that found nothing it is asked for again, and under no other key.
        let key = if attempt == 1 { key } else { safeguard::key(Safeguard::Fence, &key) };
        let request = request.header("idempotency-key", key).body(body);
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => return Ok(Verdict::not_done(error)),
            Err(error) => return Ok(Verdict::unknown(error)),
        };
        match answer.status() {
            StatusCode::CREATED => {
                let charge = serde_json::from_slice::<Charge>(&answer.bytes().await?)?.charge;
                Ok(Verdict::created("charge", charge.clone(), receipt(payment_attempt_id, charge)))
            }
            StatusCode::PAYMENT_REQUIRED => Ok(Verdict::rejected(receipt(payment_attempt_id, String::new()))),
            StatusCode::SERVICE_UNAVAILABLE => Ok(Verdict::not_done("the provider is down")),
            other => Ok(Verdict::unknown(format!("the provider says {other}"))),
        }
    }

    /// What became of a capture whose answer was lost. The key of the operation is the provider's key.
    pub async fn look_up(&self, payment_attempt_id: &str) -> Result<Found<Receipt>, BoxError> {
        let answer = self.http.get(format!("{}/{payment_attempt_id}", self.url)).send().await?;
        let status = answer.status();
        let found = match status {
            StatusCode::OK => {
                let charge = serde_json::from_slice::<Charge>(&answer.bytes().await?)?.charge;
                Found::created("charge", charge.clone(), receipt(payment_attempt_id, charge))
            }
            // "Not found" proves nothing, for the first request may still be on its way. But the provider takes each key
            // once, so asking again under this one is safe.
            StatusCode::NOT_FOUND => Found::did_not_happen(Fence::SameKey),
            other => Found::inconclusive(format!("the provider says {other}")),
        };
        Ok(found.shown_by(format!("GET /captures/{{payment_attempt_id}}: {status}")))
    }
}

fn receipt(payment_attempt_id: &str, charge: String) -> Receipt {
    Receipt { payment_attempt_id: payment_attempt_id.to_owned(), charge }
}
