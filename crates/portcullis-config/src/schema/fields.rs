//! The fields of all tables. A test compares them with those that the readers ask for.

use serde_json::{Value, json};

use super::{
    Table, any_of, boolean, choice, defined, integer, list, map, number, one_or_more, pattern, text, tuple,
};

/// What others refer to by name.
pub(super) fn definitions() -> Value {
    json!({
        "charge_when": charge_when().schema,
        "client_ip": client_ip().schema,
        "cost": cost().schema,
        "failure_mode": failure_mode().schema,
        "in_flight": in_flight().schema,
        "key": key(),
        "key_source": key_source().schema,
        "layer": layer().schema,
        "lock_out": lock_out().schema,
        "match": matching().schema,
        "mode_percent": mode_percent().schema,
        "policy": policy().schema,
        "reject_with": reject_with().schema,
        "remote": remote().schema,
        "requests": requests().schema,
        "tier": tier().schema,
    })
}

pub(super) fn root() -> Table {
    Table::new("A file of rules.")
        .field("include", texts(), "More files: paths or patterns, relative to this file.")
        .field("client_ip", defined("client_ip"), "What the key \"client_ip\" means. Without it, the peer.")
        .field("layer", defined("layer"), "What concerns all policies of a layer.")
        .field("remote", defined("remote"), "The signed document in a store that may change the policies.")
        .field("policy", map(&defined("policy")), "The policies by name.")
}

fn client_ip() -> Table {
    Table::new("Where the address of a client comes from.")
        .field("header", text(), "\"x-forwarded-for\", \"forwarded\", or a header with a single address.")
        .field("trusted_proxies", texts(), "Networks whose header is believed, such as \"10.0.0.0/8\".")
        .field("hops", integer(0, u64::MAX), "The number of proxies whose header is believed.")
        .field("ipv4_prefix", integer(1, 32), "The bits of an IPv4 address that make a client.")
        .field("ipv6_prefix", integer(1, 128), "The bits of an IPv6 address that make a client.")
        .field("share_places", boolean(), "Whether a layer that sheds load shares its places per client.")
}

fn remote() -> Table {
    Table::new("The signed document in a store that may change the policies.")
        .required(
            "verify_key",
            pattern("^[0-9a-fA-F]{64}$"),
            "The public key that has to have signed it, as `portcullis rules keygen` prints it.",
        )
        .field("key", text(), "The key of the document in the store.")
        .field("allow", policy_names(), "The fields of policies that it may change.")
        .field("minimum_number", integer(0, u64::MAX), "The lowest number of a document.")
        .field("poll", duration(), "The time between two looks at the store.")
}

fn layer() -> Table {
    Table::new("What concerns all policies of a layer.")
        .field(
            "headers",
            one_or_more(&choice(&[
                "none",
                "x-ratelimit",
                "x-ratelimit-unix-time",
                "ietf",
                "ietf-draft-6",
                "shadow",
            ])),
            "The headers that show what is left: a form, or a list of forms.",
        )
        .field("spread_retries", duration(), "The time over which retries of rejected clients are spread.")
        .field("limit_preflights", boolean(), "Whether CORS preflights are limited.")
        .field("lookup_deadline", duration(), "The longest wait for the look-up of a key.")
        .field("ready_deadline", duration(), "The longest wait for the inner service.")
        .field(
            "discard_bodies",
            integer(0, u64::MAX),
            "The bytes that are read of the bodies of rejected requests.",
        )
        .field("decision_in_response", boolean(), "Whether responses carry the decision in their extensions.")
        .field("without_charge", boolean(), "Whether handlers get no charge to correct.")
        .field("except", request_list(), "Requests that are not limited.")
        .field("deny", request_list(), "Requests that are always rejected.")
        .field("only", request_list(), "The only requests that are limited.")
        .field("reject_with", defined("reject_with"), "What makes the responses to rejected requests.")
        .field(
            "show_generation",
            text(),
            "The header by which a request asks for the generation of the rules.",
        )
}

