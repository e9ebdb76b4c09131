//! One conversation with a server: one mail, and how it ended.
//!
//! What a loss means depends on one moment, the writing of the final dot. Before it the server cannot have the mail;
//! from then on only the server knows.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::Mechanism;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{Extension, MailBodyParameter, MailParameter};
use lettre::transport::smtp::response::{Response, Severity};
use onefold_messages::{IfLost, Sending};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::letter::Letter;
use crate::limits::FAREWELL;
use crate::server::{Security, Server};

/// Mechanisms of AUTH in the order in which they are tried.
const MECHANISMS: &[Mechanism] = &[Mechanism::Plain, Mechanism::Login];

/// What was asked when something went wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Connection,
    Encryption,
    Login,
    Sender,
    Recipient,
    Data,
    Content,
}

impl Asked {
    fn name(self) -> &'static str {
        match self {
            Asked::Connection => "the connection",
            Asked::Encryption => "encryption",
            Asked::Login => "the login",
            Asked::Sender => "the sender",
            Asked::Recipient => "a recipient",
            Asked::Data => "the mail",
            Asked::Content => "the mail's content",
        }
    }

    /// Whether the answer speaks of this mail, and not of the server or of one's account there.
    fn is_about_the_mail(self) -> bool {
        matches!(self, Asked::Sender | Asked::Recipient | Asked::Data | Asked::Content)
    }
}

/// Why the server does not have the mail, or may not have it.
enum Wrong {
    Error(Asked, Error),
    /// The server cannot carry it.
    CannotCarry(&'static str),
    /// It answers what no server answers there.
    Nonsense(Asked),
}

pub(crate) struct Limits {
    pub(crate) up_to_the_dot: Duration,
    pub(crate) answer_within: Duration,
    pub(crate) if_lost: IfLost,
}

/// Whether the final dot was written, or nearly.
#[derive(Default)]
struct Dot {
    written: AtomicBool,
    now: Notify,
}

impl Dot {
    fn write(&self) {
        self.written.store(true, Ordering::Relaxed);
        self.now.notify_one();
    }

