//! Media types and dispositions: `essence; name=value; …` (RFC 9110, section 5.6.6). Values keep their spelling:
//! a backslash inside quotes hides a quote and is itself kept, since clients disagree whether it escapes (RFC 7578,
//! section 4.2, WHATWG HTML). What does not follow the grammar is `None`, for the caller to treat as unknown.

/// The part before the first `;`, without blanks around it.
pub(crate) fn essence(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
    value[..end].trim_ascii()
}

/// The parameters, in order, with names as they are written.
pub(crate) fn parameters(value: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut found = Vec::new();
    let start = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
    let mut rest = &value[start..];
    loop {
        rest = rest.trim_ascii_start();
        match rest.split_first() {
            None => return Some(found),
            Some((b';', after)) => rest = after.trim_ascii_start(),
            Some(_) => return None,
        }
        if rest.is_empty() || rest.starts_with(b";") {
            continue;
        }
        let equals = rest.iter().position(|byte| *byte == b'=')?;
        let (name, after) = (&rest[..equals], &rest[equals + 1..]);
        let (content, length) = parameter_value(after)?;
        if !is_token(name) {
            return None;
        }
        found.push((name, content));
        rest = &after[length..];
    }
}

/// The content of a parameter's value and the length of its text.
fn parameter_value(text: &[u8]) -> Option<(&[u8], usize)> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let length = text.iter().position(|byte| *byte == b';').unwrap_or(text.len());
        let content = text[..length].trim_ascii_end();
        let plain = !content.is_empty() && !content.contains(&b'"') && !content.contains(&b' ');
        return plain.then_some((content, length));
    };
    let mut hidden = false;
    for (at, byte) in quoted.iter().enumerate() {
        match byte {
            _ if hidden => hidden = false,
            b'\\' => hidden = true,
            b'"' => return Some((&quoted[..at], at + 2)),
            _ => {}
        }
    }
    None
}

/// RFC 9110, section 5.6.2.
pub(crate) fn is_token(text: &[u8]) -> bool {
    let is_token_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_token_byte)
}
