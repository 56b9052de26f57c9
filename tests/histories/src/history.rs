//! The record of one operation as its caller observed it.

mod call;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use portcullis_core::store::Position;
use portcullis_core::{Decision, Retry, StoreErrorKind};
use rustix::time::{ClockId, clock_gettime};

use super::KeyId;

pub use call::{Call, Correction};

/// One operation on one key. All times are of the monotonic clock that the processes of a machine share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// The calling process; not part of the line, because each process has its own file.
    pub process: u16,
    /// The key and its policy.
    pub key_id: KeyId,
    /// The requested operation.
    pub call: Call,
    /// Just before the call, in microseconds.
    pub invoked: u64,
    /// Just after the call returned, in microseconds.
    pub completed: u64,
    /// The result.
    pub outcome: Outcome,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The store returned a decision.
    Answered(Answer),
    /// The store has done a call without a decision. The number of permits that a renewal has found.
    Done(u64),
    /// The store reports that nothing was charged.
    NotDone(Failure),
    /// The store cannot tell whether the call ran.
    Unknown(Failure),
}

/// The figures of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The instant on the store's clock, in microseconds.
    pub at: u64,
    /// Whether the cost was charged: it fitted, and so did all checks of the same call. Always true for a correction.
    pub charged: bool,
    /// What has answered.
    pub by: AnsweredBy,
    /// See [`Decision::is_blocked`].
    pub blocked: bool,
    /// The position of the charge of a check; zero if nothing was charged.
    pub position: Position,
    /// Units of a settlement that were not charged because the debt has a limit.
    pub uncharged: u64,
    /// See [`Decision::delay`], in microseconds; `None` if a decision of the same call may have replaced it.
    pub delay: Option<u64>,
    /// When to try again, if the cost did not fit.
    pub retry: Option<Retry>,
    /// See [`Decision::limit`].
    pub limit: u64,
    /// See [`Decision::remaining`].
    pub remaining: u64,
    /// See [`Decision::reset_after`], in microseconds.
    pub reset_after: u64,
    /// See [`Decision::next_after`], in microseconds.
    pub next_after: u64,
}

/// What has answered a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredBy {
    /// A server.
    Server,
    /// The process, which has paid the cost from a lease.
    Lease,
    /// The process, which has repeated a denial.
    DenialMemory,
    /// The process, while the servers fail. See [`Decision::is_degraded`].
    Fallback,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// [`StoreErrorKind::Unavailable`].
    Unavailable,
    /// [`StoreErrorKind::TimedOut`].
    TimedOut,
    /// [`StoreErrorKind::Overtaken`].
    Overtaken,
    /// [`StoreErrorKind::Overloaded`].
    Overloaded,
    /// [`StoreErrorKind::Forbidden`].
    Forbidden,
    /// [`StoreErrorKind::Failed`].
    Failed,
    /// Any other.
    Other,
    /// None: the caller went away before the answer.
    Dropped,
}

impl Op {
    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&Answer> {
        if let Outcome::Answered(answer) = &self.outcome { Some(answer) } else { None }
    }

    /// Whether the store has answered, be it without a decision.
    pub fn is_answered(&self) -> bool {
        matches!(self.outcome, Outcome::Answered(_) | Outcome::Done(_))
    }

    /// The units of a check that are known to have been admitted.
    pub fn admitted(&self) -> u64 {
        match (&self.call, self.answer()) {
            (Call::Check(cost), Some(answer)) if answer.charged => *cost,
            _ => 0,
        }
    }

    /// Whether a check was paid from a lease.
    pub fn is_leased(&self) -> bool {
        self.is_by(AnsweredBy::Lease)
    }

    /// Whether a denial was repeated without asking a server.
    pub fn is_remembered(&self) -> bool {
        self.is_by(AnsweredBy::DenialMemory)
    }

    /// Whether the process has decided by itself.
    pub fn is_degraded(&self) -> bool {
        self.is_by(AnsweredBy::Fallback)
    }

    fn is_by(&self, by: AnsweredBy) -> bool {
        self.answer().is_some_and(|answer| answer.by == by)
    }

    /// The units that are known to have been charged, by a check or by a settlement.
    pub fn charged(&self) -> u64 {
        match (&self.call, self.answer()) {
            (Call::Settle(correction), Some(answer)) => correction.missing().saturating_sub(answer.uncharged),
            _ => self.admitted(),
        }
    }

    /// The units that may have been charged.
    pub fn doubtful(&self) -> u64 {
        match &self.call {
            _ if !self.is_unknown() => 0,
            Call::Check(cost) => *cost,
            Call::Settle(correction) => correction.missing(),
            Call::Renew(_)
            | Call::Block(_)
            | Call::Unblock
            | Call::Grant { .. }
            | Call::Revoke
            | Call::Reset => 0,
        }
    }

    /// The correction, if the call is one that has run or may have run.
    pub fn correction(&self) -> Option<&Correction> {
        match &self.call {
            Call::Settle(correction) if self.is_unknown() || self.answer().is_some() => Some(correction),
            _ => None,
        }
    }

    /// Whether it is unknown if the call ran.
    pub fn is_unknown(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown(_))
    }

    /// Whether it is unknown if the call ran, and running it would change the state.
    pub fn is_in_doubt(&self) -> bool {
        self.doubtful() > 0 || (self.is_unknown() && self.correction().is_some_and(|it| it.charged > it.to))
    }

    /// The duration of the call, in microseconds.
    pub fn latency(&self) -> u64 {
        self.completed.saturating_sub(self.invoked)
    }
}

