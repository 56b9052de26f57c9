//! Hostile addresses and logs, and an engine that fails.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::{Value, json};

use super::page::{go, open, player, set};
use crate::devtools::Browser;
use crate::server::Server;

#[tokio::test]
async fn file_that_does_not_come_is_said() {
    for (file, expected) in [
        ("playground.wasm.gz", "The engine could not be started: playground.wasm.gz is answered with 404"),
        ("scenes.json", "The scenes could not be read: scenes.json is answered with 404"),
    ] {
        let app = Router::new()
            .route(&format!("/{file}"), get(async || StatusCode::NOT_FOUND))
            .fallback_service(playground::app());
        let server = Server::start(app).await;
        let mut browser = Browser::start("missing").await;
        browser.open(&format!("http://{}/", server.address)).await;
        browser.wait_for("document.getElementById('problem')?.hidden === false").await;
        let said = browser.text("document.getElementById('problem').textContent").await;
        assert_eq!(said, expected);
    }
}

#[tokio::test]
async fn failure_of_the_worker_answers_all_questions() {
    let app = Router::new()
        .route("/worker.js", get(async || StatusCode::NOT_FOUND))
        .fallback_service(playground::app());
    let server = Server::start(app).await;
    let mut browser = Browser::start("worker").await;
    browser.open(&format!("http://{}/", server.address)).await;
    browser.wait_for("document.getElementById('problem')?.hidden === false").await;
    let asked = "import('./engine.js').then(async ({ start }) => {
        const ask = start(), first = await ask('version'), second = ask('version');
        return [first.error, (await Promise.race([second, new Promise(done => setTimeout(() => done({}), 5000))])).error];
    })";
    let message = "The engine could not be started: this page needs a browser with WebAssembly.";
    assert_eq!(browser.eval(asked).await, json!([message, message]));
}

#[tokio::test]
async fn scene_that_cannot_be_shown_is_said() {
    let (_server, mut browser) = open("unshown", "").await;
    let fails = format!(
        "(player => {{ player.layout = () => {{ delete player.layout; throw new Error('no place'); }}; }})({})",
        player("toy")
    );
    browser.eval(&fails).await;
    let edge = format!("{}.built", player("edge"));
    browser.eval(&format!("import('./out.js').then(async ({{ toAddress }}) => {{ location.hash = await toAddress({edge}); }})")).await;
    browser.wait_for("document.querySelector('#toy .problem')?.hidden === false").await;
    let said = browser.text("document.querySelector('#toy .problem').textContent").await;
    assert_eq!(said, "This address has a scene that cannot be shown: no place");
    browser.wait_for(&format!("{}.result.title === 'The toy'", player("toy"))).await;
    browser.wait_for("document.querySelectorAll('#toy .lane').length === 3").await;
    assert_eq!(browser.complaints, [""; 0]);
}

#[tokio::test]
async fn engine_takes_long_texts_and_is_made_anew() {
    let (_server, mut browser) = open("anew", "").await;
    let found = "(async () => {
        const { Instance } = WebAssembly, { load } = await import('./engine.js');
        let made = 0;
        WebAssembly.Instance = function (program) { made += 1; return new Instance(program); };
        const call = await load('playground.wasm.gz');
        const first = call('version'), long = call('run', ' '.repeat(5e6) + '{}');
        let stopped = false;
        try { call('nothing'); } catch { stopped = true; }
        const again = call('run', '{}');
        return { first, long: long.startsWith('{\"error\":'), stopped, again: again.startsWith('{\"error\":'), made };
    })()";
    let expected = json!({ "first": portcullis_playground::version(), "long": true, "stopped": true, "again": true, "made": 2 });
    assert_eq!(browser.eval(found).await, expected);
    assert_eq!(browser.complaints, [""; 0]);
}

