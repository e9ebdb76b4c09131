//! Length-prefixed parts, big-endian, in and out of bytes.

use super::CodecError;

/// Appends a part with its length in front.
pub(super) fn put(out: &mut Vec<u8>, part: &[u8]) {
    put_length(out, part.len());
    out.extend_from_slice(part);
}

/// Appends a length or a number of parts.
pub(super) fn put_length(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(&(length as u64).to_be_bytes());
}

/// Bytes that `put` adds to a part.
pub(super) const PREFIX: usize = 8;

/// Reads parts from the front of bytes.
pub(super) struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    /// The parts of a form of this version.
    pub(super) fn of_version(bytes: &'a [u8], version: u8) -> Result<Parts<'a>, CodecError> {
        match bytes.split_first() {
            None => Err(CodecError::Cut),
            Some((&found, rest)) if found == version => Ok(Parts(rest)),
            Some((&found, _)) => Err(CodecError::Version(found)),
        }
    }

    pub(super) fn byte(&mut self) -> Result<u8, CodecError> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn number(&mut self) -> Result<u16, CodecError> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    pub(super) fn part(&mut self) -> Result<&'a [u8], CodecError> {
        let length = self.length()?;
        self.take(length)
    }

    pub(super) fn text(&mut self) -> Result<String, CodecError> {
        let part = self.part()?;
        str::from_utf8(part).map(str::to_owned).map_err(|_| CodecError::Impossible("a text is not UTF-8"))
    }

    /// A number of parts. Each takes at least its prefix, so a number that cannot be true asks for no memory.
    pub(super) fn count(&mut self) -> Result<usize, CodecError> {
        let count = self.length()?;
        if count > self.0.len() / PREFIX { Err(CodecError::Cut) } else { Ok(count) }
    }

    /// The end, with nothing left over.
    pub(super) fn end(self) -> Result<(), CodecError> {
        if self.0.is_empty() { Ok(()) } else { Err(CodecError::LeftOver) }
    }

    fn length(&mut self) -> Result<usize, CodecError> {
        let bytes: [u8; PREFIX] = self.take(PREFIX)?.try_into().map_err(|_| CodecError::Cut)?;
        usize::try_from(u64::from_be_bytes(bytes)).map_err(|_| CodecError::Cut)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], CodecError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(CodecError::Cut)?;
        self.0 = rest;
        Ok(taken)
    }
}
