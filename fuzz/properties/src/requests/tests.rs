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
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..1_000 {
        // Zero is the usual case of most choices.
        let input: Vec<u8> =
            (0..8 + rng.u8(..200)).map(|_| if rng.u8(..3) == 0 { 0 } else { rng.u8(..) }).collect();
        requests(&input);
    }
}
