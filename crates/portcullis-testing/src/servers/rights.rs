//! The least that the user of a store must be allowed, in one place for all tests.

/// What every decision needs of a server.
pub const LEAST_RIGHTS: [&str; 5] = ["+evalsha", "+script|load", "+get", "+set", "+time"];

/// What a sliding log needs besides.
pub const SLIDING_LOG_RIGHTS: [&str; 3] = ["+getrange", "+setrange", "+pexpire"];

/// What is needed in a cluster besides.
pub const CLUSTER_RIGHTS: [&str; 2] = ["+cluster|slots", "+asking"];

/// What is needed behind sentinels besides.
pub const SENTINEL_RIGHTS: [&str; 1] = ["+role"];

/// The rules of the user that has all the least rights, `more` besides, and keys that begin with one of `namespaces`.
pub(super) fn rules(namespaces: &[String], more: &[&str]) -> Vec<String> {
    let password = format!(">{PASSWORD}");
    let fixed = ["reset", "on", password.as_str(), "resetchannels", "-@all"];
    let words = fixed.iter().chain(&LEAST_RIGHTS).chain(&SLIDING_LOG_RIGHTS).chain(more);
    let keys = namespaces.iter().map(|namespace| format!("~{namespace}:*"));
    words.map(ToString::to_string).chain(keys).collect()
}

/// The name of that user.
pub(super) const USER: &str = "portcullis";
pub(super) const PASSWORD: &str = "drawbridge";
