//! The rights on the page of Redis are those of the users of the tests.

use std::fs;

use crate::workspace::Workspace;

#[test]
fn page_has_rights_of_tests() {
    let root = Workspace::load().unwrap().root;
    let page = fs::read_to_string(root.join("docs/reference/redis.md")).unwrap().replace("\\|", "|");
    let rights = fs::read_to_string(root.join("crates/portcullis-servers/src/rights.rs")).unwrap();
    let of = |name: &str| -> Vec<&str> {
        let (_, list) = rights.split_once(&format!("const {name}")).unwrap();
        let (list, _) = list.split_once(';').map(|(_, list)| list.split_once(';').unwrap()).unwrap();
        list.split('"').skip(1).step_by(2).collect()
    };
    for (name, row) in [
        ("SLIDING_LOG_RIGHTS", "| sliding log | `"),
        ("CLUSTER_RIGHTS", "| Redis Cluster | `"),
        ("SENTINEL_RIGHTS", "| behind Sentinel | `"),
    ] {
        let row = format!("{row}{}` |", of(name).join(" "));
        assert!(page.contains(&row), "no row {row}");
    }
    let (_, least) = rights.split_once("-> [&'static str; 5] {\n    [").unwrap();
    let least = least.split(']').next().unwrap().replace("right", "+script|load").replace(['"', ','], "");
    let line = format!("resetchannels -@all ~portcullis:* {least}\n");
    assert!(page.contains(&line), "no line that ends in {line}");
}
