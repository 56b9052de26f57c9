//! The admin API of the portcullis rate limiter: an Axum router that a service mounts where it likes, behind its own authentication.
//!
//! Most users make it by `Limiter::admin` of the crate `portcullis` with the feature `admin`; [`Admin`] is what that returns.
//!
//! # Routes
//!
//! | route | answers with |
//! |---|---|
//! | `GET /v1/snapshot` | policies and their counters, the store, top callers, the keys that are limited now, recent rejections |
//! | `GET /v1/stream` | a snapshot per second, as lines of JSON |
//! | `GET /v1/policies`, `GET /v1/layers` | what is in use |
//! | `POST /v1/budget`, `POST /v1/overrides` | what a caller has left; its block and grant |
//! | `POST /v1/reset`, `/v1/grant`, `/v1/revoke`, `/v1/block`, `/v1/unblock` | changes of a caller, in all processes that share the store |
//! | `POST /v1/mode`, `POST /v1/quota` | sets the mode or the quota of a policy in this process |
//! | `GET /v1/openapi.json` | the description of all of them |
//! | `GET /` | a page that shows the snapshots live, in a browser |
//!
//! # What it costs
//!
//! An observer is called for each request. It takes one of 16 locks for each policy of the request, and searches at most 64 keys under it. It
//! allocates nothing once it has seen all policies, and keeps at most 1 024 keys with the most requests, 1 024 keys that are limited and 1 024
//! rejections, about 200 kB. While it is there, layers keep the [fingerprints](portcullis_tower::Observer::wants_fingerprints) of their
//! requests, which takes an allocation or two for each, and emit what is [charged](portcullis_tower::Observer::wants_charges).
//! Without a router from [`Admin::into_router`] there is no observer.
// Badges of features on docs.rs, whose rustdoc is nightly.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod access;
mod admin;
mod handlers;
mod page;
mod problem;
mod recorder;
mod request;
mod router;
mod snapshot;
mod state;
mod stream;

pub use access::hosts::{HostError, HostList};
pub use access::{Actor, Refused, has_bearer_token};
pub use admin::Admin;
