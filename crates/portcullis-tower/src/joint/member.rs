//! A request of a call, and what it asks of its limits.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response};
use http_body_util::{Empty, Full};
use portcullis_core::Key;
use portcullis_core::store::{Check, Outcome};
use portcullis_engine::{Asked, EventKeys, Patience, PolicySet, Uncounted};

use super::JointRequest;
use crate::KeyError;
use crate::admission::plan::{self, Plan, PlannedRejection};
use crate::admission::{Decided, later};
use crate::config::{CurrentConfig, LayerConfig};
use crate::selected::{CurrentLayer, Selection, Target};

/// A request that its limits decide about.
pub(super) struct Member {
    /// Its place in the call.
    pub(super) number: usize,
    pub(super) config: Arc<LayerConfig>,
    pub(super) parts: Parts,
    pub(super) plan: Plan,
    pub(super) units: u64,
    /// What its enforced policies are asked.
    pub(super) asked: Vec<Asked>,
    header: Option<Box<(HeaderName, HeaderValue)>>,
}

impl Member {
    /// `None` if nothing limits the request.
    ///
    /// # Errors
    ///
    /// The response to a request that is rejected whatever its limits say, and the error if its key cannot be found.
    pub(super) async fn of(
        number: usize,
        request: JointRequest,
        is_trial: bool,
    ) -> Result<Option<Self>, (Option<KeyError>, Response<Full<Bytes>>)> {
        let JointRequest { selection: Selection { target, header }, parts, units } = request;
        let config = match target {
            Target::None => return Ok(None),
            Target::Refused(refusal) => return Err((None, refusal.response(&parts))),
            Target::Layer(CurrentLayer(config)) if config.registry.is_off() => {
                config.limits.emit_uncounted(Uncounted::Off, || EventKeys::None);
                return Ok(None);
            }
            Target::Layer(CurrentLayer(config)) if is_trial => Arc::new(config.in_trial()),
            Target::Layer(CurrentLayer(config)) => config,
        };
        let mut config = CurrentConfig::Changed(config);
        let awaited = config.for_caller(&parts);
        let plan = plan::of(&config, awaited, &parts, &Empty::<Bytes>::new());
        let error = match &plan.rejection {
            None => {
                let (config, asked) = (Arc::clone(&config), plan.ask.enforced().to_vec());
                return Ok(Some(Self { number, config, parts, plan, units, asked, header }));
            }
            Some(PlannedRejection::Denied) => None,
            Some(PlannedRejection::Identity(error) | PlannedRejection::LookUp(error)) => Some(error.clone()),
        };
        let plan = Box::new((plan, None));
        let Decided { result, .. } =
            later::decide(Arc::clone(&config), plan, parts, Patience::default()).await;
        match result {
            Ok(_) => Ok(None),
            Err(rejected) => Err((error, shown(rejected.response, header))),
        }
    }

    /// What an outcome says about this request.
    pub(super) fn own(&self, outcome: &Outcome) -> Option<Outcome> {
        let is_own = |check: &Check, asked: &Asked| {
            asked.key == check.key && asked.policy(&self.config.limits).name() == check.policy.name()
        };
        outcome.part(|check| self.asked.iter().any(|asked| is_own(check, asked)))
    }

    pub(super) fn checked(&self) -> PolicySet {
        PolicySet::of(self.asked.iter().map(|asked| asked.index))
    }

    /// The key of the fewest requests.
    pub(super) fn narrowest_key(&self) -> Option<Key> {
        let keys = self.asked.iter().map(|asked| asked.key).filter(|key| !key.is_shared());
        keys.max_by_key(Key::own_parts)
    }

    /// The response to this request, with the header of its selection.
    pub(super) fn response(&self, response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
        shown(response, self.header.clone())
    }
}

fn shown(
    mut response: Response<Full<Bytes>>,
    header: Option<Box<(HeaderName, HeaderValue)>>,
) -> Response<Full<Bytes>> {
    if let Some(header) = header {
        response.headers_mut().insert(header.0, header.1);
    }
    response
}
