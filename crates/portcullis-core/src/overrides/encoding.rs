//! The byte form of overrides.

use alloc::vec::Vec;
use core::time::Duration;

use super::span::Span;
use super::{Block, Grant, MAX_LENGTH, Override, SpanCount};
use crate::{Quota, QuotaError, Timestamp};

/// Why bytes are not the encoding of an [`Override`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeOverrideError {
    /// The first byte is that of no version of the encoding.
    #[error("byte 0x{0:02x} is no version of the encoding of an override")]
    Version(u8),
    /// The second byte names parts that do not exist.
    #[error("byte 0x{0:02x} names unknown parts of an override")]
    Parts(u8),
    /// There are fewer or more bytes than the parts take.
    #[error("{0} bytes are not as many as the parts of an override take")]
    Length(usize),
    /// A number is out of its range.
    #[error("{0} is out of the range of a number in an override")]
    Number(u64),
}

impl Override {
    /// The record as bytes, for stores that keep bytes: at most 106.
    ///
    /// The format is stable: a later version reads what an earlier one has written. The first byte is `0x21`, the version of the
    /// layout. The second is the sum of the parts. The numbers of each part follow, of 64 bits in big-endian order, in this order:
    ///
    /// | part | in the second byte | numbers |
    /// |---|---|---|
    /// | block | 1 | `until`, `length` |
    /// | grant | 2 | `until`, `length`, `limit`, `period`, `burst` (0 if there is none) |
    /// | denials | 4 | `until`, `length`, `count` |
    /// | strikes | 8 | `until`, `length`, `count` |
    ///
    /// Instants, lengths and periods are in microseconds, below 2^53. The limit of [`Quota::UNLIMITED`] is 10^15.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis::Timestamp;
    /// use portcullis::store::Override;
    ///
    /// let mut record = Override::NONE;
    /// record.set_block(Timestamp::EPOCH, Duration::from_secs(60));
    /// let bytes = record.encode();
    /// assert_eq!((&bytes[..2], bytes.len()), (&[0x21, 1][..], 18));
    /// assert_eq!(Override::decode(&bytes)?, record);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MAX_BYTES);
        let parts =
            [self.block.is_some(), self.grant.is_some(), self.denials.is_some(), self.strikes.is_some()];
        let bits = [BLOCK, GRANT, DENIALS, STRIKES];
        bytes.push(VERSION);
        bytes.push(parts.into_iter().zip(bits).fold(0, |sum, (has, bit)| if has { sum | bit } else { sum }));
        let mut put = |numbers: &[u64]| numbers.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
        if let Some(Block { span }) = self.block {
            put(&[span.until.as_micros(), span.micros]);
        }
        if let Some(Grant { quota, span }) = self.grant {
            let burst = quota.explicit_burst().unwrap_or(0);
            put(&[span.until.as_micros(), span.micros, quota.limit(), quota.period_micros(), burst]);
        }
        for SpanCount { count, span } in [self.denials, self.strikes].into_iter().flatten() {
            put(&[span.until.as_micros(), span.micros, count.into()]);
        }
        bytes
    }

    /// Reads what [`encode`](Override::encode) has written.
    ///
    /// # Errors
    ///
    /// If the bytes are not such an encoding.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeOverrideError> {
        let length = DecodeOverrideError::Length(bytes.len());
        let parts = match bytes {
            [] | [VERSION] => return Err(length),
            [VERSION, parts, ..] if *parts <= ALL => *parts,
            [VERSION, parts, ..] => return Err(DecodeOverrideError::Parts(*parts)),
            [version, ..] => return Err(DecodeOverrideError::Version(*version)),
        };
        let (words, rest) = bytes.get(2..).unwrap_or_default().as_chunks::<8>();
        let mut numbers = Numbers { words: words.iter(), error: length };
        let has = |bit| parts & bit != 0;
        let block = if has(BLOCK) { Some(Block { span: numbers.span()? }) } else { None };
        let grant = if has(GRANT) { Some(numbers.grant()?) } else { None };
        let denials = if has(DENIALS) { Some(numbers.counted()?) } else { None };
        let strikes = if has(STRIKES) { Some(numbers.counted()?) } else { None };
        if numbers.words.next().is_some() || !rest.is_empty() {
            return Err(length);
        }
        Ok(Self { block, grant, denials, strikes })
    }
}

/// The numbers of an encoding that are not read yet.
struct Numbers<'a> {
    words: core::slice::Iter<'a, [u8; 8]>,
    /// The error if fewer numbers are left than are read.
    error: DecodeOverrideError,
}

impl Numbers<'_> {
    fn next(&mut self) -> Result<u64, DecodeOverrideError> {
        self.words.next().map(|word| u64::from_be_bytes(*word)).ok_or(self.error)
    }

    fn at_most(&mut self, max: u64) -> Result<u64, DecodeOverrideError> {
        let number = self.next()?;
        if number > max { Err(DecodeOverrideError::Number(number)) } else { Ok(number) }
    }

    fn span(&mut self) -> Result<Span, DecodeOverrideError> {
        let until = Timestamp::from_micros(self.at_most(Timestamp::MAX.as_micros())?);
        Ok(Span { until, micros: self.at_most(crate::time::saturating_micros(MAX_LENGTH))? })
    }

    fn grant(&mut self) -> Result<Grant, DecodeOverrideError> {
        let span = self.span()?;
        let (limit, period, burst) = (self.next()?, self.next()?, self.next()?);
        let burst = (burst > 0).then_some(burst);
        if limit == Quota::UNLIMITED.limit() {
            return Ok(Grant { quota: Quota::UNLIMITED, span });
        }
        match Quota::new(limit, Duration::from_micros(period), burst) {
            Ok(quota) => Ok(Grant { quota, span }),
            Err(QuotaError::BurstOfZero { burst }) => Err(DecodeOverrideError::Number(burst)),
            Err(QuotaError::TooManyUnits { units }) => Err(DecodeOverrideError::Number(units)),
            Err(_) => Err(DecodeOverrideError::Number(period)),
        }
    }

    fn counted(&mut self) -> Result<SpanCount, DecodeOverrideError> {
        let span = self.span()?;
        let count = self.next()?;
        let count = u32::try_from(count).map_err(|_| DecodeOverrideError::Number(count))?;
        Ok(SpanCount { count, span })
    }
}

/// Not the first byte of a state.
const VERSION: u8 = 0x21;
const BLOCK: u8 = 1;
const GRANT: u8 = 2;
const DENIALS: u8 = 4;
const STRIKES: u8 = 8;
const ALL: u8 = BLOCK | GRANT | DENIALS | STRIKES;
/// Two bytes and the thirteen numbers of all parts.
const MAX_BYTES: usize = 106;
