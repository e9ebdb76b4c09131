//! Whose key it is, for this gateway: the one place where a request's scope is read, whether it asks for an operation
//! or for its page.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, header};
use onefold_core::contract::ScopeSource;
use onefold_core::{Contract, Scope};
use onefold_http::{Missing, Trust, scope};
use serde_json::Value;

use crate::Gateway;
use crate::forward::Caller;

impl Gateway {
    /// The scope of a request with these headers. `named` are the named segments of the path.
    pub(crate) fn scope(
        &self,
        contract: &Contract,
        headers: &HeaderMap,
        named: &[(String, String)],
        caller: Caller,
    ) -> Result<Scope, Missing> {
        let trust =
            Trust { proxy: caller.trusted, tokens: &self.options.tokens, now: self.engine.unix_time() };
        scope(&contract.scope, headers, named, trust, self.engine.identity_key())
    }

    /// A token that is refreshed between attempts is another credential, so a retry becomes another operation.
    pub(crate) fn warn_of_expiring_tokens(&self, contract: &Contract, headers: &HeaderMap) {
        if contract.scope.contains(&ScopeSource::Credential)
            && !self.warned_of_expiring_tokens.is_completed()
            && carries_expiring_token(headers)
        {
            self.warned_of_expiring_tokens.call_once(|| {
                tracing::warn!(
                    operation = %contract.operation,
                    "callers send tokens that expire; a token that is refreshed between two attempts is another credential, so the second attempt is another operation; a claim stays: write scope = [\"claim:sub\"], with the issuer's key in claims.keys",
                );
            });
        }
    }
}

/// Whether the credential is a JSON Web Token that says when it expires. It is only looked at, never believed.
fn carries_expiring_token(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()) else { return false };
    let mut pieces = value.trim_start_matches("Bearer ").split('.');
    let (Some(_), Some(payload), Some(_), None) =
        (pieces.next(), pieces.next(), pieces.next(), pieces.next())
    else {
        return false;
    };
    let Ok(text) = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')) else { return false };
    serde_json::from_slice::<Value>(&text).is_ok_and(|claims| claims.get("exp").is_some())
}
