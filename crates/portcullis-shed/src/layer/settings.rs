//! Layers from configuration or input.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};
use std::time::Duration;

use portcullis_core::Mistakes;
use portcullis_identity::KeyExtractor;
use portcullis_response::internal::RetrySpread;
use portcullis_tower::internal::DISCARDED_BYTES;
use portcullis_tower::{BodyRate, Registry};

use super::ShedLayer;
use crate::MAX_LIMIT;
use crate::config::{Classes, Places, ShedConfig, WHOLE};
use crate::error::ShedError;
use crate::limit::Tolerance;
use crate::shared::Shared;

/// The limit of a layer, and what can be wrong with its options: the settings of [`ShedLayer::try_new`].
///
/// A range is the settings with this [`limit`](Self::limit) and the defaults.
///
/// ```
/// use std::sync::Arc;
/// use portcullis_core::Secret;
/// use portcullis_memory::MemoryStore;
/// use portcullis_shed::{ShedLayer, ShedSettings};
/// use portcullis_tower::Registry;
///
/// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
/// let settings = ShedSettings { reserved_for_critical: 0.3, ..ShedSettings::from(10..=500) };
/// assert_eq!(ShedLayer::try_new(&registry, settings)?.limit(), 10);
///
/// let wrong = ShedSettings { reserved_for_critical: 1.5, tolerated_latency: 1.0, ..ShedSettings::from(10..=500) };
/// let mistakes = ShedLayer::try_new(&registry, wrong).unwrap_err();
/// assert_eq!(
///     mistakes.to_string(),
///     "1.5 of a limit cannot be set aside: use a fraction from 0, and below 1; \
///      a latency of 1 times that without load cannot be tolerated: use a ratio from 1.1 to 10"
/// );
/// # Ok::<(), portcullis_core::Mistakes<portcullis_shed::ShedError>>(())
/// ```
#[derive(Clone)]
// Exhaustive: it is written with `..`.
pub struct ShedSettings {
    /// The range of the limit on requests in flight, within 1 and 1 000 000: [`ShedLayer::new`].
    pub limit: RangeInclusive<usize>,
    /// The fraction of the limit for critical requests, from 0 and below 1, by default 0.2: [`ShedLayer::reserve_for_critical`].
    pub reserved_for_critical: f64,
    /// The fraction of the limit that background requests may not fill, from 0 and below 1, by default 0.5:
    /// [`ShedLayer::reserve_from_background`].
    pub reserved_from_background: f64,
    /// The ratio of latency with load to that without, from 1.1 to 10, by default 2: [`ShedLayer::tolerate_latency`].
    pub tolerated_latency: f64,
    /// The shortest and the longest `Retry-After`, at most an hour apart, by default 1 s to 10 s: [`ShedLayer::retry_after`].
    pub retry_after: RangeInclusive<Duration>,
    /// The key of callers that share the places, which they cannot choose; by default none: [`ShedLayer::share_per`].
    pub share_per: Option<Arc<dyn KeyExtractor>>,
}

impl From<RangeInclusive<usize>> for ShedSettings {
    fn from(limit: RangeInclusive<usize>) -> Self {
        Self {
            limit,
            reserved_for_critical: 0.2,
            reserved_from_background: 0.5,
            tolerated_latency: 2.0,
            retry_after: Duration::from_secs(1)..=Duration::from_secs(10),
            share_per: None,
        }
    }
}

impl fmt::Debug for ShedSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShedSettings")
            .field("limit", &self.limit)
            .field("reserved_for_critical", &self.reserved_for_critical)
            .field("reserved_from_background", &self.reserved_from_background)
            .field("tolerated_latency", &self.tolerated_latency)
            .field("retry_after", &self.retry_after)
            .field("share_per", &self.share_per.as_ref().map(KeyExtractor::description))
            .finish()
    }
}

impl ShedLayer {
    /// Like [`new`](Self::new), for settings from configuration or input: it returns all their mistakes at once.
    ///
    /// # Errors
    ///
    /// If a field is not in the range that [`ShedSettings`] names.
    pub fn try_new(
        registry: &Arc<Registry>,
        settings: impl Into<ShedSettings>,
    ) -> Result<Self, Mistakes<ShedError>> {
        let settings = settings.into();
        let (limit, tolerance) = (range(settings.limit), tolerance(settings.tolerated_latency));
        let reserved = thousandths(settings.reserved_for_critical);
        let from_background = thousandths(settings.reserved_from_background);
        let (waits, places) = (waits(settings.retry_after), settings.share_per.map(places).transpose());
        let mistakes = [
            limit.as_ref().err(),
            reserved.as_ref().err(),
            from_background.as_ref().err(),
            tolerance.as_ref().err(),
            waits.as_ref().err(),
            places.as_ref().err(),
        ];
        Mistakes::none_or(mistakes.into_iter().flatten().cloned().collect(), ())?;
        let ((floor, ceiling), (shortest_wait, spread)) = (limit?, waits?);
        let config = ShedConfig {
            registry: Arc::clone(registry),
            shared: Arc::new(Shared::new(floor, ceiling)),
            responses: registry.default_responses(),
            classes: Classes::default(),
            except: Vec::new(),
            places: places?,
            reserved: reserved?,
            background: WHOLE - from_background?,
            tolerance: tolerance?,
            shortest_wait,
            discarded_bytes: DISCARDED_BYTES,
            body_rate: Some(BodyRate::default()),
            spread,
            overload_status: Arc::new(|_| false),
            until_head: false,
            leaves_permit: false,
            is_shadow: false,
        };
        let listed: Weak<Shared> = Arc::downgrade(&config.shared);
        registry.add_shed(listed);
        Ok(Self { config: Arc::new(config) })
    }
}

fn range(limit: RangeInclusive<usize>) -> Result<(u32, u32), ShedError> {
    let (floor, ceiling) = limit.into_inner();
    match (u32::try_from(floor), u32::try_from(ceiling)) {
        (Ok(least @ 1..), Ok(most)) if floor <= ceiling && ceiling <= MAX_LIMIT => Ok((least, most)),
        _ => Err(ShedError::Range { floor, ceiling }),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 999")]
pub(super) fn thousandths(share: f64) -> Result<u32, ShedError> {
    if (0.0..1.0).contains(&share) {
        Ok(((share * f64::from(WHOLE)).round() as u32).min(WHOLE - 1))
    } else {
        Err(ShedError::Share { share })
    }
}

pub(super) fn tolerance(ratio: f64) -> Result<Tolerance, ShedError> {
    Tolerance::new(ratio).ok_or(ShedError::Tolerance { ratio })
}

/// The shortest wait, and how far waits are spread beyond it.
pub(super) fn waits(waits: RangeInclusive<Duration>) -> Result<(Duration, RetrySpread), ShedError> {
    let (shortest, longest) = waits.into_inner();
    let spread = longest.checked_sub(shortest).ok_or(ShedError::RetryAfter { shortest, longest })?;
    Ok((shortest, RetrySpread::new(spread)?))
}

pub(super) fn places(key: impl KeyExtractor) -> Result<Arc<Places>, ShedError> {
    let is_shared = key.is_shared();
    if is_shared || key.is_chosen_by_client() {
        return Err(ShedError::ShareKey { key: key.description().into_owned(), is_shared });
    }
    Ok(Arc::new(Places::new(key)))
}
