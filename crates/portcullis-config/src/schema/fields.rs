//! The fields of all tables. A test compares them with those that the readers ask for.

use super::{Field, Kind, Table};

const fn field(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, about, kind, is_required: false }
}

const fn required(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, about, kind, is_required: true }
}

const fn table(name: &'static str, about: &'static str, fields: &'static [Field]) -> Table {
    Table { name, about, fields, at_least: 0, at_most: None }
}

/// A table with exactly one of its fields.
const fn one_of(name: &'static str, about: &'static str, fields: &'static [Field]) -> Table {
    Table { name, about, fields, at_least: 1, at_most: Some(1) }
}

/// A table with at least one of its fields.
const fn some_of(name: &'static str, about: &'static str, fields: &'static [Field]) -> Table {
    Table { name, about, fields, at_least: 1, at_most: None }
}

/// A quota such as `10/s burst 20`.
const QUOTA: Kind = Kind::Pattern(r"^\s*[0-9_]+\s*/\s*\S");
/// A duration such as `1m 30s`.
const DURATION: Kind = Kind::Pattern(r"^\s*[0-9]");
const POSITIVE: Kind = Kind::Integer(1, u64::MAX);
const TEXTS: Kind = Kind::OneOrMore(&Kind::Text);

pub(super) static ROOT: Table = table(
    "root",
    "A file of rules.",
    &[
        field("include", TEXTS, "More files: paths or patterns, relative to this file."),
        field(
            "client_ip",
            Kind::Table(&CLIENT_IP),
            "What the key \"client_ip\" means. Without it, the peer.",
        ),
        field("layer", Kind::Table(&LAYER), "What concerns all policies of a layer."),
        field("remote", Kind::Table(&REMOTE), "The signed document in a store that may change the policies."),
        field("policy", Kind::Map(&Kind::Table(&POLICY)), "The policies by name."),
    ],
);

static CLIENT_IP: Table = table(
    "client_ip",
    "Where the address of a client comes from.",
    &[
        field("header", Kind::Text, "\"x-forwarded-for\", \"forwarded\", or a header with a single address."),
        field("trusted_proxies", TEXTS, "Networks whose header is believed, such as \"10.0.0.0/8\"."),
        field("hops", Kind::Integer(0, u64::MAX), "The number of proxies whose header is believed."),
        field("ipv4_prefix", Kind::Integer(1, 32), "The bits of an IPv4 address that make a client."),
        field("ipv6_prefix", Kind::Integer(1, 128), "The bits of an IPv6 address that make a client."),
        field("share_places", Kind::Bool, "Whether a layer that sheds load shares its places per client."),
    ],
);

static REMOTE: Table = table(
    "remote",
    "The signed document in a store that may change the policies.",
    &[
        required(
            "verify_key",
            Kind::Pattern("^[0-9a-fA-F]{64}$"),
            "The public key that has to have signed it, as `portcullis rules keygen` prints it.",
        ),
        field("key", Kind::Text, "The key of the document in the store."),
        field("allow", NAMES, "The fields of policies that it may change."),
        field("minimum_number", Kind::Integer(0, u64::MAX), "The lowest number of a document."),
        field("poll", DURATION, "The time between two looks at the store."),
    ],
);

/// A list, which may be empty.
const NAMES: Kind = Kind::AnyOf(&NAME_LISTS);
static NAME_LISTS: [Kind; 2] = [Kind::List(&NAME), Kind::Tuple(&NAME, 0)];
static NAME: Kind = Kind::FieldOf(&POLICY);

const REQUESTS: Kind = Kind::OneOrMore(&NAMED);
static NAMED: Kind = Kind::Table(&NAMED_REQUESTS);

static LAYER: Table = table(
    "layer",
    "What concerns all policies of a layer.",
    &[
        field("headers", HEADERS, "The headers that show what is left: a form, or a list of forms."),
        field("spread_retries", DURATION, "The time over which retries of rejected clients are spread."),
        field("limit_preflights", Kind::Bool, "Whether CORS preflights are limited."),
        field("lookup_deadline", DURATION, "The longest wait for the look-up of a key."),
        field("ready_deadline", DURATION, "The longest wait for the inner service."),
        field(
            "discard_bodies",
            Kind::Integer(0, u64::MAX),
            "The bytes that are read of the bodies of rejected requests.",
        ),
        field(
            "decision_in_response",
            Kind::Bool,
            "Whether responses carry the decision in their extensions.",
        ),
        field("without_charge", Kind::Bool, "Whether handlers get no charge to correct."),
        field("except", REQUESTS, "Requests that are not limited."),
        field("deny", REQUESTS, "Requests that are always rejected."),
        field("only", REQUESTS, "The only requests that are limited."),
        field("reject_with", Kind::Table(&REJECT_WITH), "What makes the responses to rejected requests."),
        field(
            "show_generation",
            Kind::Text,
            "The header by which a request asks for the generation of the rules.",
        ),
    ],
);

