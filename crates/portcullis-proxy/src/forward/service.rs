//! The whole service: normalise, limit, forward.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use http::{HeaderName, HeaderValue, Request, Response, Version, header};
use http_body_util::Either;
use portcullis::ResponseBody;
use portcullis::rules::RulesService;
use portcullis_server::listener::ClientBody;
use tower_layer::Layer as _;
use tower_service::Service;

use super::Forward;
use super::settings::Shared;
use crate::failure::Form;
use crate::request::prepare;

/// The service of a proxy.
#[derive(Clone, Debug)]
pub(crate) struct ProxyService {
    shared: Arc<Shared>,
    limited: RulesService<Forward>,
}

impl ProxyService {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let limited = shared.rules.layer().layer(Forward(Arc::clone(&shared)));
        Self { shared, limited }
    }
}

impl Service<Request<ClientBody>> for ProxyService {
    type Response = Response<Either<ResponseBody<Body>, Body>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.limited.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ClientBody>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let is_trusted = |name: &HeaderName| self.shared.rules.current().is_trusted_header(name);
        match prepare(&mut parts, &self.shared.pseudonym, is_trusted) {
            Ok(prepared) => {
                parts.extensions.insert(prepared);
                let limited = self.limited.call(Request::from_parts(parts, body));
                Box::pin(async { Ok(limited.await?.map(Either::Left)) })
            }
            Err(failure) => {
                let mut response = failure.response(Form::of(&parts));
                if parts.version != Version::HTTP_2 {
                    // Where the request ends may be uncertain.
                    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                Box::pin(async { Ok(response.map(Either::Right)) })
            }
        }
    }
}
