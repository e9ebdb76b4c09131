//! The first look at a request: is it about the layer itself, protected, or just passed on?

use http::{Method, Request, Response};
use hyper::body::Incoming;
use onefold_core::contract::ScopeSource;
use onefold_http::path::normal_path;

use crate::body::AnyBody;
use crate::forward::Caller;
use crate::options::{Named, Route};
use crate::{Shared, pass, protect, published};

/// Answers one request.
pub(crate) async fn handle(gateway: Shared, request: Request<Incoming>, caller: Caller) -> Response<AnyBody> {
    let path = normal_path(request.uri().path());
    if matches!(*request.method(), Method::GET | Method::HEAD)
        && let Some(own) = published::own_page(&gateway, &request, &path, caller).await
    {
        return own;
    }
    match route(&gateway, &request, &path) {
        Some((route, named)) => protect::protect(gateway, route, named, path, request, caller).await,
        None => pass::pass(&gateway, request, caller).await,
    }
}

fn route(gateway: &Shared, request: &Request<Incoming>, path: &str) -> Option<(Route, Named)> {
    let method = request.method();
    if method.is_safe() {
        return None;
    }
    for route in &gateway.options.routes {
        if let Some(named) = (route.matches)(method, path) {
            return Some((route.clone(), named));
        }
    }
    let implicit = gateway.options.implicit.as_ref()?;
    let carries_key =
        implicit.contract.key.headers.iter().any(|name| request.headers().contains_key(name.as_str()));
    if !carries_key || !matches!(*method, Method::POST | Method::PATCH) {
        return None;
    }
    let mut contract = (*implicit.contract).clone();
    contract.operation = format!("{method} {path}");
    if implicit.anonymous && !request.headers().contains_key(http::header::AUTHORIZATION) {
        contract.scope = vec![ScopeSource::Shared];
    }
    let route = Route {
        contract: contract.into(),
        label: "(unconfigured)".into(),
        method: method.to_string(),
        path: path.to_owned(),
        matches: std::sync::Arc::new(|_, _| None),
        ignore: Vec::new(),
        redact: Vec::new(),
        body_key: None,
    };
    Some((route, Named::new()))
}
