//! Log lines about misconfigured proxies.

use http::{HeaderMap, HeaderName, header};

use super::ClientIpError;
use portcullis_log::{LogThrottle, codes};

/// The log lines that an extractor has written already.
#[derive(Debug)]
pub(super) struct LogOnce {
    ignored: LogThrottle,
    everything: LogThrottle,
    repeated: LogThrottle,
}

impl LogOnce {
    pub(super) const fn new() -> Self {
        Self {
            ignored: LogThrottle::hourly(),
            everything: LogThrottle::hourly(),
            repeated: LogThrottle::hourly(),
        }
    }

    pub(super) fn trusts_everything(&self) {
        self.everything.count(0, None, || {
            |counted| {
                tracing::warn!(
                    code = %codes::EVERY_ADDRESS_TRUSTED,
                    seen = counted.events,
                    "ClientIp trusts every address: a client that reaches this server chooses the address that it is \
                     charged to; name the networks of your proxies instead; counted since the last such line"
                );
            }
        });
    }

    /// A request whose headers are ignored, because no proxy is trusted, or not this peer.
    pub(super) fn headers_ignored(&self, headers: &HeaderMap, configured: Option<&HeaderName>) {
        match configured {
            None => {
                let Some(header) = FORWARDING.iter().find(|header| headers.contains_key(*header)) else {
                    return;
                };
                self.ignored.count(0, None, || {
                    move |counted| {
                        tracing::warn!(
                            code = %codes::HEADER_NOT_READ,
                            header = header.as_str(),
                            seen = counted.events,
                            "a forwarding header is present, and ClientIp::peer() does not look at it: behind a proxy all \
                             clients are charged as one; name the proxy in rules by `[client_ip]`, in code by ClientIp::behind(); counted since \
                             the last such line"
                        );
                    }
                });
            }
            Some(header) if headers.contains_key(header) => self.ignored.count(0, None, || {
                let header = header.clone();
                move |counted| {
                    tracing::warn!(
                        code = %codes::PEER_NOT_TRUSTED,
                        header = header.as_str(),
                        seen = counted.events,
                        "a forwarding header came from a peer that is not trusted and is ignored: either a client made \
                         it up, or the trusted networks lack one of your proxies; counted since the last such line"
                    );
                }
            }),
            Some(_) => {}
        }
    }

    pub(super) fn failed(&self, error: &ClientIpError) {
        let ClientIpError::Repeated { header } = error else { return };
        self.repeated.count(0, None, || {
            let header = header.clone();
            move |counted| {
                tracing::warn!(
                    code = %codes::HEADER_REPEATED,
                    header = header.as_str(),
                    seen = counted.events,
                    "a trusted proxy passed on more than one line of a header that it should have overwritten: configure it \
                     to replace what clients send; counted since the last such line"
                );
            }
        });
    }
}

impl Clone for LogOnce {
    /// An extractor that is made from another one starts with an empty log state.
    fn clone(&self) -> Self {
        Self::new()
    }
}

/// The headers that proxies commonly write.
static FORWARDING: [HeaderName; 3] =
    [HeaderName::from_static("x-forwarded-for"), header::FORWARDED, HeaderName::from_static("x-real-ip")];
