//! The keys and policies of a run, the same in every process and in the checker.

use std::sync::OnceLock;
use std::time::Duration;

use portcullis_core::{
    CalendarWindow, Concurrency, FailureMode, Key, KeyWriter, Policy, Quota, Secret, SlidingWindow, Strategy,
    Timestamp, WindowTable,
};

/// A policy, named for what it tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// A meter with a burst, under far more load than it admits.
    Spaced,
    /// A token bucket with costs of one to three units.
    Bucket,
    /// A fixed window with a short period.
    Window,
    /// A sliding log.
    Log,
    /// A window that never fills or ends: it shows what the server has counted.
    Count,
    /// A meter without a burst, called by one client that stays below its rate.
    Slow,
    /// A token bucket of which every process has units in lease.
    Leased,
    /// A fixed window of which every process has units in lease.
    LeasedWindow,
    /// A sliding window of ten slots of which every process has units in lease.
    LeasedSliding,
    /// A meter of which every process has units in lease, and of which it enforces a share by itself while the servers fail.
    LeasedLocal,
    /// A meter under far more load than it admits, whose denials every process remembers.
    Remembered,
    /// A meter whose charges reserve slots beyond its burst, for requests that wait.
    Waiting,
    /// A window of a calendar that ends after the run, unless a clock is set.
    Calendar,
    /// Permits of requests in flight, under more load than there are permits.
    InFlight,
    /// A meter whose only client stays below its rate, and is blocked and unblocked.
    Blocked,
    /// A window that never ends, whose only client has its quota granted and revoked, and its state reset.
    Granted,
    /// A token bucket of which every process has units in lease, checked together with other policies.
    MixedBucket,
    /// A window that never fills or ends, of which every process has units in lease, checked together with other policies.
    MixedCount,
    /// A meter without a lease that is checked together with those two: a key of each caller, in the slot of theirs.
    MixedExact,
    /// A meter of which every process has units in lease, and of which it enforces a share by itself while the servers fail, checked
    /// together with another one.
    MixedLocal,
    /// The other one, without a lease: a key of each caller, in a slot of its own.
    MixedLocalExact,
    /// A token bucket of which every process has units in lease, checked together with another policy by callers that may go away.
    CancelledBucket,
    /// The other policy, a meter without a lease: a key of each caller, in a slot of its own.
    CancelledExact,
}

impl Family {
    /// The slots of the sliding window.
    pub(crate) const SLOTS: u32 = 10;

    /// All families, in the order of their codes.
    pub const ALL: [Self; 23] = [
        Self::Spaced,
        Self::Bucket,
        Self::Window,
        Self::Log,
        Self::Count,
        Self::Slow,
        Self::Leased,
        Self::LeasedWindow,
        Self::LeasedSliding,
        Self::LeasedLocal,
        Self::Remembered,
        Self::Waiting,
        Self::Calendar,
        Self::InFlight,
        Self::Blocked,
        Self::Granted,
        Self::MixedBucket,
        Self::MixedCount,
        Self::MixedExact,
        Self::MixedLocal,
        Self::MixedLocalExact,
        Self::CancelledBucket,
        Self::CancelledExact,
    ];

    /// The families that charge units and have neither leases nor overrides: the server decides every check by the charges alone.
    pub const EXACT: [Self; 10] = [
        Self::Spaced,
        Self::Bucket,
        Self::Window,
        Self::Log,
        Self::Count,
        Self::Slow,
        Self::Remembered,
        Self::Waiting,
        Self::Calendar,
        Self::MixedExact,
    ];

    /// The families with leases, one for each algorithm that can be leased.
    pub const LEASED: [Self; 4] = [Self::Leased, Self::LeasedWindow, Self::LeasedSliding, Self::LeasedLocal];

    /// The families of checks under several policies of which some are leased.
    pub const MIXED: [Self; 7] = [
        Self::MixedBucket,
        Self::MixedCount,
        Self::MixedExact,
        Self::MixedLocal,
        Self::MixedLocalExact,
        Self::CancelledBucket,
        Self::CancelledExact,
    ];

    /// The families of which a process enforces a share by itself while the servers fail.
    pub const LOCAL: [Self; 3] = [Self::LeasedLocal, Self::MixedLocal, Self::MixedLocalExact];

    /// The families without leases under more load than they admit.
    pub const BUSY: [Self; 6] =
        [Self::Spaced, Self::Bucket, Self::Window, Self::Log, Self::Waiting, Self::Calendar];

