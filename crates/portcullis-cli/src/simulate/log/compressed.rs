//! Compressed logs, found by their first bytes.

mod zstd;

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

use zstd::Zstd;

/// A log in plain text, whatever it is compressed by.
///
/// It is decompressed as it is read, with at most 100 MiB of memory.
pub struct Plain<R> {
    text: Text<R>,
    position: Rc<Cell<u64>>,
}

enum Text<R> {
    Plain(Raw<R>),
    Gzip(BufReader<MultiGzDecoder<Raw<R>>>),
    Zstd(Box<BufReader<Zstd<Raw<R>>>>),
}

impl<R: BufRead> Plain<R> {
    /// Reads gzip and zstd by their first bytes, and anything else as text.
    ///
    /// # Errors
    ///
    /// If the input cannot be read, or is compressed by something else.
    pub fn new(mut input: R) -> io::Result<Self> {
        let mut first = Vec::new();
        input.by_ref().take(MAGIC).read_to_end(&mut first)?;
        for (magic, name, command) in OTHERS {
            if first.starts_with(magic) {
                let advice = format!(
                    "it is compressed by {name}: decompress it first, as by `{command} FILE | portcullis .. --log -`"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, advice));
            }
        }
        let position = Rc::<Cell<u64>>::default();
        let is_gzip = first.starts_with(b"\x1f\x8b");
        let is_zstd = matches!(*first, [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]);
        let raw = Raw { input: Cursor::new(first).chain(input), position: Rc::clone(&position) };
        let text = match (is_gzip, is_zstd) {
            (true, _) => Text::Gzip(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(raw))),
            (_, true) => Text::Zstd(Box::new(BufReader::with_capacity(BUFFER, Zstd::new(raw)?))),
            _ => Text::Plain(raw),
        };
        Ok(Self { text, position })
    }

    /// The bytes of the input that were read.
    pub fn position(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.position)
    }

    /// An error of a decoder says what is wrong, and where.
    fn placed(&self, name: &str, error: io::Error) -> io::Error {
        if error.kind() == io::ErrorKind::Unsupported {
            return error;
        }
        let what = if is_cut(&error) { "ends too early" } else { "is damaged" };
        let text = format!("the {name} data {what} at byte {} of the file: {error}", self.position.get());
        io::Error::new(error.kind(), text)
    }
}

fn is_cut(error: &io::Error) -> bool {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return true;
    }
    let mut source = error.get_ref().map(|error| error as &dyn std::error::Error);
    while let Some(error) = source {
        if error.downcast_ref().is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof)
        {
            return true;
        }
        source = error.source();
    }
    false
}

impl<R: BufRead> Read for Plain<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read_buffered(self, buffer)
    }
}

impl<R: BufRead> BufRead for Plain<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        // The buffer is borrowed again below, because an error needs the position.
        let filled = match &mut self.text {
            Text::Plain(_) => Ok(()),
            Text::Gzip(text) => text.fill_buf().map(drop).map_err(|error| ("gzip", error)),
            Text::Zstd(text) => text.fill_buf().map(drop).map_err(|error| ("zstd", error)),
        };
        filled.map_err(|(name, error)| self.placed(name, error))?;
        match &mut self.text {
            Text::Plain(text) => text.fill_buf(),
            Text::Gzip(text) => text.fill_buf(),
            Text::Zstd(text) => text.fill_buf(),
        }
    }

    fn consume(&mut self, count: usize) {
        match &mut self.text {
            Text::Plain(text) => text.consume(count),
            Text::Gzip(text) => text.consume(count),
            Text::Zstd(text) => text.consume(count),
        }
    }
}

impl<R> fmt::Debug for Plain<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plain").field("position", &self.position).finish_non_exhaustive()
    }
}

/// The input, which counts what is consumed.
struct Raw<R> {
    input: io::Chain<Cursor<Vec<u8>>, R>,
    position: Rc<Cell<u64>>,
}

impl<R: BufRead> Read for Raw<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read_buffered(self, buffer)
    }
}

impl<R: BufRead> BufRead for Raw<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.position.set(self.position.get() + count as u64);
        self.input.consume(count);
    }
}

fn read_buffered(input: &mut impl BufRead, buffer: &mut [u8]) -> io::Result<usize> {
    let filled = input.fill_buf()?;
    let count = filled.len().min(buffer.len());
    buffer[..count].copy_from_slice(&filled[..count]);
    input.consume(count);
    Ok(count)
}

/// The first bytes of what is not read, with a command that does.
const OTHERS: [(&[u8], &str, &str); 4] = [
    (b"BZh", "bzip2", "bzip2 -dc"),
    (b"\xfd7zXZ\0", "xz", "xz -dc"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -dc"),
    (b"PK\x03\x04", "zip", "unzip -p"),
];
/// The most of them.
const MAGIC: u64 = 6;
const BUFFER: usize = 1 << 18;
