//! The recipes of the book, attacked.

use std::net::{Ipv6Addr, SocketAddr};

use portcullis::{ClientIp, Trust};

use crate::app::{Answer, App, BUDGET, ask};
use crate::book::snippet;
use crate::forgeries::forgeries;
use crate::process::{Proxy, free_address};

/// The proxies are here; the clients are anywhere else on the loopback.
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
    (Proxy::nginx(&snippet("nginx", "nginx", index, &replaced), address), address)
}

fn haproxy(app: SocketAddr, option: &str) -> (Proxy, SocketAddr) {
    let address = free_address();
    let replaced = [
        ("bind :80", format!("bind {address}")),
        ("10.0.0.20:3000", app.to_string()),
        ("option forwardfor", option.to_owned()),
    ];
    let replaced = replaced.each_ref().map(|(from, to)| (*from, to.as_str()));
    (Proxy::haproxy(&snippet("HAProxy", "haproxy", 0, &replaced), address), address)
}

/// Whatever the clients forge, each has the budget of its own address and nothing else.
async fn attack(app: &App, proxy: SocketAddr, clients: &[&str]) {
    for client in clients {
        let mut admitted = 0;
        for (lines, may_be_refused) in forgeries() {
            let answer = ask(client, proxy, &lines).await;
            let expected = Answer::Layer(if admitted < BUDGET { 200 } else { 429 });
            let refused = may_be_refused && matches!(answer, Answer::Proxy(400..=431 | 494 | 502));
            let shown: Vec<_> = lines
                .iter()
                .take(3)
                .map(|line| line[..line.len().min(80)].escape_ascii().to_string())
                .collect();
            assert!(answer == expected || refused, "{client} {answer:?}, not {expected:?}: {shown:?}");
            admitted += u32::from(answer == Answer::Layer(200));
        }
        assert_eq!(admitted, BUDGET);
        assert_eq!(app.remaining(client).await, 0, "{client} is charged");
    }
    assert_eq!(app.served(), BUDGET * u32::try_from(clients.len()).unwrap());
    for forged in ["6.6.6.6", "7.7.7.7", "127.0.0.1", "10.0.0.1", "::1", "2001:db8::6"] {
        if !clients.contains(&forged) {
            assert_eq!(app.remaining(forged).await, u64::from(BUDGET), "{forged} is nobody's");
        }
    }
}

#[tokio::test]
async fn nobody_is_somebody_else_behind_nginx() {
    let app = App::behind(x_forwarded_for()).await;
    let (_proxy, address) = nginx(0, app.address);
    attack(&app, address, &["127.0.0.2", "127.0.0.3"]).await;
}

#[tokio::test]
async fn nobody_is_somebody_else_behind_nginx_over_ipv6() {
    let app = App::behind(x_forwarded_for()).await;
    let (_proxy, address) = nginx(0, app.address);
    attack(&app, (Ipv6Addr::LOCALHOST, address.port()).into(), &["::1"]).await;
}

#[tokio::test]
async fn nobody_is_somebody_else_behind_nginx_with_one_header() {
    let app = App::behind(ClientIp::behind(Trust::networks(PROXIES)).header("x-real-ip")).await;
    let (_proxy, address) = nginx(1, app.address);
    attack(&app, address, &["127.0.0.2", "127.0.0.3"]).await;
}

#[tokio::test]
async fn nobody_is_somebody_else_behind_haproxy() {
    let app = App::behind(x_forwarded_for()).await;
    let (_proxy, address) = haproxy(app.address, "option forwardfor");
    attack(&app, address, &["127.0.0.2", "127.0.0.3"]).await;
}

#[tokio::test]
async fn nobody_is_somebody_else_behind_two_proxies_in_a_row() {
    let app = App::behind(x_forwarded_for()).await;
    let (_nginx, inner) = nginx(0, app.address);
    let (_haproxy, address) = in_front_of(inner);
    attack(&app, address, &["127.0.0.2", "127.0.0.3"]).await;
}

/// HAProxy as the section on two in a row has it.
fn in_front_of(nginx: SocketAddr) -> (Proxy, SocketAddr) {
    let address = free_address();
    let frontend = snippet(
        "HAProxy",
        "haproxy",
        0,
        &[("bind :80", &format!("bind {address}")), ("default_backend app", "default_backend nginx")],
    );
    let frontend = frontend.split("\nbackend").next().unwrap();
    let backend = snippet("Two proxies in a row", "haproxy", 0, &[("10.0.0.11:80", &nginx.to_string())]);
    (Proxy::haproxy(&format!("{frontend}\n{backend}"), address), address)
}

/// What the book says that services write for which there is no program, written by nginx: Cloudflare replaces a header of its
/// own, and ingress-nginx `X-Forwarded-For`.
#[tokio::test]
async fn nobody_is_somebody_else_where_one_header_is_replaced() {
    for name in ["CF-Connecting-IP", "X-Forwarded-For"] {
        let trusted = ClientIp::behind(Trust::networks(PROXIES));
        let list = name == "X-Forwarded-For";
        let app = App::behind(if list { trusted.x_forwarded_for() } else { trusted.header(name) }).await;
        let address = free_address();
        let (here, there) = (format!("listen {address};"), app.address.to_string());
        let replaced = [("listen 80;", here.as_str()), ("10.0.0.20:3000", &there), ("X-Real-IP", name)];
        let _proxy = Proxy::nginx(&snippet("nginx", "nginx", 1, &replaced), address);
        attack(&app, address, &["127.0.0.2", "127.0.0.3"]).await;
    }
}

/// What the book warns of is so, and these tests would notice it.
#[tokio::test]
async fn what_the_book_warns_of_lets_a_client_choose() {
    let forged = |number: u8| [format!("X-Forwarded-For: 6.6.6.{number}").into_bytes()];

    let app = App::behind(x_forwarded_for()).await;
    let (_proxy, address) = haproxy(app.address, "option forwardfor if-none");
    for number in 0..20 {
        assert_eq!(ask("127.0.0.2", address, &forged(number)).await, Answer::Layer(200));
    }
    assert_eq!(app.remaining("6.6.6.1").await, u64::from(BUDGET) - 1);

    // With another proxy in front, one header tells that proxy.
    let app = App::behind(ClientIp::behind(Trust::networks(PROXIES)).header("x-real-ip")).await;
    let (_nginx, inner) = nginx(1, app.address);
    let (_haproxy, address) = in_front_of(inner);
    for client in ["127.0.0.2", "127.0.0.3"] {
        assert_eq!(ask(client, address, &[]).await, Answer::Layer(200));
    }
    assert_eq!(app.remaining("127.0.0.1").await, u64::from(BUDGET) - 2);
}
