//! Random changes of a record and of a naive model, which keeps every denial and every block.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum OverrideStep {
    Advance(u64),
    Grant(u64, u64),
    EndGrant,
    Block(u64),
    Unblock,
    Denials(u32),
}

#[derive(Default)]
struct Model {
    grant: Option<(u64, Timestamp)>,
    block: Option<Timestamp>,
    denials: Vec<Timestamp>,
    /// The ends of the blocks of the lock-out that count.
    strikes: Vec<Timestamp>,
}

impl Model {
    fn record_denials(&mut self, now: Timestamp, denials: u32) -> Option<Timestamp> {
        if self.block.is_some_and(|end| now < end) {
            return None;
        }
        if self.denials.first().is_some_and(|first| now.saturating_since(*first) >= LOCK_OUT.within_time()) {
            self.denials.clear();
        }
        if self.strikes.last().is_some_and(|end| now.saturating_since(*end) >= LOCK_OUT.longest()) {
            self.strikes.clear();
        }
        self.denials.extend((0..denials).map(|_| now));
        if self.denials.len() < 3 {
            return None;
        }
        self.denials.clear();
        let length = match self.strikes.len() {
            0 => 20,
            1 => 40,
            _ => 60,
        };
        let end = now.saturating_add(seconds(length));
        self.strikes.push(end);
        self.block = Some(end);
        self.block
    }

    /// The seconds that a block has left, or the limit of a grant.
    fn effect(&self, now: Timestamp) -> (Option<Duration>, Option<u64>) {
        if let Some(end) = self.block.filter(|end| now < *end) {
            return (Some(end.saturating_since(now)), None);
        }
        (None, self.grant.filter(|(_, end)| now < *end).map(|(burst, _)| burst))
    }
}

fn step() -> impl Strategy<Value = OverrideStep> {
    prop_oneof![
        4 => (0..25_u64).prop_map(OverrideStep::Advance),
        1 => (1..50_u64, 1..90_u64).prop_map(|(burst, length)| OverrideStep::Grant(burst, length)),
        1 => Just(OverrideStep::EndGrant),
        1 => (1..90_u64).prop_map(OverrideStep::Block),
        1 => Just(OverrideStep::Unblock),
        6 => (0..4_u32).prop_map(OverrideStep::Denials),
    ]
}

proptest! {
    #[test]
    fn a_record_decides_as_a_naive_model_does(steps in prop::collection::vec(step(), 1..80)) {
        let (mut record, mut model, mut now) = (Override::NONE, Model::default(), at(1_000));
        for step in steps {
            match step {
                OverrideStep::Advance(by) => now = now.saturating_add(seconds(by)),
                OverrideStep::Grant(burst, length) => {
                    record.set_grant(now, Some((Quota::per_second(1).burst(burst), seconds(length))));
                    model.grant = Some((burst, now.saturating_add(seconds(length))));
                }
                OverrideStep::EndGrant => {
                    record.set_grant(now, None);
                    model.grant = None;
                }
                OverrideStep::Block(length) => {
                    record.set_block(now, seconds(length));
                    model.block = Some(now.saturating_add(seconds(length)));
                }
                OverrideStep::Unblock => {
                    record.unblock();
                    model = Model { grant: model.grant, ..Model::default() };
                }
                OverrideStep::Denials(denials) => {
                    let block = record.record_denials(now, denials, &LOCK_OUT).map(|block| block.until());
                    prop_assert_eq!(block, if denials == 0 { None } else { model.record_denials(now, denials) });
                }
            }
            let effect = match record.effect(&API, now) {
                Effect::None => (None, None),
                Effect::Blocked(left) => (Some(left), None),
                Effect::Granted(policy, grant) => {
                    prop_assert_eq!(policy.strategy().limit(), grant.quota().explicit_burst().unwrap());
                    (None, Some(policy.strategy().limit()))
                }
            };
            prop_assert_eq!(effect, model.effect(now));
            prop_assert_eq!(record.effect(&API, record.expires_at().max(now)), Effect::None);
            // Written and read at each step.
            prop_assert_eq!(Override::decode(&record.encode()), Ok(record));
            prop_assert!(!record.repair(now), "time goes forward");
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        for first in [None, Some(0x21)] {
            let mut bytes = bytes.clone();
            if let (Some(first), Some(byte)) = (first, bytes.first_mut()) {
                *byte = first;
            }
            if let Ok(mut record) = Override::decode(&bytes) {
                prop_assert_eq!(record.encode(), bytes);
                let _ = record.effect(&API, at(1));
                let _ = record.record_denials(at(1), 1, &LOCK_OUT);
            }
        }
    }

    #[test]
    fn any_steps_of_the_clock_leave_no_block_longer_than_its_length(instants in prop::collection::vec(0..10_000_u64, 1..40)) {
        let mut record = Override::NONE;
        for now in instants {
            let now = at(now);
            record.record_denials(now, 2, &LOCK_OUT);
            record.repair(now);
            let block = record.block_until(now).map_or(Duration::ZERO, |end| end.saturating_since(now));
            prop_assert!(block <= LOCK_OUT.longest());
            prop_assert!(record.expires_at().saturating_since(now) <= 2 * LOCK_OUT.longest());
        }
    }
}
