//! What the `portcullis` command runs, for tests and other tools.
//!
//! It has the [simulator](simulate), which replays an access log through the layers of a rate limiter, and how commands tell files apart by their [kind], [load]
//! rules and print [findings]; `portcullis admin` asks the [admin] API of a running service.
// Badges of features on docs.rs, whose rustdoc is nightly.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod admin;
mod calendar;
pub mod findings;
pub mod kind;
pub mod load;
pub mod request;
pub mod simulate;
mod table;
