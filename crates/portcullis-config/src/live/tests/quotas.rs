//! Quotas that are set by hand.

use portcullis_core::Policy;

use super::reload::File;
use super::*;

fn limit(live: &LiveRules, policy: &str) -> u64 {
    live.registry().policy(&name(policy)).as_ref().map(Policy::strategy).unwrap().limit()
}

#[tokio::test]
async fn changed_file_ends_a_quota_set_by_hand() {
    let text = |p: &str, more: &str| window("p", p, "") + &window("q", "7/h", more);
    let file = File::new("quotas", &text("5/h", ""));
    let live = LiveRules::new(registry(), Rules::from_file(&file.0).unwrap()).unwrap();
    let layer = live.layer_of("p").unwrap();
    assert_eq!(get(&layer, "/").await, left(200, "4"));
    live.registry().set_quota(&name("p"), Quota::per_hour(9)).unwrap();
    assert_eq!(get(&layer, "/").await, left(200, "7"));

    // The same text changes nothing.
    live.reload().unwrap();
    assert_eq!(limit(&live, "p"), 9);
    // Another one wins, also where the entry of the policy is as it was.
    file.write(&text("5/h", "mode = \"shadow\""));
    live.reload().unwrap();
    assert_eq!(limit(&live, "p"), 5);
    assert_eq!(get(&layer, "/").await, left(200, "2"));

    live.registry().set_quota(&name("p"), Quota::per_hour(9)).unwrap();
    file.write(&text("6/h", ""));
    live.reload().unwrap();
    assert_eq!(limit(&live, "p"), 6);
    // What is no quota stays, as before.
    live.registry().set_policy(Policy::fixed_window("p", Quota::per_hour(8))).unwrap();
    file.write(&text("6/h", "mode = \"off\""));
    live.reload().unwrap();
    assert_eq!(limit(&live, "p"), 8);
}

#[test]
fn quota_outside_of_the_declared_ones_is_refused() {
    let live = live(&window("p", "5/h", "caller_quotas = [\"5/h\", \"50/h\"]"));
    let error = live.registry().set_quota(&name("p"), Quota::per_hour(60)).unwrap_err();
    assert!(matches!(error, LayerError::Quota { .. }) && error.to_string().contains("50/h"), "{error}");
    assert!(live.registry().set_quota(&name("p"), Quota::per_hour(50)).is_ok());
}

#[cfg(feature = "signed")]
#[test]
fn policy_of_a_document_is_refused() {
    use crate::overlay::Overlay;

    let verify_key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a".to_owned();
    let text = format!("[remote]\nverify_key = '{verify_key}'\nallow = ['limit']\n");
    let file = File::new("documented", &(text + &window("p", "5/h", "") + &window("q", "7/h", "")));
    let live = LiveRules::new(registry(), Rules::from_file(&file.0).unwrap()).unwrap();
    let set = |policy: &str| live.registry().set_quota(&name(policy), Quota::per_hour(9));
    set("p").unwrap();
    let (text, key) = (r#"{"policy": {"p": {"limit": 6}}}"#.into(), "portcullis-rules".to_owned());
    live.apply_document(&Overlay { name: "remote".into(), text, key, verify_key, number: 1 }).unwrap();
    assert_eq!(limit(&live, "p"), 6);
    let error = set("p").unwrap_err().to_string();
    assert!(error.contains("policy p is set by the signed document \"portcullis-rules\""), "{error}");
    set("q").unwrap();
    assert_eq!((limit(&live, "p"), limit(&live, "q")), (6, 9));
}
