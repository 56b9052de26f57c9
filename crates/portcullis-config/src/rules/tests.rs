//! Tests of rules.

mod calendar;
mod door;
mod equality;
mod errors;
mod hostile;
mod matching;
mod overlaps;
mod rejections;
mod spellings;
mod unregistered;
mod values;
mod verified_keys;

use std::sync::Arc;

use http::Request;
use http::request::Parts;
use portcullis_core::{ManualClock, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::Registry;

use crate::{Format, Loader, Rules};

fn loader(text: &str) -> Loader {
    Loader::text("limits.toml", Format::Toml, text).without_environment()
}

#[track_caller]
fn rules(text: &str) -> Rules {
    match Rules::load(&loader(text)) {
        Ok(rules) => rules,
        Err(findings) => panic!("{findings}"),
    }
}

#[track_caller]
fn errors(text: &str) -> String {
    Rules::load(&loader(text)).expect_err("the rules have mistakes").to_string()
}

fn registry() -> (Arc<Registry>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
    (Arc::new(Registry::new(Arc::new(store), Secret::published())), clock)
}

fn parts(method: &str, uri: &str) -> Parts {
    Request::builder().method(method).uri(uri).body(()).expect("the request is valid").into_parts().0
}
