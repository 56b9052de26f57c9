//! Zstandard.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Frames of zstd, one after the other.
pub(super) struct Zstd<R> {
    input: R,
    decoder: FrameDecoder,
}

impl<R: BufRead> Zstd<R> {
    pub(super) fn new(input: R) -> io::Result<Self> {
        let mut decoder = FrameDecoder::new();
        // The decoder bounds the window of each frame but its first, which is this empty one.
        decoder.init(&EMPTY_FRAME[..]).map_err(io::Error::other)?;
        decoder.decode_blocks(&EMPTY_FRAME[6..], BlockDecodingStrategy::All).map_err(io::Error::other)?;
        Ok(Self { input, decoder })
    }

    /// Begins with the next frame. Returns whether there is one.
    fn next_frame(&mut self) -> io::Result<bool> {
        if let Some(stated) = self.decoder.get_checksum_from_data()
            && self.decoder.get_calculated_checksum() != Some(stated)
        {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum is another one"));
        }
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.input) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    if io::copy(&mut self.input.by_ref().take(length), &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(FrameDecoderError::WindowSizeTooBig { .. } | FrameDecoderError::FrameHeaderError(_)) => {
                    return Err(io::Error::new(io::ErrorKind::Unsupported, TOO_WIDE));
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.decoder.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            if self.decoder.is_finished() {
                if !self.next_frame()? {
                    return Ok(0);
                }
            } else {
                let most = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.input, most).map_err(io::Error::other)?;
            }
        }
    }
}

const TOO_WIDE: &str = "a frame of its zstd data has a window of more than 100 MiB: decompress it first, as by `zstd -dc --long=31 FILE | \
                        portcullis .. --log -`";

/// Of 0 bytes, with one block.
///
/// Source: RFC 8878, section 3.1.1.
const EMPTY_FRAME: [u8; 9] = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0];
