//! Whose key it is, for this gateway: the one place where a request's scope is read, whether it asks for an operation
//! or for its page.

use http::HeaderMap;
use onefold_core::contract::ScopeSource;
use onefold_core::{Contract, Scope};
use onefold_http::{Missing, Trust, carries_expiring_token, scope};

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
