//! Everything that was ever charged to one key under one policy.

use std::time::Duration;

use portcullis_core::{Report, Timestamp};

use super::meter::MeterLog;
use super::windows::WindowLog;
use super::{Kind, Model};

#[derive(Clone, Debug)]
pub(super) enum Ledger {
    Meter(MeterLog),
    Windows(WindowLog),
}

impl Ledger {
    pub(super) fn new(model: Model) -> Self {
        match model.kind {
            Kind::Meter => Self::Meter(MeterLog::new(model)),
            Kind::Windows(anchor) => Self::Windows(WindowLog::new(model, anchor)),
        }
    }

    /// Whether `cost` fits at `now`.
    pub(super) fn fits(&self, now: Timestamp, cost: u32) -> bool {
        cost == 0
            || match self {
                Self::Meter(log) => log.fits(now, cost),
                Self::Windows(log) => log.fits(now, cost),
            }
    }

    pub(super) fn charge(&mut self, now: Timestamp, cost: u32) {
        match self {
            Self::Meter(log) => log.charge(now, cost),
            Self::Windows(log) => log.charge(now, cost),
        }
    }

    pub(super) fn refund(&mut self, now: Timestamp, charged_at: Timestamp, cost: u32) {
        match self {
            Self::Meter(log) => log.refund(now, cost),
            Self::Windows(log) => log.refund(now, charged_at, cost),
        }
    }

    /// Charges whether it fits or not, and returns what the end of the debt left out.
    pub(super) fn force(&mut self, now: Timestamp, cost: u32) -> u32 {
        match self {
            Self::Meter(log) => log.force(now, cost),
            Self::Windows(log) => log.force(now, cost),
        }
    }

    pub(super) fn report(&self, now: Timestamp, cost: u32, admitted: bool) -> Report {
        match self {
            Self::Meter(log) => log.report(now, cost, admitted),
            Self::Windows(log) => log.report(now, cost, admitted),
        }
    }
}

/// The smallest wait in whole microseconds, where `wait` claims to be it: it must do, and a microsecond less must not.
pub(super) fn smallest(wait: u64, does: impl Fn(u64) -> bool) -> Duration {
    assert!(does(wait), "{wait} us is not enough");
    assert!(wait == 0 || !does(wait - 1), "{wait} us is more than is needed");
    Duration::from_micros(wait)
}
