//! Attacks on the proxy configurations in the docs.

use std::net::{Ipv6Addr, SocketAddr};

use portcullis::ClientIp;
use portcullis::key::Trust;

use crate::app::{Answer, App, BUDGET, send_request};
use crate::forgeries::forgeries;
use crate::process::{Proxy, free_address};
use crate::snippets::{HAPROXY, NGINX, snippet};

/// The address of the proxies; the clients have other addresses of the loopback.
const PROXIES: [&str; 1] = ["127.0.0.1"];

fn x_forwarded_for() -> ClientIp {
    ClientIp::behind(Trust::networks(PROXIES)).x_forwarded_for()
}

fn nginx(index: usize, app: SocketAddr) -> (Proxy, SocketAddr) {
    let address = free_address();
    let (here, app) = (format!("listen {address};"), app.to_string());
    let six = format!("listen [::1]:{};", address.port());
    let mut replaced = vec![("listen 80;", here.as_str()), ("10.0.0.20:3000", app.as_str())];
    if index == 0 {
        replaced.push(("listen [::]:80;", six.as_str()));
    }
    (Proxy::nginx(&snippet(NGINX, "nginx", index, &replaced), address), address)
}

fn haproxy(app: SocketAddr, option: &str) -> (Proxy, SocketAddr) {
    let address = free_address();
    let replaced = [
        ("bind :80", format!("bind {address}")),
        ("10.0.0.20:3000", app.to_string()),
        ("option forwardfor", option.to_owned()),
    ];
    let replaced = replaced.each_ref().map(|(from, to)| (*from, to.as_str()));
    (Proxy::haproxy(&snippet(HAPROXY, "haproxy", 0, &replaced), address), address)
}

/// Sends all forgeries from each client, and asserts that each client has exactly the budget of its own address.
async fn attack(app: &App, proxy: SocketAddr, clients: &[&str]) {
    for client in clients {
        let mut admitted = 0;
        for (lines, may_be_refused) in forgeries() {
            let answer = send_request(client, proxy, &lines).await;
            let expected = Answer::Layer(if admitted < BUDGET { 200 } else { 429 });
            let refused = may_be_refused && matches!(answer, Answer::Proxy(400..=431 | 494 | 502));
            let shown: Vec<_> = lines
                .iter()
                .take(3)
                .map(|line| line[..line.len().min(80)].escape_ascii().to_string())
                .collect();
            assert!(answer == expected || refused, "{client} {answer:?}, not {expected:?}: {shown:?}");
            admitted += u64::from(answer == Answer::Layer(200));
        }
        assert_eq!(admitted, BUDGET);
        assert_eq!(app.remaining(client).await, 0, "{client} is not charged");
    }
    assert_eq!(u64::from(app.served()), BUDGET * u64::try_from(clients.len()).unwrap());
    for forged in ["6.6.6.6", "7.7.7.7", "127.0.0.1", "10.0.0.1", "::1", "2001:db8::6"] {
        if !clients.contains(&forged) {
            assert_eq!(app.remaining(forged).await, BUDGET, "{forged} is charged");
        }
    }
}

#[tokio::test]
async fn clients_cannot_forge_addresses_behind_nginx() {
    let app = App::behind(x_forwarded_for()).await;
    let (_proxy, address) = nginx(0, app.address);
    attack(&app, address, &["127.0.0.2", "127.0.0.3"]).await;
}

#[tokio::test]
async fn clients_cannot_forge_addresses_behind_nginx_over_ipv6() {
    let app = App::behind(x_forwarded_for()).await;
    let (_proxy, address) = nginx(0, app.address);
    attack(&app, (Ipv6Addr::LOCALHOST, address.port()).into(), &["::1"]).await;
}

#[tokio::test]
async fn clients_cannot_forge_the_single_header_behind_nginx() {
    let app = App::behind(ClientIp::behind(Trust::networks(PROXIES)).header("x-real-ip")).await;
    let (_proxy, address) = nginx(1, app.address);
    attack(&app, address, &["127.0.0.2", "127.0.0.3"]).await;
}

#[tokio::test]
async fn clients_cannot_forge_addresses_behind_haproxy() {
    let app = App::behind(x_forwarded_for()).await;
    let (_proxy, address) = haproxy(app.address, "option forwardfor");
    attack(&app, address, &["127.0.0.2", "127.0.0.3"]).await;
}

#[tokio::test]
async fn clients_cannot_forge_addresses_behind_two_proxies() {
    let app = App::behind(x_forwarded_for()).await;
    let (_nginx, inner) = nginx(0, app.address);
    let (_haproxy, address) = in_front_of(inner);
    attack(&app, address, &["127.0.0.2", "127.0.0.3"]).await;
}

/// HAProxy in front of nginx, as in the page on HAProxy.
fn in_front_of(nginx: SocketAddr) -> (Proxy, SocketAddr) {
    let address = free_address();
    let frontend = snippet(
        HAPROXY,
        "haproxy",
        0,
        &[("bind :80", &format!("bind {address}")), ("default_backend app", "default_backend nginx")],
    );
    let frontend = frontend.split("\nbackend").next().unwrap();
    let backend = snippet(HAPROXY, "haproxy", 1, &[("10.0.0.11:80", &nginx.to_string())]);
    (Proxy::haproxy(&format!("{frontend}\n{backend}"), address), address)
}

/// Simulates with nginx what the docs state of services that have no program to test: Cloudflare replaces its own header, and
/// ingress-nginx replaces `X-Forwarded-For`.
#[tokio::test]
async fn clients_cannot_forge_a_header_that_the_proxy_replaces() {
    for name in ["CF-Connecting-IP", "X-Forwarded-For"] {
        let trusted = ClientIp::behind(Trust::networks(PROXIES));
        let list = name == "X-Forwarded-For";
        let app = App::behind(if list { trusted.x_forwarded_for() } else { trusted.header(name) }).await;
        let address = free_address();
        let (here, there) = (format!("listen {address};"), app.address.to_string());
        let replaced = [("listen 80;", here.as_str()), ("10.0.0.20:3000", &there), ("X-Real-IP", name)];
        let _proxy = Proxy::nginx(&snippet(NGINX, "nginx", 1, &replaced), address);
        attack(&app, address, &["127.0.0.2", "127.0.0.3"]).await;
    }
}

/// The docs' warnings are correct, and the other tests would detect these misconfigurations.
#[tokio::test]
async fn documented_misconfigurations_let_a_client_choose() {
    let forged = |number: u8| [format!("X-Forwarded-For: 6.6.6.{number}").into_bytes()];

    let app = App::behind(x_forwarded_for()).await;
    let (_proxy, address) = haproxy(app.address, "option forwardfor if-none");
    for number in 0..20 {
        assert_eq!(send_request("127.0.0.2", address, &forged(number)).await, Answer::Layer(200));
    }
    assert_eq!(app.remaining("6.6.6.1").await, BUDGET - 1);

    // With another proxy in front, the single header has the address of that proxy.
    let app = App::behind(ClientIp::behind(Trust::networks(PROXIES)).header("x-real-ip")).await;
    let (_nginx, inner) = nginx(1, app.address);
    let (_haproxy, address) = in_front_of(inner);
    for client in ["127.0.0.2", "127.0.0.3"] {
        assert_eq!(send_request(client, address, &[]).await, Answer::Layer(200));
    }
    assert_eq!(app.remaining("127.0.0.1").await, BUDGET - 2);
}
