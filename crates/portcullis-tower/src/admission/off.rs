//! Limits that are switched off: every request passes, and nothing is counted.

use std::sync::Arc;
use std::time::SystemTime;

use http::Extensions;
use portcullis_core::Decision;

use crate::Charge;
use crate::charge::ChargeBasis;
use crate::config::LayerConfig;
use portcullis_engine::{EventKeys, Uncounted};

/// Admits a request without finding a key and without a call of the store. Its charge changes nothing.
pub(crate) fn admit(config: &Arc<LayerConfig>, extensions: &mut Extensions) {
    let mut enforced = config.policies().iter().filter(|limit| limit.is_enforced_for_some()).peekable();
    // A layer with shadow policies only leaves no charge where limits are on either.
    if config.leaves_charge() && enforced.peek().is_some() {
        let at = SystemTime::now().into();
        let decisions = enforced.map(|limit| Decision::not_asked(&limit.policy, at)).collect();
        let outer = extensions.remove::<Charge>();
        let charge = Charge::new(config, || ChargeBasis::Degraded(decisions), outer, None);
        drop(charge.leave_usage(extensions));
        extensions.insert(charge);
    }
    config.limits.emit_uncounted(Uncounted::Off, || EventKeys::None);
}
