//! Keys by header.

use std::borrow::Cow;

use http::header::InvalidHeaderName;
use http::request::Parts;
use http::{HeaderName, HeaderValue};
use portcullis_core::{KeyWriter, or_panic};

use super::only_line::{OnlyLine, only_line};
use super::{Identity, KeyError, KeyExtractor, KeyForms, NamedPart, without_whitespace};
use crate::{ClientIp, Trust};

/// The value of a header, byte for byte except for the spaces and tabs around it.
///
/// If the header is absent, empty or only whitespace, the identity is missing. A header that occurs several times is an error of
/// the client, because the inner service may use another line; so is a value that is longer than a key may be,
/// which is 8 192 bytes.
///
/// The client chooses a header that is not verified, and gets a new budget with each new value. Put the layer inside of the
/// verification, or add a policy by [`ClientIp`](super::ClientIp).
///
/// The host is no header over HTTP/2: see [`Host`](super::Host).
///
/// A verified value may have several spellings that the verifier treats as equal, such as with and without the padding of
/// base64, in upper and lower case, or percent-encoded. Each is a separate key here. Charge the verified identity instead, by
/// [`Extension`](super::Extension), or let the verifier reject all spellings but one.
///
/// ```
/// use http::Request;
/// use portcullis::Secret;
/// use portcullis::key::{Header, Identity, KeyExtractor};
///
/// let mut hasher = Secret::published().hasher();
/// let (parts, ()) = Request::builder().header("x-api-key", "k-17").body(())?.into_parts();
/// assert_eq!(Header::named("X-Api-Key").extract(&parts, &mut hasher.writer()), Ok(Identity::Found));
/// assert_eq!(Header::named("x-other").extract(&parts, &mut hasher.writer()), Ok(Identity::Missing));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Header {
    name: HeaderName,
    /// The peers of which it is believed. A client writes it, if `None`.
    proxies: Option<Box<Trust>>,
}

impl Header {
    /// Uses the header of this name, which is case-insensitive. A name from configuration or input is parsed to a `HeaderName` first.
    ///
    /// # Panics
    ///
    /// If `name` is a text that is not a valid header name.
    #[track_caller]
    pub fn named(name: &(impl AsRef<str> + ?Sized)) -> Self {
        Self { name: header_name(name.as_ref()), proxies: None }
    }

    /// Believes the header of peers in the networks that `clients` names: gateways that have verified the identity, and overwrite the header
    /// whatever the client has sent. From any other peer it counts as absent. It is no longer [chosen by the client](KeyExtractor::is_chosen_by_client).
    ///
    /// ```
    /// use std::net::SocketAddr;
    ///
    /// use http::Request;
    /// use portcullis::key::{Header, Identity, KeyExtractor, Trust};
    /// use portcullis::{ClientIp, Secret};
    ///
    /// let clients = ClientIp::behind(Trust::networks(["10.0.0.0/8"])).x_forwarded_for();
    /// let consumer = Header::named("x-consumer-id").trusted(&clients);
    /// let identity = |peer: [u8; 4]| {
    ///     let request = Request::builder().header("x-consumer-id", "acme").extension(SocketAddr::from((peer, 1024)));
    ///     let (parts, ()) = request.body(()).unwrap().into_parts();
    ///     consumer.extract(&parts, &mut Secret::published().hasher().writer())
    /// };
    /// assert_eq!(identity([10, 0, 0, 9]), Ok(Identity::Found));
    /// assert_eq!(identity([192, 0, 2, 1]), Ok(Identity::Missing));
    /// ```
    ///
    /// # Panics
    ///
    /// If `clients` [names no proxies](ClientIp::named_proxies), or every address as one: then any client could write the header.
    #[track_caller]
    #[must_use]
    pub fn trusted(self, clients: &ClientIp) -> Self {
        Self { proxies: Some(Box::new(clients.trust_of_headers())), ..self }
    }

    fn write_value(&self, value: &[u8], key: &mut KeyWriter<'_>) {
        // The value first: the first part determines the slot of the key in a store, and the name is the same for all.
        key.part("header", value);
        key.part("header name", self.name.as_str().as_bytes());
    }
}

/// The name of a header, by a literal or a name that was parsed.
///
/// # Panics
///
/// If it is a text that is not a valid header name.
#[doc(hidden)]
#[track_caller]
pub fn header_name(name: &str) -> HeaderName {
    or_panic(name.parse().map_err(|error: InvalidHeaderName| format!("{error}: {name:?}")))
}

impl KeyExtractor for Header {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        if self.proxies.as_ref().is_some_and(|proxies| !proxies.trusts_peer(parts)) {
            return Ok(Identity::Missing);
        }
        let value = match only_line(&parts.headers, &self.name) {
            OnlyLine::One(value) => without_whitespace(value),
            OnlyLine::None => return Ok(Identity::Missing),
            OnlyLine::Several => {
                return Err(KeyError::client(format!("header {} was sent more than once", self.name)));
            }
        };
        if value.is_empty() {
            return Ok(Identity::Missing);
        }
        self.write_value(value, key);
        Ok(Identity::Found)
    }

    fn is_chosen_by_client(&self) -> bool {
        self.proxies.is_none()
    }

    fn expected(&self, _: &Parts) -> Option<Cow<'static, str>> {
        Some(Cow::Owned(format!("the header {}", self.name)))
    }

    fn description(&self) -> Cow<'static, str> {
        let kind = if self.proxies.is_some() { "trusted header" } else { "header" };
        Cow::Owned(format!("{kind} {}", self.name))
    }

    fn forms(&self) -> KeyForms {
        KeyForms::of(self.clone())
    }
}

impl NamedPart for Header {
    fn name(&self) -> Cow<'_, str> {
        format!("header {}", self.name).into()
    }

    fn example(&self) -> Cow<'_, str> {
        "ada".into()
    }

    fn tags(&self) -> Vec<&str> {
        vec!["header", "header name"]
    }

    fn write(&self, value: &[u8], key: &mut KeyWriter<'_>) -> Result<(), KeyError> {
        let value =
            HeaderValue::from_bytes(value).map_err(|_| KeyError::client("is no value of a header"))?;
        match without_whitespace(&value) {
            [] => Err(KeyError::client("must not be empty")),
            value => {
                self.write_value(value, key);
                Ok(())
            }
        }
    }
}
