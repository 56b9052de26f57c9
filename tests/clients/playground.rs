//! The playground in Chromium: what its WebAssembly computes is what its engine computes natively, to the last figure.

mod hands;
mod hostile;
mod page;

use axum::routing::get;
use serde_json::{Value, json};

use crate::devtools::Browser;
use crate::server::Server;

/// The scenes that the page shows.
const BUILT_IN: &str = include_str!("../../playground/page/scenes.json");

/// Each scene, and the same with other seeds, whose requests come at other instants.
fn scenes() -> Vec<Value> {
    let built_in: Vec<Value> = serde_json::from_str(BUILT_IN).unwrap();
    let seeds = |scene: &Value| [scene["seed"].clone(), json!(4_711), json!(u64::MAX)];
    let with_seed = |scene: &Value, seed: Value| {
        let mut scene = scene.clone();
        scene["seed"] = seed;
        scene
    };
    built_in.iter().flat_map(|scene| seeds(scene).map(|seed| with_seed(scene, seed))).collect()
}

/// Calls a function of the engine in the page.
async fn call(browser: &mut Browser, function: &str, text: &str) -> String {
    browser.text(&format!("engine({function:?}, {})", Value::from(text))).await
}

fn assert_same(native: &str, page: &str, what: &str) {
    if native != page {
        let differs = native.bytes().zip(page.bytes()).position(|(left, right)| left != right).unwrap_or(0);
        let around = |text: &str| text.chars().skip(differs.saturating_sub(80)).take(160).collect::<String>();
        panic!("{what}: natively ..{}..\nin the page ..{}..", around(native), around(page));
    }
}

/// Also an engine that was built of the sources as they are, where the tools for that are: `PORTCULLIS_PLAYGROUND` names it.
#[tokio::test]
async fn page_computes_what_the_library_computes() {
    let mut app = playground::app();
    let built = std::env::var_os("PORTCULLIS_PLAYGROUND").map(|path| std::fs::read(path).unwrap());
    let built = built.filter(|built| *built != include_bytes!("../../playground/page/playground.wasm.gz"));
    if let Some(built) = built.clone() {
        app = app.route("/built.wasm.gz", get(async move || built));
    }
    let server = Server::start(app).await;
    let mut browser = Browser::start("playground").await;
    browser.open(&format!("http://{}/", server.address)).await;
    browser.wait_for("document.readyState === 'complete'").await;
    compare(&mut browser, "playground.wasm.gz").await;
    if built.is_some() {
        compare(&mut browser, "built.wasm.gz").await;
    }
    assert_eq!(browser.complaints, [""; 0]);
}

async fn compare(browser: &mut Browser, engine: &str) {
    let load = format!(
        "import('./engine.js').then(async ({{ load }}) => {{ globalThis.engine = await load('{engine}'); return true; }})"
    );
    assert_eq!(browser.eval(&load).await, true);
    assert_eq!(call(browser, "version", "").await, portcullis_playground::version());
    for scene in scenes() {
        let (name, text) = (format!("{} with seed {}", scene["title"], scene["seed"]), scene.to_string());
        let native = portcullis_playground::run(&text);
        assert!(!native.starts_with("{\"error\""), "{name}: {native}");
        assert_same(&native, &call(browser, "run", &text).await, &name);
        for lane in 0..scene["lanes"].as_array().unwrap().len() {
            let texts = json!({ "scene": scene, "lane": lane }).to_string();
            assert_same(
                &portcullis_playground::export(&texts),
                &call(browser, "export", &texts).await,
                &name,
            );
            for request in [0, 9, 19] {
                let one = json!({ "scene": scene, "lane": lane, "request": request }).to_string();
                let native = portcullis_playground::explain(&one);
                assert_same(&native, &call(browser, "explain", &one).await, &name);
            }
        }
    }
    let mistake = portcullis_playground::run("{}");
    assert_same(&mistake, &call(browser, "run", "{}").await, "a mistake");
}
