//! The page of the playground: what it shows is what the engine computes natively, by mouse and by keyboard, and on every screen.

mod recording;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::devtools::{Browser, Screen};
use crate::server::Server;

const WIDE: Screen = Screen { width: 1280, height: 1000, scale: 1, scheme: "light" };

fn built_in() -> Vec<Value> {
    serde_json::from_str(super::BUILT_IN).unwrap()
}

fn run(scene: &Value) -> Value {
    serde_json::from_str(&portcullis_playground::run(&scene.to_string())).unwrap()
}

/// The expression of the player of a scene.
pub(super) fn player(id: &str) -> String {
    format!("playground.players.get('{id}')")
}

pub(super) async fn open(name: &str, fragment: &str) -> (Server, Browser) {
    let server = Server::start(playground::app()).await;
    let mut browser = Browser::start(name).await;
    browser.resize(WIDE).await;
    browser.call("Network.enable", json!({})).await;
    browser.open(&format!("http://{}/{fragment}", server.address)).await;
    browser.wait_for("playground.players.size === 11").await;
    (server, browser)
}

/// Scrolls to a scene, and waits until it is drawn.
pub(super) async fn go(browser: &mut Browser, id: &str) {
    browser.eval(&format!("document.getElementById('{id}').scrollIntoView({{ behavior: 'instant' }})")).await;
    browser.wait_for(&format!("{}.theme && {0}.element.dataset.runs", player(id))).await;
    browser.eval(&format!("{0}.pause(), {0}.seek({0}.view.to)", player(id))).await;
}

/// The counts that the lanes of a scene show, as admitted and rejected.
async fn counts(browser: &mut Browser, id: &str) -> Vec<[u64; 2]> {
    let expression = format!(
        "[...document.querySelectorAll('#{id} .lane')].map(lane => [...lane.querySelectorAll('.count b')].map(count => Number(count.textContent.replaceAll(',', ''))))"
    );
    serde_json::from_value(browser.eval(&expression).await).unwrap()
}

fn expected(result: &Value) -> Vec<[u64; 2]> {
    let of = |lane: &Value| {
        let count = |name| lane["counts"][name].as_u64().unwrap();
        [count("admitted"), count("limited") + count("store_failed") + count("shed")]
    };
    result["lanes"].as_array().unwrap().iter().map(of).collect()
}

/// A figure of the table of a lane.
async fn figure(browser: &mut Browser, id: &str, lane: usize, name: &str) -> String {
    let expression = format!(
        "[...document.querySelectorAll('#{id} .lane')][{lane}].querySelectorAll('tr').values().find(row => row.cells[0].textContent.startsWith({name:?}))?.cells[1].textContent"
    );
    browser.text(&expression).await
}

async fn save(browser: &mut Browser, name: &str) {
    let png = browser.screenshot().await;
    let colours = browser.colours(&png).await;
    assert!(colours > 20, "{name}: a blank page has few colours, not {colours}");
    std::fs::create_dir_all(pictures()).unwrap();
    std::fs::write(pictures().join(format!("{name}.png")), png).unwrap();
}

fn pictures() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("playground")
}