impl Answer {
    /// Takes the figures from a decision.
    pub fn new(decision: &Decision, charged: bool) -> Self {
        Self {
            at: decision.at().as_micros(),
            charged,
            by: if decision.is_degraded() { AnsweredBy::Fallback } else { AnsweredBy::Server },
            blocked: decision.is_blocked(),
            position: Position::default(),
            uncharged: 0,
            delay: Some(micros(decision.delay())),
            retry: decision.retry(),
            limit: decision.limit(),
            remaining: decision.remaining(),
            reset_after: micros(decision.reset_after()),
            next_after: micros(decision.next_after()),
        }
    }
}

impl Outcome {
    /// Classifies a store's error by what it implies for the charge.
    pub fn of_error(kind: StoreErrorKind) -> Self {
        match kind {
            StoreErrorKind::TimedOut => Self::Unknown(Failure::TimedOut),
            StoreErrorKind::Overtaken => Self::Unknown(Failure::Overtaken),
            StoreErrorKind::Unavailable => Self::NotDone(Failure::Unavailable),
            StoreErrorKind::Overloaded => Self::NotDone(Failure::Overloaded),
            StoreErrorKind::Forbidden => Self::NotDone(Failure::Forbidden),
            StoreErrorKind::Failed => Self::NotDone(Failure::Failed),
            _ => Self::NotDone(Failure::Other),
        }
    }
}

/// Microseconds of the monotonic clock, which all processes of this machine share and which is never set.
pub fn monotonic_micros() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds * 1_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default() / 1_000
}

impl fmt::Display for Op {
    /// Writes one line, which [`FromStr`] parses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {} ", self.key_id.code(), self.call, self.invoked, self.completed)?;
        match &self.outcome {
            Outcome::Done(held) => write!(f, "done {held}"),
            Outcome::NotDone(failure) => write!(f, "no {failure:?}"),
            Outcome::Unknown(failure) => write!(f, "unknown {failure:?}"),
            Outcome::Answered(answer) => {
                let Answer {
                    at,
                    charged,
                    by,
                    blocked,
                    position,
                    uncharged,
                    delay,
                    limit,
                    remaining,
                    reset_after,
                    next_after,
                    ..
                } = answer;
                let delay = delay.map_or_else(|| "none".to_owned(), |micros| micros.to_string());
                let position = format!("{} {}", position.micros, position.remainder);
                let retry = match answer.retry {
                    None => "fits".to_owned(),
                    Some(Retry::Never) => "never".to_owned(),
                    Some(Retry::Unknown) => "unknown".to_owned(),
                    Some(Retry::After(wait)) => micros(wait).to_string(),
                };
                write!(f, "at {at} {charged} {by:?} {blocked} {position} {uncharged} {delay} ")?;
                write!(f, "{retry} {limit} {remaining} {reset_after} {next_after}")
            }
        }
    }
}

impl FromStr for Op {
    type Err = ParseOpError;

    fn from_str(line: &str) -> Result<Self, ParseOpError> {
        parse(line).ok_or_else(|| ParseOpError(line.chars().take(200).collect()))
    }
}

/// The error for a line that is not a complete operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseOpError(String);

impl fmt::Display for ParseOpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not an operation", self.0)
    }
}

impl std::error::Error for ParseOpError {}

fn parse(line: &str) -> Option<Op> {
    let mut words = line.split(' ');
    let key_id = KeyId::from_code(words.next()?.parse().ok()?)?;
    let call = words.next()?.parse().ok()?;
    let (invoked, completed) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let outcome = match words.next()? {
        "done" => Outcome::Done(words.next()?.parse().ok()?),
        "no" => Outcome::NotDone(failure(words.next()?)?),
        "unknown" => Outcome::Unknown(failure(words.next()?)?),
        "at" => Outcome::Answered(Answer {
            at: words.next()?.parse().ok()?,
            charged: words.next()?.parse().ok()?,
            by: answered_by(words.next()?)?,
            blocked: words.next()?.parse().ok()?,
            position: Position {
                micros: words.next()?.parse().ok()?,
                remainder: words.next()?.parse().ok()?,
            },
            uncharged: words.next()?.parse().ok()?,
            delay: match words.next()? {
                "none" => None,
                delay => Some(delay.parse().ok()?),
            },
            retry: match words.next()? {
                "fits" => None,
                "never" => Some(Retry::Never),
                "unknown" => Some(Retry::Unknown),
                wait => Some(Retry::After(Duration::from_micros(wait.parse().ok()?))),
            },
            limit: words.next()?.parse().ok()?,
            remaining: words.next()?.parse().ok()?,
            reset_after: words.next()?.parse().ok()?,
            next_after: words.next()?.parse().ok()?,
        }),
        _ => return None,
    };
    Some(Op { process: 0, key_id, call, invoked, completed, outcome })
}

fn answered_by(name: &str) -> Option<AnsweredBy> {
    use AnsweredBy::{DenialMemory, Fallback, Lease, Server};
    [Server, Lease, DenialMemory, Fallback].into_iter().find(|by| format!("{by:?}") == name)
}

fn failure(name: &str) -> Option<Failure> {
    use Failure::{Dropped, Failed, Forbidden, Other, Overloaded, Overtaken, TimedOut, Unavailable};
    let all = [Unavailable, TimedOut, Overtaken, Overloaded, Forbidden, Failed, Other, Dropped];
    all.into_iter().find(|failure| format!("{failure:?}") == name)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
