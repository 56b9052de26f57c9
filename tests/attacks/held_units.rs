//! Units of a shared limit that a client could hold while its own limit denies it, in a cluster that decides the two limits
//! on different servers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use portcullis::key::Global;
use portcullis::{ClientIp, Limiter, Policy, Quota};
use portcullis_servers::RedisCluster;
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const IN_FLIGHT: usize = 50;
const OTHERS: u8 = 200;
/// The attacker's ten units, and exactly as many as the others need.
const ALL: Policy = Policy::fixed_window("all", Quota::per_hour(10 + 200));
const ADDRESS: Policy = Policy::fixed_window("address", Quota::per_hour(10));

async fn serve(url: String) -> String {
    let limiter = Limiter::redis(url).deadline(Duration::from_secs(5)).await.unwrap();
    let limit = limiter.layer(ALL).by(Global).and_policy(ADDRESS).by(ClientIp::peer());
    let app = Router::new().route("/", get(async || "found")).route_layer(limit);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, app).into_future());
    format!("http://{address}/")
}

fn client(from: [u8; 4]) -> reqwest::Client {
    reqwest::Client::builder().local_address(IpAddr::from(from)).build().unwrap()
}

async fn status(client: &reqwest::Client, url: &str) -> u16 {
    client.get(url).send().await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_address_holds_no_units_of_a_shared_limit() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let url = serve(cluster.url()).await;
    let (begun, is_over) = (Arc::new(Barrier::new(IN_FLIGHT + 1)), Arc::new(AtomicBool::new(false)));
    let mut attack = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let (client, url) = (client([127, 0, 0, 66]), url.clone());
        let (begun, is_over) = (Arc::clone(&begun), Arc::clone(&is_over));
        attack.spawn(async move {
            let (mut admitted, mut denied) = (0, 0);
            while !is_over.load(Relaxed) {
                match status(&client, &url).await {
                    200 => admitted += 1,
                    status => {
                        assert_eq!(status, 429);
                        denied += 1;
                    }
                }
                // By now, the calls in flight when the address was first denied have been refunded.
                if denied == 2 {
                    begun.wait().await;
                }
            }
            (admitted, denied)
        });
    }
    begun.wait().await;
    let mut passed = 0;
    for other in 1..=OTHERS {
        passed += u32::from(status(&client([127, 0, 1, other]), &url).await == 200);
    }
    is_over.store(true, Relaxed);
    let attack = attack.join_all().await;
    let denied: u32 = attack.iter().map(|(_, denied)| denied).sum();
    println!("{passed} of {OTHERS} others passed beside {denied} denials");
    assert_eq!(passed, u32::from(OTHERS));
    assert_eq!(attack.iter().map(|(admitted, _)| admitted).sum::<u32>(), 10);
    assert_eq!(status(&client([127, 0, 3, 1]), &url).await, 429, "the shared limit is used up exactly");
}
