//! The server: where it is, how the connection is encrypted, and who one is there.

use std::fmt;

use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, TlsParameters};
use lettre::transport::smtp::extension::ClientId;

/// Why there is no such destination.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The URL is none of a mail server.
    #[error("the URL is none of a mail server, such as smtps://user:password@mail.example.org:465")]
    Address,
    /// TLS cannot be set up, or the certificate cannot be read.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Everybody on the way would read them.
    #[error("credentials are not sent over a connection without TLS")]
    CredentialsInClear,
    /// The sender is no mailbox.
    #[error("the sender is no mailbox, such as `Shop <shop@example.org>`")]
    Sender,
}

/// How the connection is encrypted.
#[derive(Clone)]
pub(crate) enum Security {
    /// From the first byte.
    Tls(TlsParameters),
    /// By STARTTLS, without which nothing is sent.
    StartTls(TlsParameters),
    Clear,
}

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) security: Security,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) hello: ClientId,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

impl Server {
    pub(crate) fn new(host: &str, port: u16, security: Security) -> Server {
        Server { host: host.into(), port, security, credentials: None, hello: ClientId::default() }
    }

    /// Trusts this certificate, or what it has signed, beside those of the system.
    pub(crate) fn trust(&mut self, pem: &[u8]) -> Result<(), SetupError> {
        let more = Certificate::from_pem(pem).map_err(|error| SetupError::Tls(error.into()))?;
        let tls = parameters(&self.host, Some(more))?;
        match &mut self.security {
            Security::Tls(parameters) | Security::StartTls(parameters) => *parameters = tls,
            Security::Clear => {}
        }
        Ok(())
    }

    pub(crate) fn is_clear(&self) -> bool {
        matches!(self.security, Security::Clear)
    }
}

/// TLS to this host by rustls with ring, trusting what the system trusts.
pub(crate) fn parameters(host: &str, more: Option<Certificate>) -> Result<TlsParameters, SetupError> {
    let mut builder = TlsParameters::builder(host.to_owned());
    if let Some(more) = more {
        builder = builder.add_root_certificate(more);
    }
    builder.build_rustls().map_err(|error| SetupError::Tls(error.into()))
}
