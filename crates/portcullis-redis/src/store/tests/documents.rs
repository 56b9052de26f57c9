//! Documents that all instances read.

use portcullis_core::store::DocumentStore as _;
use portcullis_servers::{DOCUMENT_RIGHTS, LEAST_RIGHTS, RedisCluster};

use super::*;

const NAME: &str = "portcullis-rules";

/// A store of a user with all rights.
async fn admin(server: &Server) -> RedisStore {
    let url = format!("redis://127.0.0.1:{}", server.port);
    open_url(&url).await
}

async fn as_user(server: &Server, rights: &[&str]) -> RedisStore {
    let user = ["ACL", "SETUSER", "some", "reset", "on", ">pw", "~portcullis:*", "-@all"];
    server.cli(&[&user[..], &LEAST_RIGHTS, rights].concat());
    let url = format!("redis://some:pw@127.0.0.1:{}", server.port);
    open_url(&url).await
}

#[tokio::test]
async fn a_document_is_replaced_only_where_it_is_as_expected() {
    let server = Server::start(&[]);
    let store = admin(&server).await;
    assert_eq!(store.read(NAME, 10).await, Ok(vec![]));
    let replace =
        |expected: &'static [u8], document: &[u8]| store.replace(NAME, expected.to_vec(), document.to_vec());
    assert_eq!(replace(b"1", b"2").await, Ok(false));
    assert_eq!(replace(b"", b"1 first \xff\0").await, Ok(true));
    assert_eq!(replace(b"", b"1 other").await, Ok(false));
    assert_eq!(replace(b"2", b"2 other").await, Ok(false));
    assert_eq!(store.read(NAME, 1_000).await, Ok(b"1 first \xff\0".to_vec()));
    assert_eq!(replace(b"1 first", b"2").await, Ok(true));
    assert_eq!((store.read(NAME, 0).await, store.read(NAME, 1).await), (Ok(vec![]), Ok(b"2".to_vec())));
}

#[tokio::test]
async fn of_two_writers_at_once_one_replaces_the_document() {
    let server = Server::start(&[]);
    let store = admin(&server).await;
    let mut writers = JoinSet::new();
    for number in 0..20_u8 {
        writers.spawn(store.replace(NAME, Vec::new(), vec![number]));
    }
    let replaced = writers.join_all().await.into_iter().filter(|result| *result == Ok(true));
    assert_eq!(replaced.count(), 1);
}

#[tokio::test]
async fn a_limiter_may_read_a_document_and_not_write_it() {
    let server = Server::start(&[]);
    assert_eq!(admin(&server).await.replace(NAME, Vec::new(), b"1".to_vec()).await, Ok(true));

    let limiter = as_user(&server, &DOCUMENT_RIGHTS).await;
    assert_eq!(limiter.read(NAME, 10).await, Ok(b"1".to_vec()));
    let refused = limiter.replace(NAME, b"1".to_vec(), b"2".to_vec()).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Forbidden);
    assert!(check(&limiter, &BURST, 1).await.is_allowed());
    assert_eq!(limiter.read(NAME, 10).await, Ok(b"1".to_vec()));

    let pusher = as_user(&server, &["~portcullis-rules", "+getrange"]).await;
    assert_eq!(pusher.replace(NAME, b"1".to_vec(), b"2".to_vec()).await, Ok(true));

    let other = as_user(&server, &[]).await;
    assert_eq!(other.read(NAME, 10).await.unwrap_err().kind(), StoreErrorKind::Forbidden);
}

#[tokio::test]
async fn a_document_in_the_namespace_is_refused() {
    let server = Server::start(&[]);
    let store = admin(&server).await;
    for name in ["", "portcullis:rules", &"x".repeat(256)] {
        let refused = [store.read(name, 1).await.err(), store.replace(name, vec![], vec![1]).await.err()];
        for error in refused {
            assert_eq!(error.map(|error| error.kind()), Some(StoreErrorKind::Unsupported), "{name}");
        }
    }
}

#[tokio::test]
async fn a_document_in_a_cluster_is_found_by_its_slot() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let (limiter, pusher) = (open_url(cluster.url()).await, open_url(cluster.admin_url()).await);
    let names = (0..12).map(|number| format!("portcullis-rules:{number}"));
    for name in names {
        assert_eq!(limiter.read(&name, 10).await, Ok(vec![]), "{name}");
        assert_eq!(pusher.replace(&name, vec![], b"1 first".to_vec()).await, Ok(true), "{name}");
        assert_eq!(pusher.replace(&name, vec![], b"1 other".to_vec()).await, Ok(false), "{name}");
        assert_eq!(pusher.replace(&name, b"1 first".to_vec(), name.clone().into()).await, Ok(true), "{name}");
        assert_eq!(limiter.read(&name, 100).await, Ok(name.clone().into()), "{name}");
        let refused = limiter.replace(&name, name.clone().into(), b"2".to_vec()).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Forbidden, "{name}");
    }
}
