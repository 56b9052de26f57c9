//! Makes `Limited` a response of Axum.

use axum::body::Body;
use axum::response::{IntoResponse, Response};

use super::Limited;

impl IntoResponse for Limited {
    fn into_response(self) -> Response {
        self.into_http().map(Body::from)
    }
}