const HEADERS: Kind = Kind::OneOrMore(&HEADER_FORM);
const HEADER_FORM: Kind =
    Kind::Choice(&["none", "x-ratelimit", "x-ratelimit-unix-time", "ietf", "ietf-draft-6", "shadow"]);

static NAMED_REQUESTS: Table = some_of(
    "requests",
    "Requests, by properties that all have to hold.",
    &[
        field("path", Kind::Text, "Exactly this path."),
        field("prefix", Kind::Text, "Paths below this one."),
        field("route", Kind::Text, "A route of the router, as it is declared."),
        field("network", TEXTS, "Clients of these networks."),
        field("method", Kind::Text, "A method of HTTP."),
        field("grpc", Kind::Text, "A service or method of gRPC."),
        field("function", Kind::Text, "A matcher that the program registered by this name."),
    ],
);

static REJECT_WITH: Table = table(
    "reject_with",
    "What makes the responses to rejected requests.",
    &[required("function", Kind::Text, "A function that the program registered by this name.")],
);

pub(super) static POLICY: Table = table(
    "policy",
    "A limit, and the requests to which it applies.",
    &[
        required("strategy", Kind::Choice(STRATEGIES), "How requests are counted."),
        field("quota", QUOTA, "The quota, such as \"10/s burst 20\"."),
        field("limit", POSITIVE, "The units of a period, in place of a quota."),
        field("period", DURATION, "The period of `limit`."),
        field("burst", POSITIVE, "The most units at once, beside `limit`."),
        field("refill", Kind::Choice(&["greedy", "interval"]), "When units come back."),
        field("anchor", ANCHOR, "Where windows begin."),
        field("slots", Kind::Integer(1, 1000), "The slots of a sliding window."),
        field("windows", Kind::Text, "The windows of a calendar, such as \"months in Europe/Berlin\"."),
        field("lease", Kind::AnyOf(&[POSITIVE, DURATION]), "The units of a lease, or the time of a permit."),
        field("mode", MODE, "Whether rejections are enforced."),
        field("on_store_failure", ON_STORE_FAILURE, "What happens while the store fails."),
        field("except", REQUESTS, "Requests that it does not limit."),
        required("key", Kind::Shared("key", &KEY), "What is limited. Of a list, the first that is there."),
        field(
            "match",
            MATCHES,
            "The requests to which it applies: a condition, or a list of which any suffices.",
        ),
        field("tiers", Kind::Map(&QUOTA), "Quotas by the tier of a request."),
        field("tier", Kind::Table(&TIER), "Where the tier of a request comes from."),
        field("cost", COST, "The units of a request."),
        field("on_missing", Kind::Choice(&["reject", "shared", "exempt"]), "What happens without a key."),
        field("wait", DURATION, "The longest wait of a request."),
        field("debt", Kind::Integer(0, u64::MAX), "The most units that a key may owe."),
        field(
            "caller_quotas",
            Kind::Tuple(&QUOTA, 2),
            "The smallest and the largest quota of single callers.",
        ),
        field(
            "quota_lookup",
            Kind::Text,
            "The look-up of the quotas of single callers that the program registered by this name.",
        ),
        field("grantable", Kind::Bool, "Whether operators may grant and block single keys."),
        field("lock_out", Kind::Table(&LOCK_OUT), "Blocks keys that are rejected again and again."),
        field("in_flight", Kind::Table(&IN_FLIGHT), "A limit on requests in flight, beside the quota."),
        field("charge_when", Kind::Table(&CHARGE_WHEN), "The responses that are charged."),
        field(
            "reserve",
            Kind::Choice(&["used", "nothing", "reservation"]),
            "What a request is charged that ends early.",
        ),
        field("until", Kind::Choice(&["headers", "body"]), "When a request in flight is over."),
        field(
            "look_first",
            LOOK_FIRST,
            "Whether a request is rejected before, though it is charged after its response; or how many of a key may be without one.",
        ),
        field(
            "reject_with",
            Kind::Table(&REJECT_WITH),
            "What makes the responses to requests that it rejects.",
        ),
        field("refund_unanswered", Kind::Bool, "Whether requests without a response are refunded."),
        field("unlisted", Kind::Bool, "Whether it is left out of the headers."),
        field("warn_at", Kind::Number(0.0, 1.0), "The share of the limit at which an event is raised."),
        field("counts_rejections", Kind::Bool, "Whether rejected requests count."),
    ],
);

const LOOK_FIRST: Kind = Kind::AnyOf(&[Kind::Bool, Kind::Integer(0, 1_024)]);

const STRATEGIES: &[&str] = &[
    "token_bucket",
    "gcra",
    "leaky_bucket",
    "fixed_window",
    "calendar_window",
    "sliding_window",
    "sliding_log",
    "in_flight",
];

