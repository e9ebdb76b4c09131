//! The first look at a request: is it about the layer itself, protected, or just passed on?

use std::sync::Arc;

use http::{Method, Request, Response};
use hyper::body::Incoming;
use onefold_core::path::normal_path;

use crate::body::AnyBody;
use crate::forward::Caller;
use crate::options::{Named, Route};
use crate::{Shared, pass, protect, published, webhook};

/// Answers one request.
pub(crate) async fn handle(gateway: Shared, request: Request<Incoming>, caller: Caller) -> Response<AnyBody> {
    let path = normal_path(request.uri().path());
    if matches!(*request.method(), Method::GET | Method::HEAD)
        && let Some(own) = published::own_page(&gateway, &request, &path, caller).await
    {
        return own;
    }
    if *request.method() == Method::POST
        && let Some((webhooks, source)) = webhook::source(&gateway, &path)
    {
        return webhook::take_in(&gateway, webhooks, source, request, caller).await;
    }
    match route(&gateway, &request, &path) {
        Some((route, named)) => protect::protect(gateway, route, named, path, request, caller).await,
        None => pass::pass(&gateway, request, caller).await,
    }
}

fn route(gateway: &Shared, request: &Request<Incoming>, path: &str) -> Option<(Arc<Route>, Named)> {
    let method = request.method();
    if method.is_safe() {
        return None;
    }
    for route in &gateway.options.routes {
        if let Some(named) = (route.matches)(method, path) {
            return Some((route.clone(), named));
        }
    }
    let route = gateway.implicit.as_ref()?.of(request.headers());
    let carries_key =
        route.contract.key.headers.iter().any(|name| request.headers().contains_key(name.as_str()));
    let changes =
        [Method::POST, Method::PATCH].iter().any(|m| m.as_str().eq_ignore_ascii_case(method.as_str()));
    let protected = changes && (carries_key || route.body_key.is_some());
    protected.then(|| (route.clone(), Named::new()))
}
