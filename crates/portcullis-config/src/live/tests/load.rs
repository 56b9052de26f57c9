//! Rules are replaced ten thousand times while eight threads send requests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use portcullis_core::store::Checks;
use portcullis_tower::Header;
use tower::Service as _;

use super::*;

/// Odd and even versions differ in the header that is the key and in all limits.
fn version(parity: u64) -> String {
    let (header, limit) = (["x-even", "x-odd"][usize::from(parity == 1)], LIMIT + parity);
    format!(
        "[layer]\nheaders = \"ietf\"\nshow_generation = \"x-rules\"\n\
         [policy.user]\nstrategy = \"fixed_window\"\nquota = \"{limit}/h\"\nkey = {{ header = \"{header}\" }}\n\
         [policy.other]\nstrategy = \"fixed_window\"\nquota = \"{limit}/d\"\nkey = {{ header = \"{header}\" }}\n\
         [policy.address]\nstrategy = \"fixed_window\"\nquota = \"{limit}/min\"\nkey = \"client_ip\"\n"
    )
}

const LIMIT: u64 = 10_000_000;

fn both() -> Request<String> {
    let mut request = request("/");
    for header in ["x-odd", "x-even", "x-rules"] {
        request.headers_mut().insert(header, "ada".parse().unwrap());
    }
    request
}

/// Sends requests until the end. Returns how many were decided by even and by odd versions.
fn send_until(live: &LiveRules, is_over: &AtomicBool) -> [u64; 2] {
    let inner = service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(())));
    let mut service = live.layer().layer(inner);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut decided = [0; 2];
    let mut newest = 0;
    while !is_over.load(Ordering::Relaxed) {
        let response = runtime.block_on(service.call(both())).unwrap();
        assert_eq!(response.status(), 200);
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        let generation: u64 = header("x-rules").parse().unwrap();
        let limit = LIMIT + generation % 2;
        let expected =
            format!("\"user\";q={limit};w=3600, \"other\";q={limit};w=86400, \"address\";q={limit};w=60");
        assert_eq!(header("ratelimit-policy"), expected);
        // A request that begins later has rules that are not older.
        assert!(generation >= newest);
        newest = generation;
        decided[usize::from(generation % 2 == 1)] += 1;
    }
    decided
}

#[test]
fn no_request_is_without_rules_or_under_mixed_ones() {
    let live = live(&version(1));
    let versions = [0, 1].map(|parity| rules(&version(parity)));
    let is_over = AtomicBool::new(false);
    let decided = thread::scope(|scope| {
        let senders: Vec<_> = (0..8).map(|_| scope.spawn(|| send_until(&live, &is_over))).collect();
        for generation in 2..=3_001_u64 {
            let rules = versions[usize::from(generation % 2 == 1)].clone();
            assert_eq!(live.swap(rules), Ok(generation));
        }
        is_over.store(true, Ordering::Relaxed);
        let each = senders.into_iter().map(|sender| sender.join().unwrap());
        each.fold([0, 0], |[even, odd], more| [even + more[0], odd + more[1]])
    });
    // Each request was charged once, to the key of its version, and no charge was lost.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let used = |policy: &str, header: &str| {
        let registry = live.registry();
        let key = registry.key_of(&Header::named(header), both()).unwrap();
        let check = Checks::one(registry.policy(&name(policy)).unwrap(), key, 0);
        let decision = runtime.block_on(registry.store().check(check)).unwrap().into_decision();
        decision.limit() - decision.remaining()
    };
    for policy in ["user", "other"] {
        assert_eq!(["x-even", "x-odd"].map(|header| used(policy, header)), decided);
    }
    assert!(decided.iter().sum::<u64>() > 0);
}
