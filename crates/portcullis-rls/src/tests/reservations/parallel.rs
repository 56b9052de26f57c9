//! Clients in parallel that are killed at random.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use portcullis::Limiter;
use portcullis_servers::RedisServer;
use tokio::task::JoinSet;

use super::super::redis::limiter;
use super::*;

const LIMIT: u64 = 5_000;

/// A small generator, so that each run is another one and needs no crate.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Reserves, uses within the reserve, and commits, until nothing is left or it is killed.
async fn client(services: Vec<RateLimitService>, seed: u64, used: Arc<AtomicU64>) {
    let mut random = Random(seed);
    loop {
        let amount = 1 + random.below(40);
        let call = ReserveRequest { ttl: seconds(3_600), ..reservation(&[ADA], amount) };
        let [one, other] = [random.below(2), random.below(2)].map(|index| usize::try_from(index).unwrap());
        let Ok(reserved) = services[one].reserve(&call).await else { continue };
        if reserved.code() != Code::Ok {
            return;
        }
        let actual = random.below(amount + 1);
        used.fetch_add(actual, Ordering::SeqCst);
        if random.below(8) == 0 {
            tokio::task::yield_now().await;
        }
        // A gateway repeats a commit whose answer it has lost.
        for _ in 0..=random.below(2) {
            let _ = commit(&services[other], &reserved.reservation_id, actual).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_clients_never_overshoot() {
    let redis = RedisServer::start().unwrap();
    let text = LIMITS.replace("requests_per_unit: 100 ", "requests_per_unit: 5000 ");
    let memory = RateLimitService::envoy(Limiter::memory(), descriptors(&text));
    let mut on_redis = Vec::new();
    for _ in 0..2 {
        on_redis.push(RateLimitService::envoy(limiter(&redis).await, descriptors(&text)));
    }
    for services in [vec![memory.clone(), memory], on_redis] {
        let used = Arc::<AtomicU64>::default();
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut clients = JoinSet::new();
        let mut aborts = Vec::new();
        for _ in 0..64 {
            let seed = 1 + random.below(u64::MAX - 1);
            aborts.push(clients.spawn(client(services.clone(), seed, Arc::clone(&used))));
        }
        // Two thirds are killed, each at another point, and the others go on until nothing is left.
        for abort in aborts {
            if random.below(3) == 0 {
                continue;
            }
            for _ in 0..random.below(200) {
                tokio::task::yield_now().await;
            }
            abort.abort();
            let (used, left) = (used.load(Ordering::SeqCst), u64::from(left(&services[0], ADA).await));
            assert!(used <= LIMIT, "{used} of {LIMIT} are used, {left} are left");
        }
        while clients.join_next().await.is_some() {}
        let (used, left) = (used.load(Ordering::SeqCst), u64::from(left(&services[1], ADA).await));
        assert!(used + left <= LIMIT, "{used} of {LIMIT} are used, and {left} are left");
        assert!(used > LIMIT / 4, "{used} of {LIMIT} are used");
    }
}
