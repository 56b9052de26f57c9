//! The CPU time of the server per decision.
//!
//! The commands are those that the store sends, recorded once, or those of the other limiters; a recorded call is also repeated with
//! a decision for each of several keys. They arrive in large writes, so that the server's cost of the network, which is the same
//! for all, is small.

use std::cell::RefCell;

use anyhow::{Context as _, Error, Result};
use portcullis::Quota;
use portcullis::store::{Gcra, Strategy};
use portcullis_bench::redis::{self, Cmd, Value};
use portcullis_bench::server::{Recorded, Server, admits, key};
use portcullis_bench::{Comparison, Round, Target, interleaved};

use super::SCRIPT;
use crate::scale::Scale;

/// Microseconds per decision.
pub(super) fn measure(scale: &Scale, server: &mut Server, redis_cell: bool) -> Result<Comparison> {
    let strategy = Strategy::Gcra(Gcra::new(Quota::per_day(LIMIT).burst(LIMIT))?);
    let unit = server.recorded(strategy, 0, 1)?;
    let all = server.recorded(strategy, 0, LIMIT)?;
    let sha = redis::text(redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query(&mut server.connection)?)?;
    let ours = Work::Ours { unit, all };
    let (script, increment, cell) = (Work::Script { sha }, Work::Increment, Work::RedisCell);
    let decisions = scale.server_decisions;
    let server = RefCell::new(server);
    let mut cases = vec![
        round(&server, &ours, Case { decisions, at_once: 1, denied: false }),
        round(&server, &ours, Case { decisions, at_once: 1, denied: true }),
        round(&server, &ours, Case { decisions, at_once: KEYS_AT_ONCE, denied: false }),
        round(&server, &ours, Case { decisions, at_once: KEYS_AT_ONCE, denied: true }),
        round(&server, &script, Case { decisions, at_once: 1, denied: false }),
        round(&server, &script, Case { decisions, at_once: 1, denied: true }),
        round(&server, &increment, Case { decisions, at_once: 1, denied: false }),
    ];
    if redis_cell {
        cases.push(round(&server, &cell, Case { decisions, at_once: 1, denied: false }));
        cases.push(round(&server, &cell, Case { decisions, at_once: 1, denied: true }));
    }
    let figures = interleaved(scale.rounds, &mut cases)?;
    let mut table = Comparison::new("CPU time of the server per decision, by the commands alone");
    let mut push = |work: &str, beside: &str, (ours, theirs): (usize, usize), target: Target| {
        table.push(work, beside, "µs", &figures[ours], &figures[theirs], target);
    };
    push("one decision per call, admitted", "a bare GCRA script", (0, 4), Target::AtMost(1.15));
    push("one decision per call, denied", "a bare GCRA script", (1, 5), Target::AtMost(0.9));
    push("32 decisions in one call, admitted", "the script, a call for each", (2, 4), Target::AtMost(0.65));
    push("32 decisions in one call, denied", "the script, a call for each", (3, 5), Target::AtMost(0.4));
    push("one decision per call, admitted", "INCR", (0, 6), Target::None);
    if redis_cell {
        push("one decision per call, admitted", "redis-cell", (0, 7), Target::None);
        push("one decision per call, denied", "redis-cell", (1, 8), Target::None);
    }
    Ok(table)
}

/// What decides: the store, by its recorded calls for one unit and for the whole limit, or others.
#[derive(Debug)]
enum Work {
    Ours { unit: Recorded, all: Recorded },
    Script { sha: String },
    Increment,
    RedisCell,
}

/// The decisions of a round, those of each call, and the answer that all of them get.
#[derive(Clone, Copy, Debug)]
struct Case {
    decisions: u32,
    at_once: u32,
    denied: bool,
}

impl Work {
    /// A decision for each of the keys of `at_once` users, in one call, at a cost of one unit or the whole limit.
    fn call(&self, first: u32, at_once: u32, whole_limit: bool) -> Cmd {
        let cost = if whole_limit { LIMIT } else { 1 };
        // The rounding errors of the script may deny the whole limit; half a unit less denies the next unit as well.
        let rounded_cost = if whole_limit { "99.5" } else { "1" };
        let name = format!("limit:{:032x}", key(first).fingerprint());
        match self {
            Self::Ours { unit, all } => {
                let call = if whole_limit { all } else { unit };
                if at_once == 1 { call.of(first) } else { call.several(first..first + at_once, true) }
            }
            Self::Script { sha } => {
                let command = redis::cmd("EVALSHA").arg(sha).arg(1).arg(name);
                command.arg(SECONDS_PER_UNIT).arg(LIMIT).arg(rounded_cost)
            }
            Self::Increment => redis::cmd("INCRBY").arg(name).arg(cost),
            Self::RedisCell => {
                redis::cmd("CL.THROTTLE").arg(name).arg(LIMIT - 1).arg(LIMIT).arg(DAY).arg(cost)
            }
        }
    }

    fn is_admitted(&self, reply: &Value) -> bool {
        match (self, reply) {
            (Self::Ours { .. }, reply) => admits(reply),
            (Self::Script { .. }, Value::Array(reply)) => reply.first() == Some(&Value::Integer(1)),
            (Self::RedisCell, Value::Array(reply)) => reply.first() == Some(&Value::Integer(0)),
            (Self::Increment, Value::Integer(_)) => true,
            _ => false,
        }
    }
}

/// A round in which each of `USERS` keys has been charged before: a unit, or its whole limit if all decisions are denials.
fn round<'a>(server: &'a RefCell<&mut Server>, work: &'a Work, case: Case) -> Round<'a, f64, Error> {
    Box::new(move || {
        let before: Vec<Cmd> = (0..USERS).map(|user| work.call(user, 1, case.denied)).collect();
        let groups = USERS / case.at_once;
        let first = |call: u32| (call % groups) * case.at_once;
        let calls =
            (0..case.decisions / case.at_once).map(|call| work.call(first(call), case.at_once, false));
        let is_expected = |reply: &Value| work.is_admitted(reply) != case.denied;
        let spent = server.borrow_mut().decisions(&before, &calls.collect::<Vec<_>>(), is_expected);
        Ok(spent.with_context(|| format!("{work:?}"))? / f64::from(case.at_once))
    })
}

const LIMIT: u64 = 100;
const DAY: u64 = 24 * 3_600;
const SECONDS_PER_UNIT: u64 = DAY / LIMIT;
/// Charged fewer than 100 times in a round.
const USERS: u32 = 960;
const KEYS_AT_ONCE: u32 = 32;