const ANCHOR: Kind = Kind::AnyOf(&[Kind::Choice(&["epoch", "first_request"]), Kind::Integer(0, u64::MAX)]);

const MODE: Kind = Kind::AnyOf(&MODES);
static MODES: [Kind; 3] =
    [Kind::Choice(&["off", "shadow", "enforce"]), Kind::Pattern("%$"), Kind::Table(&MODE_PERCENT)];

static MODE_PERCENT: Table = table(
    "mode_percent",
    "Enforces for a share of the keys.",
    &[required("percent", Kind::Number(0.0, 100.0), "The share of the keys in percent.")],
);

const ON_STORE_FAILURE: Kind = Kind::AnyOf(&FAILURE_MODES);
static FAILURE_MODES: [Kind; 2] = [Kind::Choice(&["open", "closed", "local"]), Kind::Table(&FAILURE_MODE)];

static FAILURE_MODE: Table = one_of(
    "failure_mode",
    "What happens while the store fails.",
    &[
        field(
            "local",
            Kind::Integer(1, u32::MAX as u64),
            "Limits in memory, by the share of this many instances.",
        ),
        field("open_for", DURATION, "Accepts for this time, then rejects."),
    ],
);

static KEY: Kind = Kind::AnyOf(&[
    Kind::Choice(&[
        "client_ip",
        "peer",
        "global",
        "route",
        "method",
        "grpc_service",
        "grpc_method",
        "bearer",
    ]),
    Kind::Table(&KEY_TABLE),
    Kind::List(&Kind::Shared("key", &KEY)),
]);

static KEY_TABLE: Table = some_of(
    "key_source",
    "What is limited.",
    &[
        field("header", Kind::Text, "A header."),
        field("cookie", Kind::Text, "A cookie."),
        field("query", Kind::Text, "A parameter of the query."),
        field("extension", Kind::Text, "An extension that the program registered by this name."),
        field("lookup", Kind::Text, "A look-up that the program registered by this name."),
        field("all", Kind::List(&Kind::Shared("key", &KEY)), "All of these together."),
        field("challenge", Kind::Text, "The header www-authenticate of responses to requests without it."),
    ],
);

const MATCHES: Kind = Kind::OneOrMore(&CONDITION);
static CONDITION: Kind = Kind::Table(&MATCH);

static MATCH: Table = table(
    "match",
    "A condition, all of whose parts have to hold.",
    &[
        field("path", Kind::Text, "A path, with {name} for a segment and {*rest} for the rest."),
        field("methods", TEXTS, "Methods of HTTP."),
        field("hosts", TEXTS, "Hosts, with *. for all below."),
        field("grpc", Kind::Text, "A service or method of gRPC."),
    ],
);

static TIER: Table =
    table("tier", "Where the tier of a request comes from.", &[required("header", Kind::Text, "A header.")]);

const COST: Kind = Kind::AnyOf(&COSTS);
static COSTS: [Kind; 2] = [Kind::Integer(0, u64::MAX), Kind::Table(&COST_TABLE)];

static COST_TABLE: Table = some_of(
    "cost",
    "The units of a request.",
    &[
        field("header", Kind::Text, "The header with the units."),
        field("max", POSITIVE, "The most units by header."),
        field("path", Kind::Map(&Kind::Integer(0, u64::MAX)), "Units by path."),
        field("function", Kind::Text, "A function that the program registered by this name."),
    ],
);

static LOCK_OUT: Table = table(
    "lock_out",
    "Blocks keys that are rejected again and again.",
    &[
        required("after", Kind::Integer(1, u32::MAX as u64), "The number of rejections."),
        field("within", DURATION, "The time in which they count."),
        field("block_for", DURATION, "The first block."),
        field("up_to", DURATION, "The longest block."),
    ],
);

static IN_FLIGHT: Table = table(
    "in_flight",
    "A limit on requests in flight.",
    &[
        required("limit", POSITIVE, "The most requests at once."),
        field("lease", DURATION, "The time after which a permit that was not released expires."),
        field("on_store_failure", ON_STORE_FAILURE, "What happens while the store fails."),
        field("until", Kind::Choice(&["headers", "body"]), "When a request is over."),
    ],
);

static CHARGE_WHEN: Table = some_of(
    "charge_when",
    "The responses that are charged.",
    &[
        field("status", Kind::OneOrMore(&STATUS), "Their status, or a class such as \"4xx\"."),
        field("grpc_status", Kind::OneOrMore(&Kind::Integer(0, i32::MAX as u64)), "Their status of gRPC."),
        field("function", Kind::Text, "A function that the program registered by this name."),
    ],
);

const STATUS: Kind = Kind::AnyOf(&[Kind::Integer(100, 599), Kind::Pattern("^[1-5]xx$")]);