    /// The policy.
    #[expect(clippy::missing_panics_doc, reason = "all limits are in bounds")]
    pub fn policy(self) -> Policy {
        let quota = self.quota();
        match self {
            Self::Spaced => Policy::gcra("spaced", quota),
            Self::Bucket => Policy::token_bucket("bucket", quota),
            Self::Window => Policy::fixed_window("window", quota),
            Self::Log => Policy::sliding_log("log", quota),
            Self::Count => Policy::fixed_window("count", quota),
            Self::Slow => Policy::gcra("slow", quota),
            Self::Leased => Policy::token_bucket("leased", quota).lease(LEASE),
            Self::LeasedWindow => Policy::fixed_window("leased_window", quota).lease(LEASE),
            Self::LeasedSliding => {
                let window =
                    SlidingWindow::with_slots(quota, Self::SLOTS).expect("the slots divide the period");
                Policy::literal("leased_sliding", Strategy::SlidingWindow(window)).lease(LEASE)
            }
            Self::LeasedLocal => {
                Policy::gcra("leased_local", quota).lease(LEASE).on_store_failure(FailureMode::local(SHARES))
            }
            Self::Remembered => Policy::gcra("remembered", quota),
            Self::Waiting => Policy::gcra("waiting", quota).wait_at_most(LONGEST_WAIT),
            Self::InFlight => Concurrency::new("in_flight", quota.limit()).lease(quota.period()).policy(),
            Self::MixedBucket => Policy::token_bucket("mixed_bucket", quota).lease(LEASE),
            Self::MixedCount => Policy::fixed_window("mixed_count", quota).lease(LEASE),
            Self::MixedExact => Policy::gcra("mixed_exact", quota),
            Self::MixedLocal => {
                Policy::gcra("mixed_local", quota).lease(LEASE).on_store_failure(FailureMode::local(SHARES))
            }
            Self::MixedLocalExact => {
                Policy::gcra("mixed_local_exact", quota).on_store_failure(FailureMode::local(SHARES))
            }
            Self::CancelledBucket => Policy::token_bucket("cancelled_bucket", quota).lease(LEASE),
            Self::CancelledExact => Policy::gcra("cancelled_exact", quota),
            Self::Blocked => Policy::gcra("blocked", quota).allow_overrides(),
            Self::Granted => Policy::fixed_window("granted", quota).allow_overrides(),
            Self::Calendar => {
                let window = CalendarWindow::new(quota.limit(), calendar()).expect("the limit is in bounds");
                Policy::literal("calendar", Strategy::CalendarWindow(window))
            }
        }
    }

    /// The quota. The interval of a meter is whole microseconds, so that its figures show its exact state. For requests in flight it
    /// is the number of permits and the length of their lease.
    pub fn quota(self) -> Quota {
        match self {
            Self::Spaced | Self::Remembered | Self::MixedExact | Self::CancelledExact => {
                Quota::per_second(4).burst(5)
            }
            Self::Bucket => Quota::per_second(8).burst(12),
            Self::Window => WINDOW,
            Self::Log => LOG,
            Self::Count | Self::MixedCount => COUNT,
            Self::Slow | Self::Blocked => Quota::per_second(20),
            Self::Leased | Self::MixedBucket | Self::CancelledBucket => Quota::per_second(100).burst(50),
            Self::LeasedWindow | Self::LeasedSliding => LEASED_WINDOW,
            Self::LeasedLocal | Self::MixedLocal => Quota::per_second(200).burst(60),
            Self::MixedLocalExact => Quota::per_second(8).burst(16),
            Self::Waiting => Quota::per_second(8).burst(4),
            Self::Calendar => CALENDAR,
            Self::InFlight => IN_FLIGHT,
            Self::Granted => GRANTED,
        }
    }

    /// The highest cost of one check.
    pub fn max_cost(self) -> u64 {
        match self {
            Self::Bucket | Self::Waiting => 3,
            Self::InFlight | Self::Remembered | Self::MixedBucket => 2,
            Self::Log => 12,
            _ => 1,
        }
    }

    /// The emission interval in microseconds; `None` if the policy is not a meter.
    pub fn interval(self) -> Option<u64> {
        let is_meter = matches!(
            self,
            Self::Spaced
                | Self::Bucket
                | Self::Slow
                | Self::Leased
                | Self::LeasedLocal
                | Self::Remembered
                | Self::Waiting
                | Self::Blocked
                | Self::MixedBucket
                | Self::MixedExact
                | Self::MixedLocal
                | Self::MixedLocalExact
                | Self::CancelledBucket
                | Self::CancelledExact
        );
        is_meter.then(|| self.period() / self.quota().limit())
    }

    /// The period in microseconds.
    pub fn period(self) -> u64 {
        u64::try_from(self.quota().period().as_micros()).unwrap_or(u64::MAX)
    }

    /// The most units that can be admitted at one instant, including those that wait.
    pub fn capacity(self) -> u64 {
        let policy = self.policy();
        let waiting = match (policy.max_wait(), self.interval()) {
            (Some(wait), Some(interval)) => u64::try_from(wait.as_micros()).unwrap_or(u64::MAX) / interval,
            _ => 0,
        };
        policy.strategy().limit() + waiting
    }

