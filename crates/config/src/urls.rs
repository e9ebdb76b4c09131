//! The addresses of a gateway: its store, its upstream, and the services that it asks.
//!
//! An error never repeats a whole address, since people write passwords into them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use http::Uri;
use http::uri::Authority;
use onefold_core::contract::UrlTemplate;

/// Where the records are.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// `sqlite:PATH`: a file of this host, relative to the working directory.
    Sqlite(PathBuf),
    /// `postgres://…`: the whole address, password included; it is shown without.
    Postgres(String),
}

/// Where requests go on to: `http` or `https`, a host, and perhaps a path in front of every request's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamUrl {
    tls: bool,
    authority: String,
    base_path: String,
}

/// The text is no such address; what is wrong and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAUrl(String);

impl FromStr for StoreUrl {
    type Err = NotAUrl;

    fn from_str(text: &str) -> Result<StoreUrl, NotAUrl> {
        let refuse = |what: String| Err(NotAUrl(format!("{what}; allowed: {STORES}")));
        let Some((scheme, path)) = text.split_once(':') else {
            return refuse("a store has a scheme".into());
        };
        match (scheme, path) {
            ("sqlite", "") => refuse("the path of the store is missing".into()),
            ("sqlite", path) if path.starts_with("//") => {
                refuse("a path follows the scheme at once, without two slashes".into())
            }
            ("sqlite", path) if path.starts_with(":memory:") || path.starts_with("file:") => {
                refuse("a store in memory forgets what happened, and SQLite's own URLs are not read".into())
            }
            ("sqlite", path) if path.contains('\0') => refuse("a path holds no zero byte".into()),
            ("sqlite", path) => Ok(StoreUrl::Sqlite(path.into())),
            ("postgres" | "postgresql", rest) => match rest.strip_prefix("//") {
                Some(rest) if names_host_and_database(rest) => Ok(StoreUrl::Postgres(text.to_owned())),
                _ => refuse("a PostgreSQL store names user, host and database".into()),
            },
            (scheme, _) if scheme.len() <= 16 => refuse(format!("there is no store of the kind {scheme:?}")),
            _ => refuse("there is no such kind of store".into()),
        }
    }
}

/// Which stores there are.
const STORES: &str = "sqlite:PATH, such as sqlite:onefold.db, or postgres://USER:PASSWORD@HOST:PORT/DATABASE";

/// `user@host/database`: what the address of a database at least has, and nothing that shows more.
fn names_host_and_database(rest: &str) -> bool {
    let address = rest.split(['?', '#']).next().unwrap_or_default();
    let Some((authority, database)) = address.split_once('/') else { return false };
    let Some((user, host)) = authority.rsplit_once('@') else { return false };
    !user.is_empty() && !user.starts_with(':') && !host.is_empty() && !database.is_empty()
}

impl fmt::Display for StoreUrl {
    /// Without a password, and without parameters, which may hold one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            StoreUrl::Postgres(url) => {
                let address = url.split(['?', '#']).next().unwrap_or_default();
                let rest = address.split_once("://").map_or("", |(_, rest)| rest);
                let (user, place) = rest.rsplit_once('@').unwrap_or(("", rest));
                write!(f, "postgres://{}@{place}", user.split(':').next().unwrap_or_default())
            }
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

impl UpstreamUrl {
    /// Whether it is `https`.
    pub fn is_https(&self) -> bool {
        self.tls
    }

    /// Host and, where it was written, port: `127.0.0.1:3000`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// What goes in front of every request's path: empty, or `/api` without a slash at its end.
    pub fn base_path(&self) -> &str {
        &self.base_path
    }

    /// Whether another URL has the same host and port.
    pub(crate) fn leads_where(&self, url: &str) -> bool {
        let place = |authority: &Authority, tls| {
            let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
            (authority.host().to_ascii_lowercase(), port)
        };
        let (Ok(own), Ok(url)) = (self.authority.parse::<Authority>(), url.parse::<Uri>()) else {
            return false;
        };
        let tls = url.scheme_str() == Some("https");
        url.authority().is_some_and(|authority| place(authority, tls) == place(&own, self.tls))
    }
}

impl FromStr for UpstreamUrl {
    type Err = NotAUrl;

