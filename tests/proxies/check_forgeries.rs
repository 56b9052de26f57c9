//! What clients send to have another request checked than theirs.

use crate::app::{Answer, send_request};
use crate::checks::{BUDGET, Checked, Start};
use crate::forgeries::{Lines, forgeries};

/// Header lines, each with whether a proxy may reject the request by itself.
fn lines() -> Vec<(Lines, bool)> {
    let forged = [
        ("X-Original-Address", "6.6.6.6"),
        ("X-Original-Method", "DELETE"),
        ("X-Original-URI", "/free"),
        ("X-Original-Host", "other.example"),
        ("X-Forwarded-For", "6.6.6.6"),
        ("X-Forwarded-Method", "DELETE"),
        ("X-Forwarded-Uri", "/free"),
        ("X-Forwarded-Host", "other.example"),
        ("X-Check-Status", "200"),
        ("X-Check-Answered", "yes"),
    ];
    let line = |name: &str, value: &str| format!("{name}: {value}").into_bytes();
    let mut all = Vec::new();
    for (name, value) in forged {
        all.push((vec![line(name, value)], false));
        all.push((vec![line(name, value), line(&name.to_lowercase(), value)], false));
        all.push((vec![line("Connection", name), line(name, value)], false));
        all.push((vec![line("Connection", &format!("keep-alive, {name}"))], false));
        all.push((vec![line(&name.replace('-', "_"), value)], false));
        all.push((vec![line(name, "")], false));
    }
    all.push((forged.iter().map(|(name, value)| line(name, value)).collect(), false));
    all.extend(forgeries());
    all
}

/// Sends all forgeries from two clients, each of which has exactly the budget of its own address. nginx passes on bytes that no header may
/// have, and makes 500 of the 400 of the server of the endpoint.
pub(crate) async fn forgeries_change_nothing(start: Start, is_nginx: bool) {
    let checked = Checked::start().await;
    let (_proxy, address) = start(checked.endpoint, checked.app, false);
    let clients = ["127.0.0.2", "127.0.0.3"];
    for client in clients {
        let mut admitted = 0;
        for (lines, may_be_refused) in lines() {
            let answer = send_request(client, address, &lines).await;
            let expected = Answer::Layer(if admitted < BUDGET { 200 } else { 429 });
            let refused = match answer {
                Answer::Proxy(status @ (400..=431 | 494 | 500 | 502)) => {
                    may_be_refused && (status != 500 || is_nginx)
                }
                _ => false,
            };
            let shown: Vec<_> = lines
                .iter()
                .take(3)
                .map(|line| line[..line.len().min(80)].escape_ascii().to_string())
                .collect();
            assert!(answer == expected || refused, "{client} {answer:?}, not {expected:?}: {shown:?}");
            admitted += u64::from(answer == Answer::Layer(200));
        }
        assert_eq!((admitted, checked.remaining(client).await), (BUDGET, 0));
    }
    assert_eq!(u64::from(checked.served()), BUDGET * 2);
    for other in ["6.6.6.6", "7.7.7.7", "127.0.0.1", "10.0.0.1", "::1", "2001:db8::6"] {
        assert_eq!(checked.remaining(other).await, BUDGET, "{other} is charged");
    }
}
