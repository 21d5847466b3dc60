//! Cursor over the bytes of a pickle.

use crate::pickle::error::PickleError;

#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], PickleError> {
        let end = self.at.checked_add(count).ok_or(PickleError::CutOff)?;
        let taken = self.bytes.get(self.at..end).ok_or(PickleError::CutOff)?;
        self.at = end;
        Ok(taken)
    }

    /// A little-endian number of `width` bytes, at most 8.
    pub(super) fn number(&mut self, width: usize) -> Result<u64, PickleError> {
        let mut whole = [0; 8];
        whole[..width].copy_from_slice(self.take(width)?);
        Ok(u64::from_le_bytes(whole))
    }

    /// Bytes preceded by their count, a number of `width` bytes.
    pub(super) fn counted(&mut self, width: usize) -> Result<&'a [u8], PickleError> {
        let count = usize::try_from(self.number(width)?).map_err(|_| PickleError::CutOff)?;
        self.take(count)
    }

    /// Bytes up to the next newline, which is consumed.
    pub(super) fn line(&mut self) -> Result<&'a [u8], PickleError> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or(PickleError::CutOff)?;
        self.at += end + 1;
        Ok(&rest[..end])
    }

    pub(super) fn has(&self, count: u64) -> bool {
        count <= (self.bytes.len() - self.at) as u64
    }
}
