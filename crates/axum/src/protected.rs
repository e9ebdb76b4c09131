//! What a handler takes: the call under which it performs its operation.

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use onefold_library::Call;

/// The operation that a protected request asks for.
///
/// As an argument it is there on a route with a [`Protection`](crate::Protection); where the key is optional, take an
/// `Option<Protected>`. It goes before the argument that takes the body.
#[derive(Clone, Debug)]
pub struct Protected(pub(crate) Call);

impl Protected {
    /// The call: its key ([`Call::key`]), scope and significant request are those of this request, and what ties it to
    /// a workflow and a trace are those that its headers name (`onefold-correlation-id`, `traceparent`).
    pub fn call(&self) -> Call {
        self.0.clone()
    }
}

/// The handler takes [`Protected`] and its route has no protection, or its key is optional: a mistake in the program.
#[derive(Debug)]
pub struct Unprotected;

impl IntoResponse for Unprotected {
    fn into_response(self) -> Response {
        tracing::error!("a handler takes `Protected`, and its route has no protection or an optional key");
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

impl<S: Sync> FromRequestParts<S> for Protected {
    type Rejection = Unprotected;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Protected, Unprotected> {
        parts.extensions.get().cloned().ok_or(Unprotected)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Protected {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Protected>, Self::Rejection> {
        Ok(parts.extensions.get().cloned())
    }
}
