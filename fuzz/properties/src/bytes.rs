//! Reads numbers from bytes.

/// Reads from the front. Missing bytes are zero.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Bytes<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }

    /// Any number, but often one near `here`, or a whole number of `steps` away from it.
    pub(crate) fn near(&mut self, here: u64, steps: u64) -> u64 {
        let (kind, some) = (self.byte(), self.u16());
        let grid = here - here % steps.max(1);
        match kind % 8 {
            0 => u64::from(some),
            1 => here.saturating_add(some.into()),
            2 => here.saturating_sub(some.into()),
            3 => grid.saturating_add(steps.saturating_mul(some.into())),
            4 => grid.saturating_sub(steps.saturating_mul(some.into())),
            5 => here
                .saturating_add(steps.saturating_mul((some % 8).into()))
                .saturating_sub((some >> 8).into()),
            6 => u64::MAX >> (some % 64),
            _ => self.u64(),
        }
    }
}