#[tokio::test]
async fn scenes_show_what_the_library_computes() {
    let (server, mut browser) = open("scenes", "").await;
    for scene in built_in() {
        let (id, result) = (scene["id"].as_str().unwrap(), run(&scene));
        go(&mut browser, id).await;
        assert_eq!(counts(&mut browser, id).await, expected(&result), "{id}");
        for (i, lane) in result["lanes"].as_array().unwrap().iter().enumerate() {
            let requests =
                figure(&mut browser, id, i, "Requests").await.replace(',', "").parse::<u64>().unwrap();
            assert_eq!(requests, lane["counts"]["requests"].as_u64().unwrap(), "{id}");
            if let [limit] = &lane["limits"].as_array().unwrap()[..] {
                let most = figure(&mut browser, id, i, "Most in any").await.replace(',', "");
                assert!(
                    most.starts_with(&format!("{} limit {}", limit["most"], limit["units"])),
                    "{id}: {most}"
                );
                let drawn = format!(
                    "{}.lanes[{i}].chart.recent?.map(one => one.most).reduce((a, b) => Math.max(a, b))",
                    player(id)
                );
                let drawn = browser.eval(&drawn).await;
                assert!(drawn.is_null() || drawn == limit["most"], "{id}: {drawn} at the top of the line");
                let redis = figure(&mut browser, id, i, "State in Redis").await.replace(',', "");
                assert_eq!(redis, format!("at most {} bytes", lane["redis_bytes"][0]), "{id}");
            }
        }
        let moment = format!("{0}.seek({0}.view.from + ({0}.view.to - {0}.view.from) * .62)", player(id));
        browser.eval(&moment).await;
        save(&mut browser, &format!("{id}-light")).await;
    }
    for scheme in ["dark", "phone"] {
        let screen = if scheme == "dark" {
            Screen { scheme, ..WIDE }
        } else {
            Screen { width: 360, height: 800, scale: 2, scheme: "light" }
        };
        browser.resize(screen).await;
        for scene in built_in() {
            let id = scene["id"].as_str().unwrap();
            go(&mut browser, id).await;
            browser.wait_for("new Promise(done => setTimeout(() => done(true), 100))").await;
            save(&mut browser, &format!("{id}-{scheme}")).await;
            let width = browser.eval("document.documentElement.scrollWidth").await;
            assert_eq!(width, screen.width, "{id}: no horizontal scroll");
        }
    }
    let own = format!("http://{}/", server.address);
    let elsewhere: Vec<_> = browser
        .requested
        .iter()
        .filter(|address| !address.starts_with(&own) && !address.starts_with("data:"))
        .collect();
    assert!(browser.requested.len() > 5 && elsewhere.is_empty(), "{elsewhere:?}");
    assert_eq!(browser.complaints, [""; 0]);
}

#[tokio::test]
async fn last_period_has_what_was_settled() {
    let (_server, mut browser) = open("settled", "").await;
    go(&mut browser, "toy").await;
    let mut scene = built_in().into_iter().find(|scene| scene["id"] == "tokens").unwrap();
    scene["lanes"][0]["store"] = "share".into();
    browser.eval(&format!("{}.run({scene}, true).then(() => true)", player("toy"))).await;
    let drawn = browser.eval(&format!("{}.lanes[0].chart.recent[0].most", player("toy"))).await;
    assert_eq!(drawn, run(&scene)["lanes"][0]["limits"][0]["most"]);
}

#[tokio::test]
async fn burst_is_decided_as_by_the_library() {
    let (_server, mut browser) = open("burst", "").await;
    go(&mut browser, "edge").await;
    let before = counts(&mut browser, "edge").await;
    browser.eval(&format!("{}.seek(9700000)", player("edge"))).await;
    browser.eval("document.querySelector('#edge .burst').click()").await;
    browser.wait_for("document.querySelector('#edge .player').dataset.runs === '2'").await;
    let scene = browser.eval(&format!("{}.scene", player("edge"))).await;
    assert_eq!(scene["streams"][1]["at"].as_array().unwrap().len(), 10, "own clicks are a stream");
    browser.eval(&format!("{0}.seek({0}.view.to)", player("edge"))).await;
    let after = counts(&mut browser, "edge").await;
    assert_eq!(after, expected(&run(&scene)));
    assert_ne!(after, before);
    assert_eq!(after[0][0] + after[0][1], 30);

    // A point of the time line is pressed, and dragged.
    let middle = "(({ left, top }) => [left + 300, top + 60])(document.querySelector('#edge canvas[role=img]').getBoundingClientRect())";
    let middle = browser.eval(middle).await;
    for (kind, by) in [("mousePressed", 0.0), ("mouseMoved", -150.0), ("mouseReleased", -150.0)] {
        let x = middle[0].as_f64().unwrap() + by;
        let event =
            json!({ "type": kind, "x": x, "y": middle[1], "button": "left", "buttons": 1, "clickCount": 1 });
        browser.call("Input.dispatchMouseEvent", event).await;
    }
    let expected = browser.eval(&format!("{}.lanes[0].chart.at(150)", player("edge"))).await;
    assert_eq!(browser.eval(&format!("{}.now", player("edge"))).await, expected);
    let undo = "[...document.querySelectorAll('#edge .send button')].at(-1).click()";
    browser.eval(undo).await;
    browser.wait_for("document.querySelector('#edge .player').dataset.runs === '3'").await;
    assert_eq!(counts(&mut browser, "edge").await, before);
    assert_eq!(browser.complaints, [""; 0]);
}

