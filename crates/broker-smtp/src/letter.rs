//! What a message becomes: an envelope and the bytes of a mail.
//!
//! A body is a [`Mail`] as JSON, or a mail that was written elsewhere (`message/rfc822`), which goes out as it is.
//! Either way the Message-ID is the same in every sending.

use lettre::address::{Address, Envelope};
use lettre::message::{Mailbox, Mailboxes, MessageBuilder, MultiPart, SinglePart};
use onefold_messages::mail::{self, Mail};
use onefold_messages::{Message, wire};
use sha2::{Digest, Sha256};

use crate::raw;

/// Stands for the domain of a Message-ID where that of the sender is not ASCII (RFC 2606).
const NO_DOMAIN: &str = "mail.invalid";

pub(crate) struct Letter {
    pub(crate) envelope: Envelope,
    pub(crate) bytes: Vec<u8>,
}

/// The Message-ID of a mail: the same in every sending. `None`: it is no mail that could be sent.
pub(crate) fn id_of(message: &Message, sender: Option<&Mailbox>) -> Option<String> {
    let from = match media_type(message).as_str() {
        mail::MEDIA_TYPE => {
            let mail: Mail = serde_json::from_slice(&message.body).ok()?;
            mail.from.map_or_else(|| sender.cloned(), |from| mailbox(&from, "from").ok())?
        }
        "message/rfc822" => match raw::field(&message.body, "Message-ID") {
            Some(own) => return Some(own.trim().to_owned()),
            None => sender_of(&message.body, sender).ok()?,
        },
        _ => return None,
    };
    Some(message_id(message.id.as_str(), &from.email))
}

/// `sender` is whom the mail is from where it does not say so itself.
pub(crate) fn letter(message: &Message, sender: Option<&Mailbox>) -> Result<Letter, String> {
    match media_type(message).as_str() {
        mail::MEDIA_TYPE => written(message, sender),
        "message/rfc822" => as_it_is(message, sender),
        _ => Err(format!("the content-type is neither {} nor message/rfc822", mail::MEDIA_TYPE)),
    }
}

fn media_type(message: &Message) -> String {
    let line = wire::line(&message.headers, wire::CONTENT_TYPE).unwrap_or_default();
    line.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// A mail written from its parts.
fn written(message: &Message, sender: Option<&Mailbox>) -> Result<Letter, String> {
    // The error of the parser may quote the body.
    let mail: Mail = serde_json::from_slice(&message.body).map_err(|_| "the body is no mail".to_owned())?;
    let from = match (&mail.from, sender) {
        (Some(from), _) => mailbox(from, "from")?,
        (None, Some(sender)) => sender.clone(),
        (None, None) => return Err("the mail has no sender, and neither has its destination".into()),
    };
    let mut to = mailboxes(&mail.to, "to")?;
    if to.is_empty() && !message.address.trim().is_empty() {
        to = list(&message.address, "the address")?;
    }
    let (cc, bcc) = (mailboxes(&mail.cc, "cc")?, mailboxes(&mail.bcc, "bcc")?);
    let recipients = to.iter().chain(&cc).chain(&bcc).map(|mailbox| mailbox.email.clone()).collect();
    let envelope = envelope(&from.email, recipients)?;

    let builder = lettre::Message::builder()
        .message_id(Some(message_id(message.id.as_str(), &from.email)))
        .subject(&mail.subject)
        .envelope(envelope.clone());
    let builder = to.into_iter().fold(builder.from(from), MessageBuilder::to);
    let mut builder = cc.into_iter().fold(builder, MessageBuilder::cc);
    if let Some(reply_to) = &mail.reply_to {
        builder = builder.reply_to(mailbox(reply_to, "reply_to")?);
    }
    let built = match (mail.text, mail.html) {
        (Some(text), Some(html)) => builder.multipart(MultiPart::alternative_plain_html(text, html)),
        (Some(text), None) => builder.singlepart(SinglePart::plain(text)),
        (None, Some(html)) => builder.singlepart(SinglePart::html(html)),
        (None, None) => return Err("the mail has neither text nor html".into()),
    };
    let built = built.map_err(|_| "the mail cannot be written".to_owned())?;
    Ok(Letter { envelope, bytes: built.formatted() })
}

/// A mail that goes out as it is. Its recipients are the message's address, else those of its own fields.
fn as_it_is(message: &Message, sender: Option<&Mailbox>) -> Result<Letter, String> {
    let mail = &message.body;
    if !raw::has_head(mail) {
        return Err("the body is no mail: it does not begin with a field".into());
    }
    if raw::field(mail, "Bcc").is_some() {
        return Err("a field Bcc would be shown to everybody; put such recipients into the address".into());
    }
    let from = sender_of(mail, sender)?;
    let recipients = match message.address.trim() {
        "" => {
            let mut all = Vec::new();
            for name in ["To", "Cc"] {
                if let Some(field) = raw::field(mail, name) {
                    all.extend(list(&field, name)?);
                }
            }
            all
        }
        address => list(address, "the address")?,
    };
    let recipients = recipients.into_iter().map(|mailbox| mailbox.email).collect();
    let envelope = envelope(&from.email, recipients)?;
    let mut bytes = Vec::new();
    if raw::field(mail, "Message-ID").is_none() {
        bytes.extend(format!("Message-ID: {}\r\n", message_id(message.id.as_str(), &from.email)).bytes());
    }
    bytes.extend(raw::lines_ended(mail));
    Ok(Letter { envelope, bytes })
}

/// Whom a mail that was written elsewhere is from.
fn sender_of(mail: &[u8], sender: Option<&Mailbox>) -> Result<Mailbox, String> {
    let from = match (raw::field(mail, "Sender").or_else(|| raw::field(mail, "From")), sender) {
        (Some(from), _) => list(&from, "From")?.into_iter().next(),
        (None, sender) => sender.cloned(),
    };
    from.ok_or_else(|| "the mail has no sender, and neither has its destination".into())
}

/// The same in every sending: the message's id where it may stand in a Message-ID, else its digest.
fn message_id(id: &str, from: &Address) -> String {
    let atoms = id.split('.').all(|atom| {
        !atom.is_empty() && atom.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-+=".contains(&byte))
    });
    let left = match atoms {
        true => id.to_owned(),
        false => Sha256::digest(id.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let domain = Some(from.domain()).filter(|domain| domain.is_ascii()).unwrap_or(NO_DOMAIN);
    format!("<{left}@{domain}>")
}

fn envelope(from: &Address, recipients: Vec<Address>) -> Result<Envelope, String> {
    Envelope::new(Some(from.clone()), recipients).map_err(|_| "the mail has no recipient".into())
}

fn mailbox(text: &str, place: &str) -> Result<Mailbox, String> {
    text.parse().map_err(|_| format!("{place} is no mailbox"))
}

fn mailboxes(texts: &[String], place: &str) -> Result<Vec<Mailbox>, String> {
    texts.iter().map(|text| mailbox(text, place)).collect()
}

fn list(text: &str, place: &str) -> Result<Vec<Mailbox>, String> {
    let list: Mailboxes = text.parse().map_err(|_| format!("{place} is no list of mailboxes"))?;
    Ok(list.into_iter().collect())
}

#[cfg(test)]
mod tests;
