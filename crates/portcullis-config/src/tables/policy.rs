//! The table of a policy.

use portcullis_tower::{OnAbort, OnMissing};

use super::ValueKind::{
    self, AnyOf, Bool, Choice, Form, Integer, List, Map, Named, Nested, Number, OneOrMore, Text,
};
use super::kind::{ANY, DURATION, LIMIT, POSITIVE, QUOTA, UNITS, names};
use super::parts::{
    CHARGE_WHEN, COST, IN_FLIGHT, KEY, LOCK_OUT, MATCH, MODE_PERCENT, ON_STORE_FAILURE, REJECT_WITH,
    REQUEST_LIST, TIER, UNTIL, USAGE,
};
use super::{Field, Table};

table! { pub(crate) POLICY, "policy", "A limit, and the requests to which it applies.", 0 to ANY;
    "strategy", Choice(&STRATEGIES), "The algorithm.", by_strategy();
    "quota", QUOTA, "The quota, such as \"10/s burst 20\". \"0/s\" admits nothing, \"unlimited\" everything, and counts nothing.";
    "limit", LIMIT, "The units of a period, in place of a quota.";
    "period", DURATION, "The period of `limit`.";
    "burst", UNITS, "The most units at once, beside `limit`.";
    "refill", Choice(&["greedy", "interval"]), "When units come back to a token bucket.", default("greedy");
    "anchor", AnyOf(&[Choice(&["epoch", "first_request"]), UNITS]), "Where fixed windows begin. A number is an instant in microseconds since the Unix epoch.", default("epoch");
    "slots", Integer(1, 1_000), "The slots of a sliding window.", default("1");
    "windows", Text, "The windows of a calendar, such as \"months in Europe/Berlin\".";
    "lease", AnyOf(&[POSITIVE, DURATION]), "The units of a lease, or the time of a permit of \"in_flight\".";
    "mode", MODE, "Whether rejections are enforced, or for which share of the keys.", default("enforce");
    "on_store_failure", ON_STORE_FAILURE, "What happens while the store fails.", default("local");
    "except", REQUEST_LIST, "Requests that it does not limit although it matches them.";
    "key", Named("key", &KEY), "What identifies the client that is charged. In a list, the first key that the request has counts.", required_with("write what is limited, such as key = \"client_ip\"");
    "match", OneOrMore(&Nested(&MATCH)), "The requests to which it applies: a condition, or a list of which one has to hold. Without it, all.";
    "tiers", Map(&QUOTA), "Quotas by the tier of a request.";
    "tier", Nested(&TIER), "Where the tier of a request comes from.";
    "cost", AnyOf(&[UNITS, Nested(&COST)]), "The units of a request.", default("1");
    "on_missing", Choice(&names(&ON_MISSING)), "What happens to a request without the key.", default("reject");
    "hide_key", Bool, "Whether the response to a request without the key keeps secret which key is missing.", default("false");
    "wait", DURATION, "How long a request beyond the limit may wait instead of being rejected.";
    "debt", UNITS, "The most units that a key may owe.";
    "caller_quotas", List(&QUOTA, 2, 2), "The smallest and the largest quota of single callers: by default those of `tiers`.";
    "quota_lookup", Text, "The look-up of the quotas of single callers that the program registered under this name.";
    "overrides", Bool, "Whether operators may grant and block single keys.", default("false");
    "lock_out", Nested(&LOCK_OUT), "Blocks keys that are rejected again and again.";
    "in_flight", Nested(&IN_FLIGHT), "A limit on requests in flight, beside the quota.";
    "charge_when", Nested(&CHARGE_WHEN), "The responses that are charged.";
    "reserve", Choice(&names(&ON_ABORT)), "What is charged for a request that ends early, or for a reservation of Envoy's service without a commit. Other requests are charged the usage that their responses state.";
    "usage", AnyOf(&[Choice(&USAGES), Nested(&USAGE)]), "Where a response states its usage, which is charged in place of the reservation.";
    "until", Choice(&names(&UNTIL)), "When a request in flight is over.", default("body");
    "charge_after", AnyOf(&[Bool, Integer(0, MOST_UNSETTLED as u64)]), "Whether a request is checked before it is handled, and charged only after its response. A number is how many requests of a key may be without a response.";
    "reject_with", Nested(&REJECT_WITH), "The responses to requests that it rejects.";
    "refund_unanswered", Bool, "Whether requests without a response are refunded.", default("false");
    "hide", Bool, "Whether the policy is left out of the headers.", default("false");
    "report", Bool, "Whether the calls of Envoy's rate limit service that it counts report usage, even those of one hit. If such a call is denied, it is charged what is left.", default("false");
    "warn_at", Number(0.0, 1.0), "The share of the limit from which the policy warns.";
    "count_rejections", Bool, "Whether a request that a look-up rejects stays charged.", default("false");
}

pub(crate) const ON_MISSING: [(&str, OnMissing); 3] =
    [("reject", OnMissing::Reject), ("shared", OnMissing::Shared), ("exempt", OnMissing::Exempt)];

pub(crate) const ON_ABORT: [(&str, OnAbort); 3] =
    [("used", OnAbort::Used), ("nothing", OnAbort::Nothing), ("reservation", OnAbort::Reservation)];

/// The providers whose responses state their usage at known places.
pub(crate) const USAGES: [&str; 3] = ["openai", "anthropic", "gemini"];

/// The most requests of a key that are remembered until they are settled.
pub(crate) const MOST_UNSETTLED: usize = 1_024;

pub(crate) const MODES: [&str; 3] = ["off", "shadow", "enforce"];

static MODE: ValueKind = AnyOf(&[Choice(&MODES), Form("%$", "10%"), Nested(&MODE_PERCENT)]);

const STRATEGIES: [&str; 8] = [
    "token_bucket",
    "gcra",
    "leaky_bucket",
    "fixed_window",
    "calendar_window",
    "sliding_window",
    "sliding_log",
    "in_flight",
];
