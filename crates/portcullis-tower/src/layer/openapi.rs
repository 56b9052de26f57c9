//! The responses of a layer, for the OpenAPI document of the service.

use std::sync::Arc;

use utoipa::openapi::{Response, Responses};

use crate::RateLimitLayer;
use crate::config::LiveConfig;

impl RateLimitLayer {
    /// Returns the response 429 of this layer, for the OpenAPI document of the service.
    ///
    /// It has the headers that this layer may send with its [settings](Self::headers), each with its unit, its schema and an example,
    /// and the body in its three types: problem details, the same members as JSON, and text. The examples are what the layer sends to a
    /// client that has used up the first policy that is not [hidden](crate::Limit::hide), at a fixed instant, so that the document
    /// changes only with the policies. They are those of now: see `Limiter::set_policy`.
    ///
    /// - The response of a closure ([`reject_with`](Self::reject_with)) has the headers, and no content, because only the closure knows
    ///   it: add it with its schema.
    /// - Limits are in the description only if the headers show them.
    /// - If no policy is enforced, because all are in [shadow](crate::Limit::shadow) or off, the description says that the response is not
    ///   sent, and there are no headers.
    /// - It describes HTTP: gRPC has a status of its own. Headers of outer layers are not among the headers.
    ///
    /// ```
    /// use std::sync::LazyLock;
    ///
    /// use portcullis::key::Global;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota, RateLimitLayer};
    /// use utoipa::openapi::{RefOr, Response};
    /// use utoipa::{OpenApi, ToResponse};
    ///
    /// static SEARCH_LIMIT: LazyLock<RateLimitLayer> = LazyLock::new(|| {
    ///     Limiter::memory().layer(Policy::gcra("search", Quota::per_second(10).burst(20)).by(Global))
    /// });
    ///
    /// /// What a client gets that searches too often.
    /// struct SearchLimited;
    ///
    /// impl<'r> ToResponse<'r> for SearchLimited {
    ///     fn response() -> (&'r str, RefOr<Response>) {
    ///         ("SearchLimited", SEARCH_LIMIT.openapi().into())
    ///     }
    /// }
    ///
    /// #[utoipa::path(get, path = "/search", responses(
    ///     (status = 200, body = str),
    ///     (status = 429, response = SearchLimited),
    /// ))]
    /// # #[allow(dead_code)]
    /// async fn search() -> &'static str {
    ///     "found"
    /// }
    ///
    /// #[derive(OpenApi)]
    /// #[openapi(paths(search), components(responses(SearchLimited)))]
    /// struct Api;
    ///
    /// let document = serde_json::to_value(Api::openapi()).unwrap();
    /// let limited = &document["components"]["responses"]["SearchLimited"];
    /// assert_eq!(limited["headers"]["X-RateLimit-Limit"]["example"], 20);
    /// let problem = &limited["content"]["application/problem+json"];
    /// assert_eq!(problem["schema"]["properties"]["violated-policies"]["items"]["enum"][0], "search");
    /// ```
    pub fn openapi(&self) -> Response {
        let live = LiveConfig::of(&self.config);
        let config = Arc::clone(&live.current());
        config.responses.describe_limited(&config.shown())
    }

    /// Returns the responses of this layer with their statuses: [429](Self::openapi), unless no policy is enforced, and 503, which
    /// every layer may send when the store fails or the server is overloaded.
    ///
    /// The responses to requests that have no valid identity, or that a list denies, are not among them: 400, 401 and 403 usually have
    /// other causes in a service as well.
    ///
    /// ```
    /// use portcullis::key::Global;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    /// use utoipa::openapi::path::{HttpMethod, OperationBuilder};
    /// use utoipa::openapi::{OpenApiBuilder, PathItem, PathsBuilder};
    ///
    /// let layer = Limiter::memory().layer(Policy::gcra("search", Quota::per_second(10).burst(20)).by(Global));
    ///
    /// let search = OperationBuilder::new().responses(layer.openapi_responses());
    /// let paths = PathsBuilder::new().path("/search", PathItem::new(HttpMethod::Get, search));
    /// let document = serde_json::to_value(OpenApiBuilder::new().paths(paths).build()).unwrap();
    /// let responses = &document["paths"]["/search"]["get"]["responses"];
    /// assert_eq!(responses["429"]["headers"]["Retry-After"]["example"], 1);
    /// assert_eq!(responses["503"]["headers"]["Cache-Control"]["example"], "no-store");
    /// ```
    pub fn openapi_responses(&self) -> Responses {
        let live = LiveConfig::of(&self.config);
        let config = Arc::clone(&live.current());
        let enforced = config.shown();
        let limited = (!enforced.is_empty()).then(|| ("429", config.responses.describe_limited(&enforced)));
        let unavailable = ("503", config.responses.describe_unavailable());
        limited.into_iter().chain([unavailable]).collect()
    }
}