#[tokio::test]
async fn scene_is_played_by_itself_and_by_keys() {
    let (server, mut browser) = open("keys", "").await;
    let motion = json!({ "features": [{ "name": "prefers-reduced-motion", "value": "no-preference" }] });
    browser.call("Emulation.setEmulatedMedia", motion).await;
    browser.open("about:blank").await;
    browser.open(&format!("http://{}/#buckets", server.address)).await;
    browser.wait_for(&format!("{}.playing", player("buckets"))).await;
    let clock = "document.querySelector('#buckets .clock').textContent";
    let first = browser.text(clock).await;
    browser.wait_for(&format!("{clock} !== {first:?}")).await;

    browser.press(" ").await;
    let play = "document.querySelector('#buckets .play').textContent";
    browser.wait_for(&format!("{play} === 'Play'")).await;
    browser.eval(&format!("{}.seek(0)", player("buckets"))).await;
    for (presses, admitted) in [(4, [[4, 0], [1, 3], [4, 0]]), (2, [[4, 2], [1, 5], [4, 2]])] {
        for _ in 0..presses {
            browser.press("ArrowRight").await;
        }
        assert_eq!(counts(&mut browser, "buckets").await, admitted);
    }
    browser.press("ArrowLeft").await;
    assert_eq!(counts(&mut browser, "buckets").await[0], [4, 1]);
    let said = browser.text("document.querySelector('#buckets [aria-live]').textContent").await;
    assert_eq!(said, "Token bucket, at 1.1 s: 4 admitted, 1 rejected. 0 of 4 tokens left");
    let label =
        browser.text("document.querySelector('#buckets canvas[role=img]').getAttribute('aria-label')").await;
    assert_eq!(label, format!("Time line. {said}"));
    browser.press(" ").await;
    browser.wait_for(&format!("{play} === 'Pause'")).await;

    // Every control has a name, and is reached by the tabulator.
    let nameless = "[...document.querySelectorAll('button, input, select, textarea, a')].filter(one => !(one.ariaLabel || one.textContent.trim() || one.closest('label')?.textContent.trim())).map(one => one.outerHTML)";
    assert_eq!(browser.eval(nameless).await, json!([]));
    browser.eval("document.activeElement.blur(), document.querySelector('#buckets .play').focus()").await;
    let mut reached = Vec::new();
    for _ in 0..12 {
        browser.press("Tab").await;
        reached.push(
            browser.text("document.activeElement.ariaLabel ?? document.activeElement.textContent").await,
        );
    }
    for control in ["Time of the scene", "Send a request now", "Figures and response", "Open in the toy"] {
        assert!(reached.iter().any(|one| one == control), "{control} in {reached:?}");
    }
    assert_eq!(browser.complaints, [""; 0]);
}

