#![doc = include_str!("../README.md")]

mod by_key;
mod figures;
mod json;
mod lane;
mod output;
mod sample;
mod scene;
mod traffic;
#[cfg(target_family = "wasm")]
#[expect(unsafe_code, reason = "an attribute names what a page can call")]
mod wasm;

use serde::Deserialize;

use crate::lane::Lane;
use crate::scene::Scene;

/// Computes a scene. Returns the text of the result, or of an error, as the [page of the crate](crate) describes them.
///
/// ```
/// let scene = r#"{
///     "title": "Two in ten seconds", "seed": 1, "duration": 2000, "clients": [{ "name": "ada" }],
///     "streams": [{ "kind": "clicks", "at": [100, 200, 300] }],
///     "lanes": [{ "name": "GCRA", "limits": [{ "policy": { "name": "search", "strategy": "gcra", "quota": "2/10s burst 2" } }] }]
/// }"#;
/// let result = portcullis_playground::run(scene);
/// assert!(result.contains(r#""counts":{"requests":3,"admitted":2"#), "{result}");
/// assert!(portcullis_playground::run("{}").starts_with(r#"{"error":"#));
/// ```
pub fn run(scene: &str) -> String {
    answer(read(scene).and_then(|scene| computed(&scene)))
}

/// Explains a request of a result: its status, its header lines and the body of a rejection.
///
/// The text has `scene`, and the indexes of the `lane` and the `request`.
pub fn explain(request: &str) -> String {
    answer(read::<OfRequest>(request).and_then(|OfRequest { scene, lane, request }| {
        scene.check()?;
        let requests = traffic::requests(&scene)?;
        let settings = scene.lane(lane)?;
        let mut lane = Lane::new(&scene, settings)?;
        lane.explain(request);
        lane.run(requests.requests)?;
        lane.explained().ok_or_else(|| format!("request: there is no request {request} in this lane"))
    }))
}

/// Writes a lane as Rust, as `limits.toml`, and as a scenario for `portcullis replay`.
///
/// The text has `scene`, and the index of the `lane`.
pub fn export(request: &str) -> String {
    answer(read::<OfLane>(request).and_then(|OfLane { scene, lane }| {
        scene.check()?;
        let requests = traffic::requests(&scene)?;
        let settings = scene.lane(lane)?;
        let mut lane = Lane::new(&scene, settings)?;
        lane.run(requests.requests)?;
        Ok(output::all(&scene, settings, &lane))
    }))
}

/// The version of the crates that decide.
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// A lane of a scene.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfLane {
    scene: Scene,
    lane: usize,
}

/// A request of a lane.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfRequest {
    scene: Scene,
    lane: usize,
    request: usize,
}

fn read<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn computed(scene: &Scene) -> Result<String, String> {
    scene.check()?;
    let traffic = traffic::requests(scene)?;
    let mut json = json::Json::default();
    json.object(|json| {
        json.member("version", version());
        json.member("id", &scene.id);
        json.member("title", &scene.title);
        json.member("note", &scene.note);
        json.number("duration", scene.duration * 1_000);
        json.number("left_out", traffic.left_out);
        json.list("clients", scene.clients.iter(), |json, client| json.text(&client.name));
    });
    json.reopen();
    json.key("lanes");
    let mut failed = None;
    json.array(|json| {
        for settings in &scene.lanes {
            let done = Lane::new(scene, settings).and_then(|mut lane| {
                lane.run(traffic.requests.clone())?;
                lane.write(json);
                Ok(())
            });
            if let Err(error) = done {
                failed.get_or_insert(format!("lane {}: {error}", settings.name));
            }
        }
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(json.close()),
    }
}

fn answer(result: Result<String, String>) -> String {
    result.unwrap_or_else(|error| {
        let mut json = json::Json::default();
        json.object(|json| json.member("error", error.as_str()));
        json.into_text()
    })
}
