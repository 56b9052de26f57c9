//! What a server's operator should hear once.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use http::HeaderMap;

use super::ClientIpError;

/// What an extractor has said already.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    ignored: AtomicBool,
    everything: AtomicBool,
    repeated: AtomicBool,
}

impl Remarks {
    pub(super) const fn none() -> Self {
        let (ignored, everything, repeated) =
            (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
        Self { ignored, everything, repeated }
    }

    pub(super) fn trust_of_everything(&self) {
        if first(&self.everything) {
            tracing::warn!(
                "ClientIp trusts every address: whoever reaches this server chooses the address that he is charged to; \
                 name the networks of your proxies instead"
            );
        }
    }

    /// A request whose headers are not looked at, because nobody or not the peer is trusted.
    pub(super) fn headers_ignored(&self, headers: &HeaderMap, configured: Option<&str>) {
        if self.ignored.load(Relaxed) {
            return;
        }
        match configured {
            None => {
                let Some(header) = FORWARDING.iter().find(|header| headers.contains_key(**header)) else {
                    return;
                };
                if first(&self.ignored) {
                    tracing::warn!(
                        header,
                        "a forwarding header is present, and ClientIp::peer() does not look at it: behind a proxy all \
                         clients are charged as one; ClientIp::behind() says which proxy to believe"
                    );
                }
            }
            Some(header) if headers.contains_key(header) && first(&self.ignored) => {
                tracing::warn!(
                    header,
                    "a forwarding header came from a peer that is not trusted and is ignored: either a client made it \
                     up, or the trusted networks lack one of your proxies"
                );
            }
            Some(_) => {}
        }
    }

    pub(super) fn failed(&self, error: &ClientIpError) {
        if let ClientIpError::Repeated { header } = error
            && first(&self.repeated)
        {
            tracing::warn!(
                header = header.as_str(),
                "a trusted proxy passed on more than one line of a header that it should have overwritten: configure it \
                 to replace what clients send"
            );
        }
    }
}

impl Clone for Remarks {
    /// An extractor that is made from another has said nothing yet.
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// A load first: in good times no core takes the cache line from another.
fn first(said: &AtomicBool) -> bool {
    !said.load(Relaxed) && !said.swap(true, Relaxed)
}

/// What proxies commonly write.
const FORWARDING: [&str; 3] = ["x-forwarded-for", "forwarded", "x-real-ip"];
