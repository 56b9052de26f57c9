//! What the fields of JSON lines mean.

use std::str::FromStr;

use crate::simulate::log::meaning::Meaning;

/// Which fields of JSON lines are the time, the client and the parts of the request.
///
/// Written as `time=ts,client=ip,header:x-api-key=key`; a field within a field has a dot in its name: `request.uri`. What is not
/// mentioned is searched under its usual names.
///
/// ```
/// use portcullis_cli::simulate::Fields;
///
/// assert!("time=ts,client=request.remote_ip,header:x-api-key=key".parse::<Fields>().is_ok());
/// assert_eq!("colour=ts".parse::<Fields>().unwrap_err().to_string(), "unknown field `colour`: a field is `time`, `client`, \
///     `date`, `method`, `path`, `query`, `request`, `status`, `host` or `header:NAME`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The names of fields with what they are. If several that are one thing are there, the first of the line wins.
    names: Vec<(String, Meaning)>,
}

impl Fields {
    pub(super) fn meaning(&self, name: &str) -> Option<&Meaning> {
        self.names.iter().find(|(known, _)| known == name).map(|(_, meaning)| meaning)
    }

    /// Whether a field within the field `name` is known.
    pub(super) fn is_parent(&self, name: &str) -> bool {
        let inner = |known: &str| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        self.names.iter().any(|(known, _)| inner(known))
    }
}

impl Default for Fields {
    fn default() -> Self {
        let names = USUAL.iter().flat_map(|(name, names)| {
            let meaning = meaning(name).expect("the usual fields are known");
            names.split(' ').map(move |name| (name.to_owned(), meaning.clone()))
        });
        Self { names: names.collect() }
    }
}

impl FromStr for Fields {
    type Err = FieldsError;

    fn from_str(text: &str) -> Result<Self, FieldsError> {
        let mut fields = Self::default();
        let mut given = Vec::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (meaning, name) = pair.split_once('=').ok_or_else(|| FieldsError::NoName(pair.to_owned()))?;
            given.push((name.trim().to_owned(), self::meaning(meaning.trim())?));
        }
        fields
            .names
            .retain(|(name, usual)| !given.iter().any(|(other, meaning)| meaning == usual || other == name));
        fields.names.splice(0..0, given);
        Ok(fields)
    }
}

fn meaning(text: &str) -> Result<Meaning, FieldsError> {
    match text.strip_prefix("header:").map(str::parse) {
        Some(Ok(name)) => Ok(Meaning::Header(name)),
        Some(Err(_)) => Err(FieldsError::Header(text.to_owned())),
        None => Meaning::from_name(text).ok_or_else(|| FieldsError::Unknown(text.to_owned())),
    }
}

/// Why a text does not describe [fields](Fields).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldsError {
    /// There is no `=`.
    #[error("`{0}` has no `=`: write `time=ts`")]
    NoName(String),
    /// No part of a request has this name.
    #[error(
        "unknown field `{0}`: a field is `time`, `client`, `date`, `method`, `path`, `query`, `request`, `status`, `host` or `header:NAME`"
    )]
    Unknown(String),
    /// The name of a header is invalid.
    #[error("`{0}` does not name a header")]
    Header(String),
}

/// The names that nginx, Apache, Caddy, Envoy, Istio, Traefik, Cloudflare, `CloudFront` and others use, or that their manuals suggest.
const USUAL: [(&str, &str); 11] = [
    (
        "time",
        "time ts timestamp @timestamp time_iso8601 msec time_local start_time StartUTC EdgeStartTimestamp",
    ),
    ("date", "date"),
    (
        "client",
        "client client_ip remote_addr remote_ip ip request.remote_ip request.remote_addr ClientHost ClientIP c-ip \
         downstream_remote_address downstream_direct_remote_address",
    ),
    ("method", "method request_method request.method RequestMethod ClientRequestMethod cs-method :method"),
    (
        "path",
        "path uri request_uri url request.uri RequestPath ClientRequestURI cs-uri-stem x-envoy-origin-path :path",
    ),
    ("query", "args query_string cs-uri-query"),
    ("request", "request"),
    ("status", "status response_code DownstreamStatus EdgeResponseStatus sc-status"),
    ("host", "host http_host authority :authority request.host RequestHost ClientRequestHost x-host-header"),
    ("header:user-agent", "user_agent user-agent http_user_agent request_User-Agent ClientRequestUserAgent"),
    (
        "header:x-forwarded-for",
        "x_forwarded_for x-forwarded-for http_x_forwarded_for request_X-Forwarded-For",
    ),
];
