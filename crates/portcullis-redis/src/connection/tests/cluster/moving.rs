//! Slots that migrate.

use std::time::{Duration, Instant};

use portcullis_servers::{RedisCluster, ServerSetup, SlotMigration};

use crate::connection::Connection;
use crate::protocol::script::Script;
use crate::transport::{CallError, Options, Transport as _};

use super::{COUNT, calls, count, held, keys, loads_of_two_hundred, open, patient, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moved_slot_is_followed_to_a_new_node() {
    // Otherwise a node that loses its only slot becomes a replica of the node that gets it.
    let setup = ServerSetup::new().arguments(&["--cluster-allow-replica-migration", "no"]);
    let mut cluster = setup.cluster(3, 0).unwrap();
    let connection = open(&cluster).await;
    let script = Script::new(COUNT);
    assert_eq!(cluster.slot_of(IN_SLOT_0).unwrap(), 0);
    assert_eq!(count(&connection, &script, IN_SLOT_0).await, Ok(1));
    let new = cluster.add_node().unwrap();
    for (moves, [from, to, loaded]) in [[0, 1, 1], [1, new, 1], [new, 0, 0]].into_iter().enumerate() {
        cluster.migrate_slot(0, from, to).unwrap();
        let started = Instant::now();
        let loads = || calls(&cluster, "script|load").iter().sum();
        let loads = loads_of_two_hundred(&connection, &script, IN_SLOT_0, loads).await;
        println!("followed in {:?}", started.elapsed());
        // A node loads the script only if it has not served the slot before.
        assert_eq!(loads, u64::try_from(loaded).unwrap(), "from {from} to {to}");
        assert_eq!(held(&cluster, to, IN_SLOT_0), (moves * 200 + 201).to_string());
        // After the map was read again, no call is redirected.
        let sent_on = || calls(&cluster, "evalsha")[from];
        until(|| {
            let before = sent_on();
            std::thread::sleep(Duration::from_millis(300));
            sent_on() == before
        })
        .await;
    }
    assert_eq!(calls(&cluster, "script|load")[new], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_migrating_slot_are_charged_once_amid_other_calls() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let connection = open(&cluster).await;
    let (script, keys) = (Script::new(COUNT), keys(&cluster));
    assert_eq!(count(&connection, &script, IN_SLOT_0).await, Ok(1));
    let migration = SlotMigration::begin(&cluster, 0, 0, 2).unwrap();
    let counts: Vec<_> = (0..300)
        .map(|n| {
            let (connection, script) = (connection.clone(), script.clone());
            // Every other call is an ordinary one to the same node: it must not come between `ASKING` and its call.
            let key = if n % 2 == 0 { format!("{IN_SLOT_0}{n}") } else { keys[2].clone() };
            tokio::spawn(async move { count(&connection, &script, &key).await })
        })
        .collect();
    for count in counts {
        count.await.unwrap().unwrap();
    }
    assert_eq!(count(&connection, &script, IN_SLOT_0).await, Ok(2));
    assert_eq!(held(&cluster, 2, &keys[2]), "150");
    let in_slot_0 = |node: usize| cluster.nodes()[node].cli(&["CLUSTER", "COUNTKEYSINSLOT", "0"]).unwrap();
    assert_eq!((in_slot_0(0).as_str(), in_slot_0(2).as_str()), ("1", "150"));
    for n in (0..300).step_by(2) {
        assert_eq!(count(&connection, &script, &format!("{IN_SLOT_0}{n}")).await, Ok(2), "{n}");
    }

    // One of two keys has migrated: no node can run the call now.
    let both = vec![format!("portcullis:{IN_SLOT_0}"), format!("portcullis:{IN_SLOT_0}0")];
    let started = Instant::now();
    let error = connection.call(&script, both, vec!["1".into()]).await.unwrap_err();
    assert!(matches!(&error, CallError::Moving(words) if words.starts_with("TRYAGAIN")), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(held(&cluster, 0, IN_SLOT_0), "2");
    migration.cancel(&cluster).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_node_causes_the_map_to_be_read() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let connection = open(&cluster).await;
    let once = Script::new(
        "if redis.call('GET', KEYS[1]) then return 'done' end
        redis.call('SET', KEYS[1], '1')
        return redis.error_reply('READONLY You can\\'t write against a read only replica.')",
    );
    let maps = || calls(&cluster, "cluster|slots").iter().sum::<u64>();
    let before = maps();
    let reply = connection.call(&once, vec![format!("portcullis:{IN_SLOT_0}")], vec![]).await;
    assert_eq!(reply, Ok("done".into()));
    assert!(maps() > before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_for_partly_migrated_keys_are_repeated() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let connection = open(&cluster).await;
    let script = Script::new(COUNT);
    let keys = ["a", "b"].map(|which| format!("{IN_SLOT_0}{which}"));
    for key in &keys {
        assert_eq!(count(&connection, &script, key).await, Ok(1));
    }
    let migration = SlotMigration::begin(&cluster, 0, 0, 2).unwrap();
    assert_eq!(migration.move_keys(&cluster, 1).unwrap(), 1);
    let both = || keys.iter().map(|key| format!("portcullis:{key}")).collect();
    let (mut torn, started) = (0, Instant::now());
    let last = loop {
        match connection.call(&script, both(), vec!["1".into()]).await {
            Ok(count) => break count,
            Err(CallError::Moving(_)) => torn += 1,
            Err(error) => panic!("{error}"),
        }
        // Each call is repeated until its deadline.
        assert!(started.elapsed() < Duration::from_secs(30));
        if torn == 3 {
            assert_eq!(migration.move_keys(&cluster, 1).unwrap(), 1);
        }
    };
    // None of the failed calls has charged.
    assert_eq!((last.as_integer(), torn), (Some(2), 3));
    migration.finish(&cluster).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_call_does_not_open_the_breaker_of_its_node() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let options =
        Options::default().connect_wait(Duration::from_secs(10)).deadline(Duration::from_millis(12));
    let connection = Connection::open(&cluster.url(), options).await.unwrap();
    let script = Script::new(COUNT);
    let keys = ["a", "b"].map(|which| format!("{IN_SLOT_0}{which}"));
    let patient = open(&cluster).await;
    for key in &keys {
        assert_eq!(count(&patient, &script, key).await, Ok(1));
    }
    let migration = SlotMigration::begin(&cluster, 0, 0, 2).unwrap();
    assert_eq!(migration.move_keys(&cluster, 1).unwrap(), 1);
    // A busy machine may be late, but not every time.
    let mut fewest = u32::MAX;
    for _ in 0..10 {
        let mut rejected = 0;
        for _ in 0..25 {
            let both = keys.iter().map(|key| format!("portcullis:{key}")).collect();
            assert!(connection.call(&script, both, vec!["1".into()]).await.is_err());
            rejected += u32::from(connection.availability(Some(0)).rejection.is_some());
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        fewest = fewest.min(rejected);
        if fewest == 0 {
            break;
        }
    }
    assert_eq!(fewest, 0, "of 25 calls to a node that answered all of them at once");
    migration.cancel(&cluster).unwrap();
}

/// This process stands still until the deadline, and then reads where the call should have been sent.
#[tokio::test]
async fn late_redirection_is_no_outage() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let deadline = Duration::from_millis(500);
    let connection = Connection::open(&cluster.url(), patient().deadline(deadline)).await.unwrap();
    for reply in ["MOVED 0 127.0.0.1:1", "ASK 0 127.0.0.1:1", "TRYAGAIN later", "READONLY a replica"] {
        let script = Script::new(&format!("return redis.error_reply('{reply}')"));
        connection.load(&script).await.unwrap();
        let call = connection.call(&script, vec!["portcullis:k".into()], vec![]);
        let stall = async { std::thread::sleep(deadline * 2) };
        let (answer, ()) = tokio::join!(biased; call, stall);
        assert_eq!(answer, Err(CallError::NotSent(deadline)), "{reply}");
    }
}

/// Only the hash tag determines the slot.
const IN_SLOT_0: &str = "{06S}";
