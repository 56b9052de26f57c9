//! Requests of any kind through a layer with policies of any kind.

mod body;
mod identity;
mod message;
mod model;
mod setup;
mod store;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes as Data;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use portcullis_tower::RateLimitLayer;
use tokio::runtime::{Builder, Runtime};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::bytes::Bytes;
use message::Message;
use model::Model;
use setup::{Setup, Wrapping};
use store::Recorder;

/// A request that reaches the inner service uncounted is exempt by a rule of the application, or is a provable preflight: its
/// body is known to be empty, and either it is charged to a preflight budget or it has no credentials.
///
/// A model determines what each request has to be charged to. It parses headers independently of the layer.
pub fn requests(input: &[u8]) {
    thread_local! {
        static RUNTIME: Runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without I/O can be made");
    }

    let mut bytes = Bytes(input);
    let setup = Setup::read(&mut bytes);
    let store = Arc::new(Recorder::default());
    let layer = setup.layer(Arc::clone(&store));
    let mut model = Model::new(&setup);
    for _ in 0..MAX_REQUESTS {
        let message = Message::read(&mut bytes);
        store.begin(message.mode);
        let has_reached = RUNTIME.with(|runtime| match setup.wrapping {
            Wrapping::None => runtime.block_on(send(&layer, message.request(|body| body))),
            Wrapping::Limited => {
                runtime.block_on(send(&layer, message.request(|body| Limited::new(body, 1_000))))
            }
            Wrapping::Boxed => runtime.block_on(send(&layer, message.request(BodyExt::boxed))),
        });
        model.check(&message, has_reached, &store.end());
        if bytes.is_empty() {
            break;
        }
    }
}

/// Whether a request has reached the inner service.
async fn send<B: Body<Data = Data> + Send + 'static>(layer: &RateLimitLayer, request: Request<B>) -> bool {
    let reached = AtomicBool::new(false);
    let inner = service_fn(async |_: Request<B>| {
        reached.store(true, Relaxed);
        Ok::<_, Infallible>(Response::new(()))
    });
    let answered = layer.layer(inner).oneshot(request).await;
    answered.unwrap_or_else(|never| match never {});
    reached.into_inner()
}

const MAX_REQUESTS: usize = 32;

#[cfg(test)]
mod tests;
