//! A mail server as one text: `smtps://user:password@mail.example.org:465`.

use percent_encoding::percent_decode_str;
use url::Url;

use crate::{SetupError, SmtpSink};

impl SmtpSink {
    /// By a URL: `smtps://` is TLS from the first byte, `smtp+starttls://` is STARTTLS, `smtp://` is no encryption.
    /// User and password are percent-encoded; they go over TLS alone. Without a port it is the usual one.
    pub fn at(url: &str) -> Result<SmtpSink, SetupError> {
        let url = Url::parse(url).map_err(|_| SetupError::Address)?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(SetupError::Address)?;
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(SetupError::Address);
        }
        // An IPv6 address stands in brackets in a URL only.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let sink = match url.scheme() {
            "smtps" => SmtpSink::tls(host)?,
            "smtp+starttls" => SmtpSink::starttls(host)?,
            "smtp" => SmtpSink::unencrypted(host),
            _ => return Err(SetupError::Address),
        };
        let sink = match url.port() {
            Some(port) => sink.port(port),
            None => sink,
        };
        let text = |part: &str| {
            let decoded = percent_decode_str(part).decode_utf8();
            decoded.map(|text| text.into_owned()).map_err(|_| SetupError::Address)
        };
        match (url.username(), url.password()) {
            ("", None) => Ok(sink),
            (user, Some(password)) => sink.credentials(&text(user)?, &text(password)?),
            (_, None) => Err(SetupError::Address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        format!("{:?}", SmtpSink::at(url).unwrap())
    }

    #[test]
    fn address_says_host_port_and_encryption() {
        for (url, host, port) in [
            ("smtps://mail.example.org", "mail.example.org", 465),
            ("smtp+starttls://mail.example.org", "mail.example.org", 587),
            ("smtp://mail.example.org/", "mail.example.org", 25),
            ("smtp://127.0.0.1:2525", "127.0.0.1", 2525),
            ("smtps://shop:open%20sesame@[::1]:4650", "::1", 4650),
        ] {
            let shown = shown(url);
            assert!(shown.contains(&format!("host: {host:?}, port: {port},")), "{shown}");
            assert!(!shown.contains("sesame"), "{shown}");
        }
    }

    #[test]
    fn what_is_no_address_or_would_send_a_password_in_clear_is_refused() {
        for url in
            ["", "mail.example.org", "http://mail.example.org", "smtps://", "smtps://user@mail.example.org"]
        {
            assert!(matches!(SmtpSink::at(url), Err(SetupError::Address)), "{url}");
        }
        for url in ["smtps://mail.example.org/inbox", "smtp://mail.example.org?tls=required"] {
            assert!(matches!(SmtpSink::at(url), Err(SetupError::Address)), "{url}");
        }
        let clear = SmtpSink::at("smtp://shop:open%20sesame@mail.example.org");
        assert!(matches!(clear, Err(SetupError::CredentialsInClear)));
    }
}
