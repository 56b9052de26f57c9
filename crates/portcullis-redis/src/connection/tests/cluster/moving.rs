//! Slots that move.

use std::time::{Duration, Instant};

use crate::connection::{CallError, Script};

use super::{
    COUNT, await_state, await_that, cluster, cluster_with, count, give_slot_0, held, id, keys_of, meet,
    node_with, open,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_has_moved_is_followed_even_to_a_node_that_is_new() {
    // Else a node that loses its only slot becomes a replica of the one that takes it.
    let stay = ["--cluster-allow-replica-migration", "no"];
    let mut nodes = cluster_with(&stay);
    let connection = open(&nodes).await;
    let script = Script::new(COUNT);
    assert_eq!(nodes[0].cli(&["CLUSTER", "KEYSLOT", "{06S}"]).trim(), "0");
    assert_eq!(count(&connection, &script, "{06S}x").await, Ok(1));
    let new = node_with(&stay);
    meet(&nodes, &new);
    nodes.push(new);
    await_state(&nodes, "ok");
    for to in [1, 3, 0] {
        let owner = nodes.iter().position(|node| held(node, "{06S}x").trim() == "1").unwrap();
        nodes[owner].cli(&["DEL", "portcullis:{06S}x"]);
        give_slot_0(&nodes, &id(&nodes[to]));
        let started = Instant::now();
        assert_eq!(count(&connection, &script, "{06S}x").await, Ok(1));
        println!("followed in {:?}", started.elapsed());
        assert_eq!(held(&nodes[to], "{06S}x").trim(), "1");
        // After the map is read anew nobody is sent on.
        let sent_on = || nodes[owner].calls("evalsha");
        await_that(|| {
            let before = sent_on();
            std::thread::sleep(Duration::from_millis(300));
            sent_on() == before
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_migrating_slot_are_asked_for_and_charged_once_amid_other_calls() {
    let nodes = cluster();
    let connection = open(&nodes).await;
    let (script, keys) = (Script::new(COUNT), keys_of(&nodes));
    assert_eq!(count(&connection, &script, "{06S}old").await, Ok(1));
    nodes[2].cli(&["CLUSTER", "SETSLOT", "0", "IMPORTING", &id(&nodes[0])]);
    nodes[0].cli(&["CLUSTER", "SETSLOT", "0", "MIGRATING", &id(&nodes[2])]);
    let calls: Vec<_> = (0..300)
        .map(|n| {
            let (connection, script) = (connection.clone(), script.clone());
            // Every other call is an ordinary one to the node that is asked: it must not come in between.
            let key = if n % 2 == 0 { format!("{{06S}}{n}") } else { keys[2].clone() };
            tokio::spawn(async move { count(&connection, &script, &key).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(count(&connection, &script, "{06S}old").await, Ok(2));
    assert_eq!(held(&nodes[2], &keys[2]).trim(), "150");
    assert_eq!(nodes[2].cli(&["CLUSTER", "COUNTKEYSINSLOT", "0"]).trim(), "150");
    assert_eq!(nodes[0].cli(&["CLUSTER", "COUNTKEYSINSLOT", "0"]).trim(), "1");
    for n in (0..300).step_by(2) {
        assert_eq!(count(&connection, &script, &format!("{{06S}}{n}")).await, Ok(2), "{n}");
    }

    // Of two keys one has gone ahead: no node can run that now.
    let both = vec!["portcullis:{06S}old".to_owned(), "portcullis:{06S}0".to_owned()];
    let started = Instant::now();
    let error = connection.call(&script, both, vec!["1".into()]).await.unwrap_err();
    assert!(matches!(&error, CallError::Moving(words) if words.starts_with("TRYAGAIN")), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(held(&nodes[0], "{06S}old").trim(), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_takes_no_writes_makes_the_map_be_read_anew() {
    let nodes = cluster();
    let connection = open(&nodes).await;
    let once = Script::new(
        "if redis.call('GET', KEYS[1]) then return 'done' end
        redis.call('SET', KEYS[1], '1')
        return redis.error_reply('READONLY You can\\'t write against a read only replica.')",
    );
    let maps = || nodes.iter().map(|node| node.calls("cluster|slots")).sum::<u64>();
    let before = maps();
    let reply = connection.call(&once, vec!["portcullis:{06S}x".into()], vec![]).await;
    assert_eq!(reply.map(|reply| reply.as_string()), Ok(Some("done".into())));
    assert!(maps() > before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_are_torn_apart_for_a_moment_are_tried_again() {
    let nodes = cluster();
    let connection = open(&nodes).await;
    let script = Script::new(COUNT);
    for key in ["{06S}a", "{06S}b"] {
        assert_eq!(count(&connection, &script, key).await, Ok(1));
    }
    let port = nodes[2].port.to_string();
    let migrate = |key: &str| nodes[0].cli(&["MIGRATE", "127.0.0.1", &port, key, "0", "1000"]);
    nodes[2].cli(&["CLUSTER", "SETSLOT", "0", "IMPORTING", &id(&nodes[0])]);
    nodes[0].cli(&["CLUSTER", "SETSLOT", "0", "MIGRATING", &id(&nodes[2])]);
    assert_eq!(migrate("portcullis:{06S}a").trim(), "OK");
    let both = || vec!["portcullis:{06S}a".to_owned(), "portcullis:{06S}b".to_owned()];
    let (mut torn, started) = (0, Instant::now());
    let last = loop {
        match connection.call(&script, both(), vec!["1".into()]).await {
            Ok(count) => break count,
            Err(CallError::Moving(_)) => torn += 1,
            Err(error) => panic!("{error}"),
        }
        assert!(started.elapsed() < Duration::from_secs(10));
        if torn == 3 {
            assert_eq!(migrate("portcullis:{06S}b").trim(), "OK");
        }
    };
    // None of the failed ones has charged.
    assert_eq!((last.as_i64(), torn), (Some(2), 3));
}
