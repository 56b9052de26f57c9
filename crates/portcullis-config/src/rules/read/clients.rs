//! `[client_ip]`: what the address of a client is.

use http::HeaderName;
use portcullis_tower::{ClientIp, Trust};

use super::Reader;
use super::lists::parsed;
use crate::diagnostic::Diagnostic;
use crate::fields::Fields;
use crate::tables::CLIENT_IP;
use crate::tree::Node;

impl<'a> Reader<'a> {
    /// The clients of the program, or of the table, and whether places are shared among them. `None` if there are neither.
    pub(super) fn clients(&self, tables: &[Fields<'a>]) -> Option<(ClientIp, bool)> {
        match (self.once(tables, "client_ip"), &self.hooks.client_ip) {
            (Some(node), None) => self.client_ip(node),
            (None, clients) => Some((clients.clone()?, true)),
            (Some(node), Some(_)) => {
                self.findings
                    .error("client_ip", node.span, "the program sets `client_ip` itself")
                    .help("remove the table, or the setting of the program, such as `--trust`");
                None
            }
        }
    }

    fn client_ip(&self, node: &Node) -> Option<(ClientIp, bool)> {
        let fields = Fields::of(node, "client_ip", &CLIENT_IP, self.findings)?;
        let header: Option<String> = fields.read("header");
        let has_networks = fields.node("trusted_proxies").is_some();
        let networks = fields.texts("trusted_proxies");
        let hops: Option<usize> = fields.read("hops");
        let trust = if has_networks {
            let trust = networks.and_then(|networks| {
                if networks.iter().any(|(network, _)| network.trim_end().ends_with("/0")) {
                    fields
                        .warning("trusted_proxies", TRUSTS_EVERY_ADDRESS)
                        .help("write the networks of the proxies alone");
                }
                parsed(&fields, "trusted_proxies", networks).map(Trust::networks)
            });
            trust.map(|trust| hops.map_or(trust.clone(), |hops| trust.at_most(hops)))
        } else {
            hops.map(Trust::hops)
        };
        let has_trust = has_networks || fields.has("hops");
        let or_peer: Option<bool> = fields.read("or_peer");
        if or_peer.is_some() && !fields.has("header") {
            fields
                .error("or_peer", "no header is named, so that the peer is the client anyway")
                .help("remove the field, or name the header that the proxies write: header = \"x-real-ip\"");
        }
        let mut clients = match (header, trust) {
            (Some(header), Some(trust)) => behind(&fields, &header, or_peer, trust),
            (Some(_), None) if !has_trust => {
                fields
                    .missing_at(
                        &["trusted_proxies", "hops"],
                        fields.path("header"),
                        fields.span_of("header"),
                        "no proxy is trusted to write the header",
                    )
                    .help("add the networks of the proxies: trusted_proxies = [\"10.0.0.0/8\"]");
                None
            }
            (None, Some(_)) if !fields.has("header") => {
                fields
                    .missing(&["header"], "`header` is missing")
                    .help("name the header that the proxies write, such as \"x-forwarded-for\"");
                None
            }
            (None, None) if !has_trust && !fields.has("header") => Some(ClientIp::peer()),
            _ => None,
        };
        for (field, most) in [("ipv4_prefix", 32), ("ipv6_prefix", 128)] {
            let Some(length) = fields.read::<u8>(field) else { continue };
            if !(1..=most).contains(&length) {
                let message = format!("a prefix of {length} bits: it has 1 to {most}");
                fields.error(field, message);
                continue;
            }
            clients = clients.map(|clients| match most {
                32 => clients.ipv4_prefix(length),
                _ => clients.ipv6_prefix(length),
            });
        }
        let shares_places = fields.read("share_places").unwrap_or(true);
        Some((clients?, shares_places))
    }
}

impl Reader<'_> {
    /// Whether the proxies have names, so that a header of theirs can be believed.
    pub(super) fn names_proxies(&self) -> bool {
        self.clients.named_proxies().is_some_and(|networks| !networks.are_everything())
    }

    /// Whether the table has `trusted = true`. That is an error where it is about no header, and where any client could write the header.
    pub(super) fn trusted(&self, fields: &Fields<'_>, header: Option<&HeaderName>) -> bool {
        if !fields.read::<bool>("trusted").unwrap_or_default() {
            return false;
        }
        let Some(header) = header else {
            never_trusted(fields);
            return true;
        };
        let networks = self.clients.named_proxies();
        if let Some(networks) = networks.filter(|_| self.names_proxies()) {
            if self.trusted.borrow_mut().insert(header.clone()) {
                let message = format!(
                    "header {header} is believed of {networks}, where each proxy has to overwrite what clients send"
                );
                let note = Diagnostic::note(fields.path("trusted"), fields.span_of("trusted"), message);
                self.findings.add(note.help(overwriting(header)));
            }
        } else if !self.findings.has_error_in("client_ip") {
            let problem = match networks {
                Some(_) => "every address is trusted",
                None if self.clients.header().is_some() => "`hops` names no proxy",
                None => "no proxy is named",
            };
            fields
                .error("trusted", format!("{problem}, so that any client could write header {header}"))
                .help("write the networks of the proxies: [client_ip] with header = \"x-forwarded-for\" and trusted_proxies = [\"10.0.0.0/8\"]");
        }
        true
    }
}

/// `trusted` of what is no header.
pub(super) fn never_trusted(fields: &Fields<'_>) {
    fields
        .error("trusted", "a client writes it, so that it cannot be trusted")
        .help("remove the field: only a header that a proxy overwrites is trusted");
}

/// The line that makes each proxy overwrite a header.
fn overwriting(header: &HeaderName) -> String {
    format!(
        "nginx: proxy_set_header {header} $verified; HAProxy: http-request set-header {header} %[var(txn.verified)]; Caddy: header_up {header} \
         {{vars.verified}}; Traefik: authResponseHeaders = [\"{header}\"]; Envoy: request_headers_to_add: [{{ header: {{ key: {header}, value: \
         \"..\" }}, append_action: OVERWRITE_IF_EXISTS_OR_ADD }}]"
    )
}

fn behind(fields: &Fields<'_>, header: &str, or_peer: Option<bool>, trust: Trust) -> Option<ClientIp> {
    let proxies = ClientIp::behind(trust);
    let name = header.parse::<HeaderName>();
    let name = name.map_err(|error| fields.error("header", format!("{header:?}: {error}"))).ok()?;
    let is_list = matches!(name.as_str(), "x-forwarded-for" | "forwarded");
    if is_list && or_peer == Some(false) {
        fields
            .error("or_peer", format!("{name} is a list: where a proxy sends none, the proxy is the client"))
            .help("remove the field: it is about headers with a single address");
    }
    Some(match name.as_str() {
        "x-forwarded-for" => proxies.x_forwarded_for(),
        "forwarded" => proxies.forwarded(),
        _ if or_peer == Some(true) => proxies.header_or_peer(&name),
        _ => proxies.header(&name),
    })
}

const TRUSTS_EVERY_ADDRESS: &str =
    "every address is trusted: a client that reaches the server chooses its address";
