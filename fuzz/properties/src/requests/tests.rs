//! The property detects violations, and holds for random inputs.

use super::*;
use crate::requests::store::Record;

/// One policy by address that counts every request.
const BY_ADDRESS: [u8; 4] = [0, 1, 0, 0];

fn check_one_request(input: &[u8], has_reached: bool) {
    let setup_bytes: Vec<u8> = BY_ADDRESS.iter().chain(input).copied().collect();
    let mut bytes = Bytes(&setup_bytes);
    let setup = Setup::read(&mut bytes);
    let message = Message::read(&mut bytes);
    Model::new(&setup).check(&message, has_reached, &Record::default());
}

#[test]
#[should_panic(expected = "p0 does not count address")]
fn an_uncounted_request_is_detected() {
    check_one_request(&[8, 0, 0, 0], true);
}

#[test]
#[should_panic(expected = "p0 does not count address")]
fn an_uncounted_preflight_with_a_body_is_detected() {
    check_one_request(&[0, 0, 0, 0x80, 1], true);
}

#[test]
#[should_panic(expected = "p0 does not count preflight of address")]
fn an_uncounted_preflight_of_a_known_client_is_detected() {
    check_one_request(&[0, 0, 0, 0], true);
}

#[test]
#[should_panic(expected = "reached without an identity")]
fn a_request_without_required_identity_is_detected() {
    check_one_request(&[8, 3, 0, 0], true);
}

#[test]
fn random_requests_are_never_uncounted() {
    let mut state = 7_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    for _ in 0..1_000 {
        // Zero is the usual case of most choices.
        let byte = |random: u64| if random.is_multiple_of(3) { 0 } else { random.to_le_bytes()[1] };
        let input: Vec<u8> = (0..8 + next() % 200).map(|_| byte(next())).collect();
        requests(&input);
    }
}
