//! Files that are read again by hand.

use std::fs;
use std::path::PathBuf;

use super::*;

/// A file of the test that is removed with it.
pub(super) struct File(pub(super) PathBuf);

impl File {
    pub(super) fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("portcullis-{}-{name}.toml", std::process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }

    pub(super) fn write(&self, text: &str) {
        fs::write(&self.0, text).unwrap();
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The events of rules, as text.
pub(super) fn events(registry: &Registry) -> Arc<Mutex<Vec<String>>> {
    let events = Arc::<Mutex<Vec<String>>>::default();
    let list = Arc::clone(&events);
    registry.observe(Arc::new(move |event: &portcullis_tower::Event<'_>| {
        let text = match event.kind {
            EventKind::RulesReloaded { generation } => format!("reloaded {generation}"),
            EventKind::RulesRejected { generation, findings } => format!("rejected {generation}: {findings}"),
            EventKind::Rejected { reason: Reason::Misconfigured, .. } => "misconfigured".to_owned(),
            _ => return,
        };
        list.lock().unwrap().push(text);
    }));
    events
}

#[tokio::test]
async fn a_bad_file_keeps_the_last_good_rules() {
    let file = File::new("bad", &window("p", "5/h", ""));
    let live = LiveRules::new(registry(), Rules::from_file(&file.0).unwrap()).unwrap();
    let events = events(live.registry());
    let layer = live.layer();
    assert_eq!(get(&layer, "/").await, left(200, "4"));

    file.write(&window("p", "nine an hour", ""));
    let error = live.reload().unwrap_err();
    assert!(matches!(error, ReloadError::Invalid(_)));
    let _used = live.layer_of("p").unwrap();
    file.write(&window("other", "9/h", ""));
    assert!(matches!(live.reload(), Err(ReloadError::Refused(LayerError::RuleInUse { .. }))));
    assert_eq!((live.generation(), get(&layer, "/").await), (1, left(200, "3")));

    file.write(&window("p", "9/h", ""));
    assert_eq!(live.reload().unwrap(), 2);
    assert_eq!(get(&layer, "/").await, left(200, "6"));
    let events = events.lock().unwrap();
    assert_eq!(events.len(), 3);
    assert_eq!(events[0], format!("rejected 1: {error}"));
    assert!(events[0].contains("policy.p.quota"), "{}", events[0]);
    assert!(events[1].starts_with("rejected 1: rule p cannot be removed"), "{}", events[1]);
    assert_eq!(events[2], "reloaded 2");
}

#[tokio::test]
async fn a_file_that_is_cut_off_anywhere_never_ends_a_limit() {
    let whole = window("p", "5/h", "mode = \"enforce\"");
    let file = File::new("cut", &whole);
    let live = LiveRules::new(registry(), Rules::from_file(&file.0).unwrap()).unwrap();
    let layer = live.layer_of("p").unwrap();
    for length in 0..whole.len() {
        file.write(&whole[..length]);
        let _ = live.reload();
        assert!(get(&layer, "/").await.1.is_some(), "{length}");
    }
}

/// Rules from a text whose variable is looked up by a function, which is called while the rules are read.
fn rules_reading(text: &str, reads: impl Fn() + Send + Sync + 'static) -> Rules {
    let loader = Loader::text("limits.toml", Format::Toml, text).environment(move |_| {
        reads();
        None
    });
    Rules::load(&loader).unwrap()
}

#[tokio::test]
async fn a_swap_during_a_reload_is_not_overwritten() {
    let swaps = Arc::new(Mutex::new(None::<LiveRules>));
    let swap = {
        let swaps = Arc::clone(&swaps);
        move || {
            if let Some(live) = swaps.lock().unwrap().take() {
                assert_eq!(live.swap(rules(&window("p", "9/h", ""))), Ok(2));
            }
        }
    };
    let read = rules_reading(&window("p", "${LIMIT:-5/h}", ""), swap);
    let live = LiveRules::new(registry(), read).unwrap();
    let events = events(live.registry());
    *swaps.lock().unwrap() = Some(live.clone());
    // What was read for the first rules is dropped, and those that were swapped in are read again.
    assert_eq!(live.reload().unwrap(), 3);
    assert_eq!(get(&live.layer(), "/").await, left(200, "8"));
    assert_eq!(*events.lock().unwrap(), ["reloaded 2", "reloaded 3"]);
}

#[test]
fn a_reload_that_is_always_interrupted_ends() {
    type Swapped = Arc<Mutex<Option<(LiveRules, Rules)>>>;
    let swapped = Swapped::default();
    let of_reader = Arc::clone(&swapped);
    let swap = move || {
        if let Some((live, rules)) = &*of_reader.lock().unwrap() {
            live.swap(rules.clone()).unwrap();
        }
    };
    // They come from the same text, so that reading them again calls the function again.
    let rules = rules_reading(&window("p", "${LIMIT:-5/h}", ""), swap);
    let live = LiveRules::new(registry(), rules.clone()).unwrap();
    *swapped.lock().unwrap() = Some((live.clone(), rules));
    assert!(matches!(live.reload(), Err(ReloadError::Interrupted)));
    assert_eq!(live.generation(), 11);
    swapped.lock().unwrap().take();
    assert_eq!(live.reload().unwrap(), 12);
}

#[tokio::test]
async fn a_file_without_policies_keeps_the_last_good_rules() {
    let file = File::new("none", &window("p", "5/h", ""));
    let live = LiveRules::new(registry(), Rules::from_file(&file.0).unwrap()).unwrap();
    for text in ["", "# limits", "[layer]\nheaders = \"none\"\n", "[policy]\n"] {
        file.write(text);
        assert!(matches!(live.reload(), Err(ReloadError::NoPolicies)), "{text}");
    }
    assert_eq!((live.generation(), get(&live.layer(), "/").await), (1, left(200, "4")));
    // A program may end all limits.
    assert_eq!(live.swap(rules("")), Ok(2));
    assert_eq!(live.reload().unwrap(), 3);
}
