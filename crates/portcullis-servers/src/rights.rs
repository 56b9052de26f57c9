//! The minimal ACL rules for the user of a store, shared by all tests.

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

/// The rights that a follower of a document of remote rules needs in addition: it may read the document and cannot write it.
pub const DOCUMENT_RIGHTS: [&str; 2] = ["+getrange", "%R~portcullis-rules*"];

/// The commands of every decision, with the one that loads scripts.
const fn with_loading_by(right: &'static str) -> [&'static str; 5] {
    ["+evalsha", right, "+get", "+set", "+time"]
}

/// The name of the user with these rights.
pub(super) const USER: &str = "portcullis";
pub(super) const PASSWORD: &str = "drawbridge";