fn requests() -> Table {
    Table::new("Requests, by properties that all have to hold.")
        .at_least_one()
        .field("path", text(), "Exactly this path.")
        .field("prefix", text(), "Paths below this one.")
        .field("route", text(), "A route of the router, as it is declared.")
        .field("network", texts(), "Clients of these networks.")
        .field("method", text(), "A method of HTTP.")
        .field("grpc", text(), "A service or method of gRPC.")
        .field("function", text(), "A matcher that the program registered by this name.")
}

fn reject_with() -> Table {
    Table::new("What makes the responses to rejected requests.").required(
        "function",
        text(),
        "A function that the program registered by this name.",
    )
}

pub(super) fn policy() -> Table {
    Table::new("A limit, and the requests to which it applies.")
            .required(
            "strategy",
            choice(&[
                "token_bucket",
                "gcra",
                "leaky_bucket",
                "fixed_window",
                "calendar_window",
                "sliding_window",
                "sliding_log",
                "in_flight",
            ]),
            "How requests are counted.",
        )
        .field("quota", quota(), "The quota, such as \"10/s burst 20\".")
        .field("limit", positive(), "The units of a period, in place of a quota.")
        .field("period", duration(), "The period of `limit`.")
        .field("burst", positive(), "The most units at once, beside `limit`.")
        .field("refill", choice(&["greedy", "interval"]), "When units come back.")
        .field(
            "anchor",
            any_of(&[choice(&["epoch", "first_request"]), integer(0, u64::MAX)]),
            "Where windows begin.",
        )
        .field("slots", integer(1, 1000), "The slots of a sliding window.")
        .field("windows", text(), "The windows of a calendar, such as \"months in Europe/Berlin\".")
        .field("lease", any_of(&[positive(), duration()]), "The units of a lease, or the time of a permit.")
        .field(
            "mode",
            any_of(&[choice(&["off", "shadow", "enforce"]), pattern("%$"), defined("mode_percent")]),
            "Whether rejections are enforced.",
        )
        .field("on_store_failure", on_store_failure(), "What happens while the store fails.")
        .field("except", request_list(), "Requests that it does not limit.")
        .required("key", defined("key"), "What is limited. Of a list, the first that is there.")
        .field(
            "match",
            one_or_more(&defined("match")),
            "The requests to which it applies: a condition, or a list of which any suffices.",
        )
        .field("tiers", map(&quota()), "Quotas by the tier of a request.")
        .field("tier", defined("tier"), "Where the tier of a request comes from.")
        .field("cost", any_of(&[integer(0, u64::MAX), defined("cost")]), "The units of a request.")
        .field("on_missing", choice(&["reject", "shared", "exempt"]), "What happens without a key.")
        .field("wait", duration(), "The longest wait of a request.")
        .field("debt", integer(0, u64::MAX), "The most units that a key may owe.")
        .field("caller_quotas", tuple(&quota(), 2), "The smallest and the largest quota of single callers.")
        .field(
            "quota_lookup",
            text(),
            "The look-up of the quotas of single callers that the program registered by this name.",
        )
        .field("overrides", boolean(), "Whether operators may grant and block single keys.")
        .field("lock_out", defined("lock_out"), "Blocks keys that are rejected again and again.")
        .field("in_flight", defined("in_flight"), "A limit on requests in flight, beside the quota.")
        .field("charge_when", defined("charge_when"), "The responses that are charged.")
        .field(
            "reserve",
            choice(&["used", "nothing", "reservation"]),
            "What a request is charged that ends early.",
        )
        .field("until", choice(&["headers", "body"]), "When a request in flight is over.")
        .field(
            "charge_after",
            any_of(&[boolean(), integer(0, 1_024)]),
            "Whether a request is rejected before, though it is charged after its response; or how many of a key may be without one.",
        )
        .field("reject_with", defined("reject_with"), "What makes the responses to requests that it rejects.")
        .field("refund_unanswered", boolean(), "Whether requests without a response are refunded.")
        .field("hide", boolean(), "Whether it is left out of the headers.")
        .field("warn_at", number(0.0, 1.0), "The share of the limit at which an event is raised.")
        .field("count_rejections", boolean(), "Whether rejected requests count.")
}

