//! What policies that only watch would have done.

use portcullis_core::Decision;

/// What the [shadow](crate::RateLimitLayer::shadow) policies have to say about a request, in its extensions. With the
/// feature `axum` it is an extractor, empty where no shadow policy was asked.
///
/// Of layers inside each other, those of the outer layers come first. A shadow policy that does not count the request, or
/// cannot tell who is calling, is not in it.
///
/// It is all that a layer with only shadow policies leaves: no [`Charge`](crate::Charge) and no [`Decision`].
///
/// ```
/// # mod support { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support.rs")); }
/// use http::{Request, Response};
/// use portcullis_core::{Policy, Quota};
/// use portcullis_tower::{Global, LayerBuilder, Shadow};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let registry = support::registry();
/// let planned = Policy::fixed_window("planned", Quota::per_minute(1));
/// let service = LayerBuilder::new(registry, planned).by(Global).shadow().layer(service_fn(|request: Request<String>| async move {
///     let shadow = request.extensions().get::<Shadow>().expect("there is a shadow policy");
///     let status = if shadow.refusal().is_some() { 202 } else { 200 };
///     Response::builder().status(status).body(())
/// }));
/// assert_eq!(service.clone().oneshot(Request::new(String::new())).await?.status(), 200);
/// assert_eq!(service.oneshot(Request::new(String::new())).await?.status(), 202);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shadow {
    decisions: Vec<Decision>,
}

impl Shadow {
    /// What each shadow policy has to say, by itself: one that denies keeps no other from being charged.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The decisions that would have refused the request, were their policies enforced.
    pub fn refusals(&self) -> impl Iterator<Item = &Decision> {
        self.decisions.iter().filter(|decision| !decision.is_allowed())
    }

    /// Of these the one with the longest wait, if there is any.
    pub fn refusal(&self) -> Option<&Decision> {
        Decision::decisive(self.refusals())
    }

    pub(crate) fn push(&mut self, decision: Decision) {
        self.decisions.push(decision);
    }
}
