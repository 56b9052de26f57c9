//! A call of the store whose request is gone.

use std::mem;
use std::sync::Arc;

use portcullis_core::store::StoreFuture;
use portcullis_core::{StoreError, StoreErrorKind};

use super::attempt::delay_end;
use super::refunds::{Keep, Refunds};
use crate::decide::StoreCall;
use crate::engine::report;

impl Drop for StoreCall {
    fn drop(&mut self) {
        let Some(limits) = self.gives_up.take() else { return };
        let never_used = StoreFuture::ready(Err(StoreError::new(StoreErrorKind::Failed, "answered already")));
        let pending = mem::replace(&mut self.pending, never_used);
        let task_limits = Arc::clone(&limits);
        limits.detach(async move {
            let Ok(charged) = pending.await else { return };
            report::charged(&task_limits, charged.checks().iter().as_slice(), charged.decisions());
            drop(task_limits.engine().backlog.in_flight.hold(&task_limits, &charged));
            let slot_at = delay_end(charged.decision());
            Refunds::start(&task_limits, Some(&charged), slot_at, Keep::AllButSlots).await;
        });
    }
}
