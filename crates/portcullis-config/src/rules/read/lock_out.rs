//! `lock_out`: when keys are blocked, and for how long.

use portcullis_core::overrides::LockOut;

use super::Reader;
use crate::fields::Fields;

impl Reader<'_> {
    pub(super) fn lock_out(&self, fields: &Fields<'_>) -> Option<LockOut> {
        let before = self.findings.errors();
        let fields = fields.table("lock_out")?;
        let usual = LockOut::after(1);
        let denials = fields.read("after");
        let within = fields.duration("within").unwrap_or(usual.within_time());
        let length = fields.duration("block_for").unwrap_or(usual.length());
        let longest = fields.duration("up_to").unwrap_or(length);
        let check = |field, denials, within, length, longest| {
            let lock_out = LockOut::new(denials, within, length, longest);
            lock_out.map_err(|error| fields.error(field, error.to_string())).ok()
        };
        // Each field alone, so that all mistakes are found.
        check("after", denials.unwrap_or(1), usual.within_time(), usual.length(), usual.length());
        check("within", 1, within, usual.length(), usual.length());
        check("block_for", 1, usual.within_time(), length, length);
        if fields.has("up_to") {
            check("up_to", 1, usual.within_time(), longest, longest);
        }
        let is_wrong = |field: &str| self.findings.has_error_in(&fields.path(field));
        if !is_wrong("block_for") && !is_wrong("up_to") {
            check("up_to", 1, usual.within_time(), length, longest);
        }
        LockOut::new(denials?, within, length, longest).ok().filter(|_| self.findings.errors() == before)
    }
}
