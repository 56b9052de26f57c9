//! Decodes a response while it passes.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;

use crate::scan::{MOST_RATIO, Scan, Unreadable};

/// Decodes what a scan reads.
#[derive(Debug)]
pub(crate) struct GzipScan(MultiGzDecoder<Decoded>);

/// Gets what is decoded.
#[derive(Debug)]
struct Decoded {
    scan: Scan,
    /// The compressed bytes, and those that were decoded of them.
    bytes: [u64; 2],
    unread: Option<Unreadable>,
}

impl GzipScan {
    pub(crate) fn new(scan: Scan) -> Self {
        Self(MultiGzDecoder::new(Decoded { scan, bytes: [0, 0], unread: None }))
    }

    pub(crate) fn scan(&self) -> &Scan {
        &self.0.get_ref().scan
    }

    /// # Errors
    ///
    /// If nothing more is read.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Unreadable> {
        let compressed = &mut self.0.get_mut().bytes[0];
        *compressed = compressed.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        // What is decoded stays in the decoder until it is flushed.
        let written = self.0.write_all(bytes).and_then(|()| self.0.flush());
        written.map_err(|_| self.0.get_ref().unread.unwrap_or(Unreadable::Damaged))
    }
}

impl Write for Decoded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let [compressed, decoded] = &mut self.bytes;
        *decoded = decoded.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let is_dense = *decoded > compressed.saturating_mul(MOST_RATIO).max(ALWAYS_DECODED);
        let read = if is_dense { Err(Unreadable::TooDense) } else { self.scan.push(bytes) };
        match read {
            Ok(()) => Ok(bytes.len()),
            Err(unread) => {
                self.unread = Some(unread);
                Err(io::ErrorKind::QuotaExceeded.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a decoder has room for at once is decoded in any case.
const ALWAYS_DECODED: u64 = 32 * 1_024;
