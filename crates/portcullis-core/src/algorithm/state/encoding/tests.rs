use alloc::vec;
use core::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{Policy, Quota, Strategy as Limiting, Timestamp};

const NOW: Timestamp = Timestamp::from_micros(0x0006_4748_4622_2240);

fn charged(policy: &Policy, units: u64) -> State {
    let mut state = None;
    policy.strategy().charge(&mut state, NOW, units);
    state.unwrap()
}

/// The encoding of a first byte and numbers.
fn bytes(kind: u8, numbers: &[u64]) -> Vec<u8> {
    concat(kind, numbers.len(), numbers.iter().copied())
}

#[test]
fn the_bytes_of_each_kind_are_pinned() {
    let thirds = Policy::gcra("a", Quota::per_second(3).burst(2));
    let window = Policy::fixed_window("b", Quota::per_minute(5));
    let slots = SlidingWindow::with_slots(Quota::per_minute(5), 2).unwrap();
    let slots = Policy::literal("c", Limiting::SlidingWindow(slots));
    let log = State::Log(Log::new([1, 2, 2]));
    for (state, pinned) in [
        (charged(&thirds, 2), "11 00064748462c4e6a 0000000000000002"),
        (charged(&window, 4), "12 0006474849b3c700 0000000003938700 0000000000000004"),
        (
            charged(&slots, 4),
            "13 0006474847ea0380 0000000001c9c380 0000000000000004 0000000000000000 0000000000000000",
        ),
        (log, "14 0000000000000001 0000000000000001 0000000000000002 0000000000000002"),
        (
            State::CalendarCount(CalendarCount { window: 673, end: 1_769_904_000_000_000, count: 4 }),
            "15 00000000000002a1 000649b7e334e000 0000000000000004",
        ),
        (
            State::Permits(Permits::new(NOW.as_micros(), 3, 0, [Permit { expires: 9, serial: 2 }])),
            "16 0006474846222240 0000000000000003 0000000000000009 0000000000000009 0000000000000002",
        ),
    ] {
        let mut words = pinned.split(' ').map(|word| u64::from_str_radix(word, 16).unwrap());
        let mut expected = vec![u8::try_from(words.next().unwrap()).unwrap()];
        expected.extend(words.flat_map(u64::to_be_bytes));
        assert_eq!(state.encode(), expected, "{pinned}");
    }
}

#[test]
fn bytes_that_are_not_a_state_have_specific_errors() {
    use DecodeStateError as Error;

    assert_eq!(State::decode(&[]), Err(Error::Empty));
    for kind in
        (0..=u8::MAX).filter(|kind| ![TAT, WINDOW, SLOTS, LOG, CALENDAR_COUNT, PERMITS].contains(kind))
    {
        assert_eq!(State::decode(&bytes(kind, &[1, 1])), Err(Error::UnknownKind(kind)));
    }
    for (kind, numbers, error) in [
        (WINDOW, &[60, 0, 1][..], Error::ZeroLength),
        (WINDOW, &[60, 60, 0], Error::ZeroUnits),
        (CALENDAR_COUNT, &[1, 60, 0], Error::ZeroUnits),
        (SLOTS, &[60, 0, 1, 1], Error::ZeroLength),
        (LOG, &[1, 1, 2, 0], Error::ZeroUnits),
        (LOG, &[2, 1, 1, 1], Error::UnorderedStamps),
        (LOG, &[1, 1, 1, 1], Error::UnorderedStamps),
        (LOG, &[1, 100_000, 2, 100_001], Error::TooManyUnits),
        (LOG, &[1, u64::MAX, 2, u64::MAX], Error::TooManyUnits),
        (PERMITS, &[1, 0, 9], Error::InvalidPermit),
        (PERMITS, &[1, MAX_NEXT + 1, 9], Error::InvalidPermit),
        (PERMITS, &[1, 3, 9, 9, 0], Error::InvalidPermit),
        (PERMITS, &[1, 3, 9, 9, 3], Error::InvalidPermit),
        (PERMITS, &[1, 3, 9, 10, 2], Error::InvalidPermit),
        (PERMITS, &[1, 3, 9, 9, 2, 9, 1], Error::UnorderedPermits),
        (PERMITS, &[1, 3, 9, 9, 1, 9, 1], Error::UnorderedPermits),
    ] {
        assert_eq!(State::decode(&bytes(kind, numbers)), Err(error));
    }
    assert!(State::decode(&bytes(LOG, &[1, 100_000, 2, 100_000])).is_ok());
    assert!(State::decode(&bytes(PERMITS, &[1, MAX_NEXT, 9, 8, 2, 9, 1])).is_ok());
}

