//! The tables inside of policies and of the layer.

use super::ValueKind::{
    self, AnyOf, Bool, Choice, Form, Integer, List, Map, Named, Nested, Number, OneOrMore, Text,
};
use super::kind::{ANY, DURATION, POSITIVE, TEXTS, UNITS, names};
use super::{Field, Table};

table! { pub(crate) REQUESTS, "requests", "Requests, by properties that all have to hold.", 1 to ANY;
    "path", Text, "Exactly this path.";
    "prefix", Text, "This path, and all below it.";
    "route", Text, "A route of the router, as it is declared.";
    "network", TEXTS, "Clients of these networks.";
    "method", Text, "A method of HTTP.";
    "grpc", Text, "A service or method of gRPC.";
    "function", Text, "A matcher that the program registered under this name.";
    "headers", Map(&VALUE), "Headers by name, as in `match`.";
    "query", Map(&PARAMETER), "Parameters of the query by name, as in `match`.";
}

table! { pub(super) REJECT_WITH, "reject_with", "The responses to rejected requests.", 1 to ANY;
    "function", Text, "A function that the program registered under this name.";
    "status", Integer(400, 599), "The status of responses to requests beyond a limit.";
    "body", Text, "The body of responses to requests beyond a limit.";
    "content_type", Text, "The content type of `body`: by default application/json if it begins like JSON, else text/plain.";
}

table! { pub(super) MODE_PERCENT, "mode_percent", "Enforces for a share of the keys.", 0 to ANY;
    "percent", Number(0.0, 100.0), "The share of the keys in percent, in steps of 0.1.", required();
}

table! { pub(super) FAILURE_MODE, "failure_mode", "What happens while the store fails.", 1 to 1;
    "local", Integer(1, u32::MAX as u64), "Limits in memory; each of this many instances has an equal share.";
    "open_for", DURATION, "Accepts for this time, then rejects.";
}

table! { pub(crate) KEY_SOURCE, "key_source", "What is limited.", 1 to ANY;
    "header", Text, "A header.";
    "trusted", Bool, "Whether the header is believed from the proxies that `client_ip` names. From any other peer it counts as absent. The key is then verified.", default("false");
    "cookie", Text, "A cookie.";
    "query", Text, "A parameter of the query.";
    "path", Text, "A pattern of paths, such as \"/channels/{channel}\": its named segments, of requests that match it.";
    "segment", Text, "The segment of `path` that counts. Without it, all that have a name.";
    "extension", Text, "An extension that the program registered under this name.";
    "lookup", Text, "A look-up that the program registered under this name.";
    "all", List(&Named("key", &KEY), 1, ANY), "All of these together.";
    "challenge", Text, "The header `www-authenticate` of responses to requests without the key.";
}

table! { pub(crate) MATCH, "match", "A condition on a request.", 0 to ANY;
    "path", Text, "A path, with {name} for a segment or a part of one, and {*rest} for the rest.";
    "methods", TEXTS, "Methods of HTTP.";
    "hosts", TEXTS, "Hosts, with *. for all below.";
    "grpc", Text, "A service or method of gRPC.";
    "headers", Map(&VALUE), "Headers by name: `\"present\"`, `\"absent\"` or what they have to be. All have to hold.";
    "query", Map(&PARAMETER), "Parameters of the query by name: `\"present\"`, `\"absent\"` or what they have to be. All have to hold.";
}

table! { pub(crate) VALUE_TABLE, "value", "What a header has to be.", 1 to ANY;
    "present", Bool, "Whether it is there.";
    "equals", TEXTS, "It is this text, or one of these.";
    "prefix", TEXTS, "It begins with this text, or one of these.";
    "trusted", Bool, "Whether the header is believed from the proxies that `client_ip` names. From any other peer it counts as absent.", default("false");
}

table! { pub(crate) PARAMETER_TABLE, "parameter", "What a parameter of the query has to be.", 1 to ANY;
    "present", Bool, "Whether it is there.";
    "equals", TEXTS, "It is this text, or one of these.";
    "prefix", TEXTS, "It begins with this text, or one of these.";
}

