//! The tables at the top of a file.

use portcullis_tower::{RateLimitHeaders, RejectionFormat};

use super::ValueKind::{Bool, Choice, FieldOf, Form, Integer, List, Map, Nested, OneOrMore, Text};
use super::kind::{ANY, DURATION, TEXTS, UNITS, names};
use super::parts::{REJECT_WITH, REQUEST_LIST};
use super::policy::POLICY;
use super::{Field, Table};

table! { pub(crate) ROOT, "file", "A file of rules.", 0 to ANY;
    "include", TEXTS, "More files: paths or patterns, relative to this file.";
    "client_ip", Nested(&CLIENT_IP), "What the key \"client_ip\" means. Without it, the peer.";
    "layer", Nested(&LAYER), "What concerns all policies of a layer.";
    "remote", Nested(&REMOTE), "The signed document in a store that may change the policies.";
    "policy", Map(&Nested(&POLICY)), "The policies by name.";
}

table! { pub(crate) CLIENT_IP, "client_ip", "Where the address of a client comes from.", 0 to ANY;
    "header", Text, "\"x-forwarded-for\", \"forwarded\", or a header with a single address.";
    "trusted_proxies", TEXTS, "Networks whose header is believed, such as \"10.0.0.0/8\".";
    "or_peer", Bool, "For a header with a single address: whether a trusted proxy that does not send it counts as the client. Otherwise that is an error.";
    "hops", UNITS, "The number of proxies whose header is believed: at most this number with `trusted_proxies`, exactly this number without.";
    "ipv4_prefix", Integer(1, 32), "Addresses with this number of first bits in common are one client (IPv4).", default("32");
    "ipv6_prefix", Integer(1, 128), "Addresses with this number of first bits in common are one client (IPv6).", default("64");
    "share_places", Bool, "Whether a layer that sheds load gives each client a share of its places.", default("true");
}

table! { pub(crate) REMOTE, "remote", "The signed document in a store that may change the policies.", 0 to ANY;
    "verify_key", PUBLIC_KEY, "The public key that verifies its signature, as `portcullis rules keygen` prints it.", required();
    "key", Text, "The key of the document in the store.", default("portcullis-rules");
    "allow", List(&FieldOf(&POLICY), 0, ANY), "The fields of policies that it may change.", default("[\"limit\",\"burst\",\"mode\"]");
    "minimum_number", UNITS, "The lowest number of a document.", default("0");
    "poll", DURATION, "How often the store is asked for a new document.", default("5s");
}

table! { pub(crate) LAYER, "layer", "What concerns all policies of a layer.", 0 to ANY;
    "headers", OneOrMore(&Choice(&names(&HEADERS))), "The headers that show what is left: a form, or a list of forms. Without it, those of the limiter, by default \"x-ratelimit\".";
    "header_names", Map(&Text), "Other names for headers, such as { x-ratelimit-limit = \"x-rate-limit-limit\" }. Without it, those of the limiter.";
    "spread_retries", DURATION, "The time over which retries of rejected clients are spread.";
    "limit_preflights", Bool, "Whether CORS preflights are limited.", default("false");
    "lookup_deadline", DURATION, "The longest wait for the look-up of a key or a quota.", default("1s");
    "ready_deadline", DURATION, "How long a request that has waited or was looked up may then wait for the inner service.", default("5s");
    "discard_bodies", UNITS, "How many bytes of the body of a rejected request are read and discarded.", default("16777216");
    "decision_in_response", Bool, "Whether responses carry the decision in their extensions, as they do if the limiter says so.", default("false");
    "with_charge", Bool, "Whether handlers get the charge of each request, to read and to correct.", default("false");
    "except", REQUEST_LIST, "Requests that are not limited.";
    "deny", REQUEST_LIST, "Requests that are always rejected, with 403.";
    "only", REQUEST_LIST, "The only requests that are limited.";
    "reject_with", Nested(&REJECT_WITH), "The responses to rejected requests, for policies without their own `reject_with`. Without it, those of the limiter.";
    "reject_as", Choice(&names(&FORMATS)), "The body of rejections for clients without a preference. Without it, that of the limiter, by default \"text\".";
    "grpc_status", Integer(1, 16), "The gRPC status of requests that limits reject. Without it, that of the limiter, by default 8.";
    "show_generation", Text, "The request header that asks for the generation of the rules.";
}

pub(crate) const HEADERS: [(&str, RateLimitHeaders); 7] = [
    ("none", RateLimitHeaders::NONE),
    ("x-ratelimit", RateLimitHeaders::X_RATELIMIT),
    ("x-ratelimit-unix-time", RateLimitHeaders::X_RATELIMIT.reset_as_unix_time()),
    ("ietf", RateLimitHeaders::IETF),
    ("ietf-draft-6", RateLimitHeaders::IETF_DRAFT_6),
    ("by-policy", RateLimitHeaders::BY_POLICY),
    ("shadow", RateLimitHeaders::SHADOW),
];

pub(crate) const FORMATS: [(&str, RejectionFormat); 3] =
    [("text", RejectionFormat::Text), ("json", RejectionFormat::Json), ("problem", RejectionFormat::Problem)];

const PUBLIC_KEY: super::ValueKind =
    Form("^[0-9a-fA-F]{64}$", "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
