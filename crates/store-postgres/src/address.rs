//! Where the database is: a URL of PostgreSQL's own kind, with the few parameters that are read here.
//!
//! `sslmode` is `disable`, `prefer` (the default: encrypted where the server offers it, its certificate unseen),
//! `require` (encrypted, unseen) or `verify-full` (encrypted, certificate and name verified against `sslrootcert`, a
//! PEM file, or else the web's authorities). A password is never shown.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::OpenError;
use crate::error::words;

/// How long one connection may take to come about, where the URL says nothing.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// After so long a silence the other end is asked whether it lives.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// What was sent and not acknowledged for so long is lost.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(15);

/// How the server's certificate is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Not at all.
    No,
    /// It and its name, against the authorities of this file, or those of the web.
    Full(Option<PathBuf>),
}

/// Where the database is.
#[derive(Clone)]
pub struct Address {
    pub(crate) config: Config,
    pub(crate) verify: Verify,
}

impl Address {
    /// Reads `postgres://user:password@host:port/database?sslmode=…`.
    pub fn parse(url: &str) -> Result<Address, OpenError> {
        let wrong = |why: String| OpenError::Address(why);
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(wrong("it begins with postgres:// or postgresql://".into()));
        }
        let (mut kept, mut mode, mut root) = (Vec::new(), SslMode::Prefer, None);
        let (front, query) = url.split_once('?').unwrap_or((url, ""));
        let mut verified = false;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", "disable")) => mode = SslMode::Disable,
                Some(("sslmode", "prefer")) => mode = SslMode::Prefer,
                Some(("sslmode", "require")) => mode = SslMode::Require,
                Some(("sslmode", "verify-full")) => (mode, verified) = (SslMode::Require, true),
                Some(("sslmode", _)) => {
                    return Err(wrong("sslmode is disable, prefer, require or verify-full".into()));
                }
                Some(("sslrootcert", path)) => root = Some(PathBuf::from(path)),
                _ => kept.push(pair),
            }
        }
        if root.is_some() && !verified {
            return Err(wrong("sslrootcert is read with sslmode=verify-full only".into()));
        }
        let plain = if kept.is_empty() { front.to_owned() } else { format!("{front}?{}", kept.join("&")) };
        // The parser repeats what it does not understand, but only names of parameters.
        let mut config: Config = plain.parse().map_err(|error| wrong(words(&error)))?;
        if config.get_hosts().is_empty() {
            return Err(wrong("the host is missing".into()));
        }
        if config.get_user().is_none() {
            return Err(wrong("the user is missing".into()));
        }
        config.ssl_mode(mode);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_MAX);
        }
        if config.get_application_name().is_none() {
            config.application_name("onefold");
        }
        // Of several hosts the one that takes writes; a replica alone is refused when it connects.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.keepalives_idle(KEEPALIVE_IDLE).tcp_user_timeout(UNACKNOWLEDGED_MAX);
        let verify = if verified { Verify::Full(root) } else { Verify::No };
        Ok(Address { config, verify })
    }
}

impl fmt::Display for Address {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgres://{}@", self.config.get_user().unwrap_or_default())?;
        let ports = self.config.get_ports();
        for (i, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match host {
                Host::Tcp(host) => write!(f, "{comma}{host}")?,
                Host::Unix(path) => write!(f, "{comma}{}", path.display())?,
            }
            if let Some(port) = ports.get(i).or(ports.first()) {
                write!(f, ":{port}")?;
            }
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let address = Address::parse("postgres://me:hunter2@db.example:5433/shop?sslmode=require").unwrap();
        assert_eq!(address.to_string(), "postgres://me@db.example:5433/shop");
        assert!(!format!("{address:?}").contains("hunter2"));
        assert_eq!((address.config.get_ssl_mode(), address.verify), (SslMode::Require, Verify::No));
    }

    #[test]
    fn a_certificate_is_verified_where_the_address_says_so() {
        let verify = |url: &str| Address::parse(url).map(|address| address.verify);
        assert_eq!(verify("postgresql://u@h/d?sslmode=verify-full").unwrap(), Verify::Full(None));
        let with_root = "postgres://u@h/d?sslrootcert=/ca.pem&sslmode=verify-full";
        assert_eq!(verify(with_root).unwrap(), Verify::Full(Some("/ca.pem".into())));
        for bad in ["sslmode=verify-ca", "sslmode=allow", "sslrootcert=/ca.pem"] {
            assert!(verify(&format!("postgres://u@h/d?{bad}")).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_being_repeated() {
        for bad in
            ["mysql://hunter2@h", "postgres://:hunter2@/d", "postgres://u:hunter2@h:x/d", "postgres://h/d"]
        {
            let error = Address::parse(bad).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
