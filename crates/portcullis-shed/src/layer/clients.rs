//! Options that keep single clients from taking all places.

use std::sync::Arc;

use portcullis_identity::KeyExtractor;
use portcullis_tower::BodyRate;

use super::ShedLayer;
use crate::config::Places;
use crate::error::ShedError;

impl ShedLayer {
    /// Shares the places in flight among callers while the limit is reached, so that one of them cannot take those of all others, as by uploads
    /// that it begins and does not finish.
    ///
    /// A caller that holds its share, a sixteenth of the limit and at least 4, gets a further place only while the limit is not reached. What it
    /// holds beyond its share does not count against others, up to what its class may use of the ceiling, of which the last share is for callers
    /// that hold less.
    ///
    /// The key determines the caller, such as [`ClientIp`](portcullis_tower::ClientIp), which has one share for an IPv6 network. Requests without an
    /// identity are one caller, and exempt ones have no share. Only callers with requests in flight are remembered. A request takes a lock
    /// and an allocation more; a layer without shares costs nothing more.
    ///
    /// ```
    /// use portcullis::{ClientIp, Limiter};
    ///
    /// let layer = Limiter::memory().shed(20..=1_000).share_per(ClientIp::peer());
    /// assert_eq!(layer.in_flight(), 0);
    /// ```
    ///
    /// # Panics
    ///
    /// If callers [can choose](KeyExtractor::is_chosen_by_client) the key, or all of them [share](KeyExtractor::is_shared) it.
    #[must_use]
    #[track_caller]
    pub fn share_per(self, key: impl KeyExtractor) -> Self {
        let is_shared = key.is_shared();
        let error = || ShedError::ShareKey { key: key.description().into_owned(), is_shared };
        assert!(!is_shared && !key.is_chosen_by_client(), "{}", error());
        self.with(|config| config.places = Some(Arc::new(Places::new(key))))
    }

    /// Sets the smallest rate at which the clients of requests in flight send their bodies, or `None` for any rate. A slower body ends with an
    /// error for its handler, which gives the place in flight back. By default 1 920 bytes in 30 s, which are 64 bytes per second, of the time
    /// in which a handler waits for the client. [`BodyRate`] has what is exempt.
    ///
    /// It applies to the body types of Axum and Tonic, and to `UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>`, which can have another body
    /// inside of them. A server with another type wraps its requests in front of the layer, by [`BodyRate::watch`].
    ///
    /// A layer in [shadow mode](Self::shadow) ends no body.
    ///
    /// ```
    /// use std::time::Duration;
    /// use portcullis::{BodyRate, Limiter};
    ///
    /// let layer = Limiter::memory().shed(10..=500).body_rate(BodyRate::new(10_000, Duration::from_secs(10)));
    /// assert_eq!(layer.in_flight(), 0);
    /// ```
    #[must_use]
    pub fn body_rate(self, rate: impl Into<Option<BodyRate>>) -> Self {
        let rate = rate.into();
        self.with(|config| config.body_rate = rate)
    }
}
