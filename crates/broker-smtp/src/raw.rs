//! A mail that was written elsewhere (`message/rfc822`): what its head says, and its bytes made fit for SMTP.

/// The value of the first field of this name, unfolded. `None` where there is none, or it is no text.
pub(crate) fn field(mail: &[u8], name: &str) -> Option<String> {
    let mut value: Option<Vec<u8>> = None;
    for line in head(mail) {
        match &mut value {
            Some(value) if line.starts_with(b" ") || line.starts_with(b"\t") => value.extend(line),
            Some(_) => break,
            None => value = value_of(line, name).map(<[u8]>::to_vec),
        }
    }
    let value = String::from_utf8(value?).ok()?;
    Some(value.trim().to_owned())
}

/// The lines up to the empty one, without their ends.
fn head(mail: &[u8]) -> impl Iterator<Item = &[u8]> {
    mail.split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .take_while(|line| !line.is_empty())
}

fn value_of<'l>(line: &'l [u8], name: &str) -> Option<&'l [u8]> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    line[..colon].trim_ascii_end().eq_ignore_ascii_case(name.as_bytes()).then(|| &line[colon + 1..])
}

/// Whether the mail begins with a field: what does not has no head.
pub(crate) fn has_head(mail: &[u8]) -> bool {
    let first = head(mail).next().unwrap_or_default();
    let name = first.split(|byte| *byte == b':').next().unwrap_or_default();
    name.len() < first.len() && !name.is_empty() && name.iter().all(u8::is_ascii_graphic)
}

/// With every line ended by CR LF: a bare CR or LF could hide the end of the mail from one server and not from another.
pub(crate) fn lines_ended(mail: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(mail.len() + mail.len() / 32);
    let mut bytes = mail.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\r' => {
                bytes.next_if_eq(&b'\n');
                out.extend(b"\r\n");
            }
            b'\n' => out.extend(b"\r\n"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIL: &[u8] =
        b"From: Shop <shop@example.org>\r\nTO : ann@example.org,\r\n\tbob@example.org\r\n\r\nTo: eve@example.org\r\n";

    #[test]
    fn fields_are_unfolded_and_the_body_has_none() {
        assert_eq!(field(MAIL, "from").unwrap(), "Shop <shop@example.org>");
        assert_eq!(field(MAIL, "To").unwrap(), "ann@example.org,\tbob@example.org");
        assert_eq!(field(MAIL, "Cc"), None);
        assert_eq!(field(b"Subject: x\n\nBcc: hidden@example.org\n", "bcc"), None);
        assert!(has_head(MAIL) && !has_head(b"Hello\r\n") && !has_head(b"") && !has_head(b": x\r\n"));
    }

    #[test]
    fn every_line_end_becomes_one_and_nothing_else_changes() {
        assert_eq!(lines_ended(b"a\nb\r\nc\rd\n.\r.\n"), b"a\r\nb\r\nc\r\nd\r\n.\r\n.\r\n");
        assert_eq!(lines_ended(MAIL), MAIL);
        assert_eq!(lines_ended(b"\r\r\n\n"), b"\r\n\r\n\r\n");
    }
}
