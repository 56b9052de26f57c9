//! Rejections by a door, whatever the checks say.

use portcullis_core::Decision;

use super::Attempt;
use crate::Reason;
use crate::decide::Keep;
use crate::event::{EventKeys, EventKind};

impl Attempt {
    /// Rejects the request as limited, by these decisions, and refunds what it was charged.
    pub async fn refuse(&mut self, decisions: &[Decision]) {
        self.refund(Keep::Nothing).await;
        let kind = EventKind::Rejected { reason: Reason::Limited, decisions };
        self.limits.emit(kind, || EventKeys::found(self.keys()));
    }
}