fn mode_percent() -> Table {
    Table::new("Enforces for a share of the keys.").required(
        "percent",
        number(0.0, 100.0),
        "The share of the keys in percent.",
    )
}

fn failure_mode() -> Table {
    Table::new("What happens while the store fails.")
        .at_least_one()
        .at_most_one()
        .field("local", integer(1, u32::MAX.into()), "Limits in memory, by the share of this many instances.")
        .field("open_for", duration(), "Accepts for this time, then rejects.")
}

fn key_source() -> Table {
    Table::new("What is limited.")
        .at_least_one()
        .field("header", text(), "A header.")
        .field("cookie", text(), "A cookie.")
        .field("query", text(), "A parameter of the query.")
        .field("extension", text(), "An extension that the program registered by this name.")
        .field("lookup", text(), "A look-up that the program registered by this name.")
        .field("all", list(&defined("key")), "All of these together.")
        .field("challenge", text(), "The header www-authenticate of responses to requests without it.")
}

fn matching() -> Table {
    Table::new("A condition, all of whose parts have to hold.")
        .field("path", text(), "A path, with {name} for a segment and {*rest} for the rest.")
        .field("methods", texts(), "Methods of HTTP.")
        .field("hosts", texts(), "Hosts, with *. for all below.")
        .field("grpc", text(), "A service or method of gRPC.")
}

fn tier() -> Table {
    Table::new("Where the tier of a request comes from.").required("header", text(), "A header.")
}

fn cost() -> Table {
    Table::new("The units of a request.")
        .at_least_one()
        .field("header", text(), "The header with the units.")
        .field("max", positive(), "The most units by header.")
        .field("path", map(&integer(0, u64::MAX)), "Units by path.")
        .field("function", text(), "A function that the program registered by this name.")
}

fn lock_out() -> Table {
    Table::new("Blocks keys that are rejected again and again.")
        .required("after", integer(1, u32::MAX.into()), "The number of rejections.")
        .field("within", duration(), "The time in which they count.")
        .field("block_for", duration(), "The first block.")
        .field("up_to", duration(), "The longest block.")
}

fn in_flight() -> Table {
    Table::new("A limit on requests in flight.")
        .required("limit", positive(), "The most requests at once.")
        .field("lease", duration(), "The time after which a permit that was not released expires.")
        .field("on_store_failure", on_store_failure(), "What happens while the store fails.")
        .field("until", choice(&["headers", "body"]), "When a request is over.")
}

fn charge_when() -> Table {
    Table::new("The responses that are charged.")
        .at_least_one()
        .field(
            "status",
            one_or_more(&any_of(&[integer(100, 599), pattern("^[1-5]xx$")])),
            "Their status, or a class such as \"4xx\".",
        )
        .field(
            "grpc_status",
            one_or_more(&integer(0, i32::MAX.unsigned_abs().into())),
            "Their status of gRPC.",
        )
        .field("function", text(), "A function that the program registered by this name.")
}

/// A quota such as `10/s burst 20`.
fn quota() -> Value {
    pattern(r"^\s*[0-9_]+\s*/\s*\S")
}

/// A duration such as `1m 30s`.
fn duration() -> Value {
    pattern(r"^\s*[0-9]")
}

fn positive() -> Value {
    integer(1, u64::MAX)
}

fn texts() -> Value {
    one_or_more(&text())
}

fn on_store_failure() -> Value {
    any_of(&[choice(&["open", "closed", "local"]), defined("failure_mode")])
}

fn request_list() -> Value {
    one_or_more(&defined("requests"))
}

/// A list, which may be empty.
fn policy_names() -> Value {
    let names = policy().names;
    any_of(&[list(&choice(&names)), tuple(&choice(&names), 0)])
}

fn key() -> Value {
    let names = ["client_ip", "peer", "global", "route", "method", "grpc_service", "grpc_method", "bearer"];
    any_of(&[choice(&names), defined("key_source"), list(&defined("key"))])
}
