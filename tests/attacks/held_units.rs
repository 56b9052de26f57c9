//! Units of a shared limit that a client could hold while its own limit denies it, in a cluster that decides the two limits
//! on different servers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use axum::routing::get;
use portcullis::key::Global;
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
use portcullis_servers::ServerSetup;
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::timeout;

const IN_FLIGHT: usize = 50;
const ADDRESS: Policy = Policy::fixed_window("address", Quota::per_week(10));
/// Far more than a busy machine takes for a decision, which would be made in memory without a reply.
const DEADLINE: Duration = Duration::from_secs(30);
/// An attack that has not begun by then never does.
const PATIENCE: Duration = Duration::from_secs(120);

/// The number of responses to the attacker over one connection, by status.
#[derive(Debug, Default)]
struct Answers {
    admitted: u32,
    denied: u32,
    overloaded: u32,
}

/// 50 other clients, with `cargo xtask test --all` 200.
fn other_clients() -> u8 {
    if portcullis_testing::timeline::steps() < 100_000 { 50 } else { 200 }
}

async fn serve(url: String) -> String {
    let limiter = Limiter::redis(url).deadline(DEADLINE).await.unwrap();
    load_scripts(&limiter).await;
    // The attacker's ten units, and exactly as many as the others need.
    let all = Policy::fixed_window("all", Quota::per_week(10 + u64::from(other_clients())));
    let limit = limiter.layer(all.by(Global)).and(ADDRESS.by(ClientIp::peer()));
    let app = Router::new().route("/", get(async || "found")).route_layer(limit);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, app).into_future());
    format!("http://{address}/")
}

/// Loads the script on all nodes, because a load has a deadline of its own: a decision whose load is late is made in memory.
async fn load_scripts(limiter: &Limiter) {
    for other in 1..=other_clients() {
        let prefix = ClientIp::peer().prefix(IpAddr::from([127, 0, 1, other]));
        let key = limiter.key(|key| prefix.write(key)).unwrap();
        // After a load that is late, the next peek on that node loads again.
        let _ = limiter.peek(&ADDRESS, key).await.unwrap();
    }
}

fn client(from: [u8; 4]) -> HttpClient {
    HttpClient::from_address(IpAddr::from(from))
}

/// Sends a request, and returns the status that the cluster has decided.
async fn status(client: &HttpClient, url: &str) -> u16 {
    let response = client.send(Request::get(url), ()).await;
    // In memory, the limits would be available a second time.
    assert!(!response.headers().contains_key("x-ratelimit-degraded"), "the cluster failed: {response:?}");
    response.status().as_u16()
}

/// Sends one request after the other until `is_over` is set. Waits for `begun` once.
async fn attack(url: String, begun: Arc<Barrier>, is_over: Arc<AtomicBool>) -> Answers {
    let (client, mut answers) = (client([127, 0, 0, 66]), Answers::default());
    while !is_over.load(Relaxed) {
        match status(&client, &url).await {
            200 => answers.admitted += 1,
            429 => {
                answers.denied += 1;
                // By now, the calls in flight when the address was first denied have been refunded.
                if answers.denied == 2 {
                    begun.wait().await;
                }
            }
            // The first requests have more calls at once than one key may have in flight. Those that wait for a permit when the
            // address is denied are not sent, and what was charged for their requests is refunded.
            503 => answers.overloaded += 1,
            other => panic!("the attacker's request is answered with {other}: {answers:?}"),
        }
    }
    answers
}

/// Waits for `step` while the attack continues. Panics with the message of an attacker's task that panics.
async fn during<T>(attack: &mut JoinSet<Answers>, step: impl Future<Output = T>) -> T {
    tokio::select! {
        result = step => result,
        ended = attack.join_next() => panic!("an attacker's task has ended: {ended:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_address_holds_no_units_of_a_shared_limit() {
    // A node that is slow on a busy machine must not count as failed: the whole cluster would be down.
    let cluster = ServerSetup::new().node_timeout(Duration::from_mins(1)).cluster(3, 0).unwrap();
    let url = serve(cluster.url()).await;
    let (begun, is_over) = (Arc::new(Barrier::new(IN_FLIGHT + 1)), Arc::new(AtomicBool::new(false)));
    let mut attackers = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        attackers.spawn(attack(url.clone(), Arc::clone(&begun), Arc::clone(&is_over)));
    }
    let begun = during(&mut attackers, timeout(PATIENCE, begun.wait())).await;
    begun.expect("the attacker is denied twice on each of its connections");
    let others = async {
        let mut passed = 0;
        for other in 1..=other_clients() {
            passed += u32::from(status(&client([127, 0, 1, other]), &url).await == 200);
        }
        passed
    };
    let passed = during(&mut attackers, others).await;
    is_over.store(true, Relaxed);
    let answers = attackers.join_all().await;
    let sum = |count: fn(&Answers) -> u32| answers.iter().map(count).sum::<u32>();
    let (denied, overloaded) = (sum(|answers| answers.denied), sum(|answers| answers.overloaded));
    println!(
        "{passed} of {} others passed beside {denied} denials and {overloaded} overloads",
        other_clients()
    );
    assert_eq!(passed, u32::from(other_clients()));
    assert_eq!(sum(|answers| answers.admitted), 10);
    assert_eq!(status(&client([127, 0, 3, 1]), &url).await, 429, "the shared limit is used up exactly");
}
