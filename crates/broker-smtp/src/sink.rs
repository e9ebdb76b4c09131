//! The destination and its settings.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lettre::message::Mailbox;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::extension::ClientId;
use onefold_messages::{Destination, IfLost, Message, Sending, Sink};

use crate::archive::{Archive, Asking, MailLookUp};
use crate::conversation::{self, Limits};
use crate::letter::letter;
use crate::limits::{ANSWER_WITHIN, ATTEMPTS, BACKOFF, CONNECTIONS, UP_TO_THE_DOT};
use crate::server::{Security, Server, SetupError, parameters};

/// A destination: one mail server.
#[derive(Clone, Debug)]
pub struct SmtpSink {
    server: Server,
    sender: Option<Mailbox>,
    if_lost: IfLost,
    answer_within: Duration,
    archive: Option<Archive>,
}

impl SmtpSink {
    /// TLS from the first byte, port 465.
    pub fn tls(host: &str) -> Result<SmtpSink, SetupError> {
        Ok(SmtpSink::over(Server::new(host, 465, Security::Tls(parameters(host, None)?))))
    }

    /// STARTTLS, without which nothing is sent, port 587.
    pub fn starttls(host: &str) -> Result<SmtpSink, SetupError> {
        Ok(SmtpSink::over(Server::new(host, 587, Security::StartTls(parameters(host, None)?))))
    }

    /// No encryption, port 25: for a server on this host or on a network of one's own.
    pub fn unencrypted(host: &str) -> SmtpSink {
        SmtpSink::over(Server::new(host, 25, Security::Clear))
    }

    fn over(server: Server) -> SmtpSink {
        let (if_lost, answer_within) = (IfLost::Hold, ANSWER_WITHIN);
        SmtpSink { server, sender: None, if_lost, answer_within, archive: None }
    }

    /// Another port.
    pub fn port(mut self, port: u16) -> SmtpSink {
        self.server.port = port;
        self
    }

    /// Logs in (PLAIN or LOGIN). Only over TLS.
    pub fn credentials(mut self, user: &str, password: &str) -> Result<SmtpSink, SetupError> {
        if self.server.is_clear() {
            return Err(SetupError::CredentialsInClear);
        }
        self.server.credentials = Some(Credentials::new(user.into(), password.into()));
        Ok(self)
    }

    /// Trusts this certificate (PEM), or what it has signed, beside those of the system.
    pub fn trust(mut self, certificate: &[u8]) -> Result<SmtpSink, SetupError> {
        self.server.trust(certificate)?;
        Ok(self)
    }

    /// Whom mails are from that do not say so themselves: `Shop <shop@example.org>`.
    pub fn sender(mut self, mailbox: &str) -> Result<SmtpSink, SetupError> {
        self.sender = Some(mailbox.parse().map_err(|_| SetupError::Sender)?);
        Ok(self)
    }

    /// The name of this host in the greeting; by default the literal of its loopback address, which servers that are
    /// reached over the Internet may refuse.
    pub fn hello(mut self, domain: &str) -> SmtpSink {
        self.server.hello = ClientId::Domain(domain.into());
        self
    }

    /// What becomes of a mail whose answer was lost. By default it is held as `outcome_unknown`. `SendAgain` is for
    /// mails that may come twice.
    pub fn lost_answers(mut self, if_lost: IfLost) -> SmtpSink {
        self.if_lost = if_lost;
        self
    }

    /// How long the server may take to say that it has a mail.
    pub fn answer_within(mut self, limit: Duration) -> SmtpSink {
        self.answer_within = limit;
        self
    }

    /// Looks up mails that are `outcome_unknown`, about this often: what is found is delivered, and what is not there
    /// for long enough is sent again.
    pub fn look_up(mut self, archive: impl MailLookUp, every: Duration) -> SmtpSink {
        self.archive = Some(Archive { of: Arc::new(archive), every });
        self
    }

    /// The destination with the settings of [`crate::limits`]: what it says about time-outs, pauses and the number of
    /// connections fits mail, the relay's own defaults do not.
    pub fn destination(self, name: impl Into<String>) -> Destination {
        let timeout = UP_TO_THE_DOT + self.answer_within + Duration::from_secs(5);
        let (archive, sender) = (self.archive.clone(), self.sender.clone());
        let destination = Destination::new(name, self)
            .timeout(timeout)
            .backoff(BACKOFF)
            .attempts(Some(ATTEMPTS))
            .concurrency(CONNECTIONS);
        match archive {
            Some(Archive { of, every }) => destination.look_up(Asking { of, sender }, every),
            None => destination,
        }
    }
}

#[async_trait]
impl Sink for SmtpSink {
    fn if_lost(&self) -> IfLost {
        self.if_lost
    }

    async fn send(&self, message: &Message) -> Sending {
        let letter = match letter(message, self.sender.as_ref()) {
            Ok(letter) => letter,
            Err(reason) => return Sending::Refused { reason },
        };
        let limits =
            Limits { up_to_the_dot: UP_TO_THE_DOT, answer_within: self.answer_within, if_lost: self.if_lost };
        conversation::send(&self.server, &letter, &limits).await
    }
}
