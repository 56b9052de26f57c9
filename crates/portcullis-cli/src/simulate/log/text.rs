//! Formats of lines that are no JSON.

pub(super) mod clf;
pub(super) mod guess;
pub(super) mod pattern;

use std::sync::{Arc, LazyLock};

use pattern::Pattern;

/// Formats with a name, as `log_format` would write them. What they have behind the last variable is ignored.
///
/// Source: the manuals of Envoy, Istio, HAProxy (`option httplog`), and AWS (application and classic load balancers).
const NAMED: [(&str, &str); 5] = [
    (
        "envoy",
        "[$time_iso8601] \"$request\" $status $flags $received $sent $duration $upstream \"$http_x_forwarded_for\" \
         \"$http_user_agent\" \"$id\" \"$host\" \"$to\"",
    ),
    (
        "istio",
        "[$time_iso8601] \"$request\" $status $flags $details $termination \"$failure\" $received $sent $duration $upstream \
         \"$http_x_forwarded_for\" \"$http_user_agent\" \"$id\" \"$host\" \"$to\" $cluster $from $local $remote_addr $server_name $route",
    ),
    (
        "haproxy",
        "$haproxy_client [$time_local] $frontend $backend $timers $status $bytes $cookie $set_cookie $termination $connections \
         $queues \"$request\"",
    ),
    (
        "alb",
        "$type $time_iso8601 $balancer $remote_addr $target $t1 $t2 $t3 $status $s1 $received $sent \"$request\" \
         \"$http_user_agent\" ",
    ),
    (
        "elb",
        "$time_iso8601 $balancer $remote_addr $target $t1 $t2 $t3 $status $s1 $received $sent \"$request\" \"$http_user_agent\" ",
    ),
];

/// The formats of [`NAMED`].
pub(super) static PATTERNS: LazyLock<Vec<(&'static str, Arc<Pattern>)>> = LazyLock::new(|| {
    let parse = |text: &str| Arc::new(text.parse().expect("the named formats are valid"));
    NAMED.iter().map(|(name, text)| (*name, parse(text))).collect()
});
