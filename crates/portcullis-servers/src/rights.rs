//! The minimal ACL rules for the user of a store, shared by all tests.

/// The commands that every decision needs.
pub const LEAST_RIGHTS: [&str; 5] = ["+evalsha", "+script|load", "+get", "+set", "+time"];

/// The commands that a sliding log needs in addition.
pub const SLIDING_LOG_RIGHTS: [&str; 3] = ["+getrange", "+setrange", "+pexpire"];

/// The commands that a cluster needs in addition.
pub const CLUSTER_RIGHTS: [&str; 2] = ["+cluster|slots", "+asking"];

/// The commands that a store with sentinels needs in addition.
pub const SENTINEL_RIGHTS: [&str; 1] = ["+role"];

/// The ACL rules of a user with all minimal rights, the rights in `more`, and keys that begin with one of `namespaces`.
pub(super) fn acl_rules(namespaces: &[String], more: &[&str]) -> Vec<String> {
    let password = format!(">{PASSWORD}");
    let fixed = ["reset", "on", password.as_str(), "resetchannels", "-@all"];
    let words = fixed.iter().chain(&LEAST_RIGHTS).chain(&SLIDING_LOG_RIGHTS).chain(more);
    let keys = namespaces.iter().map(|namespace| format!("~{namespace}:*"));
    words.map(ToString::to_string).chain(keys).collect()
}

/// The name of that user.
pub(super) const USER: &str = "portcullis";
pub(super) const PASSWORD: &str = "drawbridge";
