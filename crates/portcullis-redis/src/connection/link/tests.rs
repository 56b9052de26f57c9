//! Replies that come too late.

use fred::interfaces::ClientLike as _;
use fred::types::Value;
use fred::types::config::Config;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::connection::tests::server::Server;
use crate::connection::tests::waiting::until;

const DEADLINE: Duration = Duration::from_millis(500);

async fn ask(link: &Link) -> Result<Value, CallError> {
    link.call(Order::time(DEADLINE)).await
}

#[tokio::test]
async fn a_reply_after_its_deadline_frees_the_seat_and_leaves_the_breaker_open() {
    let server = Server::start(&[]);
    // A link to a client of somebody else, since that sends nothing but what it is given.
    let client = Client::new(Config::from_url(&server.admin_url()).unwrap(), None, None, None);
    let _task = client.init().await.unwrap();
    let options = Options::default().window(1).deadline(DEADLINE);
    let (link, watching) = Link::watched(client, &options, Journal::new("redis".to_owned(), None));
    let watching = tokio::spawn(watching);
    let is_free = || link.window.try_enter().is_some();
    ask(&link).await.unwrap();
    assert!(link.breaker.is_closed() && is_free());

    for goes_away in [false, true] {
        server.signal("STOP");
        if goes_away {
            timeout(Duration::from_millis(1), ask(&link)).await.unwrap_err();
            until(|| !link.breaker.is_closed()).await;
        } else {
            assert_eq!(ask(&link).await, Err(CallError::TimedOut(DEADLINE)));
        }
        assert!(!link.breaker.is_closed() && !is_free());

        server.signal("CONT");
        // The reply is there, and whoever waited for it is not.
        until(is_free).await;
        assert!(!link.breaker.is_closed() && link.outage().is_some());

        // Only a probe, as soon as one is due, proves that the server is in time again.
        let started = Instant::now();
        while let Err(error) = ask(&link).await {
            assert!(started.elapsed() < Duration::from_secs(20), "no probe is answered: {error}");
            sleep(Duration::from_millis(1)).await;
        }
        assert!(link.breaker.is_closed() && link.outage().is_none());
    }
    watching.abort();
}
