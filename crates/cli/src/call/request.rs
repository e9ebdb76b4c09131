//! The request of `onefold call`, from its arguments.
//!
//! Header lines and URLs hold credentials: what is wrong with one is said without it.

use std::io::Read;

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use onefold_client::Client;
use onefold_client::reqwest::{Request, Url};

use super::usage;
use crate::args::Call;
use crate::exit::Failure;

pub(super) fn request(client: &Client, method: Method, call: &Call) -> Result<Request, Failure> {
    let url = url(&call.url)?;
    let headers = headers(&call.header)?;
    let request = client.request(method, url).build();
    let mut request = request.map_err(|error| usage("URL", &error.without_url()))?;
    if headers.contains_key(header::AUTHORIZATION) && request.headers().contains_key(header::AUTHORIZATION) {
        return Err(Failure::usage("--header: the URL has credentials already; drop them, or Authorization"));
    }
    request.headers_mut().extend(headers);
    if let Some(data) = data(call.data.as_deref())? {
        if !request.headers().contains_key(header::CONTENT_TYPE) {
            let is_json = serde_json::from_slice::<serde_json::Value>(&data).is_ok();
            let media = if is_json { "application/json" } else { "application/octet-stream" };
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        }
        *request.body_mut() = Some(data.into());
    }
    Ok(request)
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

fn data(given: Option<&str>) -> Result<Option<Vec<u8>>, Failure> {
    let Some(given) = given else { return Ok(None) };
    let read = match given.strip_prefix('@') {
        None => return Ok(Some(given.as_bytes().to_vec())),
        Some("-") => {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        }
        Some(file) => std::fs::read(file),
    };
    read.map(Some).map_err(|error| Failure::usage(format!("--data: {given} cannot be read: {error}")))
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
