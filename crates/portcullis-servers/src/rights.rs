//! The minimal ACL rules for the user of a store, shared by all tests.

use super::setup::ServerSetup;

/// The commands that every decision needs, where a script is loaded by `SCRIPT LOAD`.
pub const LEAST_RIGHTS: [&str; 5] = with_loading_by("+script|load");

/// The commands that every decision needs, where a script is loaded by `EVAL` because `SCRIPT LOAD` is refused.
pub const LEAST_RIGHTS_WITH_EVAL: [&str; 5] = with_loading_by("+eval");

/// The commands that a sliding log needs in addition.
pub const SLIDING_LOG_RIGHTS: [&str; 3] = ["+getrange", "+setrange", "+pexpire"];

/// The commands that a cluster needs in addition.
pub const CLUSTER_RIGHTS: [&str; 2] = ["+cluster|slots", "+asking"];

/// The commands that a store with sentinels needs in addition.
pub const SENTINEL_RIGHTS: [&str; 1] = ["+role"];

/// The commands of every decision, with the one that loads scripts.
const fn with_loading_by(right: &'static str) -> [&'static str; 5] {
    ["+evalsha", right, "+get", "+set", "+time"]
}

/// The ACL rules of a user with the minimal rights of `setup`, those of a sliding log, the rights in `more`, and the keys of the
/// namespaces.
pub(super) fn acl_rules(setup: &ServerSetup, more: &[&str]) -> Vec<String> {
    let password = format!(">{PASSWORD}");
    let fixed = ["reset", "on", password.as_str(), "resetchannels", "-@all"];
    let words = fixed.iter().chain(&setup.least_rights).chain(&SLIDING_LOG_RIGHTS).chain(more);
    let keys = setup.namespaces.iter().map(|namespace| format!("~{namespace}:*"));
    words.map(ToString::to_string).chain(keys).collect()
}

/// The name of that user.
pub(super) const USER: &str = "portcullis";
pub(super) const PASSWORD: &str = "drawbridge";