#[test]
fn more_permits_than_twice_the_highest_limit_are_an_error() {
    for (permits, is_valid) in [(2_000, true), (2_001, false)] {
        let held = (1..=permits).flat_map(|serial| [9, serial]);
        let numbers: Vec<u64> = [1, permits + 1, 9].into_iter().chain(held).collect();
        assert_eq!(State::decode(&bytes(PERMITS, &numbers)).is_ok(), is_valid);
    }
}

#[test]
fn a_wrong_length_is_an_error() {
    for (kind, lengths) in
        [(TAT, 2..=2), (WINDOW, 3..=3), (SLOTS, 4..=1_003), (LOG, 1..=1_100), (CALENDAR_COUNT, 3..=3)]
    {
        for count in 0..1_100 {
            let whole = bytes(kind, &(1..=count).collect::<Vec<_>>());
            let count = usize::try_from(count).unwrap();
            let fits = lengths.contains(&count) && (kind != LOG || count.is_multiple_of(2));
            let decoded = State::decode(&whole);
            let is_wrong_length = matches!(decoded, Err(DecodeStateError::Length { .. }));
            assert_eq!(is_wrong_length, !fits, "{kind} {count}: {decoded:?}");
            let trailing = [&*whole, &[0]].concat();
            let error = DecodeStateError::Length { kind, bytes: trailing.len() };
            assert_eq!(State::decode(&trailing), Err(error));
        }
    }
}

/// A state as charges leave it: at increasing times, some of them far apart.
fn states() -> impl Strategy<Value = State> {
    let charges = proptest::collection::vec((0_u64..200_000_000, 1_u64..50), 1..40);
    (0_usize..7, 1_u64..100, charges).prop_map(|(kind, limit, charges)| {
        let quota = Quota::new(limit, Duration::from_secs(60), None).unwrap();
        let slots = SlidingWindow::with_slots(quota, 60).unwrap();
        let policy = [
            Policy::gcra("a", quota.burst(7)),
            Policy::fixed_window("b", quota),
            Policy::sliding_window("c", quota),
            Policy::literal("d", Limiting::SlidingWindow(slots)),
            Policy::sliding_log("e", quota),
            Policy::leaky_bucket("f", quota),
            crate::Concurrency::new("g", 100).policy(),
        ][kind]
            .clone();
        let (mut state, mut now) = (None, NOW);
        for (wait, units) in charges {
            now = now.saturating_add(Duration::from_micros(wait));
            policy.strategy().charge(&mut state, now, units);
        }
        state.unwrap()
    })
}

proptest! {
    #[test]
    fn encode_and_decode_round_trip(state in states()) {
        let bytes = state.encode();
        prop_assert_eq!(bytes.capacity(), bytes.len());
        prop_assert_eq!(State::decode(&bytes), Ok(state));
    }

    #[test]
    fn what_decodes_has_one_encoding(
        kind in 0x10_u8..0x17, numbers in proptest::collection::vec(0_u64..100, 0..8), cut in 0_usize..9
    ) {
        let mut bytes = bytes(kind, &numbers);
        bytes.truncate(bytes.len().saturating_sub(cut));
        if let Ok(state) = State::decode(&bytes) {
            prop_assert_eq!(state.encode(), bytes);
        }
    }

    #[test]
    fn decoding_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = State::decode(&bytes);
        let _ = State::decode(&[vec![LOG], bytes].concat());
    }
}
