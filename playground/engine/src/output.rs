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
            ("rust", rust::of(settings)),
            ("toml", rules::of(settings)),
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
