//! Whose key it is (SEMANTICS 1 and 7).
//!
//! Metadata is set by the caller, so by itself it says nothing about who that is. A scope is taken from what the
//! service's own authentication has found, from the credential itself, or from a verified token; from other metadata
//! only where the service says so. What is missing is never replaced by something shared.

use std::fmt;
use std::sync::Arc;

use onefold_core::IdentityKey;
use onefold_core::contract::ScopeSource;
use onefold_http::{TokenRule, Trust, scope};
use onefold_library::Scope;
use tonic::metadata::MetadataMap;
use tonic::{Extensions, Request};

type Closure = Arc<dyn Fn(&MetadataMap, &Extensions) -> Option<Scope> + Send + Sync>;

/// Whose key it is. Cheap to clone.
#[derive(Clone)]
pub struct Whose(Source);

#[derive(Clone)]
enum Source {
    Told(Closure),
    Read(Vec<ScopeSource>, TokenRule),
}

impl fmt::Debug for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Told(_) => f.write_str("Whose(told)"),
            Source::Read(sources, _) => f.debug_tuple("Whose").field(sources).finish(),
        }
    }
}

impl Whose {
    /// The principal that the service's authentication (an interceptor, mutual TLS) has left in the extensions of the
    /// request. `None`, a scope without parts and a part without a value are refused as missing.
    pub fn principal(of: impl Fn(&Extensions) -> Option<Scope> + Send + Sync + 'static) -> Whose {
        Whose(Source::Told(Arc::new(move |_, extensions| of(extensions))))
    }

    /// The same with a look at the metadata, which any caller sets freely: only where a proxy that the service trusts
    /// has set or verified it.
    pub fn metadata(
        of: impl Fn(&MetadataMap, &Extensions) -> Option<Scope> + Send + Sync + 'static,
    ) -> Whose {
        Whose(Source::Told(Arc::new(of)))
    }

    /// The whole value of `authorization`, digested, as in the gateway.
    pub fn credential() -> Whose {
        Whose(Source::Read(vec![ScopeSource::Credential], TokenRule::default()))
    }

    /// Claims of a token that is verified under these rules, as in the gateway.
    ///
    /// # Panics
    /// Without a claim.
    pub fn claims(names: impl IntoIterator<Item = impl Into<String>>, tokens: TokenRule) -> Whose {
        let sources: Vec<_> = names.into_iter().map(|name| ScopeSource::Claim(name.into())).collect();
        assert!(!sources.is_empty(), "a protected method says whose key it is");
        Whose(Source::Read(sources, tokens))
    }

    /// Everybody's, by explicit choice.
    pub fn shared() -> Whose {
        Whose(Source::Read(vec![ScopeSource::Shared], TokenRule::default()))
    }

    /// The scope of this request. An error says what is missing.
    pub(crate) fn of<M>(
        &self,
        request: &Request<M>,
        secret: &IdentityKey,
        now: i64,
    ) -> Result<Scope, String> {
        match &self.0 {
            Source::Told(of) => of(request.metadata(), request.extensions())
                .filter(|scope| !scope.parts().is_empty())
                .filter(|scope| scope.parts().iter().all(|part| !part.value.is_empty()))
                .ok_or_else(|| "the call does not say who makes it".to_owned()),
            Source::Read(sources, tokens) => {
                let trust = Trust { proxy: false, tokens, now };
                scope(sources, request.metadata().as_ref(), &[], trust, secret).map_err(|missing| missing.0)
            }
        }
    }
}
