//! What shadow policies have decided, for the inner service.

use std::fmt;
use std::sync::Arc;

use portcullis_core::{Decision, PolicyName};

use portcullis_engine::Limits;

/// The decisions of the [shadow](crate::Limit::shadow) policies about a request, in its extensions. With the
/// feature `axum` it is an extractor, empty where no shadow policy was checked.
///
/// With nested layers, the decisions of the outer layers come first. A shadow policy that does not count the request, or finds
/// no identity, is not included.
///
/// A layer with only shadow policies inserts nothing else: no [`Charge`](crate::Charge).
///
/// ```
/// use http::{Request, Response};
/// use portcullis::key::Global;
/// use portcullis::testing::{self, ManualClock};
/// use portcullis::{Policy, PolicyExt as _, Quota, Shadow};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let planned = Policy::fixed_window("planned", Quota::per_minute(1));
/// let layer = testing::limiter(&ManualClock::default()).layer(planned.by(Global).shadow());
/// let service = layer.layer(service_fn(|request: Request<String>| async move {
///     let shadow = request.extensions().get::<Shadow>().expect("there is a shadow policy");
///     let status = if shadow.denial().is_some() { 202 } else { 200 };
///     Response::builder().status(status).body(())
/// }));
/// assert_eq!(service.clone().oneshot(Request::new(String::new())).await?.status(), 200);
/// assert_eq!(service.oneshot(Request::new(String::new())).await?.status(), 202);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Shadow {
    decisions: Vec<Decision>,
    /// The limits of each decision.
    decided_by: Vec<Arc<Limits>>,
}

impl Shadow {
    /// Returns the decision of each shadow policy. They are independent: a denial does not prevent charges under the others.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// Returns the decisions that would have rejected the request if their policies were enforced.
    pub fn denials(&self) -> impl Iterator<Item = &Decision> {
        self.decisions.iter().filter(|decision| !decision.is_allowed())
    }

    /// Returns the [denial](Self::denials) with the longest wait.
    pub fn denial(&self) -> Option<&Decision> {
        Decision::decisive(self.denials())
    }

    pub(crate) fn add(&mut self, limits: &Arc<Limits>, decisions: Vec<Decision>) {
        self.decided_by.extend(decisions.iter().map(|_| Arc::clone(limits)));
        self.decisions.extend(decisions);
    }

    /// Whether a layer of the same limiter has tried a policy out for the request.
    pub(crate) fn includes(&self, limits: &Limits, policy: &PolicyName) -> bool {
        let mut decisions = self.decisions.iter().zip(&self.decided_by);
        decisions.any(|(decision, by)| decision.policy() == policy && by.shares_engine(limits))
    }
}

impl PartialEq for Shadow {
    fn eq(&self, other: &Self) -> bool {
        self.decisions == other.decisions
    }
}

impl Eq for Shadow {}

impl fmt::Debug for Shadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow").field("decisions", &self.decisions).finish_non_exhaustive()
    }
}
