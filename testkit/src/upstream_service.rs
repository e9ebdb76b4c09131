//! What the counting upstream does with one request: read, wait, count, wait, answer.
//!
//! Runs as a task of its own for each request, so that a caller who hangs up does not undo the effect.

use std::io;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Response, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use sha2::{Digest, Sha256};

use crate::reply::{Close, Content, Missing, Reply};
use crate::reply_body::ReplyBody;
use crate::upstream::{Seen, State};
use crate::wire::Line;

const BODY_BYTES_KEPT: usize = 1024 * 1024;

pub(crate) async fn serve(
    state: State,
    request: http::Request<Incoming>,
) -> Result<Response<ReplyBody>, io::Error> {
    tokio::spawn(answer(state, request)).await.map_err(io::Error::other)?
}

async fn answer(state: State, request: http::Request<Incoming>) -> Result<Response<ReplyBody>, io::Error> {
    let (mut head, body) = request.into_parts();
    let mut seen = note(&head);
    let is_upgrade = head.headers.contains_key(header::UPGRADE);
    let upgrade = head.extensions.remove::<hyper::upgrade::OnUpgrade>();
    // Echo and upgrade answer before the request is over, so the order must be known before it is read.
    let early = if is_streamed(&seen, is_upgrade) { state.ordered(&seen) } else { None };
    if let Some(reply) = early {
        let count = count(&state, &seen, &head);
        state.book().seen.push(seen);
        return Ok(match (&reply.content, upgrade) {
            (Content::Upgrade, Some(upgrade)) => switch(reply, upgrade),
            _ => respond(reply, count, Some(body)),
        });
    }
    read(&mut seen, body).await?;
    state.book().seen.push(seen.clone());
    let query = head.uri.query().unwrap_or_default();
    let reply = state.ordered(&seen).unwrap_or_else(Reply::count).obey_query(query);
    reply.before.over().await;
    if reply.close == Close::BeforeEffect {
        return Err(io::Error::other("closed on purpose before the effect"));
    }
    let count = if reply.has_effect(&seen) { count(&state, &seen, &head) } else { 0 };
    reply.after.over().await;
    if reply.close == Close::AfterEffect {
        return Err(io::Error::other("closed on purpose after the effect"));
    }
    Ok(respond(reply, count, None))
}

/// By convention such routes begin so; the body of all others is read before anything is decided.
fn is_streamed(seen: &Seen, is_upgrade: bool) -> bool {
    is_upgrade || seen.path.starts_with("/echo")
}

fn note(head: &http::request::Parts) -> Seen {
    Seen {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        target: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: lines(&head.headers),
        body: Bytes::new(),
        body_bytes: 0,
        body_sha256: [0; 32],
        trailers: Vec::new(),
        at: Instant::now(),
    }
}

async fn read(seen: &mut Seen, mut body: Incoming) -> Result<(), io::Error> {
    let mut digest = Sha256::new();
    let mut kept = BytesMut::new();
    while let Some(frame) = body.frame().await {
        match frame.map_err(io::Error::other)?.into_data() {
            Ok(data) => {
                digest.update(&data);
                seen.body_bytes += data.len();
                let room = BODY_BYTES_KEPT - kept.len();
                kept.extend_from_slice(&data[..data.len().min(room)]);
            }
            Err(frame) => seen.trailers = frame.trailers_ref().map(lines).unwrap_or_default(),
        }
    }
    seen.body = kept.freeze();
    seen.body_sha256 = digest.finalize().into();
    seen.at = Instant::now();
    Ok(())
}

/// Adds to the count and answers the new one.
fn count(state: &State, seen: &Seen, head: &http::request::Parts) -> u64 {
    let mut book = state.book();
    let count = match head.method {
        Method::POST | Method::PUT | Method::PATCH => {
            book.counts.entry((seen.path.clone(), tag(seen, head))).or_default()
        }
        _ => book.reads.entry(seen.path.clone()).or_default(),
    };
    *count += 1;
    *count
}

fn tag(seen: &Seen, head: &http::request::Parts) -> String {
    let query = head.uri.query().unwrap_or_default();
    let by_query = query.split('&').find_map(|part| part.strip_prefix("tag="));
    by_query.or(seen.header("x-tag")).unwrap_or_default().to_owned()
}

fn lines(headers: &HeaderMap) -> Vec<Line> {
    headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
}

fn respond(reply: Reply, count: u64, request_body: Option<Incoming>) -> Response<ReplyBody> {
    let mut headers = HeaderMap::new();
    for (name, value) in reply.headers {
        headers.append(name, value);
    }
    let trailers: HeaderMap = reply.trailers.into_iter().collect();
    for name in trailers.keys() {
        // Over HTTP/1.1 only announced trailers are sent.
        headers.append(header::TRAILER, HeaderValue::from_str(name.as_str()).expect("a name"));
    }
    let body = match (reply.content, request_body) {
        (Content::Count, _) => {
            let json = HeaderValue::from_static("application/json");
            headers.entry(header::CONTENT_TYPE).or_insert(json);
            whole(Bytes::from(format!("{{\"n\":{count}}}")), trailers)
        }
        (Content::Bytes(bytes), _) => whole(bytes, trailers),
        (Content::Chunks(bytes), _) => ReplyBody::chunks(bytes, trailers),
        (Content::Events { every, events, last }, _) => ReplyBody::events(every, events, last),
        (Content::Cut { sent, missing }, _) => {
            if let Missing::Length(more) = missing {
                headers.insert(header::CONTENT_LENGTH, (sent.len() + more).into());
            }
            ReplyBody::cut(sent)
        }
        (Content::Echo, Some(incoming)) => ReplyBody::Echo(incoming),
        (Content::Echo | Content::Upgrade, _) => ReplyBody::Whole(None),
    };
    let mut response = Response::new(body);
    *response.status_mut() = reply.status.try_into().expect("a status code");
    *response.headers_mut() = headers;
    response
}

fn whole(bytes: Bytes, trailers: HeaderMap) -> ReplyBody {
    match trailers.is_empty() {
        true => ReplyBody::Whole(Some(bytes)),
        false => ReplyBody::chunks(bytes, trailers),
    }
}

fn switch(reply: Reply, upgrade: hyper::upgrade::OnUpgrade) -> Response<ReplyBody> {
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let (mut from, mut to) = tokio::io::split(TokioIo::new(upgraded));
        let _ = tokio::io::copy(&mut from, &mut to).await;
    });
    respond(reply, 0, None)
}
