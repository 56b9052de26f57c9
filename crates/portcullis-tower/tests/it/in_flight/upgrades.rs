//! Connections that outlive their response.

use http::{Method, StatusCode};
use portcullis_tower::{Charge, InFlightPermit};

use super::*;

/// What a handler keeps for the task that uses the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    Permit,
    Charge,
    Nothing,
}

type Kept = (Option<InFlightPermit>, Option<Charge>);

async fn upgrade(layer: &RateLimitLayer, keeps: Keeps, method: Method, status: StatusCode) -> Kept {
    let kept = Arc::<Mutex<Kept>>::default();
    let list = Arc::clone(&kept);
    let service = layer.layer(service_fn(move |request: Request<String>| {
        let charge = request.extensions().get::<Charge>().cloned();
        *list.lock().unwrap() = match keeps {
            Keeps::Permit => (charge.unwrap().take_permit(), None),
            Keeps::Charge => (None, charge),
            Keeps::Nothing => (None, None),
        };
        let response = Response::builder().status(status).body(Steps::new(&[Step::End])).unwrap();
        async { Ok::<_, Infallible>(response) }
    }));
    let request = Request::builder().method(method).body(String::new()).unwrap();
    let mut response = service.oneshot(request).await.unwrap();
    assert!(response.body_mut().frame().await.is_none());
    drop(response);
    std::mem::take(&mut *kept.lock().unwrap())
}

#[tokio::test]
async fn the_user_of_an_upgraded_connection_holds_the_permit() {
    for (method, status) in
        [(Method::GET, StatusCode::SWITCHING_PROTOCOLS), (Method::CONNECT, StatusCode::OK)]
    {
        for keeps in [Keeps::Permit, Keeps::Charge] {
            let setup = Setup::new(Mode::Ready);
            let (permit, charge) = upgrade(&setup.layer(), keeps, method.clone(), status).await;
            assert_eq!(setup.held().await, 1, "{method}, {keeps:?}");
            // A task may take it after the response as well.
            let permit = permit.or_else(|| charge.as_ref().and_then(Charge::take_permit));
            drop(charge);
            assert_eq!(setup.held().await, 1);
            drop(permit);
            assert_eq!((setup.held().await, setup.seen()), (0, vec!["released"]));

            drop(upgrade(&setup.layer(), keeps, method.clone(), status).await);
            assert_eq!(setup.held().await, 0);
        }
    }
}

#[tokio::test]
async fn an_upgraded_connection_without_a_holder_is_reported() {
    let setup = Setup::new(Mode::Ready);
    drop(upgrade(&setup.layer(), Keeps::Nothing, Method::GET, StatusCode::SWITCHING_PROTOCOLS).await);
    assert_eq!((setup.held().await, setup.seen()), (0, vec!["upgrade released", "released"]));
    let release_at_headers = setup.layer_of(EXPORTS.by(Global).release_at_headers());
    drop(upgrade(&release_at_headers, Keeps::Nothing, Method::GET, StatusCode::SWITCHING_PROTOCOLS).await);
    assert_eq!((setup.held().await, setup.seen()), (0, vec!["released"]));
}

#[tokio::test]
async fn other_responses_to_connect_release_the_permit() {
    let setup = Setup::new(Mode::Ready);
    let kept = upgrade(&setup.layer(), Keeps::Charge, Method::CONNECT, StatusCode::FORBIDDEN).await;
    assert_eq!(setup.held().await, 0);
    drop(kept);
}
