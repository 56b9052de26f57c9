//! A store whose server has become a replica: it denies, and charges nothing.

use std::time::{Duration, Instant};

use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{FailureMode, Policy, Quota};
use portcullis_memory::Fallback;

use super::{Server, key, open};

#[tokio::test]
async fn read_only_server_is_not_reconnected_in_a_loop() {
    let server = Server::start(&[]);
    let store = Fallback::new(open(&server).await);
    let most = Duration::from_secs(1);
    let door = Policy::fixed_window("door", Quota::per_week(1)).on_store_failure(FailureMode::OpenFor(most));
    let ask = |user: &str| store.check(Checks::one(door.clone(), key(&[user]), 1));
    assert!(ask("ada").await.unwrap().is_allowed());
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let received = || {
        let info = server.cli(&["INFO", "stats"]);
        let of_line =
            |line: &str| line.strip_prefix("total_connections_received:")?.trim().parse::<u32>().ok();
        info.lines().find_map(of_line).unwrap()
    };
    let (before, started) = (received(), Instant::now());
    let (mut asked, mut denied, mut let_through) = (0, 0, Duration::ZERO);
    let mut outage = None;
    while started.elapsed() < 3 * most {
        denied += u32::from(ask("ada").await.is_ok_and(|outcome| !outcome.is_allowed()));
        asked += 1;
        let at = Instant::now();
        let is_let_through = ask("grace").await.is_ok();
        // The first check that the server refuses has ended.
        let begun = *outage.get_or_insert_with(Instant::now);
        if is_let_through {
            let_through = at.saturating_duration_since(begun);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(3 * denied > asked, "{denied} of {asked}");
    // One of them is the connection of `INFO` itself.
    let made = received() - before - 1;
    println!("{made} connections, let through for {let_through:?}");
    assert!(made <= 3, "{made} connections");
    assert!(let_through < 2 * most, "{let_through:?}");
}
