//! Rules that are swapped in by hand, read again, and changed by documents, in any order.

use std::collections::BTreeSet;
use std::thread;

use super::reload::{File, events};
use super::*;
use crate::overlay::Overlay;

const KEY: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

/// What the file says about documents.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Accepts {
    Nothing,
    Limits,
    Modes,
}

/// What is in the file.
#[derive(Clone, Copy, Debug)]
enum Disk {
    Good(u64, Accepts),
    Bad,
    Empty,
}

impl Disk {
    fn text(self) -> String {
        let (limit, remote) = match self {
            Self::Empty => return "# limits\n".to_owned(),
            Self::Bad => ("many".to_owned(), String::new()),
            Self::Good(limit, accepts) => {
                let allow = match accepts {
                    Accepts::Nothing => return by_hand_text(limit, "${PERIOD:-w}"),
                    Accepts::Limits => "limit",
                    Accepts::Modes => "mode",
                };
                (limit.to_string(), format!("[remote]\nverify_key = '{KEY}'\nallow = ['{allow}']\n"))
            }
        };
        remote + &by_hand_text(limit, "${PERIOD:-w}")
    }
}

fn by_hand_text(limit: impl std::fmt::Display, period: &str) -> String {
    window("p", &format!("{limit}/{period}"), "") + "[layer]\nshow_generation = \"x-rules\"\n"
}

fn by_hand(limit: u64) -> Rules {
    rules(&by_hand_text(limit, "w"))
}

fn document(number: u64) -> Overlay {
    let text = format!(r#"{{"policy": {{"p": {{"limit": {}}}}}}}"#, limit_of(number));
    let (key, verify_key) = ("portcullis-rules".to_owned(), KEY.to_owned());
    Overlay { name: "remote".into(), text: text.into(), key, verify_key, number }
}

const fn limit_of(number: u64) -> u64 {
    500_000 + number
}

/// Where the current rules come from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    File,
    Text(u64),
}

/// What has to hold.
struct Model {
    disk: Disk,
    source: Source,
    /// The document that is kept, whether it applies or not.
    kept: Option<u64>,
    applied: Option<u64>,
    limit: u64,
    generation: u64,
    requests: u64,
    events: Vec<String>,
    /// The refusals that were reported since the last document was applied.
    reported: BTreeSet<(u64, String)>,
    reported_for: Option<u64>,
}

impl Model {
    fn new(disk: Disk) -> Self {
        let (kept, applied, reported_for) = (None, None, None);
        Self {
            disk,
            source: Source::File,
            kept,
            applied,
            limit: 100_000,
            generation: 1,
            requests: 0,
            events: Vec::new(),
            reported: BTreeSet::new(),
            reported_for,
        }
    }

    /// The limit, and the document that applies, if the rules are read from a source with a document. `None` if they are refused.
    fn read(&self, source: Source, kept: Option<u64>) -> Option<(u64, Option<u64>)> {
        match (source, self.disk) {
            (Source::Text(limit), _) => Some((limit, None)),
            (Source::File, Disk::Good(limit, accepts)) => match kept {
                Some(number) if accepts == Accepts::Limits => Some((limit_of(number), Some(number))),
                _ => Some((limit, None)),
            },
            (Source::File, Disk::Bad | Disk::Empty) => None,
        }
    }

    fn swapped(&mut self, source: Source, kept: Option<u64>) {
        let (limit, applied) = self.read(source, kept).expect("the rules are valid");
        (self.source, self.kept, self.limit, self.applied) = (source, kept, limit, applied);
        self.generation += 1;
        self.events.push(format!("reloaded {}", self.generation));
        if applied.is_some() && applied != self.reported_for {
            self.reported.clear();
        }
        self.reported_for = applied;
    }

    fn rejected(&mut self) {
        self.events.push(format!("rejected {}", self.generation));
    }

    fn refused(&mut self, number: u64, reason: &str) {
        if self.reported.insert((number, reason.to_owned())) {
            self.rejected();
        }
    }

