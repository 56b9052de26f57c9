use std::thread;

use portcullis_core::{Gcra, PolicySettings, Quota, SlidingLog, SlidingWindow, Strategy};

use super::*;

fn table() -> Arc<PolicyTable> {
    Arc::new(PolicyTable::new(Arc::new(portcullis_core::ManualClock::default())))
}

fn policy(name: &str, burst: u64) -> Policy {
    Policy::try_new(name, Gcra::new(Quota::per_minute(1).burst(burst)), PolicySettings::default()).unwrap()
}

fn log(name: &str, limit: u64) -> Policy {
    Policy::try_new(name, SlidingLog::new(Quota::per_hour(limit)), PolicySettings::default()).unwrap()
}

fn member(policy: &Policy) -> Member {
    Member { policy: policy.name().clone(), has_chosen_key: false }
}

fn join(table: &Arc<PolicyTable>, policy: &Policy) -> Result<Membership, LayerError> {
    table.join(Box::new([member(policy)]), Some(policy))
}

#[test]
fn a_name_is_forgotten_with_its_last_layer() {
    let table = table();
    let (one, other) = (policy("p", 1), policy("p", 2));
    let layers = [join(&table, &one).unwrap(), join(&table, &one).unwrap()];
    assert!(matches!(join(&table, &other), Err(LayerError::Conflict(_))));
    let [first, second] = layers;
    drop(first);
    assert_eq!(table.policy(one.name()), Some(one.clone()));
    drop(second);
    assert_eq!(table.policy(one.name()), None);
    let _layer = join(&table, &other).unwrap();
    assert_eq!(table.names(), [other.name().clone()]);
}

#[test]
fn a_kept_name_is_never_forgotten() {
    let table = table();
    let one = policy("p", 1);
    table.keep(&one).unwrap();
    drop(join(&table, &one).unwrap());
    assert_eq!(table.policy(one.name()), Some(one));
}

#[test]
fn the_declared_policy_is_admitted_after_a_change() {
    let table = table();
    let [declared, changed, other] = [1, 2, 3].map(|burst| policy("p", burst));
    let _layer = join(&table, &declared).unwrap();
    assert_eq!(table.set_policy(changed.clone(), false).unwrap(), declared.clone());
    assert_eq!(table.generation(), 1);
    assert_eq!(table.set_policy(changed.clone(), false).unwrap(), changed.clone());
    assert_eq!(table.generation(), 1);
    for known in [&declared, &changed] {
        assert!(join(&table, known).is_ok());
    }
    let Err(LayerError::Conflict(conflict)) = join(&table, &other) else { panic!("it is another policy") };
    assert_eq!((conflict.registered(), conflict.refused()), (&changed, &other));
    assert_eq!(table.policy(declared.name()), Some(changed));
}

#[test]
fn a_change_is_forgotten_with_the_name() {
    let table = table();
    let (declared, changed) = (policy("p", 1), policy("p", 2));
    let layer = join(&table, &declared).unwrap();
    table.set_policy(changed, false).unwrap();
    table.set_mode(declared.name(), Mode::Off).unwrap();
    drop(layer);
    let _layer = join(&table, &declared).unwrap();
    assert_eq!((table.policy(declared.name()), table.mode(declared.name())), (Some(declared), None));
}

#[test]
fn unknown_names_and_unverified_keys_are_refused() {
    let table = table();
    let known = policy("p", 1);
    let share = Mode::Percent(crate::Percent::new(10));
    for error in [
        table.set_policy(known.clone(), false).unwrap_err(),
        table.set_mode(known.name(), share).unwrap_err(),
    ] {
        assert_eq!(error, LayerError::Unknown { policy: known.name().clone() });
    }
    let _verified = join(&table, &known).unwrap();
    table.set_mode(known.name(), share).unwrap();
    let chosen = Member { policy: known.name().clone(), has_chosen_key: true };
    let layer = table.join(Box::new([chosen]), Some(&known)).unwrap();
    let refused = table.set_mode(known.name(), share).unwrap_err();
    assert_eq!(refused, LayerError::UnverifiedKey { policy: known.name().clone() });
    table.set_mode(known.name(), Mode::Shadow).unwrap();
    drop(layer);
    table.set_mode(known.name(), share).unwrap();
}

#[test]
fn a_layer_stays_within_the_work_of_a_decision() {
    let table = table();
    let slots = SlidingWindow::with_slots(Quota::per_hour(100), 1_000).unwrap();
    let window = Policy::literal("window", Strategy::SlidingWindow(slots));
    let small = log("log", 2_400);
    let _window = join(&table, &window).unwrap();
    let _both = table.join(Box::new([member(&window), member(&small)]), Some(&small)).unwrap();
    assert!(matches!(table.set_policy(log("log", 2_401), false), Err(LayerError::TooMuchWork(_))));
    table.set_policy(log("log", 100), false).unwrap();
    table.set_policy(log("log", 2_400), false).unwrap();
    // A layer that is built later is judged by the policy as it is now.
    let alone = log("alone", 100);
    let _alone = join(&table, &alone).unwrap();
    table.set_policy(log("alone", 100_000), false).unwrap();
    let joined = table.join(Box::new([member(&window), member(&alone)]), Some(&alone));
    assert!(matches!(joined, Err(LayerError::TooMuchWork(_))));
    assert_eq!(table.lock().layers.len(), 3);
}

#[test]
fn threads_that_build_and_drop_layers_leave_nothing() {
    let table = table();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..500 {
                    let policy = policy(&format!("p {}", number % 3), 1);
                    let layer = join(&table, &policy).unwrap();
                    // The name is held, so that it can be changed.
                    table.set_mode(policy.name(), Mode::Shadow).unwrap();
                    drop(layer);
                }
            });
        }
    });
    let entries = table.lock();
    assert!(entries.policies.is_empty() && entries.layers.is_empty());
}
