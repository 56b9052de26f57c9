//! The texts of lanes are what they are for: rules load, Rust compiles, and a scenario decides as the playground does, also in Redis.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use portcullis::rules::{Format, Loader, Rules};
use portcullis::store::MemoryStore;
use portcullis_redis::RedisStore;
use portcullis_servers::RedisServer;
use portcullis_testing::{ManualClock, Scenario, StoreSubject, SystemUnderTest, run};
use serde_json::{Value, json};

use crate::layers;
use crate::result::{all_scenes, scene};

/// The name and the texts of each lane of each scene.
fn lanes() -> Vec<(String, Value)> {
    let mut lanes = Vec::new();
    for scene in all_scenes() {
        for index in 0..scene["lanes"].as_array().unwrap().len() {
            let request = json!({ "scene": scene, "lane": index }).to_string();
            let texts: Value = serde_json::from_str(&portcullis_playground::export(&request)).unwrap();
            assert!(texts["error"].is_null(), "{texts}");
            lanes.push((format!("{}_{}", scene["id"].as_str().unwrap(), index + 1), texts));
        }
    }
    lanes
}

#[test]
fn rules_of_lanes_load() {
    let mut loaded = 0;
    for (name, texts) in lanes() {
        let Some(text) = texts["toml"].as_str() else { continue };
        let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, text));
        assert!(rules.is_ok(), "{name}: {}\n{text}", rules.unwrap_err());
        loaded += 1;
    }
    assert!(loaded > 20, "{loaded}");
}

#[test]
fn texts_name_what_they_leave_out() {
    let lanes = lanes();
    let texts = |name: &str| &lanes.iter().find(|lane| lane.0 == name).unwrap().1;
    let left_out = "Left out: the costs of requests, their settlement at what they used, the workers of the service, \
                    the shedding of load.\n";
    let [settings, edge] = [texts("exports_2"), texts("edge_1")];
    for (form, mark) in [("rust", "//"), ("toml", "#")] {
        assert!(settings[form].as_str().unwrap().contains(&format!("{mark} {left_out}")), "{settings}");
        assert!(!edge[form].as_str().unwrap().contains("Left out"), "{edge}");
    }
    assert!(settings["toml"].as_str().unwrap().contains("\nspread_retries = \"1500ms\"\n"), "{settings}");
    assert!(settings["scenario"].as_str().unwrap().contains("remaining = "), "{settings}");
}

#[test]
fn lane_without_decisions_has_no_scenario() {
    let mut scene = scene("edge");
    scene["streams"] = json!([]);
    let exported = portcullis_playground::export(&json!({ "scene": scene, "lane": 0 }).to_string());
    assert!(exported.ends_with(r#""scenario":null}"#), "{exported}");
}

#[tokio::test]
async fn scenarios_decide_alike_in_memory() {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).swept_per_check(0).build();
    scenarios_pass(&mut StoreSubject::new(Arc::new(store), clock)).await;
}

#[tokio::test]
async fn scenarios_decide_alike_in_redis() {
    let server = RedisServer::start().unwrap();
    let clock = ManualClock::default();
    let store =
        RedisStore::builder(server.url()).deadline(Duration::from_secs(10)).scenario_clock(clock.clone());
    scenarios_pass(&mut StoreSubject::new(Arc::new(store.connect().await.unwrap()), clock)).await;
}

async fn scenarios_pass(subject: &mut dyn SystemUnderTest) {
    let mut cases = 0;
    for (name, texts) in lanes() {
        let Some(text) = texts["scenario"].as_str() else { continue };
        let scenario =
            Scenario::parse(&format!("{name}.toml"), text).unwrap_or_else(|error| panic!("{error}"));
        let report = run(scenario.cases(), subject).await;
        assert!(report.failures().is_empty(), "{name}: {report}");
        cases += scenario.cases().len();
    }
    assert!(cases > 20, "{cases}");
}

/// Each function makes its layer, so that its policies fit together.
#[test]
fn rust_of_lanes_is_what_is_compiled() {
    let mut text = "//! The Rust of each lane of each scene. `UPDATE_SNIPPETS=1 cargo test -p portcullis-playground` writes it.\n".to_owned();
    let mut names = Vec::new();
    for (name, texts) in lanes() {
        let Some(rust) = texts["rust"].as_str() else { continue };
        writeln!(text, "pub(crate) mod {name} {{").unwrap();
        // Without empty lines and comments, the file is short enough.
        let lines = rust.lines().filter(|line| !line.is_empty() && !line.starts_with("//"));
        lines.for_each(|line| writeln!(text, "    {line}").unwrap());
        text += "}\n";
        names.push(name);
    }
    text += "pub(crate) const ALL: &[fn(&portcullis::Limiter) -> Result<portcullis::RateLimitLayer, Box<dyn std::error::Error>>] = &[\n";
    for name in names {
        writeln!(text, "    {name}::layer,").unwrap();
    }
    text += "];\n";
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/layers.rs");
    if std::env::var_os("UPDATE_SNIPPETS").is_some() {
        fs::write(file, &text).unwrap();
    }
    assert!(
        fs::read_to_string(file).unwrap() == text,
        "{file} is of other scenes: run the test with UPDATE_SNIPPETS=1"
    );
    for layer in layers::ALL {
        drop(layer(&portcullis::Limiter::memory()).unwrap());
    }
}