    /// Whether a hand may swap rules in while the file is read: it is read, and refers to the environment.
    fn is_interrupted(&self) -> bool {
        self.source == Source::File && !matches!(self.disk, Disk::Empty)
    }
}

type Interruption = Arc<Mutex<Option<(LiveRules, Rules)>>>;

/// A file whose variable is looked up by a function that swaps other rules in, if there are any.
fn loader(file: &File, interruption: &Interruption) -> Loader {
    let interruption = Arc::clone(interruption);
    Loader::file(&file.0).environment(move |_| {
        let waiting = interruption.lock().unwrap().take();
        if let Some((live, rules)) = waiting {
            live.swap(rules).unwrap();
        }
        None
    })
}

async fn interleave(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let disk = Disk::Good(100_000, Accepts::Limits);
    let file = File::new(&format!("interleaved-{seed}"), &disk.text());
    let interruption = Interruption::default();
    let loader = loader(&file, &interruption);
    let live = LiveRules::new(registry(), Rules::load(&loader).unwrap()).unwrap();
    let observed = events(live.registry());
    let (layer, _used) = (live.layer(), live.layer_of("p").unwrap());
    let mut model = Model::new(disk);
    for step in 0..400 {
        let limit = 100_000 + rng.u64(..1_000);
        // Rules that are swapped in while the file is read.
        let other = (rng.u64(..3) == 0).then(|| 200_000 + rng.u64(..1_000));
        let operation = rng.u64(..10);
        match operation {
            0..=2 => {
                model.disk = match rng.u64(..6) {
                    0 => Disk::Bad,
                    1 => Disk::Empty,
                    2 => Disk::Good(limit, Accepts::Nothing),
                    3 => Disk::Good(limit, Accepts::Modes),
                    _ => Disk::Good(limit, Accepts::Limits),
                };
                file.write(&model.disk.text());
            }
            3 => {
                live.swap(by_hand(limit)).unwrap();
                model.swapped(Source::Text(limit), None);
            }
            4 if matches!(model.disk, Disk::Good(..)) => {
                live.swap(Rules::load(&loader).unwrap()).unwrap();
                model.swapped(Source::File, None);
            }
            4 => {
                let lacks = rules(&window("other", "5/h", ""));
                assert!(matches!(live.swap(lacks), Err(LayerError::RuleInUse { .. })));
                model.rejected();
            }
            _ => {
                let number = 1 + rng.u64(..6);
                let is_document = operation >= 8;
                *interruption.lock().unwrap() = other.map(|limit| (live.clone(), by_hand(limit)));
                let is_known = is_document && model.applied == Some(number);
                let is_interrupted = other.is_some() && model.is_interrupted() && !is_known;
                let kept = if is_document { Some(number) } else { model.kept };
                let read = model.read(model.source, kept);
                // A document that applies to nothing that the file allows is refused, and a reload discards it.
                let is_unfit = model.source == Source::File
                    && matches!(model.disk, Disk::Good(_, Accepts::Modes))
                    && kept.is_some();
                let is_accepted = read.is_some() && !(is_document && is_unfit);
                if let Some(limit) = other.filter(|_| is_interrupted) {
                    model.swapped(Source::Text(limit), None);
                }
                let result = if is_document {
                    live.apply_document(&document(number))
                } else {
                    live.reload().map_err(|error| error.to_string())
                };
                interruption.lock().unwrap().take();
                match result {
                    Ok(generation) if is_known => assert_eq!(generation, model.generation),
                    Ok(generation) => {
                        assert!(is_accepted, "seed {seed}, step {step}");
                        let kept = if is_document { kept } else { model.kept };
                        model.swapped(model.source, kept);
                        assert_eq!(generation, model.generation, "seed {seed}, step {step}");
                        let current = live.current();
                        if let Some((document, reason)) = current.discarded() {
                            assert!(is_unfit && !is_interrupted);
                            model.refused(document.number, reason);
                        } else {
                            assert!(!is_unfit || is_interrupted);
                        }
                    }
                    Err(reason) => {
                        assert!(!is_accepted, "seed {seed}, step {step}: {reason}");
                        if is_document {
                            live.refuse_document("remote", document(number), &reason);
                            model.refused(number, &reason);
                        } else {
                            model.rejected();
                        }
                    }
                }
            }
        }
        model.requests += 1;
        assert_holds(&live, &layer, &model, &format!("seed {seed}, step {step}")).await;
        let observed = observed.lock().unwrap();
        let kinds: Vec<_> =
            observed.iter().map(|event| event.split(':').next().unwrap_or_default()).collect();
        assert_eq!(kinds, model.events, "seed {seed}, step {step}");
    }
}

