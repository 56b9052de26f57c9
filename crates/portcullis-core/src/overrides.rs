//! Overrides of single keys: grants of another quota, and blocks.
//!
//! An [`Override`] is a small record that a store keeps for one key under one policy, beside its state. Only the checks of a policy
//! that [reads overrides](crate::Policy::allow_overrides) look for it. Its parts, each with an end on the store's clock:
//!
//! - a [`Block`]: the key is denied until the end, and nothing is charged;
//! - a [`Grant`]: the key has another quota of the same period until the end;
//! - what a [`LockOut`] has counted: denials within a time, and strikes, which are earlier blocks and make the next one longer.
//!
//! **Precedence.** A block comes before a grant, and a grant before the quota of the check. A peek (a check of cost 0) is denied by a
//! block as well: a policy that peeks first and charges later must not let a blocked key in. Refunds and settlements correct
//! what was charged, and do not read blocks.
//!
//! A [reset](crate::store::Store::reset) removes the state of a key and keeps its override.
//!
//! All functions are pure: a store loads a record, changes it, and writes it with its [expiry](Override::expires_at), at and after
//! which it decides like none.
//!
//! ```
//! use core::time::Duration;
//! use portcullis_core::overrides::{Effect, Override};
//! use portcullis_core::{Policy, Quota, Timestamp};
//!
//! let api = Policy::gcra("api", Quota::per_second(10)).allow_overrides();
//! let (now, hour) = (Timestamp::EPOCH, Duration::from_secs(3_600));
//! let mut record = Override::NONE;
//! record.set_grant(now, Some((Quota::per_second(100), 2 * hour)));
//! record.set_block(now, hour);
//! assert_eq!(record.effect(&api, now), Effect::Blocked(hour));
//!
//! let Effect::Granted(granted, _) = record.effect(&api, now.saturating_add(hour)) else { panic!("the block has ended") };
//! assert_eq!(granted.strategy(), Policy::gcra("api", Quota::per_second(100)).strategy());
//! assert_eq!(record.effect(&api, record.expires_at()), Effect::None);
//! ```

mod clients;
mod encoding;
mod error;
mod lock_out;
mod span;

use core::time::Duration;

use crate::{Policy, Quota, Timestamp};

pub use crate::policy::GrantedQuotaError;
pub use clients::{BlockedClients, ClientChange, validate_client};
pub use encoding::DecodeOverrideError;
pub use error::{MAX_LENGTH, OverrideError, validate_block, validate_grant, validate_policy};
pub use lock_out::{LockOut, LockOutError};

use span::Span;

/// What overrides the quota of one key under one policy: a block comes before a grant, and a grant before the quota of the check. A
/// [reset](crate::store::Store::reset) of the key keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Override {
    block: Option<Block>,
    grant: Option<Grant>,
    denials: Option<SpanCount>,
    strikes: Option<SpanCount>,
}

/// A key is denied until an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    span: Span,
}

/// A key has another quota until an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    quota: Quota,
    span: Span,
}

/// A number that is forgotten at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SpanCount {
    count: u32,
    span: Span,
}

/// What an override does to a check.
#[derive(Clone, Debug, PartialEq, Eq)]
// Exhaustive: a store handles each effect.
pub enum Effect {
    /// The check is decided under its own policy.
    None,
    /// The check is denied, for this long.
    Blocked(Duration),
    /// The check is decided under this policy, which has the quota of the grant.
    Granted(Policy, Grant),
}

impl Override {
    /// No override.
    pub const NONE: Self = Self { block: None, grant: None, denials: None, strikes: None };

    /// The block, which may have ended.
    pub const fn block(&self) -> Option<Block> {
        self.block
    }

    /// The grant, which may have ended.
    pub const fn grant(&self) -> Option<Grant> {
        self.grant
    }

    /// The denials that a [`LockOut`] has counted since its time began; 0 if it has ended at `now`.
    pub fn denials(&self, now: Timestamp) -> u32 {
        count_at(self.denials, now)
    }

    /// How often the key was blocked by a [`LockOut`]; 0 if that is forgotten at `now`.
    pub fn strikes(&self, now: Timestamp) -> u32 {
        count_at(self.strikes, now)
    }

    /// Whether the record has no part, so that it need not be kept.
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// The instant at and after which the record decides like none: the latest end of its parts, the epoch without parts.
    pub fn expires_at(&self) -> Timestamp {
        self.spans().map(|span| span.until).max().unwrap_or(Timestamp::EPOCH)
    }