    fn is_written(&self) -> bool {
        self.written.load(Ordering::Relaxed)
    }
}

/// Sends one mail over a connection of its own.
pub(crate) async fn send(server: &Server, letter: &Letter, limits: &Limits) -> Sending {
    let dot = Dot::default();
    let mut talk = pin!(talk(server, letter, &dot));
    let ended = tokio::select! {
        // In this order, so that one that was frozen for long does not write the dot when it goes on: by then the
        // mail may have been given up.
        biased;
        () = dot.now.notified() => match timeout(limits.answer_within, &mut talk).await {
            Ok(ended) => ended,
            Err(_) => {
                return Sending::lost(format!("no answer to its end within {:?}", limits.answer_within), limits.if_lost);
            }
        },
        // The talk is dropped with this function, so the dot is not written any more.
        () = sleep(limits.up_to_the_dot) => {
            return Sending::Failed { reason: format!("not sent within {:?}", limits.up_to_the_dot) };
        }
        ended = &mut talk => ended,
    };
    match ended {
        Ok(()) => Sending::Accepted,
        Err(wrong) => meaning(&wrong, dot.is_written(), limits.if_lost),
    }
}

async fn talk(server: &Server, letter: &Letter, dot: &Dot) -> Result<(), Wrong> {
    let mut connection = connect(server).await?;
    let ended = hand_over(&mut connection, letter, dot).await;
    if matches!(&ended, Ok(()) | Err(Wrong::CannotCarry(_))) || said(&ended) {
        let _ = timeout(FAREWELL, connection.quit()).await;
    }
    ended
}

/// Whether the server has said no, and so still listens.
fn said(ended: &Result<(), Wrong>) -> bool {
    matches!(ended, Err(Wrong::Error(_, error)) if error.status().is_some())
}

async fn connect(server: &Server) -> Result<AsyncSmtpConnection, Wrong> {
    let at = |asked| move |error| Wrong::Error(asked, error);
    let tls = match &server.security {
        Security::Tls(parameters) => Some(parameters.clone()),
        Security::StartTls(_) | Security::Clear => None,
    };
    let place = (server.host.as_str(), server.port);
    let connection = AsyncSmtpConnection::connect_tokio1(place, None, &server.hello, tls, None).await;
    let mut connection = connection.map_err(at(Asked::Connection))?;
    if let Security::StartTls(parameters) = &server.security {
        let encrypted = connection.starttls(parameters.clone(), &server.hello).await;
        encrypted.map_err(at(Asked::Encryption))?;
    }
    if let Some(credentials) = &server.credentials {
        connection.auth(MECHANISMS, credentials).await.map_err(at(Asked::Login))?;
    }
    Ok(connection)
}

async fn hand_over(connection: &mut AsyncSmtpConnection, letter: &Letter, dot: &Dot) -> Result<(), Wrong> {
    let at = |asked| move |error| Wrong::Error(asked, error);
    let options = options(connection, letter)?;
    let mail = Mail::new(letter.envelope.from().cloned(), options);
    connection.command(mail).await.map_err(at(Asked::Sender))?;
    for recipient in letter.envelope.to() {
        connection.command(Rcpt::new(recipient.clone(), vec![])).await.map_err(at(Asked::Recipient))?;
    }
    let go_on = connection.command(Data).await.map_err(at(Asked::Data))?;
    if severity(&go_on) != Severity::PositiveIntermediate {
        return Err(Wrong::Nonsense(Asked::Data));
    }
    // Asked for what follows the content, lettre has written all of it, and writes the dot next.
    let content = std::iter::once(letter.bytes.as_slice()).chain(std::iter::from_fn(|| {
        dot.write();
        None
    }));
    let has_it = connection.message_iter(content).await.map_err(at(Asked::Content))?;
    match severity(&has_it) {
        Severity::PositiveCompletion => Ok(()),
        _ => Err(Wrong::Nonsense(Asked::Content)),
    }
}

fn severity(response: &Response) -> Severity {
    response.code().severity
}

/// What the mail needs beyond ASCII.
fn options(connection: &AsyncSmtpConnection, letter: &Letter) -> Result<Vec<MailParameter>, Wrong> {
    let mut options = Vec::new();
    let offers = |extension| connection.server_info().supports_feature(extension);
    let addresses = letter.envelope.from().into_iter().chain(letter.envelope.to());
    if addresses.map(AsRef::<str>::as_ref).any(|address| !address.is_ascii()) {
        if !offers(Extension::SmtpUtfEight) {
            return Err(Wrong::CannotCarry("an address is not ASCII and the server does not offer SMTPUTF8"));
        }
        options.push(MailParameter::SmtpUtfEight);
    }
    if !letter.bytes.is_ascii() {
        if !offers(Extension::EightBitMime) {
            return Err(Wrong::CannotCarry("the mail is not ASCII and the server does not offer 8BITMIME"));
        }
        options.push(MailParameter::Body(MailBodyParameter::EightBitMime));
    }
    Ok(options)
}

/// `dot`: whether the final dot was written, or nearly.
fn meaning(wrong: &Wrong, dot: bool, if_lost: IfLost) -> Sending {
    let (asked, error) = match wrong {
        Wrong::CannotCarry(reason) => return Sending::Refused { reason: (*reason).into() },
        Wrong::Nonsense(asked) => (*asked, None),
        Wrong::Error(asked, error) => (*asked, Some(error)),
    };
    let Some(code) = error.and_then(Error::status) else {
        return match (dot, asked) {
            (true, _) => Sending::lost("the connection was lost behind the mail's end", if_lost),
            (false, Asked::Connection) => {
                Sending::NotYet { after: None, reason: "no connection: nothing was sent".into() }
            }
            (false, _) => Sending::Failed { reason: format!("lost while asking for {}", asked.name()) },
        };
    };
    let reason = format!("{code} in answer to {}", asked.name());
    let number = code.to_string();
    match code.severity {
        // It closes, or cannot take anybody's mail now.
        Severity::TransientNegativeCompletion if number == "421" || !asked.is_about_the_mail() => {
            Sending::NotYet { after: None, reason }
        }
        Severity::PermanentNegativeCompletion if asked.is_about_the_mail() => Sending::Refused { reason },
        _ => Sending::Failed { reason },
    }
}