#[tokio::test]
async fn address_that_unpacks_to_much_is_not_read() {
    let (server, mut browser) = open("long", "").await;
    let scene = json!({
        "id": "constructor", "title": "One", "duration": 1_000, "clients": [{ "name": "ada" }],
        "streams": [{ "kind": "clicks", "at": [1] }], "lanes": [{ "name": "Free" }]
    });
    let of = |length: u32| {
        format!(
            "import('./out.js').then(({{ toAddress }}) => toAddress({{ ...{scene}, note: ' '.repeat({length}) }}))"
        )
    };
    let (short, long) = (browser.text(&of(10)).await, browser.text(&of(5_000_000)).await);
    assert!(long.len() < 20_000, "{}", long.len());
    browser.open("about:blank").await;
    browser.open(&format!("http://{}/{long}", server.address)).await;
    browser.wait_for("document.querySelector('#toy .problem')?.hidden === false").await;
    let said = browser.text("document.querySelector('#toy .problem').textContent").await;
    assert_eq!(said, "This address has no scene that can be read.");
    browser.open("about:blank").await;
    browser.open(&format!("http://{}/{short}", server.address)).await;
    browser.wait_for(&format!("{}?.result?.id === 'constructor'", player("toy"))).await;
    // A name that every object has is the name of no scene.
    assert_eq!(browser.text("document.querySelector('#toy .burst').textContent").await, "Send 10");
    assert_eq!(browser.complaints, [""; 0]);
}

#[tokio::test]
async fn log_that_matches_nothing_takes_no_long_time() {
    let (_server, mut browser) = open("log", "").await;
    go(&mut browser, "toy").await;
    set(&mut browser, "streams.0.kind", "log").await;
    browser.wait_for("document.querySelector('[data-path=\"streams.0.text\"]')").await;
    let line = "192.0.2.3 - - [10/Oct/2000:13:55:16 -0700] \"GET / HTTP/1.1\" 200 17";
    let log = format!("192.0.2.4 {}\n{line}", "[1/Oct/1:".repeat(20_000));
    set(&mut browser, "streams.0.text", &log).await;
    browser.wait_for(&format!("{}.result.clients[0] === '192.0.2.3'", player("toy"))).await;
    assert_eq!(browser.complaints, [""; 0]);
}

#[tokio::test]
async fn edit_before_a_mistake_is_not_lost() {
    let (_server, mut browser) = open("edits", "").await;
    go(&mut browser, "toy").await;
    // Both come before the answer to the first.
    let both =
        "for (const [path, value] of [['duration', '20000'], ['lanes.0.limits.0.policy.quota', 'ten']]) {
        const control = document.querySelector(`[data-path=\"${path}\"]`);
        control.value = value;
        control.dispatchEvent(new Event('change'));
    }";
    browser.eval(both).await;
    browser.wait_for("document.querySelector('#toy .problem').hidden === false").await;
    let said = browser.text("document.querySelector('#toy .problem').textContent").await;
    assert!(said.starts_with("cannot read the quota "), "{said}");
    browser.wait_for("document.querySelector('[data-path=\"duration\"]').value === '20000'").await;
    let shown = format!(
        "(({{ scene, shown, result }}) => [scene === shown, shown.duration, result.duration])({})",
        player("toy")
    );
    assert_eq!(browser.eval(&shown).await, json!([true, 20_000, 20_000_000]));
    assert_eq!(browser.complaints, [""; 0]);
}

#[tokio::test]
async fn clients_get_names_that_no_other_has() {
    let (_server, mut browser) = open("names", "").await;
    go(&mut browser, "toy").await;
    let click = |label: &str| format!("document.querySelector('#toy [aria-label=\"{label}\"]').click()");
    let named = |names: Value| format!("JSON.stringify({}.result.clients) === '{names}'", player("toy"));
    browser.eval(&click("Remove ada")).await;
    browser.wait_for(&named(json!(["bob"]))).await;
    browser.eval(&click("Add a client with traffic of its own")).await;
    browser.wait_for(&named(json!(["bob", "ada"]))).await;

    // The address that a client has already is another one in a log.
    set(&mut browser, "clients.1.name", "192.0.2.3").await;
    browser.wait_for(&named(json!(["bob", "192.0.2.3"]))).await;
    set(&mut browser, "streams.0.kind", "log").await;
    browser.wait_for("document.querySelector('[data-path=\"streams.0.text\"]')").await;
    set(
        &mut browser,
        "streams.0.text",
        "192.0.2.3 - - [10/Oct/2000:13:55:16 -0700] \"GET / HTTP/1.1\" 200 17",
    )
    .await;
    browser.wait_for(&named(json!(["192.0.2.3"]))).await;
    let streams =
        browser.eval(&format!("{}.scene.streams.map(({{ client }}) => client ?? 0)", player("toy"))).await;
    assert!(streams.as_array().unwrap().iter().all(|client| *client == 0), "{streams}");
    assert_eq!(browser.complaints, [""; 0]);
}
