//! Records of callers, which instances share.

use portcullis_core::store::{ExchangedRecord, RecordExchange};
use portcullis_servers::RedisCluster;

use super::*;

async fn exchange(
    store: &RedisStore,
    id: u128,
    expected: &[u8],
    replacement: Option<(&[u8], Duration)>,
) -> (Vec<u8>, bool) {
    let replacement = replacement.map(|(record, kept_for)| (record.to_vec(), kept_for));
    let exchange = RecordExchange { id, expected: expected.to_vec(), replacement };
    let ExchangedRecord { found, is_replaced } = store.exchange_record(exchange).await.unwrap().unwrap();
    (found, is_replaced)
}

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn record_is_replaced_only_if_it_is_as_expected() {
    let server = Server::start(&[]);
    let store = open_url(&format!("redis://127.0.0.1:{}", server.port)).await;
    assert_eq!(exchange(&store, 7, b"", None).await, (vec![], false));
    assert_eq!(exchange(&store, 7, b"x", Some((b"a", HOUR))).await, (vec![], false), "there is none");
    assert_eq!(exchange(&store, 7, b"", Some((b"a\0\xff", HOUR))).await, (vec![], true));
    assert_eq!(exchange(&store, 7, b"", Some((b"b", HOUR))).await, (b"a\0\xff".to_vec(), false));
    assert_eq!(exchange(&store, 7, b"a", Some((b"b", HOUR))).await, (b"a\0\xff".to_vec(), false), "a part");
    assert_eq!(exchange(&store, 8, b"", None).await, (vec![], false), "of another id");
    assert_eq!(exchange(&store, 7, b"a\0\xff", Some((b"b", HOUR))).await, (b"a\0\xff".to_vec(), true));
    let name = server.cli(&["KEYS", "*{00000000000000000000000000000007}:record"]);
    let left: i64 = server.cli(&["PTTL", name.trim()]).trim().parse().unwrap();
    assert!((3_000_000..=3_600_002).contains(&left), "{name}: {left}");
    assert_eq!(exchange(&store, 7, b"b", None).await, (b"b".to_vec(), false));
}

/// Of writers at once that expect one record, one replaces it.
#[tokio::test]
async fn one_of_many_claims_a_record() {
    let server = Server::start(&[]);
    let store = open_url(&format!("redis://127.0.0.1:{}", server.port)).await;
    assert!(exchange(&store, 1, b"", Some((b"open", HOUR))).await.1);
    let mut claims = JoinSet::new();
    for number in 0..20_u8 {
        let store = store.clone();
        claims.spawn(async move { exchange(&store, 1, b"open", Some((&[number], HOUR))).await.1 });
    }
    assert_eq!(claims.join_all().await.into_iter().filter(|is_replaced| *is_replaced).count(), 1);
}

#[tokio::test]
async fn records_are_in_all_slots_of_a_cluster() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = open_url(&cluster.url()).await;
    for id in 0..16 {
        assert!(exchange(&store, id, b"", Some((b"open", HOUR))).await.1);
        assert_eq!(exchange(&store, id, b"open", Some((b"closed", HOUR))).await, (b"open".to_vec(), true));
    }
}
