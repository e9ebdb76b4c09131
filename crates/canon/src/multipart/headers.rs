//! What of a part's headers counts: the name and file name of its `Content-Disposition`, its `Content-Type`, and its
//! `Content-Transfer-Encoding`, without which the content cannot be understood. Values keep their spelling, since
//! clients escape names in different ways (RFC 7578, section 4.2), except for what is known not to matter: quotes
//! around a parameter, letter case of a type, blanks around a value. Folded lines and duplicates are malformed.

use crate::media::{essence, is_token, parameters};

/// The headers of one part.
#[derive(Debug, Default)]
pub(crate) struct PartHeaders {
    name: Vec<u8>,
    file_name: Option<Vec<u8>>,
    /// `filename*` (RFC 8187), another notation that some receivers prefer.
    extended_file_name: Option<Vec<u8>>,
    content_type: Option<Vec<u8>>,
    transfer_encoding: Option<Vec<u8>>,
}

impl PartHeaders {
    /// Parses a header block with its final empty line; `None` if it is malformed or names no part.
    pub(crate) fn parse(block: &[u8]) -> Option<Self> {
        let mut headers = Self::default();
        let mut disposition = None;
        for line in lines(block.strip_suffix(b"\r\n\r\n")?) {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            if !is_token(name) || value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
                return None;
            }
            match name.to_ascii_lowercase().as_slice() {
                b"content-disposition" => set(&mut disposition, value.to_vec())?,
                b"content-type" => set(&mut headers.content_type, lower_essence(value))?,
                b"content-transfer-encoding" => {
                    set(&mut headers.transfer_encoding, value.to_ascii_lowercase())?;
                }
                _ => {}
            }
        }
        headers.read_disposition(&disposition?)?;
        Some(headers)
    }

    fn read_disposition(&mut self, value: &[u8]) -> Option<()> {
        if !essence(value).eq_ignore_ascii_case(b"form-data") {
            return None;
        }
        let mut name = None;
        for (parameter, value) in parameters(value)? {
            match parameter.to_ascii_lowercase().as_slice() {
                b"name" => set(&mut name, value.to_vec())?,
                b"filename" => set(&mut self.file_name, value.to_vec())?,
                b"filename*" => set(&mut self.extended_file_name, value.to_vec())?,
                _ => {}
            }
        }
        self.name = name?;
        Some(())
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// All that counts, in the order in which it is hashed.
    pub(crate) fn fields(&self) -> [Option<&[u8]>; 5] {
        [
            Some(&self.name),
            self.file_name.as_deref(),
            self.extended_file_name.as_deref(),
            self.content_type.as_deref(),
            self.transfer_encoding.as_deref(),
        ]
    }
}

/// Sets what must not be set twice.
fn set(place: &mut Option<Vec<u8>>, value: Vec<u8>) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(block);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.windows(2).position(|pair| pair == b"\r\n");
        rest = end.map(|end| &text[end + 2..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

fn lower_essence(value: &[u8]) -> Vec<u8> {
    let mut value = value.to_vec();
    let length = essence(&value).len();
    value[..length].make_ascii_lowercase();
    value
}
