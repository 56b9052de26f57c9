//! Floods while Redis is gone, comes and goes, or has lost a node: the limits go on.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use portcullis::{ClientIp, Global, Limiter, Policy, Quota};
use portcullis_testing::{RedisServer, ServerSetup};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

/// In the default failure mode.
const ADDRESS: Policy = Policy::fixed_window("address", Quota::per_hour(10));
const ALL: Policy = Policy::fixed_window("all", Quota::per_hour(25));
const ATTACKER: [u8; 4] = [127, 0, 0, 66];

/// A server with its own limiter on a Redis that others use as well.
struct Instance {
    address: SocketAddr,
    handled: Arc<AtomicUsize>,
}

impl Instance {
    async fn start(url: &str, deadline: Duration) -> Self {
        let limiter = Limiter::redis(url).deadline(deadline).await.unwrap();
        let limit = limiter.layer(ADDRESS).by(ClientIp::peer()).and_policy(ALL).by(Global);
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

    /// Sends requests on several connections, without waiting for answers. Returns what all answers were.
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
    answers.read_to_string(&mut text).await.unwrap();
    writer.await.unwrap();
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_a_flood_passes_one_limit_per_instance() {
    let mut redis = RedisServer::start().unwrap();
    let (url, patient) = (redis.url(), Duration::from_secs(5));
    let mut instances = Vec::new();
    for _ in 0..3 {
        instances.push(Instance::start(&url, patient).await);
    }
    let flood = async |instances: &[Instance]| {
        let before: usize = instances.iter().map(Instance::handled).sum();
        for instance in instances {
            let answers = instance.flood(ATTACKER, 10, 100).await;
            assert_eq!(answers.matches("HTTP/1.1 503").count(), 0);
        }
        instances.iter().map(Instance::handled).sum::<usize>() - before
    };
    assert_eq!(flood(&instances).await, 10, "with redis they share one limit");
    redis.kill().unwrap();
    // What Redis has denied is denied without it for up to a second.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(flood(&instances).await, 3 * 10);
    assert_eq!(flood(&instances).await, 0);
    // A start during the outage adds one limit, and no more.
    instances[0] = Instance::start(&url, patient).await;
    assert_eq!(flood(&instances).await, 10);
    redis.restart().unwrap();
    // The server has lost what it knew.
    while instances[0].handled() == 10 {
        instances[0].flood(ATTACKER, 1, 10).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    instances[0].flood(ATTACKER, 10, 100).await;
    assert_eq!(instances[0].handled(), 10 + 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_comes_and_goes_opens_one_more_limit() {
    let redis = RedisServer::start().unwrap();
    let instance = Instance::start(&redis.url(), Duration::from_millis(50)).await;
    for _ in 0..8 {
        instance.flood(ATTACKER, 4, 25).await;
        redis.signal("STOP").unwrap();
        instance.flood(ATTACKER, 4, 25).await;
        redis.signal("CONT").unwrap();
    }
    // One of the server, and one of the memory.
    assert!((10..=20).contains(&instance.handled()), "{}", instance.handled());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_node_of_a_cluster_switches_no_limit_off() {
    let setup = ServerSetup::new().arguments(&["--cluster-require-full-coverage", "no"]);
    let mut cluster = setup.cluster(3, 0).unwrap();
    let instance = Instance::start(&cluster.url(), Duration::from_secs(5)).await;
    let has_key = |node: &RedisServer, policy: &str| {
        !node.cli(&["KEYS", &format!("*:{policy}:*")]).unwrap().trim().is_empty()
    };
    // The shared limit lives on the node that is lost, and the addresses of these callers on others.
    let mut callers = Vec::new();
    let mut lost = None;
    for caller in 1..=40 {
        if callers.len() == 3 {
            break;
        }
        let from = [127, 0, 2, caller];
        let held =
            |nodes: &[RedisServer]| nodes.iter().map(|node| has_key(node, "address")).collect::<Vec<_>>();
        cluster.nodes().iter().for_each(|node| drop(node.cli(&["FLUSHALL"]).unwrap()));
        assert!(instance.flood(from, 1, 1).await.contains("HTTP/1.1 200"));
        lost = cluster.nodes().iter().position(|node| has_key(node, "all"));
        if !held(cluster.nodes())[lost.unwrap()] {
            callers.push(from);
        }
    }
    cluster.nodes().iter().for_each(|node| drop(node.cli(&["FLUSHALL"]).unwrap()));
    cluster.kill(lost.unwrap()).unwrap();
    let before = instance.handled();
    for (caller, passes) in callers.into_iter().zip([10, 10, 5]) {
        let earlier = instance.handled();
        let answers = instance.flood(caller, 4, 25).await;
        // Each address to the unit, by its node; all together to the unit, in memory.
        assert_eq!(instance.handled() - earlier, passes);
        assert_eq!(answers.matches("HTTP/1.1 503").count(), 0);
        // The address decides, and the answer says that something else was decided locally.
        let allowed = answers.split("HTTP/1.1 ").find(|answer| answer.starts_with("200")).unwrap();
        assert!(allowed.contains("x-ratelimit-degraded: true"), "{allowed}");
    }
    assert_eq!(instance.handled() - before, 25);
}
