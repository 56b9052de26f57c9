//! The operations that a caller requests from a store.

use std::fmt;
use std::str::FromStr;

use portcullis_core::Receipt;
use portcullis_core::store::{Position, Refund, Run};

/// One operation on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A check that charges this many units; 0 is a peek.
    Check(u64),
    /// A refund or a settlement.
    Settle(Correction),
    /// A renewal of the permits of these runs.
    Renew(Vec<Run>),
    /// A block of this length, in microseconds.
    Block(u64),
    /// The end of a block.
    Unblock,
    /// A grant of another limit.
    Grant {
        /// The limit.
        limit: u64,
        /// The length in microseconds.
        length: u64,
    },
    /// The end of a grant.
    Revoke,
    /// A reset of the state.
    Reset,
}

/// A refund or a settlement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Correction {
    /// The units that remain charged after the correction; 0 is a refund.
    pub to: u64,
    /// The units that the receipt is for.
    pub charged: u64,
    /// The runs of the receipt, the lowest position first.
    pub runs: Vec<Run>,
}

impl Correction {
    /// Creates a correction of a receipt to `to` units.
    pub fn new(receipt: &Receipt, to: u64) -> Self {
        Self { to, charged: receipt.cost(), runs: receipt.runs().to_vec() }
    }

    /// The additional units to charge, whether they fit or not.
    pub fn missing(&self) -> u64 {
        self.to.saturating_sub(self.charged)
    }

    /// The refund that the correction makes.
    pub fn refund(&self) -> Refund<'_> {
        Refund::of(&self.runs).at_most(self.charged.saturating_sub(self.to))
    }
}

impl fmt::Display for Call {
    /// Writes one word, which [`FromStr`] parses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Check(cost) => write!(f, "{cost}"),
            Self::Settle(Correction { to, charged, runs }) => {
                write!(f, "{charged}>{to}")?;
                write_runs(f, runs)
            }
            Self::Renew(runs) => {
                write!(f, "renew")?;
                write_runs(f, runs)
            }
            Self::Block(length) => write!(f, "block/{length}"),
            Self::Unblock => write!(f, "unblock"),
            Self::Grant { limit, length } => write!(f, "grant/{limit}/{length}"),
            Self::Revoke => write!(f, "revoke"),
            Self::Reset => write!(f, "reset"),
        }
    }
}

fn write_runs(f: &mut fmt::Formatter<'_>, runs: &[Run]) -> fmt::Result {
    runs.iter().try_for_each(|Run { units, position }| {
        write!(f, "/{units}@{}+{}", position.micros, position.remainder)
    })
}

impl FromStr for Call {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        parse(word).ok_or(())
    }
}

fn parse(word: &str) -> Option<Call> {
    let mut parts = word.split('/');
    let name = parts.next()?;
    let run = |part: &str| {
        let (units, position) = part.split_once('@')?;
        let (micros, remainder) = position.split_once('+')?;
        let position = Position { micros: micros.parse().ok()?, remainder: remainder.parse().ok()? };
        Some(Run { units: units.parse().ok()?, position })
    };
    match name {
        "renew" => return parts.map(run).collect::<Option<_>>().map(Call::Renew),
        "block" => return parts.next()?.parse().ok().map(Call::Block),
        "unblock" => return Some(Call::Unblock),
        "grant" => {
            let mut number = || parts.next()?.parse().ok();
            return Some(Call::Grant { limit: number()?, length: number()? });
        }
        "revoke" => return Some(Call::Revoke),
        "reset" => return Some(Call::Reset),
        _ => {}
    }
    let Some((charged, to)) = name.split_once('>') else {
        return word.parse().ok().map(Call::Check);
    };
    let runs = parts.map(run).collect::<Option<_>>()?;
    Some(Call::Settle(Correction { to: to.parse().ok()?, charged: charged.parse().ok()?, runs }))
}
