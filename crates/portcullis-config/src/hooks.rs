//! What a file refers to by name, and only a program can do.

use std::collections::HashMap;
use std::sync::Arc;

use crate::door::Door;
use bytes::Bytes;
use http::Response;
use portcullis_tower::matching::RequestMatcher;
use portcullis_tower::{
    AsyncKeyExtractor, ClientIp, Cost, KeyExtractor, QuotaLookup, Rejection, ResponseOutcome,
};

/// Whether a response is charged.
pub(crate) type Charges = dyn Fn(&ResponseOutcome<'_>) -> bool + Send + Sync;

/// Makes the response to a rejected request.
pub(crate) type RejectWith = dyn Fn(&Rejection<'_>) -> Response<Bytes> + Send + Sync;

/// What a program registered, by name.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) keys: HashMap<String, Arc<dyn KeyExtractor>>,
    pub(crate) lookups: HashMap<String, Arc<dyn AsyncKeyExtractor>>,
    pub(crate) costs: HashMap<String, Arc<dyn Cost>>,
    pub(crate) charges: HashMap<String, Arc<Charges>>,
    pub(crate) quota_lookups: HashMap<String, QuotaLookup>,
    pub(crate) rejections: HashMap<String, Arc<RejectWith>>,
    pub(crate) matchers: HashMap<String, Arc<dyn RequestMatcher>>,
    /// What `client_ip` is, in place of the table.
    pub(crate) client_ip: Option<ClientIp>,
    /// The program is not there, as in a command that checks files: each name counts as registered.
    pub(crate) any_name: bool,
    /// What decides by the rules, where a command does it and no program.
    pub(crate) doors: Vec<Door>,
}
