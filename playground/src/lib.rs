//! The page of the playground as a router. Its engine is `portcullis-playground`, built as WebAssembly by `cargo xtask wasm`.

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::routing::get;

/// A router with the files of the page. They need no server of their own: any server of files will do.
pub fn app() -> Router {
    FILES.into_iter().fold(Router::new(), |app, (path, kind, bytes)| {
        let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache"), (CONTENT_SECURITY_POLICY, POLICY)];
        app.route(path, get(async move || (headers, bytes)))
    })
}

/// A file of the page: its path, its type and its bytes.
macro_rules! file {
    ($path:literal, $kind:literal) => {
        (concat!("/", $path), $kind, include_bytes!(concat!("../page/", $path)))
    };
}

const FILES: [(&str, &str, &[u8]); 16] = [
    ("/", "text/html; charset=utf-8", include_bytes!("../page/index.html")),
    file!("style.css", "text/css; charset=utf-8"),
    file!("draw/chart.js", "text/javascript; charset=utf-8"),
    file!("draw/marks.js", "text/javascript; charset=utf-8"),
    file!("draw/panels.js", "text/javascript; charset=utf-8"),
    file!("draw/state.js", "text/javascript; charset=utf-8"),
    file!("draw/strip.js", "text/javascript; charset=utf-8"),
    file!("engine.js", "text/javascript; charset=utf-8"),
    file!("lane.js", "text/javascript; charset=utf-8"),
    file!("out.js", "text/javascript; charset=utf-8"),
    file!("player.js", "text/javascript; charset=utf-8"),
    file!("playground.js", "text/javascript; charset=utf-8"),
    file!("scenes.json", "application/json"),
    file!("toy.js", "text/javascript; charset=utf-8"),
    file!("worker.js", "text/javascript; charset=utf-8"),
    file!("playground.wasm.gz", "application/gzip"),
];

/// The page loads nothing from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
