//! Layers from configuration or input.

use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};
use std::time::Duration;

use portcullis_core::Mistakes;
use portcullis_response::internal::RetrySpread;
use portcullis_tower::internal::DISCARDED_BYTES;
use portcullis_tower::{BodyRate, Registry};

use super::ShedLayer;
use crate::MAX_LIMIT;
use crate::config::{Classes, ShedConfig};
use crate::error::ShedError;
use crate::limit::{Tolerance, WHOLE};
use crate::shared::Shared;

/// The limit of a layer, and what can be wrong with its options: the settings of [`ShedLayer::try_new`].
///
/// A range is the settings with this [`limit`](Self::limit) and the defaults.
///
/// ```
/// use portcullis::Limiter;
/// use portcullis::shed::ShedSettings;
///
/// let limiter = Limiter::memory();
/// assert_eq!(limiter.try_shed(10..=500)?.limit(), 10);
/// let wrong = ShedSettings { reserved_for_critical: 1.5, tolerated_latency: 1.0, ..ShedSettings::from(10..=500) };
/// let mistakes = limiter.try_shed(wrong).unwrap_err();
/// assert_eq!(mistakes.len(), 2);
/// # Ok::<(), portcullis::Mistakes<portcullis::shed::ShedError>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
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
}

impl From<RangeInclusive<usize>> for ShedSettings {
    fn from(limit: RangeInclusive<usize>) -> Self {
        Self {
            limit,
            reserved_for_critical: 0.2,
            reserved_from_background: 0.5,
            tolerated_latency: 2.0,
            retry_after: Duration::from_secs(1)..=Duration::from_secs(10),
        }
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
        let limit = range(settings.limit);
        let reserved = thousandths(settings.reserved_for_critical);
        let from_background = thousandths(settings.reserved_from_background);
        let (tolerance, waits) = (tolerance(settings.tolerated_latency), waits(settings.retry_after));
        let mistakes = [
            limit.as_ref().err(),
            reserved.as_ref().err(),
            from_background.as_ref().err(),
            tolerance.as_ref().err(),
            waits.as_ref().err(),
        ];
        Mistakes::none_or(mistakes.into_iter().flatten().cloned().collect(), ())?;
        let ((floor, ceiling), (shortest_wait, spread)) = (limit?, waits?);
        let config = ShedConfig {
            registry: Arc::clone(registry),
            shared: Arc::new(Shared::new(floor, ceiling)),
            responses: registry.default_responses(),
            classes: Classes::default(),
            except: Vec::new(),
            places: None,
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
