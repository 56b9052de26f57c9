//! Attempts to circumvent a limit, each with the figures of the attack and the bound that must hold.
//!
//! Every test attacks real servers with ordinary means. `README.md` names the test for each attempt, and
//! `docs/understand/threats.md` for each line of the threat model.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod abandoned_queue;
mod charge_more;
mod collected_refunds;
mod conditions;
mod exemptions;
mod flood;
mod forwarding;
mod held_places;
mod held_readiness;
mod held_units;
mod http2_floods;
mod large_logs;
mod lookup_guesses;
mod made_up_keys;
mod options_with_body;
mod outage;
mod overload;
mod preflights;
mod raw;
mod readings;
mod rejected_bodies;
mod server_time;
mod slow_uploads;
mod spellings;
