//! The live page of the admin API in Chromium, over a real limiter and its API.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Request, StatusCode};
use axum::{Router, routing::get};
use metrics_exporter_prometheus::PrometheusBuilder;
use portcullis::admin::{Actor, Refused, has_bearer_token};
use portcullis::event::Fingerprint;
use portcullis::key::Header;
use portcullis::metrics::Metrics;
use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
use tower::ServiceExt as _;

use crate::devtools::{Browser, Screen};
use crate::server::Server;

pub(crate) const TOKEN: &str = "a-long-random-token";
const LONGEST_NAME: &str = "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn";

pub(crate) fn admin(limiter: &Limiter) -> Router {
    let authorize = |parts: &Parts| {
        if has_bearer_token(parts, TOKEN) {
            Ok(Actor::new("operator"))
        } else {
            Err(Refused::Unauthenticated)
        }
    };
    limiter.admin(authorize).into_router()
}

fn by_key(limiter: &Limiter, policy: Policy, route: &str) -> RateLimitLayer {
    limiter.layer(policy.by(Header::named("x-api-key"))).route(route)
}

/// A service with one route. The API shows a layer for as long as its service exists.
fn limited(layer: RateLimitLayer) -> Router {
    Router::new().route("/", get(async || "found")).layer(layer)
}

/// Sends requests of one caller, and returns how many were admitted and how many rejected.
async fn send(app: &Router, caller: &str, requests: usize) -> [u64; 2] {
    let mut counts = [0, 0];
    for _ in 0..requests {
        let request = Request::get("/").header("x-api-key", caller).body(Body::empty()).unwrap();
        let status = app.clone().oneshot(request).await.unwrap().status();
        counts[usize::from(status == StatusCode::TOO_MANY_REQUESTS)] += 1;
    }
    counts
}

/// Opens the page and enters the token with the keyboard.
pub(crate) async fn sign_in(browser: &mut Browser, address: &str) {
    browser.open(address).await;
    browser.wait_for("document.activeElement.id === 'token'").await;
    browser.type_text(TOKEN).await;
    browser.press("Enter").await;
    browser.wait_for("state === 'live' && !document.getElementById('policies').hidden").await;
}

/// A counter of a policy as the page shows it, with all digits.
async fn total(browser: &mut Browser, policy: &str, kind: &str) -> String {
    let expression = format!(
        "[...document.querySelectorAll('.card')].find(card => card.dataset.policy === {policy:?}).querySelector('[data-kind={kind}] dd > span').title"
    );
    browser.text(&expression).await
}

async fn rows(browser: &mut Browser, table: &str) -> Vec<Vec<String>> {
    let expression = format!(
        "[...document.querySelectorAll('#{table} tbody tr')].map(row => [...row.cells].map(cell => cell.innerText))"
    );
    serde_json::from_value(browser.eval(&expression).await).unwrap()
}

/// The value of a series in the text format of Prometheus.
fn series(metrics: &str, name: &str) -> String {
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name} is missing\n{metrics}")).to_owned()
}

