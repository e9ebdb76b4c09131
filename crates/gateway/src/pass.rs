//! What is not protected is passed on as any good proxy does: streaming both ways, upgrades, trailers.

use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use onefold_core::Problem;
use onefold_http::{ProblemDocument, clean_trailers, strip_hop_by_hop};

use crate::Gateway;
use crate::body::{AnyBody, answer};
use crate::forward::{Caller, Head};
use crate::upstream::{NoAnswer, no_body};

/// Passes a request on. The caller hanging up ends it.
pub(crate) async fn pass(
    gateway: &Gateway,
    mut request: Request<Incoming>,
    caller: Caller,
) -> Response<AnyBody> {
    let upgrade = websocket_upgrade(&request);
    let callers_side = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
    let (parts, body) = request.into_parts();
    let head = Head::of(parts);
    let body = if upgrade.is_some() { no_body() } else { body.map_err(Into::into).boxed_unsync() };
    let mut response = match pass_head(gateway, head, caller, body, upgrade.clone()).await {
        Ok(response) => response,
        Err(refused) => return refused,
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS
        && let (Some(callers_side), Some(upgrade)) = (callers_side, upgrade)
    {
        let upstreams_side = hyper::upgrade::on(&mut response);
        tokio::spawn(tunnel(callers_side, upstreams_side));
        let headers = strip_hop_by_hop(response.headers());
        let mut switched = Response::new(no_body());
        *switched.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *switched.headers_mut() = headers;
        switched.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        switched.headers_mut().insert(header::UPGRADE, upgrade);
        return switched;
    }
    handed_on(response)
}

/// Passes on a request whose body is already held.
pub(crate) async fn pass_held(
    gateway: &Gateway,
    head: Head,
    caller: Caller,
    body: AnyBody,
) -> Response<AnyBody> {
    match pass_head(gateway, head, caller, body, None).await {
        Ok(response) => handed_on(response),
        Err(refused) => refused,
    }
}

async fn pass_head(
    gateway: &Gateway,
    head: Head,
    caller: Caller,
    body: AnyBody,
    upgrade: Option<HeaderValue>,
) -> Result<Response<Incoming>, Response<AnyBody>> {
    let mut request = head.to_request(gateway, caller, body).map_err(|error| {
        problem(gateway, Problem::RequestInvalid, format!("the target cannot be passed on: {error}"))
    })?;
    let asked = async {
        let Some(upgrade) = upgrade else { return gateway.upstream.ask(request).await };
        request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        request.headers_mut().insert(header::UPGRADE, upgrade);
        gateway.upstream.send(request).await
    };
    match tokio::time::timeout(gateway.options.upstream_timeout, asked).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(NoAnswer::Unreachable(why) | NoAnswer::NotTaken(why))) => {
            tracing::warn!(why, "the upstream was not reached");
            let detail = "the upstream could not be reached; nothing was sent";
            Err(problem(gateway, Problem::UpstreamUnreachable, detail.into()))
        }
        Ok(Err(NoAnswer::Lost(why))) => {
            tracing::warn!(why, "the upstream's answer was lost");
            Err(problem(gateway, Problem::AnswerLost, "the upstream's answer was lost".into()))
        }
        Err(_) => Err(problem(gateway, Problem::AnswerLate, "the upstream did not answer in time".into())),
    }
}

fn problem(gateway: &Gateway, problem: Problem, detail: String) -> Response<AnyBody> {
    answer(ProblemDocument::new(problem, detail).into_response(&gateway.options.policy_path))
}

/// An answer as it is handed on: without the fields of the upstream's connection and the layer's own marks.
pub(crate) fn handed_on(response: Response<Incoming>) -> Response<AnyBody> {
    let (parts, body) = response.into_parts();
    let length = body.size_hint().exact();
    let body = body.map_frame(|frame| match frame.into_trailers() {
        Ok(trailers) => Frame::trailers(clean_trailers(&trailers)),
        Err(data) => data,
    });
    let mut handed = Response::new(body.map_err(Into::into).boxed_unsync());
    *handed.status_mut() = parts.status;
    *handed.headers_mut() = strip_hop_by_hop(&parts.headers);
    if length.is_none() {
        handed.headers_mut().remove(header::CONTENT_LENGTH);
    }
    handed.headers_mut().remove(onefold_http::REPLAYED);
    handed.headers_mut().remove(onefold_http::OPERATION);
    handed
}

/// The upgrade that is passed on: to WebSocket, by GET over HTTP/1.1 (RFC 6455). Any other, such as to `h2c`, would
/// open a way around the protection and is left out, as RFC 9110 allows.
fn websocket_upgrade(request: &Request<Incoming>) -> Option<HeaderValue> {
    let headers = request.headers();
    if request.method() != http::Method::GET || request.version() != http::Version::HTTP_11 {
        return None;
    }
    let asks = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|token| token.trim().eq_ignore_ascii_case("upgrade"));
    let protocol =
        headers.get(header::UPGRADE).filter(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    protocol.filter(|_| asks).cloned()
}

async fn tunnel(callers_side: hyper::upgrade::OnUpgrade, upstreams_side: hyper::upgrade::OnUpgrade) {
    let (caller, upstream) = match tokio::try_join!(callers_side, upstreams_side) {
        Ok(sides) => sides,
        Err(error) => return tracing::debug!(%error, "an upgrade did not come about"),
    };
    let (mut caller, mut upstream) = (TokioIo::new(caller), TokioIo::new(upstream));
    if let Err(error) = tokio::io::copy_bidirectional(&mut caller, &mut upstream).await {
        tracing::debug!(%error, "an upgraded connection ended");
    }
}
