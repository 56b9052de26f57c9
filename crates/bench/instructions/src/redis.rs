//! The client side of calls to Redis, whose replies are recorded: from the text of an identity to the answer, without the client
//! library and the network.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{Policy, Quota, Secret};
use portcullis_redis::RedisStore;
use tokio::runtime::Builder;

use crate::case;

pub(crate) fn cases() {
    let runtime = Builder::new_current_thread().build().expect("it needs neither a timer nor a driver");
    let _entered = runtime.enter();
    let secret = Secret::published();
    let rate = Policy::gcra("gcra", Quota::per_second(1).burst(60));
    let window = Policy::fixed_window("fixed-window", Quota::per_minute(60));
    let (admitted, denied) = (2_001.0, 0.0);
    let (rate_state, window_state) = ([AT + 1e6, 0.0], [AT + 60e6, 1.0]);
    let full = [AT + 60e6, 0.0];
    for (name, policies, answers, is_allowed) in [
        ("one policy", &[&rate][..], &[(admitted, rate_state)][..], true),
        ("two policies", &[&rate, &window], &[(admitted, rate_state), (admitted, window_state)], true),
        // After the first reply it is remembered.
        ("remembered denial", &[&rate], &[(denied, full)], false),
    ] {
        let store = RedisStore::with_recorded_reply(&reply(answers));
        case(&format!("redis: {name}"), || {
            let mut hasher = secret.hasher();
            hasher.writer().part("user", b"user-0000042");
            let key = hasher.finish().expect("an identity of a few bytes is a key");
            let checks = Checks::one(policies[0].clone(), key, 1);
            let more = policies[1..].iter().copied();
            let checks = more.fold(checks, |checks, policy| {
                checks.and(policy.clone(), key, 1).expect("the policies are few and differ")
            });
            let decision = pin!(store.check(checks));
            let outcome = match decision.poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(outcome) => outcome.expect("the recorded reply is one of the script"),
                Poll::Pending => unreachable!("the reply is there at once"),
            };
            assert_eq!(outcome.is_allowed(), is_allowed, "{name}");
        });
    }
}

/// The reply of the script: the instant, and for each check its status, twice the expiry in milliseconds plus 1 if it fits, and the
/// two numbers of its state.
fn reply(answers: &[(f64, [f64; 2])]) -> Vec<u8> {
    let numbers = answers.iter().flat_map(|(status, state)| [*status, state[0], state[1]]);
    std::iter::once(AT).chain(numbers).flat_map(f64::to_le_bytes).collect()
}

/// The instant of the replies, in microseconds.
const AT: f64 = 1.7e15;
