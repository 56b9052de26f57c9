//! Who may write the document.

use portcullis_servers::{Connection, Reply, encode_command};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_limiter_cannot_push() {
    let (redis, key) = (RedisServer::start().unwrap(), SigningKey::from_seed([3; 32]));
    let limiter = documents(redis.url()).await;
    let refused = push(&limiter, NAME, &key, &limit(6), 0).await.unwrap_err().to_string();
    assert!(refused.contains("NOPERM") || refused.contains("permission"), "{refused}");
    assert_eq!(limiter.read(NAME, 10).await, Ok(vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_of_a_limiter_changes_the_document() {
    let (redis, key) = (RedisServer::start().unwrap(), SigningKey::from_seed([3; 32]));
    let document = push(&pusher(&redis).await, NAME, &key, &limit(6), 0).await.unwrap().to_bytes();
    let mut connection = Connection::open(redis.port()).unwrap();
    let mut send = |command: &[&str]| {
        connection.send(&encode_command(command)).unwrap();
        connection.receive().unwrap()
    };
    let url = redis.url();
    let (user, password) =
        url.split_once("//").unwrap().1.split_once('@').unwrap().0.split_once(':').unwrap();
    let answer = send(&["AUTH", user, password]);
    assert!(!matches!(answer, Reply::Error(_)), "{answer:?}");
    for command in [
        &["SET", NAME, "x"][..],
        &["SET", NAME, "x", "GET"],
        &["SETRANGE", NAME, "0", "x"],
        &["PEXPIRE", NAME, "1"],
        &["DEL", NAME],
        &["UNLINK", NAME],
        &["RENAME", NAME, "portcullis:x"],
        &["COPY", "portcullis:x", NAME, "REPLACE"],
        &["APPEND", NAME, "x"],
        &["GETDEL", NAME],
        &["GETEX", NAME, "PX", "1"],
        &["FLUSHALL"],
        &["SET", "portcullis-rules:other", "x"],
        &["EVAL", "return redis.call('SET', KEYS[1], 'x')", "1", NAME],
        &["EVAL", "return redis.call('SET', 'portcullis-rules', 'x')", "0"],
        &["ACL", "SETUSER", user, "~*"],
    ] {
        let answer = send(command);
        assert!(
            matches!(&answer, Reply::Error(error) if error.starts_with("NOPERM")),
            "{command:?}: {answer:?}"
        );
    }
    // The rights that decisions need, on this key in a script that is loaded.
    let Reply::BulkString(hash) = send(&["SCRIPT", "LOAD", "return redis.call('SET', KEYS[1], 'x')"]) else {
        panic!("a limiter may load scripts");
    };
    let answer = send(&["EVALSHA", str::from_utf8(&hash).unwrap(), "1", NAME]);
    assert!(matches!(&answer, Reply::Error(_)), "{answer:?}");
    assert_eq!(send(&["GETRANGE", NAME, "0", "-1"]), Reply::BulkString(document));
}