table! { pub(super) TIER, "tier", "Where the tier of a request comes from.", 0 to ANY;
    "header", Text, "A header, which a proxy in front has to overwrite.", required();
    "trusted", Bool, "Whether the header is believed from the proxies that `client_ip` names. From any other peer it counts as absent.", default("false");
}

table! { pub(crate) COST, "cost", "The units of a request.", 1 to ANY;
    "header", Text, "The header with the units.";
    "max", POSITIVE, "The most units by header.";
    "trusted", Bool, "Whether the header is believed from the proxies that `client_ip` names. From any other peer it counts as absent.", default("false");
    "path", Map(&UNITS), "Units by path. Other paths cost 1.";
    "method", Map(&UNITS), "Units by method of HTTP. Other methods cost 1.";
    "function", Text, "A function that the program registered under this name.";
    "when", OneOrMore(&Nested(&COST_WHEN)), "Units by what requests match. If several match, the highest count.";
}

table! { pub(crate) COST_WHEN, "cost_when", "The units of the requests that match.", 0 to ANY;
    "match", OneOrMore(&Nested(&MATCH)), "The requests: a condition, or a list of which one has to hold.", required();
    "units", POSITIVE, "Their units. Other requests cost 1.", required();
}

table! { pub(super) LOCK_OUT, "lock_out", "Blocks keys that are rejected again and again.", 0 to ANY;
    "after", Integer(1, u32::MAX as u64), "The number of rejections.", required();
    "within", DURATION, "The time in which they count.", default("1m");
    "block_for", DURATION, "The first block.", default("10m");
    "up_to", DURATION, "The longest block: by default as long as the first.";
}

table! { pub(super) IN_FLIGHT, "in_flight", "A limit on requests in flight.", 0 to ANY;
    "limit", POSITIVE, "The most requests at once.", required();
    "lease", DURATION, "The time after which a permit that was not released expires.", default("30s");
    "wait", DURATION, "How long a request may wait for a permit instead of being rejected.";
    "on_store_failure", ON_STORE_FAILURE, "What happens while the store fails.", default("local");
    "until", Choice(&names(&UNTIL)), "When a request is over.", default("body");
}

table! { pub(super) CHARGE_WHEN, "charge_when", "The responses that are charged.", 1 to ANY;
    "status", OneOrMore(&AnyOf(&[Integer(100, 599), Form("^[1-5]xx$", "4xx")])), "Their status, or a class such as \"4xx\".";
    "grpc_status", OneOrMore(&Integer(0, i32::MAX as u64)), "Their status of gRPC.";
    "function", Text, "A function that the program registered under this name.";
}

table! { pub(super) USAGE, "usage", "Where a response states its usage.", 0 to ANY;
    "pointer", Form("^/", "/usage/tokens"), "A JSON pointer to the number.", required();
}

static VALUE: ValueKind = AnyOf(&[Choice(&["present", "absent"]), Nested(&VALUE_TABLE)]);

static PARAMETER: ValueKind = AnyOf(&[Choice(&["present", "absent"]), Nested(&PARAMETER_TABLE)]);

pub(super) static REQUEST_LIST: ValueKind = OneOrMore(&Nested(&REQUESTS));

pub(super) static KEY: ValueKind =
    AnyOf(&[Choice(&PLAIN_KEYS), Nested(&KEY_SOURCE), List(&Named("key", &KEY), 1, ANY)]);

/// The keys that are a name and nothing else.
pub(crate) const PLAIN_KEYS: [&str; 10] = [
    "client_ip",
    "peer",
    "global",
    "route",
    "method",
    "grpc_service",
    "grpc_method",
    "bearer",
    "path",
    "host",
];

pub(super) static ON_STORE_FAILURE: ValueKind =
    AnyOf(&[Choice(&["open", "closed", "local"]), Nested(&FAILURE_MODE)]);

/// Whether a permit is released at the headers of a response.
pub(crate) const UNTIL: [(&str, bool); 2] = [("body", false), ("headers", true)];
