//! `lock_out`: when keys are blocked, and for how long.

use portcullis_core::overrides::{LockOut, LockOutError};

use super::Reader;
use crate::fields::Fields;

impl Reader<'_> {
    pub(super) fn lock_out(&self, fields: &mut Fields<'_>) -> Option<LockOut> {
        let mut fields = fields.table("lock_out")?;
        let before = self.findings.errors();
        let default = LockOut::after(1);
        let (usual, length) = (default.within_time(), default.length());
        let denials: Option<u32> = fields.read("after");
        fields.required("after", denials);
        let within = fields.duration("within");
        let block_for = fields.duration("block_for");
        let up_to = fields.duration("up_to");
        // Each field alone, so that all mistakes are found.
        let alone = |field: &str, lock_out: Option<Result<LockOut, LockOutError>>| {
            if let Some(Err(error)) = lock_out {
                fields.error(field, error.to_string());
            }
        };
        alone("after", denials.map(|denials| LockOut::new(denials, usual, length, length)));
        alone("within", within.map(|within| LockOut::new(1, within, length, length)));
        alone("block_for", block_for.map(|length| LockOut::new(1, usual, length, length)));
        alone("up_to", up_to.map(|longest| LockOut::new(1, usual, longest, longest)));
        let is_wrong = |field: &&str| self.findings.has_error_in(&fields.path(field));
        let is_length_known = !["block_for", "up_to"].iter().any(is_wrong);
        let length = block_for.unwrap_or(length);
        let longest = up_to.unwrap_or(length);
        if is_length_known {
            alone("up_to", Some(LockOut::new(1, usual, length, longest)));
        }
        fields.finish();
        if self.findings.errors() > before {
            return None;
        }
        LockOut::new(denials?, within.unwrap_or(usual), length, longest).ok()
    }
}
