//! Timelines of requests: one file of rules, requests and expected answers runs at every door, in memory and on Redis.
//!
//! The files are in `tests/data/requests`. A door is a way in which a request meets the rules: a layer that is built in code from the
//! same values, the layer of the rules file, the check endpoint, Envoy's rate limit service, and the reverse proxy. A door that cannot
//! do what a file requires refuses it, and the file names the fields.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod doors;
mod events;
mod expect;
mod fields;
mod program;
mod run;
mod stores;
mod timeline;

use self::doors::DoorKind;
use self::stores::StoreKind;

/// A test for each door and store. It runs all files, and reports all differences.
macro_rules! timelines {
    ($($test:ident: $door:ident, $store:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                run::all(DoorKind::$door, StoreKind::$store).await;
            }
        )*
    };
}

timelines! {
    code_in_memory: Code, Memory;
    code_on_redis: Code, Redis;
    rules_in_memory: Rules, Memory;
    rules_on_redis: Rules, Redis;
    check_in_memory: Check, Memory;
    check_on_redis: Check, Redis;
    serve_in_memory: Serve, Memory;
    serve_on_redis: Serve, Redis;
    proxy_in_memory: Proxy, Memory;
    proxy_on_redis: Proxy, Redis;
}