#[tokio::test]
async fn toy_is_restored_from_its_address() {
    let (server, mut browser) = open("toy", "").await;
    go(&mut browser, "shed").await;
    browser.eval("document.querySelector('#shed .after button').click()").await;
    browser.wait_for("location.hash.startsWith('#toy=')").await;
    let address = browser.text("location.href").await;
    assert!(address.len() < 1_000, "{address}");
    assert_eq!(address, browser.text("document.getElementById('out-text').textContent").await);
    browser.open("about:blank").await;
    browser.open(&address).await;
    browser.wait_for(&format!("{}?.result?.id === 'shed'", player("toy"))).await;
    let scene = browser.eval(&format!("{}.scene", player("toy"))).await;
    let built_in = built_in();
    let shed = built_in.iter().find(|scene| scene["id"] == "shed").unwrap();
    assert_eq!(&scene, shed);
    go(&mut browser, "toy").await;
    assert_eq!(counts(&mut browser, "toy").await, expected(&run(shed)));
    save(&mut browser, "toy-light").await;

    // What is wrong with an address is said, above the scene that the toy begins with.
    let empty = browser.text("import('./out.js').then(({ toAddress }) => toAddress({}))").await;
    let message = run(&json!({}))["error"].as_str().unwrap().to_owned();
    let message = message.split_once(" at line ").unwrap().0;
    for (fragment, message) in
        [("#toy=nonsense", "This address has no scene that can be read."), (empty.as_str(), message)]
    {
        browser.open("about:blank").await;
        browser.open(&format!("http://{}/{fragment}", server.address)).await;
        browser.wait_for("document.querySelector('#toy .problem')?.hidden === false").await;
        assert_eq!(browser.text("document.querySelector('#toy .problem').textContent").await, message);
        browser.wait_for("document.querySelectorAll('#toy .lane').length === 3").await;
    }
    assert_eq!(browser.complaints, [""; 0]);
}

/// Sets a control of the form, as a person does.
pub(super) async fn set(browser: &mut Browser, path: &str, value: &str) {
    let change = format!(
        "(control => {{ control.value = {value:?}; control.dispatchEvent(new Event('change')); }})(document.querySelector('[data-path=\"{path}\"]'))"
    );
    browser.eval(&change).await;
}

#[tokio::test]
async fn toy_shows_mistakes_and_outputs_of_the_engine() {
    let (_server, mut browser) = open("form", "").await;
    go(&mut browser, "toy").await;
    let quota = "lanes.0.limits.0.policy.quota";
    let scene = browser.eval(&format!("{}.scene", player("toy"))).await;
    set(&mut browser, quota, "ten").await;
    let wrong =
        format!("document.querySelector('[data-path=\"{quota}\"]').closest('label').querySelector('.wrong')");
    browser.wait_for(&format!("!{wrong}.hidden")).await;
    let mut mistaken = scene.clone();
    mistaken["lanes"][0]["limits"][0]["policy"]["quota"] = "ten".into();
    let message = run(&mistaken)["error"].as_str().unwrap().to_owned();
    let message = message.split_once(" at line ").unwrap().0;
    assert_eq!(browser.text(&format!("{wrong}.textContent")).await, message);
    assert_eq!(browser.eval(&format!("{}.scene", player("toy"))).await, scene, "what is drawn stays");

    set(&mut browser, quota, "2/10s").await;
    set(&mut browser, "lanes.0.limits.0.policy.strategy", "in_flight").await;
    browser.wait_for("document.querySelector('#toy h3').textContent === 'In flight'").await;
    set(&mut browser, "lanes.0.limits.0.policy.strategy", "sliding_log").await;
    browser.wait_for("document.querySelector('#toy h3').textContent === 'Sliding log'").await;
    let scene = browser.eval(&format!("{}.scene", player("toy"))).await;
    browser.eval(&format!("{0}.seek({0}.view.to)", player("toy"))).await;
    assert_eq!(counts(&mut browser, "toy").await, expected(&run(&scene)));

    assert_outputs(&mut browser, &scene).await;

    // A log that is pasted brings its clients and its length.
    let line = |address: &str, second: u32| {
        format!("{address} - - [10/Oct/2000:13:55:{second} -0700] \"GET / HTTP/1.1\" 200 17")
    };
    let log = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|address| line(address, 16));
    let log = format!("{}\n{}\nno line\n", log.join("\n"), line("192.0.2.1", 59));
    set(&mut browser, "streams.0.kind", "log").await;
    browser.wait_for("document.querySelector('[data-path=\"streams.0.text\"]')").await;
    set(&mut browser, "streams.0.text", &log).await;
    browser.wait_for(&format!("{}.result.clients.length === 3", player("toy"))).await;
    let scene = browser.eval(&format!("{}.scene", player("toy"))).await;
    assert_eq!([&scene["duration"], &scene["clients"][2]["name"]], [&json!(44_000), &json!("192.0.2.3")]);
    let left_out = run(&scene)["left_out"].as_u64().unwrap();
    assert_eq!(left_out, 1);
    let said = browser.text("document.querySelector('#toy .left-out').textContent").await;
    assert!(said.starts_with("Left out: 1 ("), "{said}");
    assert_eq!(browser.complaints, [""; 0]);
}