    /// The end of the block at `now`; `None` if the key is not blocked. It is never later than the block is long, even if the
    /// clock was set back.
    pub fn block_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.block.and_then(|block| block.span.left(now)).map(|left| now.saturating_add(left))
    }

    /// What the record does to a check under `policy` at `now`. A block comes before a grant.
    ///
    /// A grant that does not fit the policy, whose period may have changed since, has no effect. Whether the policy
    /// [reads overrides](Policy::reads_overrides) is for the caller to look at.
    pub fn effect(&self, policy: &Policy, now: Timestamp) -> Effect {
        if let Some(left) = self.block.and_then(|block| block.span.left(now)) {
            return Effect::Blocked(left);
        }
        let live = self.grant.filter(|grant| grant.span.left(now).is_some());
        match live.and_then(|grant| Some((policy.granted(grant.quota).ok()?, grant))) {
            Some((policy, grant)) => Effect::Granted(policy, grant),
            None => Effect::None,
        }
    }

    /// Gives the key another quota from `now` on for a length of time, or its own again (`None`).
    ///
    /// Neither is checked. The length is rounded down to a microsecond and cut to 2^51 of them.
    pub fn set_grant(&mut self, now: Timestamp, grant: Option<(Quota, Duration)>) {
        self.drop_ended(now);
        self.grant = grant.map(|(quota, length)| Grant { quota, span: Span::new(now, length) });
    }

    /// Blocks the key from `now` on for a length of time, which replaces that of a block before.
    ///
    /// It is not checked. The length is rounded down to a microsecond and cut to 2^51 of them.
    pub fn set_block(&mut self, now: Timestamp, length: Duration) {
        self.drop_ended(now);
        self.block = Some(Block { span: Span::new(now, length) });
    }

    /// Ends the block and forgets denials and strikes, so that a [`LockOut`] begins anew. The grant stays.
    pub fn unblock(&mut self) {
        *self = Self { grant: self.grant, ..Self::NONE };
    }

    /// Counts `denials` of the key at `now`. Returns the block that begins with them, if they reach the number of the lock-out
    /// within its time.
    ///
    /// The time begins with the first denial that is counted. The first block is as long as the lock-out states, and each further
    /// one twice as long as the one before, up to the longest. Strikes are forgotten when the longest time has passed since the
    /// end of the last block. Nothing is counted while the key is blocked.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis::Timestamp;
    /// use portcullis::layer::LockOut;
    /// use portcullis::store::Override;
    ///
    /// let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    /// let lock_out = LockOut::after(20).within(minutes(1)).block_for(minutes(10)).up_to(minutes(60));
    /// let (mut record, mut now) = (Override::NONE, Timestamp::EPOCH);
    /// assert_eq!(record.record_denials(now, 19, &lock_out), None);
    /// let first = record.record_denials(now, 1, &lock_out).expect("20 denials within a minute");
    /// assert_eq!(first.length(), minutes(10));
    ///
    /// now = first.until();
    /// let second = record.record_denials(now, 20, &lock_out).expect("20 denials at once");
    /// assert_eq!((second.length(), record.strikes(now)), (minutes(20), 2));
    /// ```
    pub fn record_denials(&mut self, now: Timestamp, denials: u32, lock_out: &LockOut) -> Option<Block> {
        self.drop_ended(now);
        if self.block.is_some() || denials == 0 {
            return None;
        }
        // The time that has begun keeps its beginning if the lock-out has changed since.
        let begun =
            self.denials.filter(|counted| now < counted.span.start().saturating_add(lock_out.within_time()));
        let (before, start) = begun.map_or((0, now), |counted| (counted.count, counted.span.start()));
        let count = before.saturating_add(denials);
        if count < lock_out.denials() {
            self.denials = Some(SpanCount { count, span: Span::new(start, lock_out.within_time()) });
            return None;
        }
        let strikes = self.strikes.map_or(0, |counted| counted.count);
        let block = Block { span: Span::new(now, lock_out.length_after(strikes)) };
        let memory = block.length().saturating_add(lock_out.longest());
        self.block = Some(block);
        self.denials = None;
        self.strikes = Some(SpanCount { count: strikes.saturating_add(1), span: Span::new(now, memory) });
        Some(block)
    }

    /// Cuts the ends that are further from `now` than their parts are long, because the clock was set back. Returns whether the record
    /// has changed, so that it has to be written: without that, a part would last until the clock is where it was.
    pub fn repair(&mut self, now: Timestamp) -> bool {
        let cut = self.spans_mut().map(|span| span.cut(now)).filter(|is_cut| *is_cut);
        cut.count() > 0
    }

    /// Cuts the ends as [`repair`](Self::repair) does, and drops the parts that have ended.
    fn drop_ended(&mut self, now: Timestamp) {
        self.repair(now);
        self.block.take_if(|block| block.span.left(now).is_none());
        self.grant.take_if(|grant| grant.span.left(now).is_none());
        self.denials.take_if(|counted| counted.span.left(now).is_none());
        self.strikes.take_if(|counted| counted.span.left(now).is_none());
    }

    fn spans(&self) -> impl Iterator<Item = Span> {
        let block = self.block.map(|block| block.span);
        let grant = self.grant.map(|grant| grant.span);
        let counted = [self.denials, self.strikes].into_iter().flatten().map(|counted| counted.span);
        block.into_iter().chain(grant).chain(counted)
    }

    fn spans_mut(&mut self) -> impl Iterator<Item = &mut Span> {
        let block = self.block.as_mut().map(|block| &mut block.span);
        let grant = self.grant.as_mut().map(|grant| &mut grant.span);
        let counted =
            [&mut self.denials, &mut self.strikes].into_iter().flatten().map(|counted| &mut counted.span);
        block.into_iter().chain(grant).chain(counted)
    }
}

impl Block {
    /// The end, on the store's clock.
    pub const fn until(&self) -> Timestamp {
        self.span.until
    }

    /// The length; whole microseconds.
    pub const fn length(&self) -> Duration {
        self.span.length()
    }
}

impl Grant {
    /// The quota that the key has.
    pub const fn quota(&self) -> Quota {
        self.quota
    }

    /// The end, on the store's clock.
    pub const fn until(&self) -> Timestamp {
        self.span.until
    }

    /// The length; whole microseconds.
    pub const fn length(&self) -> Duration {
        self.span.length()
    }

    /// How long the grant still applies at `now`; `None` if it has ended.
    pub fn left(&self, now: Timestamp) -> Option<Duration> {
        self.span.left(now)
    }
}

fn count_at(counted: Option<SpanCount>, now: Timestamp) -> u32 {
    counted.filter(|counted| counted.span.left(now).is_some()).map_or(0, |counted| counted.count)
}

#[cfg(test)]
mod tests;
