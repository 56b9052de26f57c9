//! A lane as text: as Rust, as rules, as a scenario.

mod rules;
mod rust;
mod scenario;

use crate::json::Json;
use crate::lane::Lane;
use crate::scene::{LaneSettings, Scene};

/// All texts of a lane, which has run. Each is null where the form cannot express the lane.
pub(crate) fn all(scene: &Scene, settings: &LaneSettings, lane: &Lane<'_>) -> String {
    let mut json = Json::default();
    json.object(|json| {
        let texts = [
            ("rust", rust::of(scene, settings)),
            ("toml", rules::of(scene, settings)),
            ("scenario", scenario::of(scene, lane)),
        ];
        for (name, text) in texts {
            json.key(name);
            match text {
                Some(text) => json.text(&text),
                None => json.null(),
            }
        }
    });
    json.into_text()
}

/// The line of a comment that lists what a text of the limits leaves out, or nothing.
fn left_out(scene: &Scene, lane: &LaneSettings, mark: &str) -> String {
    let costs = scene.clients.iter().map(|client| Some(client.cost));
    let mut costs = costs.chain(scene.streams.iter().map(|stream| stream.cost)).flatten();
    let parts = [
        (costs.any(|cost| cost != 1), "the costs of requests"),
        (lane.limits.iter().any(|limit| limit.settle), "their settlement at what they used"),
        (lane.service.is_some(), "the workers of the service"),
        (lane.shed.is_some(), "the shedding of load"),
    ];
    let parts: Vec<_> = parts.into_iter().filter_map(|(is_there, part)| is_there.then_some(part)).collect();
    if parts.is_empty() { String::new() } else { format!("{mark} Left out: {}.\n", parts.join(", ")) }
}