/// What the first lane of a scene becomes elsewhere, and the response to its last request.
async fn assert_outputs(browser: &mut Browser, scene: &Value) {
    let texts = json!({ "scene": scene, "lane": 0 }).to_string();
    let exported: Value = serde_json::from_str(&portcullis_playground::export(&texts)).unwrap();
    for form in ["rust", "toml", "scenario"] {
        browser.eval(&format!("document.getElementById('out-{form}').click()")).await;
        let shown = format!("document.getElementById('out-text').textContent === {}", exported[form]);
        browser.wait_for(&shown).await;
    }
    let last = run(scene)["lanes"][0]["counts"]["requests"].as_u64().unwrap() - 1;
    let one = json!({ "scene": scene, "lane": 0, "request": last }).to_string();
    let explained: Value = serde_json::from_str(&portcullis_playground::explain(&one)).unwrap();
    let response = "document.querySelector('#toy .lane pre').textContent";
    browser.wait_for(&format!("{response}.startsWith('HTTP/1.1 {}')", explained["status"])).await;
    let shown = browser.text(response).await;
    for header in explained["headers"].as_array().unwrap() {
        let line = format!("{}: {}", header[0].as_str().unwrap(), header[1].as_str().unwrap());
        assert!(shown.lines().any(|one| one == line), "{line} in {shown}");
    }
}

/// The work of a frame does not grow with the requests of a scene. The time is printed, for people.
#[tokio::test]
async fn frame_draws_few_marks() {
    let (_server, mut browser) = open("frames", "").await;
    go(&mut browser, "toy").await;
    let streams = [("30/s", 0), ("20/s", 1), ("10/s", 2)]
        .map(|(rate, client)| json!({ "kind": "poisson", "rate": rate, "client": client }));
    let lanes = ["token_bucket", "sliding_window", "leaky_bucket", "sliding_log"].map(|strategy| {
        json!({ "name": strategy, "limits": [{ "policy": { "name": "search", "strategy": strategy, "quota": "150/10s" } }] })
    });
    let clients = ["ada", "bob", "eve"].map(|name| json!({ "name": name }));
    let scene = json!({ "title": "Many", "duration": 60_000, "clients": clients, "streams": streams, "lanes": lanes });
    browser.eval(&format!("{}.run({scene}, true).then(() => true)", player("toy"))).await;
    browser.call("Emulation.setCPUThrottlingRate", json!({ "rate": 4 })).await;
    for id in ["instances", "shed", "toy"] {
        go(&mut browser, id).await;
        // Each frame is drawn three times; the shortest was not interrupted by something else.
        let frames = format!(
            "(async player => {{
                const times = Array(120).fill(Infinity);
                let drawn = 0;
                for (let pass = 0; pass < 3; pass++) {{
                    player.seek(player.view.from, true);
                    for (let i = 0; i < 120; i++) {{
                        await new Promise(requestAnimationFrame);
                        const start = performance.now();
                        player.advance(110);
                        times[i] = Math.min(times[i], performance.now() - start);
                        drawn = Math.max(drawn, player.drawn);
                    }}
                }}
                times.sort((a, b) => a - b);
                return {{ drawn, requests: player.rows.length / 16, median: times[60], longest: times[119] }};
            }})({})",
            player(id)
        );
        let found = browser.eval(&frames).await;
        println!(
            "{id}: {} requests, {} marks in a frame, {:.1} ms (median), {:.1} ms (longest), at a quarter of the speed",
            found["requests"],
            found["drawn"],
            found["median"].as_f64().unwrap(),
            found["longest"].as_f64().unwrap()
        );
        let drawn = found["drawn"].as_u64().unwrap();
        assert!((10..=700).contains(&drawn), "{id}: {drawn} marks in a frame");
        assert!(found["requests"].as_u64().unwrap() > 1_500, "{id}: many requests");
    }
    assert_eq!(browser.complaints, [""; 0]);
}