    fn from_str(text: &str) -> Result<UpstreamUrl, NotAUrl> {
        let refuse = |what: &str| {
            Err(NotAUrl(format!(
                "{what}; write http or https, a host and perhaps a path, such as http://127.0.0.1:3000"
            )))
        };
        let uri = match http_url(text) {
            Ok(uri) => uri,
            Err(wrong) => return refuse(wrong),
        };
        if uri.query().is_some() {
            return refuse("an upstream has no query");
        }
        Ok(UpstreamUrl {
            tls: uri.scheme_str() == Some("https"),
            authority: uri.authority().map(ToString::to_string).unwrap_or_default(),
            base_path: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

/// An absolute URL of `http` or `https` that a request can be sent to as it stands.
fn http_url(text: &str) -> Result<Uri, &'static str> {
    // The parser drops a fragment without a word.
    if text.contains('#') {
        return Err("a URL here has no fragment");
    }
    let Ok(uri) = text.parse::<Uri>() else { return Err("this is not a URL") };
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some(_) => return Err("this is neither http nor https"),
        None => return Err("the scheme is missing"),
    }
    let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty()) else {
        return Err("the host is missing");
    };
    if authority.as_str().contains('@') {
        return Err("a URL here has no user or password");
    }
    // The parser takes any text as a port.
    let port = &authority.as_str()[authority.host().len()..];
    if !port.is_empty() && !matches!(port.trim_start_matches(':').parse::<u16>(), Ok(1..)) {
        return Err("the port is not a number from 1 to 65535");
    }
    Ok(uri)
}

/// The URL of a look-up, with its variables.
pub(crate) fn look_up_url(text: &str) -> Result<UrlTemplate, NotAUrl> {
    let refuse = |what: &dyn fmt::Display| {
        NotAUrl(format!("{what}; write one such as http://127.0.0.1:3000/orders?key={{{{key}}}}"))
    };
    let template: UrlTemplate = text.parse().map_err(|wrong| refuse(&wrong))?;
    // Every value is encoded, so a URL with one is a URL with any.
    http_url(&template.fill(|_| "k".into())).map_err(|wrong| refuse(&wrong))?;
    Ok(template)
}

/// The URL of a service.
pub(crate) fn service_url(text: &str) -> Result<String, NotAUrl> {
    let refuse = |wrong| NotAUrl(format!("{wrong}; write one such as http://127.0.0.1:3000/auth"));
    http_url(text).map(|_| text.to_owned()).map_err(refuse)
}

impl fmt::Display for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.base_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_a_file_of_sqlite() {
        assert_eq!("sqlite:a b.db".parse(), Ok(StoreUrl::Sqlite("a b.db".into())));
        assert_eq!(
            "sqlite:/var/lib/onefold.db".parse::<StoreUrl>().unwrap().to_string(),
            "sqlite:/var/lib/onefold.db"
        );
        for bad in [
            "",
            "onefold.db",
            "sqlite:",
            "sqlite://x",
            "sqlite::memory:",
            "sqlite:file:x?mode=memory",
            "redis:x",
        ] {
            let error = bad.parse::<StoreUrl>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("; allowed: {STORES}")), "{bad}: {error}");
        }
    }

    #[test]
    fn a_store_is_a_database_of_postgresql_and_is_shown_without_its_password() {
        for text in [
            "postgres://me:hunter2@db:5432/shop?sslmode=require&password=hunter2",
            "postgresql://me:hunter2@a,b/shop",
            "postgres://me:hun@hunter2@db/shop",
        ] {
            let url: StoreUrl = text.parse().unwrap();
            assert_eq!(url, StoreUrl::Postgres(text.into()));
            assert!(!format!("{url} {url:?}").contains("hunter2"), "{url}");
        }
        let shown = "postgres://me:hunter2@db:5432/shop?sslmode=require".parse::<StoreUrl>().unwrap();
        assert_eq!(shown.to_string(), "postgres://me@db:5432/shop");
        for bad in
            ["postgres:", "postgres://", "postgres://db", "postgres://db/shop", "postgres://:x@db/shop"]
        {
            assert!(bad.parse::<StoreUrl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_address_with_a_password_is_refused_without_repeating_it() {
        for text in ["postgres://me:hunter2@/x", "hunter2-is-a-long-scheme:x", "mysql://me:hunter2@db"] {
            assert!(!text.parse::<StoreUrl>().unwrap_err().to_string().contains("hunter2"), "{text}");
        }
        for text in ["http://me:hunter2@host/", "http://hunter2 host/", "ftp://me:hunter2@host"] {
            assert!(!text.parse::<UpstreamUrl>().unwrap_err().to_string().contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn an_upstream_is_scheme_host_and_perhaps_a_path() {
        let upstream: UpstreamUrl = "https://api.example:8443/v1/".parse().unwrap();
        assert_eq!(
            (upstream.is_https(), upstream.authority(), upstream.base_path()),
            (true, "api.example:8443", "/v1")
        );
        assert_eq!("http://[::1]:3000".parse::<UpstreamUrl>().unwrap().authority(), "[::1]:3000");
        assert_eq!("http://h/".parse::<UpstreamUrl>().unwrap().to_string(), "http://h");
        for bad in [
            "",
            "/x",
            "host:80",
            "http://",
            "http://h/?q",
            "http://h/#f",
            "ws://h",
            "http://h:0",
            "http://h:x",
            "http://h:",
        ] {
            assert!(bad.parse::<UpstreamUrl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_look_up_is_an_absolute_url_with_its_variables_after_the_host() {
        assert!(look_up_url("https://h:8/orders/{{operation_id}}?key={{key}}&d={{downstream_key}}").is_ok());
        for bad in [
            "/orders?key={{key}}",
            "ftp://h/{{key}}",
            "http://{{key}}/",
            "http://h/#{{key}}",
            "http://h/{{id}}",
        ] {
            let error = look_up_url(bad).unwrap_err().to_string();
            assert!(
                error.ends_with("; write one such as http://127.0.0.1:3000/orders?key={{key}}"),
                "{error}"
            );
        }
        let error = look_up_url("http://me:hunter2@h/{{key}}").unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
        assert!(service_url("http://h/auth?x=1").is_ok());
        assert!(service_url("h/auth").is_err());
    }
}
