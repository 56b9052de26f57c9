//! Floods while Redis is down, is intermittent or has lost a node: the limits still hold.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use portcullis::key::Global;
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _};
use portcullis_servers::{RedisServer, ServerSetup, within_a_minute};
use portcullis_tests::per_half_century;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

/// In the default failure mode.
const ADDRESS: Policy = Policy::fixed_window("address", per_half_century(10));
const ALL: Policy = Policy::fixed_window("all", per_half_century(25));
const ATTACKER: [u8; 4] = [127, 0, 0, 66];
/// An attacker that Redis has not denied before the outage.
const UNKNOWN: [u8; 4] = [127, 0, 0, 67];

/// A server with its own limiter over a Redis that other instances share.
struct Instance {
    address: SocketAddr,
    handled: Arc<AtomicUsize>,
}

impl Instance {
    async fn start(url: &str, deadline: Duration) -> Self {
        let limiter = Limiter::redis(url).deadline(deadline).await.unwrap();
        let limit = limiter.layer(ADDRESS.by(ClientIp::peer())).and(ALL.by(Global));
        let handled = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&handled);
        let answer = async move || {
            counter.fetch_add(1, Relaxed);
            "found"
        };
        let app = Router::new().route("/", get(answer)).route_layer(limit);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { address, handled }
    }

    fn handled(&self) -> usize {
        self.handled.load(Relaxed)
    }

    /// Sends requests over several connections without waiting for responses. Returns the text of all responses.
    async fn flood(&self, from: [u8; 4], connections: usize, each: usize) -> String {
        let mut tasks = JoinSet::new();
        for _ in 0..connections {
            tasks.spawn(send(from, self.address, each));
        }
        tasks.join_all().await.concat()
    }
}

async fn send(from: [u8; 4], to: SocketAddr, requests: usize) -> String {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let (mut answers, mut connection) = socket.connect(to).await.unwrap().into_split();
    let mut text = "GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(requests);
    text.push_str("GET /absent HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    let writer = tokio::spawn(async move {
        connection.write_all(text.as_bytes()).await.unwrap();
        connection
    });
    let mut text = String::new();
    within_a_minute("end of the responses", answers.read_to_string(&mut text)).await.unwrap();
    writer.await.unwrap();
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_a_flood_passes_one_limit_per_instance() {
    let mut redis = RedisServer::start().unwrap();
    let (url, deadline) = (redis.url(), Duration::from_secs(5));
    let mut instances = Vec::new();
    for _ in 0..3 {
        instances.push(Instance::start(&url, deadline).await);
    }
    let flood = async |instances: &[Instance], from: [u8; 4]| {
        let before: usize = instances.iter().map(Instance::handled).sum();
        for instance in instances {
            let answers = instance.flood(from, 10, 100).await;
            assert_eq!(answers.matches("HTTP/1.1 503").count(), 0);
        }
        instances.iter().map(Instance::handled).sum::<usize>() - before
    };
    assert_eq!(flood(&instances, ATTACKER).await, 10, "instances share one limit in Redis");
    redis.kill().unwrap();
    // Longer than a denial is remembered while Redis answers.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(flood(&instances, ATTACKER).await, 0, "a key that Redis has denied is known");
    assert_eq!(flood(&instances, UNKNOWN).await, 3 * 10);
    assert_eq!(flood(&instances, UNKNOWN).await, 0);
    // An instance that starts during the outage adds one limit, and no more.
    instances[0] = Instance::start(&url, deadline).await;
    assert_eq!(flood(&instances, UNKNOWN).await, 10);
    redis.restart().unwrap();
    // The restarted server has lost its states.
    let restarted = Instant::now();
    while instances[0].handled() == 10 {
        assert!(restarted.elapsed() < Duration::from_secs(60), "the restarted server is not used");
        instances[0].flood(UNKNOWN, 1, 10).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    instances[0].flood(UNKNOWN, 10, 100).await;
    assert_eq!(instances[0].handled(), 10 + 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_intermittent_redis_opens_one_more_limit() {
    let redis = RedisServer::start().unwrap();
    let instance = Instance::start(&redis.url(), Duration::from_millis(50)).await;
    for _ in 0..8 {
        instance.flood(ATTACKER, 4, 25).await;
        redis.signal("STOP").unwrap();
        instance.flood(ATTACKER, 4, 25).await;
        redis.signal("CONT").unwrap();
    }
    // One limit in Redis, and one in memory.
    assert!((10..=20).contains(&instance.handled()), "{}", instance.handled());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_when_a_cluster_node_is_lost() {
    let setup = ServerSetup::new().arguments(&["--cluster-require-full-coverage", "no"]);
    let mut cluster = setup.cluster(3, 0).unwrap();
    let instance = Instance::start(&cluster.url(), Duration::from_secs(5)).await;
    let has_key = |node: &RedisServer, policy: &str| {
        !node.cli(&["KEYS", &format!("*:{policy}:*")]).unwrap().trim().is_empty()
    };
    // The lost node holds the shared limit; the states of these clients' addresses are on other nodes.
    let mut clients = Vec::new();
    let mut lost = None;
    for client in 1..=40 {
        if clients.len() == 3 {
            break;
        }
        let from = [127, 0, 2, client];
        let held =
            |nodes: &[RedisServer]| nodes.iter().map(|node| has_key(node, "address")).collect::<Vec<_>>();
        cluster.nodes().iter().for_each(|node| drop(node.cli(&["FLUSHALL"]).unwrap()));
        assert!(instance.flood(from, 1, 1).await.contains("HTTP/1.1 200"));
        lost = cluster.nodes().iter().position(|node| has_key(node, "all"));
        if !held(cluster.nodes())[lost.unwrap()] {
            clients.push(from);
        }
    }
    cluster.nodes().iter().for_each(|node| drop(node.cli(&["FLUSHALL"]).unwrap()));
    cluster.kill(lost.unwrap()).unwrap();
    let before = instance.handled();
    for (client, passes) in clients.into_iter().zip([10, 10, 5]) {
        let earlier = instance.handled();
        let answers = instance.flood(client, 4, 25).await;
        // The address limits are exact on their nodes, and the shared limit is exact in memory.
        assert_eq!(instance.handled() - earlier, passes);
        assert_eq!(answers.matches("HTTP/1.1 503").count(), 0);
        // The address policy is decisive, and a header reports that another policy was decided locally.
        let allowed = answers.split("HTTP/1.1 ").find(|answer| answer.starts_with("200")).unwrap();
        assert!(allowed.contains("x-ratelimit-degraded: true"), "{allowed}");
    }
    assert_eq!(instance.handled() - before, 25);
}