/// A request, the registry and the rules have the version of the model, and no charge was lost.
async fn assert_holds(live: &LiveRules, layer: &RulesLayer, model: &Model, step: &str) {
    let mut request = request("/");
    request.headers_mut().insert("x-rules", "?".parse().unwrap());
    let (status, headers) = send(layer, request).await;
    let number = |name: &str| -> u64 { headers[name].to_str().unwrap().parse().unwrap() };
    let shown = (number("x-ratelimit-limit"), number("x-ratelimit-remaining"), number("x-rules"));
    let expected = (model.limit, model.limit - model.requests, model.generation);
    assert_eq!((status, shown), (200, expected), "{step}");
    let registered = live.registry().policy(&name("p")).unwrap();
    assert_eq!(registered.strategy().limit(), model.limit, "{step}");
    assert_eq!(live.policy("p").unwrap(), registered, "{step}");
    assert_eq!(live.current().document().map(|document| document.number), model.applied, "{step}");
}

#[tokio::test]
async fn changes_in_any_order_leave_exactly_one_version() {
    let steps = std::env::var("PORTCULLIS_RANDOM_STEPS").map_or(10_000, |steps| steps.parse().unwrap());
    for seed in 0..steps / 4_000 {
        interleave(seed).await;
    }
}

#[test]
fn changes_at_the_same_time_are_each_reported_once() {
    let file = File::new("at-the-same-time", &Disk::Good(100_000, Accepts::Limits).text());
    let live = LiveRules::new(registry(), Rules::load(&Loader::file(&file.0)).unwrap()).unwrap();
    let events = events(live.registry());
    thread::scope(|scope| {
        for worker in 0..4 {
            let live = &live;
            let from_file = Rules::load(&Loader::file(&file.0)).unwrap();
            scope.spawn(move || {
                for number in 1..=50 {
                    match worker {
                        0 => drop(live.swap(from_file.clone()).unwrap()),
                        1 => drop(live.apply_document(&document(number))),
                        _ => drop(live.reload()),
                    }
                }
            });
        }
    });
    let events = events.lock().unwrap();
    let reloaded = events.iter().filter_map(|event| event.strip_prefix("reloaded ")?.parse().ok());
    let mut reloaded: Vec<u64> = reloaded.collect();
    reloaded.sort_unstable();
    assert_eq!(reloaded, (2..=live.generation()).collect::<Vec<_>>());
    let registered = live.registry().policy(&name("p")).unwrap();
    assert_eq!(live.policy("p").unwrap(), registered);
}

#[test]
fn a_document_does_not_end_the_limits_of_an_emptied_file() {
    let file = File::new("emptied", &Disk::Good(100_000, Accepts::Limits).text());
    let live = LiveRules::new(registry(), Rules::load(&Loader::file(&file.0)).unwrap()).unwrap();
    file.write(&format!("[remote]\nverify_key = '{KEY}'\n"));
    let nothing = Overlay { text: "{}".into(), ..document(1) };
    let refused = live.apply_document(&nothing).unwrap_err();
    assert_eq!((refused, live.generation()), (ReloadError::NoPolicies.to_string(), 1));
}
