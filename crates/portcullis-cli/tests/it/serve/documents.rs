//! Services whose rules a signed document in Redis changes.

use crate::fleet::Fleet;

use super::process::{RULES, Service, folder, run};
use super::{ADDRESS, is_ready, post};

/// Whether a call of Envoy is admitted.
fn admits(service: &Service) -> bool {
    let answer = service.ask(&(post(ADDRESS.len()) + ADDRESS));
    assert!(answer.starts_with("HTTP/1.1 200 ") || answer.starts_with("HTTP/1.1 429 "), "{answer}");
    answer.starts_with("HTTP/1.1 200 ")
}

#[test]
fn service_follows_document_and_file() {
    let fleet = Fleet::start("serve-document");
    let rules = format!("{}{RULES}", fleet.table);
    let store = ["--store", &*fleet.store(), "--store-deadline", "5s", "--poll", "20ms"];
    let service = Service::start("limits.toml", RULES, &store);
    service.wait_until("ready", |service| is_ready(service, false));
    assert!(admits(&service) && !admits(&service), "the limit of the file is 1");

    // The table comes with a reload.
    service.write_rules(&rules);
    fleet.push("rules.key", 1, 2);
    service.wait_until("admitted by the document", admits);
    assert!(!admits(&service), "what was charged stays charged");

    fleet.push("other.key", 2, 1_000);
    service.wait_until("refused", |service| is_ready(service, true));
    assert!(!admits(&service), "the signature is of another key");

    // A reload keeps the document, and is no end of the documents.
    service.write_rules(&format!("{rules}[policy.more]\nstrategy = 'gcra'\nquota = '9/s'\nkey = 'global'\n"));
    service.wait_until("reloaded", |service| service.get("/metrics").contains("policy=\"more\""));
    assert!(!admits(&service));
    fleet.push("rules.key", 3, 3);
    service.wait_until("admitted by the next document", admits);
    assert!(!admits(&service));
    service.wait_until("mended", |service| is_ready(service, false));
}

#[test]
fn memory_store_refuses_document_at_reload() {
    let fleet = Fleet::start("serve-memory");
    let service = Service::start("limits.toml", RULES, &["--poll", "20ms"]);
    service.write_rules(&format!("{}{}", fleet.table, RULES.replace("1/", "1000/")));
    service.wait_until("refused", |service| is_ready(service, true));
    assert!(admits(&service) && !admits(&service), "the last good rules stay");
    service.write_rules(RULES);
    service.wait_until("mended", |service| is_ready(service, false));
}

#[test]
fn document_that_store_cannot_have_ends_start() {
    let (folder, fleet) = (folder(), Fleet::start("serve-unfollowed"));
    let rules = folder.write("limits.toml", &format!("{}{RULES}", fleet.table));
    let inside = folder.write("inside.toml", &format!("{}key = 'portcullis:rules'\n{RULES}", fleet.table));
    let no_store = "limits.toml: `[remote]` follows a signed document in Redis, and the store is `memory`: give `--store redis://..`";
    let no_name = "inside.toml: `key` in `[remote]`: `portcullis:rules` is in the namespace `portcullis`";
    let (code, out, note) = run(&["check", "--deny-warnings", "--format", "line", "--for", "serve", &rules]);
    assert_eq!((code, note.as_str()), (0, ""));
    assert!(out.contains("limits.toml:1:2: note: remote: ") && out.contains("--store redis://.."), "{out}");
    let (code, out, _) = run(&["check", "--format", "line", "--for", "code", &rules]);
    assert!(code == 0 && !out.contains("--store"), "a program has no flags: {out}");
    for (arguments, text) in [
        (&["serve", &rules][..], no_store),
        (&["serve", &rules, "--store", "memory"], no_store),
        (&["serve", &inside, "--store", &fleet.store()], no_name),
        (&["proxy", &rules, "--upstream", "http://a"], no_store),
        (&["proxy", &inside, "--upstream", "http://a", "--store", &fleet.store()], no_name),
    ] {
        let (code, out, error) = run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {error}");
        assert!(error.contains(text), "{arguments:?}: {error}");
    }
}