    /// The most units that a process has in lease; 0 for a family without leases.
    pub fn max_lease(self) -> u64 {
        self.policy().max_lease().map_or(0, u64::from)
    }
}

/// A key under a policy. Keys rotate, so that the history of each is short enough to replay in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId {
    /// The number of rotations before this key.
    pub rotation: u32,
    /// The policy.
    pub family: Family,
    /// The caller.
    pub caller: u8,
}

impl KeyId {
    /// Encodes the id as a number.
    pub fn code(self) -> u32 {
        let family = Family::ALL.iter().position(|family| *family == self.family).unwrap_or_default();
        let family = u32::try_from(family).unwrap_or_default();
        (self.rotation << 13) | (family << 8) | u32::from(self.caller)
    }

    /// Decodes a number; `None` if it has no valid family.
    pub fn from_code(code: u32) -> Option<Self> {
        let family = *Family::ALL.get(usize::try_from((code >> 8) & 0x1f).ok()?)?;
        let caller = u8::try_from(code & 0xff).ok()?;
        Some(Self { rotation: code >> 13, family, caller })
    }

    /// The key that is charged. It depends on the caller and the rotation only, so it is the same under every policy, except that
    /// policies which are checked together have different keys in one slot.
    #[expect(clippy::missing_panics_doc, reason = "the text is short")]
    pub fn key(self) -> Key {
        let mut hasher = Secret::published().hasher();
        self.write(&mut hasher.writer());
        hasher.finish().expect("the text is short")
    }

    /// Writes the parts of the key.
    pub fn write(self, key: &mut KeyWriter<'_>) {
        let caller = format!("{}/{}", self.rotation, self.caller);
        match self.family {
            // The first part determines the slot.
            Family::MixedBucket | Family::MixedCount | Family::MixedExact => {
                key.part("tenant", self.rotation.to_string().as_bytes());
                key.part("caller", caller.as_bytes());
            }
            _ => key.part("caller", caller.as_bytes()),
        }
    }
}

const WINDOW: Quota = quota(10, Duration::from_secs(2));
/// A limit above 64: up to that the whole log is written at once.
const LOG: Quota = quota(80, Duration::from_secs(3));
const LEASED_WINDOW: Quota = quota(200, Duration::from_secs(2));
/// The units that a process may have in lease.
const LEASE: u64 = 10;
/// A process enforces one of this number of shares of the quota while the servers fail: more than there are processes, so that it
/// is less than its load.
const SHARES: u32 = 8;
/// Permits and their lease, which is short, because a run ends when the last of them has ended.
const IN_FLIGHT: Quota = quota(4, Duration::from_millis(1_500));
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// The window of the caller's clock or the next one has to be the server's, although the two differ by six hours in some runs.
const CALENDAR: Quota = quota(25, Duration::from_secs(16 * 3_600));
const COUNT: Quota = quota(1_000_000, Duration::from_secs(20 * 365 * 24 * 3_600));

const GRANTED: Quota = quota(40, Duration::from_secs(20 * 365 * 24 * 3_600));

const fn quota(limit: u64, period: Duration) -> Quota {
    match Quota::new(limit, period, None) {
        Ok(quota) => quota,
        Err(_) => panic!("a quota is out of bounds"),
    }
}

/// Windows of one period each, numbered from the epoch.
fn calendar() -> &'static WindowTable {
    static TABLE: OnceLock<WindowTable> = OnceLock::new();
    TABLE.get_or_init(|| {
        let period = Family::Calendar.period();
        let starts: Vec<Timestamp> =
            (0..WINDOWS).map(|index| Timestamp::from_micros((FIRST_WINDOW + index) * period)).collect();
        WindowTable::new("16 hours", FIRST_WINDOW, starts.leak()).expect("the windows are in order")
    })
}

/// The first window of the table begins in 2025, and the last one ends in 2062.
const FIRST_WINDOW: u64 = 30_200;
const WINDOWS: u64 = 20_000;

/// The period after which all callers switch to new keys.
pub const ROTATION_MICROS: u64 = 15_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_ids_round_trip_through_codes() {
        for family in Family::ALL {
            let key_id = KeyId { rotation: 41, family, caller: 7 };
            assert_eq!(KeyId::from_code(key_id.code()), Some(key_id));
        }
        assert_eq!(KeyId::from_code(0x1f00), None);
    }

    #[test]
    fn intervals_are_whole_microseconds() {
        for family in Family::ALL {
            if let Some(interval) = family.interval() {
                assert_eq!(interval * family.quota().limit(), family.period());
            }
        }
    }
}