#[tokio::test]
async fn page_shows_the_figures_of_the_requests() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let exporter = recorder.handle();
    let limiter = Limiter::memory().metrics_with(&Metrics::with_recorder(recorder));
    let app = admin(&limiter);
    let search = Policy::gcra("search", "3/h burst 3".parse().unwrap());
    let search = limited(by_key(&limiter, search, "GET /search"));
    let exports = Policy::fixed_window("exports", "1/18250d".parse().unwrap());
    let exports = limiter.layer(exports.by(Header::named("x-api-key")).shadow());
    let exports = limited(exports.route("GET /exports"));
    assert_eq!(send(&search, "ada", 5).await, [3, 2]);
    assert_eq!(send(&search, "bob", 4).await, [3, 1]);
    assert_eq!(send(&exports, "ada", 4).await, [4, 0]);

    let server = Server::start(app).await;
    let mut browser = Browser::start("figures").await;
    sign_in(&mut browser, &format!("http://{}/", server.address)).await;
    for (policy, kind, expected) in [
        ("search", "admitted", "6"),
        ("search", "rejected", "3"),
        ("search", "would", "0"),
        ("exports", "admitted", "4"),
        ("exports", "rejected", "0"),
        ("exports", "would", "3"),
    ] {
        assert_eq!(total(&mut browser, policy, kind).await, expected, "{policy}: {kind}");
    }
    for (kind, expected) in [("admitted", "10 in total"), ("rejected", "3 in total"), ("would", "3 in total")]
    {
        assert_eq!(
            browser.text(&format!("document.getElementById('sum-{kind}').textContent")).await,
            expected
        );
    }
    // The counts of the metrics, too.
    let metrics = exporter.render();
    for (kind, name) in [
        ("admitted", r#"portcullis_decisions_total{policy="search",outcome="allowed"}"#),
        ("rejected", r#"portcullis_decisions_total{policy="search",outcome="denied"}"#),
    ] {
        assert_eq!(total(&mut browser, "search", kind).await, series(&metrics, name), "{name}");
    }
    let would = series(&metrics, r#"portcullis_would_reject_total{policy="exports",cause="limited"}"#);
    assert_eq!(total(&mut browser, "exports", "would").await, would);
    let modes =
        browser.eval("[...document.querySelectorAll('.card .mode')].map(mode => mode.textContent)").await;
    assert_eq!(modes, serde_json::json!(["shadow", "enforce"]), "by the names of the policies");
    assert_eq!(browser.text("document.getElementById('store-health').textContent").await, "✓ healthy");

    // The callers, by the fingerprints with which an operator looks them up.
    let top = rows(&mut browser, "top").await;
    let of_search: Vec<_> = top.iter().filter(|row| row[0].ends_with("search")).collect();
    let counts: Vec<_> =
        of_search.iter().map(|row| [row[1].as_str(), row[2].lines().next().unwrap()]).collect();
    assert_eq!(counts, [["5", "2"], ["4", "1"]]);
    let fingerprint = of_search[0][0].lines().next().unwrap();
    assert!(fingerprint.parse::<Fingerprint>().is_ok(), "{fingerprint}");
    let recent = rows(&mut browser, "recent").await;
    assert_eq!(recent.len(), 3);
    assert!(
        recent.iter().all(|row| row[1].contains("search") && row[1].contains("GET /search")),
        "{recent:?}"
    );
    assert!(rows(&mut browser, "limited").await.iter().any(|row| row[0].contains(fingerprint)));

    // What comes later is seen without a reload, and drawn.
    assert_eq!(send(&search, "eve", 9).await, [3, 6]);
    browser.wait_for("document.getElementById('sum-rejected').textContent === '9 in total'").await;
    assert_eq!(total(&mut browser, "search", "admitted").await, "9");
    browser
        .wait_for(
            "document.querySelector('[data-policy=search] path.rejected').getAttribute('d').includes('L')",
        )
        .await;
    let described =
        browser.text("document.querySelector('[data-policy=search] svg').getAttribute('aria-label')").await;
    assert!(described.starts_with("search, the last five minutes. admitted: now "), "{described}");
    assert_eq!(browser.complaints, [""; 0]);
}

/// Names of policies are printable ASCII, and routes any text: neither is ever parsed as HTML.
#[tokio::test]
async fn names_with_html_are_shown_as_text() {
    const NAME: &str = "<img src=x onerror=document.title=1><b>";
    const ROUTE: &str = "GET /<script>document.title=1</script><style>*{display:none}</style>";
    let limiter = Limiter::memory();
    let app = admin(&limiter);
    let service = limited(by_key(&limiter, Policy::gcra(NAME, "1/h".parse().unwrap()), ROUTE));
    assert_eq!(send(&service, "<svg onload=document.title=1>", 3).await, [1, 2]);

    let server = Server::start(app).await;
    let mut browser = Browser::start("hostile").await;
    sign_in(&mut browser, &format!("http://{}/", server.address)).await;
    assert_eq!(browser.text("document.querySelector('.card h3').textContent").await, NAME);
    assert!(browser.text("document.querySelector('[data-of=routes]').textContent").await.starts_with(ROUTE));
    let recent = rows(&mut browser, "recent").await;
    assert!(recent.len() == 2 && recent[0][1].contains(NAME) && recent[0][1].contains(ROUTE), "{recent:?}");
    let made = browser
        .eval("document.querySelectorAll('main img, main script, main style, main b:not(.card dd b)').length")
        .await;
    assert_eq!(made, 0);
    assert!(browser.text("document.title").await.starts_with("Portcullis"));
    assert_eq!(browser.complaints, [""; 0]);
}

#[tokio::test]
async fn token_is_asked_for_and_not_kept() {
    let limiter = Limiter::memory();
    let server = Server::start(admin(&limiter)).await;
    let address = format!("http://{}/", server.address);
    let mut browser = Browser::start("token").await;
    browser.open(&address).await;
    browser.wait_for("document.activeElement.id === 'token'").await;
    browser.type_text("a-wrong-token").await;
    browser.press("Enter").await;
    browser.wait_for("!document.getElementById('wrong').hidden").await;
    assert_eq!(
        browser.text("document.getElementById('wrong').textContent").await,
        "The server does not know this token."
    );
    assert_eq!(browser.eval("document.getElementById('policies').hidden").await, true);

    sign_in(&mut browser, &address).await;
    assert_eq!(browser.text("location.href").await, address);
    let kept = "[Object.values(sessionStorage), Object.values(localStorage), document.cookie]";
    assert_eq!(browser.eval(kept).await, serde_json::json!([[], [], ""]));
    assert!(
        browser
            .text("document.getElementById('none').textContent")
            .await
            .starts_with("No policy is installed.")
    );

    // Only if that is wanted it outlives a reload, for this tab.
    browser.open(&address).await;
    browser.wait_for("document.activeElement.id === 'token'").await;
    browser.eval("document.getElementById('keep').click()").await;
    browser.type_text(TOKEN).await;
    browser.press("Enter").await;
    browser.wait_for("state === 'live'").await;
    assert_eq!(browser.eval(kept).await, serde_json::json!([[TOKEN], [], ""]));
    browser.open(&address).await;
    browser.wait_for("state === 'live'").await;
    browser.eval("document.getElementById('forget').click()").await;
    browser.wait_for("state === 'ask'").await;
    assert_eq!(browser.eval(kept).await, serde_json::json!([[], [], ""]));
    assert_eq!(browser.complaints, [""; 0]);
}

#[tokio::test]
async fn page_works_by_keyboard_and_on_a_phone() {
    let limiter = Limiter::memory();
    let app = admin(&limiter);
    let hourly = |name| Policy::gcra(name, "1/h".parse().unwrap());
    let search = limited(by_key(&limiter, hourly("search"), "GET /search"));
    let long = limited(by_key(&limiter, hourly(LONGEST_NAME), &"/long".repeat(60)));
    send(&search, "ada", 3).await;
    send(&long, "ada", 3).await;
    // Below a path of the service, as it is usually mounted.
    let server = Server::start(Router::new().nest("/limits", app)).await;
    let mut browser = Browser::start("keyboard").await;
    sign_in(&mut browser, &format!("http://{}/limits", server.address)).await;

    browser.eval("document.activeElement.blur()").await;
    let mut reached = Vec::new();
    for _ in 0..40 {
        browser.press("Tab").await;
        let focused =
            "(({ id, className, localName }) => id || className || localName)(document.activeElement)";
        reached.push(browser.text(focused).await);
    }
    for element in ["skip", "pause", "theme", "forget", "total", "find", "order", "summary", "copy"] {
        assert!(reached.iter().any(|one| one.contains(element)), "{element} in {reached:?}");
    }
    // An instant of the plots is chosen by keys, and read out.
    browser.eval("document.getElementById('total').focus()").await;
    browser.wait_for("totalPlot.steps.some(step => step.known)").await;
    browser.press("ArrowLeft").await;
    let value = browser.text("document.getElementById('total').getAttribute('aria-valuetext')").await;
    assert!(value.contains(':') && !value.starts_with("now"), "{value}");
    browser.press("Escape").await;
    assert!(
        browser
            .text("document.getElementById('total').getAttribute('aria-valuetext')")
            .await
            .starts_with("now. ")
    );

    for width in [360, 390, 768] {
        browser.resize(Screen { width, height: 800, scale: 1, scheme: "dark" }).await;
        browser.eval("document.querySelectorAll('details').forEach(details => details.open = true)").await;
        assert_eq!(browser.eval("document.documentElement.scrollWidth").await, width, "no horizontal scroll");
    }
    assert_eq!(browser.complaints, [""; 0]);
}

#[tokio::test]
async fn theme_is_kept_and_hidden_page_is_silent() {
    let server = Server::start(admin(&Limiter::memory())).await;
    let address = format!("http://{}/", server.address);
    let mut browser = Browser::start("theme").await;
    sign_in(&mut browser, &address).await;
    let ground = "getComputedStyle(document.body).backgroundColor";
    let light = browser.text(ground).await;
    browser.resize(Screen { width: 1280, height: 800, scale: 1, scheme: "dark" }).await;
    let dark = browser.text(ground).await;
    assert_ne!(light, dark, "the theme of the system");
    browser.eval("document.getElementById('theme').click()").await;
    assert_eq!(browser.text("document.getElementById('theme').textContent").await, "Theme: light");
    assert_eq!(browser.text(ground).await, light);
    sign_in(&mut browser, &address).await;
    assert_eq!(browser.text(ground).await, light, "after a reload");

    browser.eval("document.getElementById('pause').click()").await;
    assert_eq!(browser.text("document.getElementById('state').textContent").await, "Live, display paused");
    let hide = |hidden: bool| {
        format!(
            "Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }});
             document.dispatchEvent(new Event('visibilitychange'))"
        )
    };
    browser.eval(&hide(true)).await;
    assert_eq!(browser.eval("[state, attempt]").await, serde_json::json!(["hidden", null]));
    browser.eval(&hide(false)).await;
    browser.wait_for("state === 'live'").await;
    assert_eq!(browser.complaints, [""; 0]);
}
