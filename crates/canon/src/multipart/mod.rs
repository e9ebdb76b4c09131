//! Bodies of `multipart/form-data` (RFC 7578, RFC 2046), as they stream: the list of parts, each with its name, file
//! name, types and the digest of its content, which is hashed as it passes. Order counts. The boundary, the preamble,
//! the epilogue and other headers of parts do not.
//!
//! Malformed, and so compared as bytes, is whatever parsers are known to disagree about: no delimiter or no final one;
//! a line that begins like a delimiter and goes on; line ends that are not CRLF; a part without a name, or with one
//! header or parameter twice; a delimiter after the final one; a header block beyond
//! [`PART_HEADER_BYTES_MAX`](crate::limits::PART_HEADER_BYTES_MAX).

mod delimiter;
mod headers;

use sha2::{Digest, Sha256};

use crate::encode::{domain, put_length};
use crate::kind::is_boundary;
use crate::limits::PART_HEADER_BYTES_MAX;
use crate::select::Selection;
use delimiter::{Delimiter, Piece};
use headers::PartHeaders;

/// A multipart body being hashed.
#[derive(Debug)]
pub(crate) struct MultipartBody {
    parts: Sha256,
    delimiter: Delimiter,
    place: Place,
    /// The header block being read.
    block: Vec<u8>,
    ignore: Selection,
}

/// The body is malformed or beyond a limit.
#[derive(Debug)]
pub(crate) struct NotMultipart;

#[derive(Debug)]
enum Place {
    Preamble,
    /// Just after a delimiter.
    AfterDelimiter,
    /// After a delimiter and one hyphen.
    Hyphen,
    /// In the blanks after a delimiter, or after the final one.
    Padding(Last),
    /// After blanks and a carriage return.
    Return(Last),
    Headers,
    /// In a part; it is digested unless it is ignored.
    Content(Option<Box<Part>>),
    Epilogue,
}

#[derive(Debug)]
struct Part {
    headers: PartHeaders,
    content: Sha256,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Yes,
    No,
}

impl MultipartBody {
    /// `None` if RFC 2046 does not allow the boundary.
    pub(crate) fn new(boundary: &str, ignore: Selection) -> Option<Self> {
        is_boundary(boundary.as_bytes()).then(|| Self {
            parts: domain("multipart"),
            delimiter: Delimiter::new(boundary),
            place: Place::Preamble,
            block: Vec::new(),
            ignore,
        })
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) -> Result<(), NotMultipart> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let used = match self.place {
                Place::Preamble | Place::Content(_) | Place::Epilogue => self.text(rest)?,
                Place::Headers => self.header_byte(rest[0])?,
                _ => self.delimiter_line(rest[0])?,
            };
            rest = &rest[used..];
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<[u8; 32], NotMultipart> {
        match self.place {
            Place::Epilogue | Place::Padding(Last::Yes) => Ok(self.parts.finalize().into()),
            _ => Err(NotMultipart),
        }
    }

    /// Takes text that ends at a delimiter.
    fn text(&mut self, rest: &[u8]) -> Result<usize, NotMultipart> {
        let mut content = match &mut self.place {
            Place::Content(part) => part.as_mut().map(|part| &mut part.content),
            _ => None,
        };
        let piece = self.delimiter.feed(rest, |part| {
            if let Some(content) = &mut content {
                content.update(part);
            }
        });
        let used = match piece {
            Piece::Text => return Ok(rest.len()),
            Piece::Delimiter { used } => used,
        };
        match std::mem::replace(&mut self.place, Place::AfterDelimiter) {
            Place::Content(Some(part)) => self.end_part(*part),
            Place::Epilogue => return Err(NotMultipart),
            _ => {}
        }
        Ok(used)
    }

    fn end_part(&mut self, Part { headers, content }: Part) {
        let mut item = Vec::new();
        for field in headers.fields() {
            match field {
                None => item.push(0),
                Some(text) => {
                    item.push(1);
                    put_length(&mut item, text.len());
                    item.extend_from_slice(text);
                }
            }
        }
        item.extend_from_slice(&content.finalize());
        self.parts.update(item);
    }

    /// Takes a byte of what follows a delimiter on its line.
    fn delimiter_line(&mut self, byte: u8) -> Result<usize, NotMultipart> {
        self.place = match (&self.place, byte) {
            (Place::AfterDelimiter, b'-') => Place::Hyphen,
            (Place::AfterDelimiter, b' ' | b'\t') => Place::Padding(Last::No),
            (Place::AfterDelimiter, b'\r') => Place::Return(Last::No),
            (Place::Hyphen, b'-') => Place::Padding(Last::Yes),
            (Place::Padding(last), b' ' | b'\t') => Place::Padding(*last),
            (Place::Padding(last), b'\r') => Place::Return(*last),
            (Place::Return(Last::No), b'\n') => {
                self.block.clear();
                Place::Headers
            }
            (Place::Return(Last::Yes), b'\n') => {
                self.delimiter.at_line_start();
                Place::Epilogue
            }
            _ => return Err(NotMultipart),
        };
        Ok(1)
    }

    fn header_byte(&mut self, byte: u8) -> Result<usize, NotMultipart> {
        self.block.push(byte);
        if self.block.len() > PART_HEADER_BYTES_MAX {
            return Err(NotMultipart);
        }
        if self.block.ends_with(b"\r\n\r\n") {
            let headers = PartHeaders::parse(&self.block).ok_or(NotMultipart)?;
            let ignored = self.ignore.selects_name(headers.name());
            let part = (!ignored).then(|| Box::new(Part { headers, content: domain("part") }));
            self.place = Place::Content(part);
            // An empty content has its delimiter's line end in the header block.
            self.delimiter.at_line_start();
        }
        Ok(1)
    }
}
