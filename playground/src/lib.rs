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

/// The files, by their paths.
const FILES: [(&str, &str, &[u8]); 4] = [
    ("/", "text/html; charset=utf-8", include_bytes!("../page/index.html")),
    ("/engine.js", "text/javascript; charset=utf-8", include_bytes!("../page/engine.js")),
    ("/playground.js", "text/javascript; charset=utf-8", include_bytes!("../page/playground.js")),
    ("/playground.wasm.gz", "application/gzip", include_bytes!("../page/playground.wasm.gz")),
];

/// The page loads nothing from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; \
                      connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
