//! The request of `onefold call`, from its arguments.
//!
//! Header lines and URLs hold credentials: what is wrong with one is said without it.

use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use onefold_client::Client;
use onefold_client::reqwest::{Request, Url};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::usage;
use crate::args::Call;
use crate::exit::Failure;

/// The most that a body may have: it is kept in memory for every attempt.
const DATA_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A request without its body: whatever is wrong with it is said before stdin is waited for.
pub(super) struct Head {
    method: Method,
    url: Url,
    headers: HeaderMap,
}

impl Head {
    pub(super) fn of(method: Method, call: &Call) -> Result<Head, Failure> {
        let head = Head { method, url: url(&call.url)?, headers: headers(&call.header)? };
        let has_credentials = !head.url.username().is_empty() || head.url.password().is_some();
        if has_credentials && head.headers.contains_key(header::AUTHORIZATION) {
            return Err(Failure::usage(
                "--header: the URL has credentials already; drop them, or Authorization",
            ));
        }
        Ok(head)
    }

    pub(super) fn request(self, client: &Client, data: Option<Vec<u8>>) -> Result<Request, Failure> {
        let request = client.request(self.method, self.url).build();
        let mut request = request.map_err(|error| usage("URL", &error.without_url()))?;
        request.headers_mut().extend(self.headers);
        if let Some(data) = data {
            if !request.headers().contains_key(header::CONTENT_TYPE) {
                let is_json = serde_json::from_slice::<serde_json::Value>(&data).is_ok();
                let media = if is_json { "application/json" } else { "application/octet-stream" };
                request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
            }
            *request.body_mut() = Some(data.into());
        }
        Ok(request)
    }
}

fn url(given: &str) -> Result<Url, Failure> {
    let url = Url::parse(given).map_err(|error| usage("URL", &error))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        _ => Err(Failure::usage("URL: write one that begins with http:// or https://")),
    }
}

fn headers(lines: &[String]) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for (line, position) in lines.iter().zip(1..) {
        let (name, value) = header_line(line, position)?;
        if matches!(name, header::CONTENT_LENGTH | header::TRANSFER_ENCODING) {
            return Err(Failure::usage(format!(
                "--header: {name} is not yours to say: it follows from the body that is sent"
            )));
        }
        if name == header::HOST && (headers.contains_key(&name) || !is_host(&value)) {
            return Err(Failure::usage("--header: write one Host, as 'Host: NAME' or 'Host: NAME:PORT'"));
        }
        headers.append(name, value);
    }
    Ok(headers)
}

/// A line that is none is told by its position: where its colon is missing, its beginning may be the secret.
fn header_line(line: &str, position: u32) -> Result<(HeaderName, HeaderValue), Failure> {
    let none = || Failure::usage(format!("--header: write 'Name: value'; number {position} is none"));
    let (name, value) = line.split_once(':').ok_or_else(none)?;
    let name: HeaderName = name.trim().parse().map_err(|_| none())?;
    let value = value.trim().parse().map_err(|_| {
        Failure::usage(format!("--header: the value of {name} (number {position}) cannot stand in a header"))
    })?;
    Ok((name, value))
}

/// A name or an address, with or without a port, and nothing else.
fn is_host(value: &HeaderValue) -> bool {
    let authority = value.to_str().ok().and_then(|host| host.parse::<http::uri::Authority>().ok());
    authority.is_some_and(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'))
}

/// The body, within this time: a pipe may never end.
pub(super) async fn data(given: Option<&str>, time: Duration) -> Result<Option<Vec<u8>>, Failure> {
    let Some(given) = given else { return Ok(None) };
    let Some(from) = given.strip_prefix('@') else { return Ok(Some(given.as_bytes().to_vec())) };
    let (sender, receiver) = oneshot::channel();
    let from = from.to_owned();
    // A thread of its own, since the process would wait for one of the runtime's.
    std::thread::spawn(move || sender.send(read(&from)));
    match timeout(time, receiver).await {
        Ok(Ok(Ok(bytes))) => Ok(Some(bytes)),
        Ok(Ok(Err(error))) => Err(Failure::usage(format!("--data: {given} cannot be read: {error}"))),
        Ok(Err(_)) => Err(Failure::usage(format!("--data: {given} cannot be read"))),
        Err(_) => Err(Failure::usage(format!(
            "--data: {given} had not ended when the deadline was over; nothing was sent"
        ))),
    }
}

fn read(from: &str) -> io::Result<Vec<u8>> {
    let source: Box<dyn Read> = match from {
        "-" => Box::new(io::stdin().lock()),
        file => Box::new(File::open(file)?),
    };
    let mut bytes = Vec::new();
    match source.take(DATA_BYTES_MAX + 1).read_to_end(&mut bytes)? as u64 {
        ..=DATA_BYTES_MAX => Ok(bytes),
        _ => Err(io::Error::other("it is longer than 64 MiB")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(lines: &[&str]) -> String {
        let lines: Vec<_> = lines.iter().map(|line| (*line).to_owned()).collect();
        headers(&lines).unwrap_err().message().to_owned()
    }

    #[test]
    fn what_is_wrong_with_a_header_is_said_without_its_value() {
        assert!(wrong(&["A: b", "Authorization Bearer S3CR3T"]).contains("number 2"));
        assert!(wrong(&["Authorization: Bearer\nS3CR3T"]).contains("authorization (number 1)"));
        for line in [
            "S3CR3T",
            "S3CR3T S3CR3T: x",
            "Cookie: S3CR3T\r\nX: y",
            "Host: S3CR3T@h",
            "Content-Length: S3CR3T",
        ] {
            let said = wrong(&[line]);
            assert!(!said.contains("S3CR3T"), "{said}");
        }
    }

    #[test]
    fn what_frames_a_request_follows_from_its_body() {
        for line in ["Content-Length: 3", "content-length:0", "Transfer-Encoding: chunked"] {
            assert!(wrong(&[line]).contains("not yours"), "{line}");
        }
        for lines in [&["Host:"][..], &["Host: a b"], &["Host: a/b"], &["Host: :80"], &["Host: a", "Host: b"]]
        {
            assert!(wrong(lines).contains("one Host"), "{lines:?}");
        }
        for line in ["Host: api.example", "Host: [::1]:8080", "X-Empty:", "Time: 10:00"] {
            assert!(headers(&[line.to_owned()]).is_ok(), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_it() {
        for given in
            ["http://u:S3CR3T@host:99999/", "ftp://u:S3CR3T@host/", "u:S3CR3T@host", "http://u:S3CR3T@/"]
        {
            let said = url(given).unwrap_err().message().to_owned();
            assert!(said.starts_with("URL: ") && !said.contains("S3CR3T"), "{said}");
        }
    }
}
