//! A mail as the body of a message (`docs/messages.md`): what is asked for, not yet written as a mail. It is JSON, so
//! that an outbox can be filled from any language; a destination that speaks SMTP writes the mail.

use serde::{Deserialize, Serialize};

/// The media type of a message whose body is a [`Mail`].
pub const MEDIA_TYPE: &str = "application/json";

/// A mail. Mailboxes are written `ann@example.org` or `Ann <ann@example.org>`. It needs a recipient, and a text or
/// HTML.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mail {
    /// Who sends it; the destination's own sender where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// To whom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// Who else sees it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cc: Vec<String>,
    /// Who else gets it, unseen by the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bcc: Vec<String>,
    /// Who gets the answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// One line.
    pub subject: String,
    /// The plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// HTML, beside the text or in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
}

impl Mail {
    /// To one mailbox, still without a text.
    pub fn new(to: impl Into<String>, subject: impl Into<String>) -> Mail {
        Mail { to: vec![to.into()], subject: subject.into(), ..Mail::default() }
    }

    /// With this plain text.
    pub fn text(mut self, text: impl Into<String>) -> Mail {
        self.text = Some(text.into());
        self
    }

    /// With this HTML.
    pub fn html(mut self, html: impl Into<String>) -> Mail {
        self.html = Some(html.into());
        self
    }

    /// From this mailbox.
    pub fn from(mut self, mailbox: impl Into<String>) -> Mail {
        self.from = Some(mailbox.into());
        self
    }
}
