//! How outgoing requests wait.

use tokio::time::timeout;
use tower::limit::ConcurrencyLimit;

use super::*;

fn waiting() -> Policy {
    ten_per_second().wait_at_most(Duration::from_secs(10))
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_their_slots() {
    let (peer, [one, other]) = (Peer::new(), processes());
    let clients = [one, other].map(|registry| peer.client(&OutgoingLayer::new(registry, waiting())));
    let mut requests = tokio::task::JoinSet::new();
    for number in 0..6 {
        let client = clients[number % 2].clone();
        requests.spawn(async move { send(&client).await.unwrap() });
    }
    assert_eq!(requests.join_all().await, [200; 6]);
    assert_eq!(peer.asked(), [0, 0, 100, 200, 300, 400]);
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_a_closed_key_and_are_paced_then() {
    let (peer, [one, other]) = (Peer::new(), processes());
    let clients = [one, other].map(|registry| peer.client(&OutgoingLayer::new(registry, waiting())));
    peer.will_answer(429, &[("retry-after", "5")]);
    assert_eq!(send(&clients[0]).await.unwrap(), 429);
    let mut requests = tokio::task::JoinSet::new();
    for number in 0..4 {
        let client = clients[number % 2].clone();
        requests.spawn(async move { send(&client).await.unwrap() });
    }
    assert_eq!(requests.join_all().await, [200; 4]);
    assert_eq!(peer.asked(), [0, 5_000, 5_000, 5_100, 5_200]);
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_slots_see_that_the_key_is_closed() {
    let (peer, [one, other]) = (Peer::new(), processes());
    let [one, other] = [one, other].map(|registry| peer.client(&OutgoingLayer::new(registry, waiting())));
    assert_eq!(send(&one).await.unwrap(), 200);
    peer.will_answer(429, &[("retry-after", "3")]);
    let mut waiting = tokio::task::JoinSet::new();
    for client in [one, other.clone()] {
        let client = client.clone();
        waiting.spawn(async move { send(&client).await.unwrap() });
    }
    // The first of them is refused at once; the other has a slot 100 ms later.
    let mut statuses = waiting.join_all().await;
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 429]);
    assert_eq!(peer.asked(), [0, 0, 3_000]);
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_at_most_as_told() {
    let (peer, [registry]) = (Peer::new(), processes());
    let layer = OutgoingLayer::new(registry, waiting());
    let patient = peer.client(&layer);
    let hasty = peer.client(&layer.at_most(Duration::from_millis(150)));
    for _ in 0..3 {
        assert_eq!(send(&hasty).await.unwrap(), 200);
    }
    // The next slot but one is too far away.
    let mut late = std::pin::pin!(send(&patient));
    assert!(futures_are_pending(late.as_mut()).await);
    assert_eq!(not_sent(send(&hasty).await), (50, false));
    peer.will_answer(429, &[("retry-after", "1")]);
    assert_eq!(late.await.unwrap(), 429);
    assert_eq!(not_sent(send(&hasty).await), (1_000, true), "nor does it wait for the key");
    assert_eq!(send(&patient).await.unwrap(), 200);
    assert_eq!(peer.asked(), [0, 0, 100, 200, 1_200]);
}

/// Polls a future once.
async fn futures_are_pending<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

#[tokio::test(start_paused = true)]
async fn the_number_of_waiting_requests_is_bounded() {
    let (peer, [registry]) = (Peer::new(), processes());
    registry.max_waiting_requests(32);
    let client = peer.client(&OutgoingLayer::new(Arc::clone(&registry), waiting()));
    peer.will_answer(429, &[("retry-after", "5")]);
    assert_eq!(send(&client).await.unwrap(), 429);
    // One sixteenth for each key.
    let waiting = [(); 2].map(|()| {
        tokio::spawn({
            let client = client.clone();
            async move { send(&client).await.unwrap() }
        })
    });
    while registry.waiting_requests() < 2 {
        tokio::task::yield_now().await;
    }
    let Err(OutgoingError::Undecided(limited)) = send(&client).await else { panic!() };
    assert_eq!(limited.reason(), Reason::Overloaded);
    for request in waiting {
        assert_eq!(request.await.unwrap(), 200);
    }
    assert_eq!(registry.waiting_requests(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_window_is_waited_for_and_a_closed_key_with_it() {
    let (peer, [one, other]) = (Peer::new(), processes());
    let policy = Policy::fixed_window("peer", Quota::per_second(2)).wait_at_most(Duration::from_secs(10));
    let clients = [one, other].map(|registry| peer.client(&OutgoingLayer::new(registry, policy.clone())));
    assert_eq!(send(&clients[0]).await.unwrap(), 200);
    assert_eq!(send(&clients[0]).await.unwrap(), 200);
    peer.will_answer(429, &[("retry-after", "4")]);
    assert_eq!(send(&clients[0]).await.unwrap(), 429);
    assert_eq!(send(&clients[1]).await.unwrap(), 200);
    let asked = peer.asked();
    assert!((1_000..1_100).contains(&asked[2]) && (5_000..5_200).contains(&asked[3]), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_leaves_gives_its_wait_up() {
    let (peer, [registry]) = (Peer::new(), processes());
    let client = peer.client(&OutgoingLayer::new(Arc::clone(&registry), waiting()));
    peer.will_answer(429, &[("retry-after", "5")]);
    assert_eq!(send(&client).await.unwrap(), 429);
    let mut leaving = Box::pin(send(&client));
    assert!(futures_are_pending(leaving.as_mut()).await);
    assert_eq!(registry.waiting_requests(), 1);
    drop(leaving);
    assert_eq!(registry.waiting_requests(), 0);
}

/// The inner service has room for one request at a time, which an instance that is ready takes.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_sent_leaves_its_room_to_others() {
    let [registry] = processes();
    let layer = OutgoingLayer::new(registry, Policy::gcra("partners", Quota::per_hour(1)));
    let inner = service_fn(async |_: Request<NotClone>| Ok::<_, Infallible>(Response::new(())));
    let mut client = layer.layer(ConcurrencyLimit::new(inner, 1));
    let other = client.clone();
    for (uri, is_sent) in [("https://a.example", true), ("https://a.example", false), ("/no-host", false)] {
        let answer = client.ready().await.unwrap().call(get(uri)).await;
        assert_eq!(answer.is_ok(), is_sent, "{uri}");
        let is_ready = timeout(Duration::from_secs(1), other.clone().ready_oneshot()).await.is_ok();
        assert!(is_ready, "{uri} keeps the room that it does not use");
    }
}
