//! The records of overrides: lock-outs, lost scripts, damaged records.

use std::time::Duration;

use portcullis_core::Timestamp;
use portcullis_core::overrides::{LockOut, Override};
use portcullis_core::store::Store as _;
use tokio::task::JoinSet;

use crate::protocol::keys::Layout;

use super::{API, DAY, Server, TWENTY, check, figures, key, open, two_stores};

fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

#[tokio::test]
async fn denials_of_two_stores_add_up_and_blocks_grow() {
    let server = Server::start(&[]);
    let stores = two_stores(&server).await;
    let lock_out = LockOut::after(4).within(minutes(60)).block_for(minutes(10)).up_to(minutes(30));
    let ada = key(&["ada"]);
    for length in [10, 20, 30, 30] {
        for count in 1..4_usize {
            let begun = stores[count % 2].record_denials(&API, ada, 1, &lock_out).await.unwrap();
            assert_eq!(begun, None, "after {count} denials");
        }
        let begun = stores[0].record_denials(&API, ada, 1, &lock_out).await.unwrap().unwrap();
        assert_eq!(begun.length(), minutes(length));
        // Nothing is counted while the key is blocked.
        assert_eq!(stores[1].record_denials(&API, ada, 9, &lock_out).await.unwrap(), None);
        assert!(check(&stores[1], &API, 1).await.decision().is_blocked());
        // The block ends without its strikes being forgotten.
        end_block(&server);
    }
    stores[1].unblock(&API, ada).await.unwrap();
    assert_eq!(stores[0].overrides(&API, ada).await.unwrap(), Override::NONE);
    let begun = stores[0].record_denials(&API, ada, 4, &lock_out).await.unwrap().unwrap();
    assert_eq!(begun.length(), minutes(10));
}

/// Ends the block in a record as if its time had passed.
fn end_block(server: &Server) {
    let script = "local raw = redis.call('GET', KEYS[1]) \
                  raw = string.sub(raw, 1, 2) .. struct.pack('>I8', 1) .. string.sub(raw, 11) \
                  return redis.call('SET', KEYS[1], raw, 'PX', 600000)";
    server.cli(&["EVAL", script, "1", &record_name()]);
}

fn record_name() -> String {
    let mut name = Vec::new();
    Layout::new("portcullis", "0").unwrap().write_override_name(&mut name, &API, key(&["ada"]));
    String::from_utf8(name).unwrap()
}

#[tokio::test]
async fn denials_that_are_recorded_at_one_time_are_all_counted() {
    let server = Server::start(&[]);
    let stores = two_stores(&server).await;
    let lock_out = LockOut::after(1_000).within(DAY);
    let mut tasks = JoinSet::new();
    for task in 0..6_usize {
        let store = stores[task % 2].clone();
        tasks.spawn(async move {
            let mut counted = 0;
            for _ in 0..10 {
                // A change that others overtake again and again is refused as overloaded.
                counted += u32::from(store.record_denials(&API, key(&["ada"]), 1, &lock_out).await.is_ok());
            }
            counted
        });
    }
    let counted: u32 = tasks.join_all().await.into_iter().sum();
    let record = stores[0].overrides(&API, key(&["ada"])).await.unwrap();
    assert!(counted > 30, "{counted}");
    assert_eq!(record.denials(std::time::SystemTime::now().into()), counted);
}

#[tokio::test]
async fn records_survive_lost_scripts_and_servers_without_script_load() {
    for server in [Server::start(&[]), Server::without_script_load()] {
        let store = open(&server).await;
        store.set_grant(&API, key(&["ada"]), TWENTY).await.unwrap();
        server.cli(&["SCRIPT", "FLUSH"]);
        store.block(&API, key(&["ada"]), DAY).await.unwrap();
        assert!(check(&store, &API, 1).await.decision().is_blocked());
        store.unblock(&API, key(&["ada"])).await.unwrap();
        server.cli(&["SCRIPT", "FLUSH"]);
        assert_eq!(figures(&check(&store, &API, 1).await), (true, 20, 19));
        store.set_grant(&API, key(&["ada"]), None).await.unwrap();
        // Deleting is an expiry.
        assert_eq!(store.overrides(&API, key(&["ada"])).await.unwrap(), Override::NONE);
        assert_eq!(figures(&check(&store, &API, 1).await), (true, 10, 8));
    }
}

#[tokio::test]
async fn a_record_expires_with_its_last_part() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    store.set_grant(&API, key(&["ada"]), TWENTY).await.unwrap();
    store.block(&API, key(&["ada"]), 2 * DAY).await.unwrap();
    let left: i64 = server.cli(&["PTTL", &record_name()]).trim().parse().unwrap();
    let two_days = 2 * 86_400_000;
    assert!((two_days - 60_000..=two_days + 2).contains(&left), "{left}");
}

#[tokio::test]
async fn a_damaged_record_is_none_and_is_replaced() {
    let server = Server::start(&[]);
    let [admin, store] = two_stores(&server).await;
    let text = |bytes: &[u8]| {
        let escaped: Vec<_> = bytes.iter().map(|byte| format!("\\{byte:03}")).collect();
        escaped.concat()
    };
    let mut long = Override::NONE;
    long.set_block(Timestamp::MAX, DAY);
    let mut broken = vec![
        vec![],
        b"?".to_vec(),
        vec![0x21],
        vec![0x21, 0],
        vec![0x21, 16],
        vec![0x22, 1],
        [&[0x21, 1][..], &[0xff; 16]].concat(),
        [&[0x21, 2][..], &[0xff; 40]].concat(),
        [&long.encode()[..], &[0]].concat(),
    ];
    broken.push([&[0x21, 3][..], &long.encode()[2..]].concat());
    for value in broken {
        let (name, value) = (record_name(), text(&value));
        let script = format!("return redis.call('SET', '{name}', '{value}')");
        server.cli(&["EVAL", &script, "0"]);
        let left = check(&store, &API, 0).await;
        assert_eq!(figures(&left), (true, 10, 10), "{value}");
        assert_eq!(store.overrides(&API, key(&["ada"])).await.unwrap(), Override::NONE, "{value}");
        admin.block(&API, key(&["ada"]), DAY).await.unwrap();
        assert!(check(&store, &API, 1).await.decision().is_blocked(), "{value}");
        store.unblock(&API, key(&["ada"])).await.unwrap();
    }
}

#[tokio::test]
async fn a_grant_is_cut_where_the_server_clock_was_set_back() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let now = Timestamp::from(std::time::SystemTime::now());
    let mut record = Override::NONE;
    record.set_grant(now.saturating_add(30 * DAY), TWENTY);
    set_record(&server, &record.encode());
    for left in [19, 18] {
        assert_eq!(figures(&check(&store, &API, 1).await), (true, 20, left));
    }
    let grant = store.overrides(&API, key(&["ada"])).await.unwrap().grant().unwrap();
    assert_eq!(grant.length(), DAY);
    assert!(grant.until() <= now.saturating_add(DAY + minutes(1)), "{grant:?}");
}

/// Writes the bytes of a record.
fn set_record(server: &Server, bytes: &[u8]) {
    let escaped: Vec<_> = bytes.iter().map(|byte| format!("\\{byte:03}")).collect();
    let (name, value) = (record_name(), escaped.concat());
    let script = format!("return redis.call('SET', '{name}', '{value}')");
    server.cli(&["EVAL", &script, "0"]);
}
