//! Rules in the list of layers.

use super::*;

/// The rules that the registry lists: what each applies to, and its policies.
fn listed(live: &LiveRules) -> Vec<String> {
    let text = |layer: &portcullis_tower::LayerSummary| {
        let policies: Vec<_> = layer.policies().iter().map(ToString::to_string).collect();
        format!("{} => {}", layer.route().unwrap_or("-"), policies.join("; "))
    };
    live.registry().layers().iter().map(text).collect()
}

#[tokio::test]
async fn each_rule_is_a_layer_whatever_combinations_there_are() {
    let search = window("search", "5/h", "match = { path = \"/search\" }\nmode = \"shadow\"");
    let live = live(&(window("all", "9/h", "") + &search));
    let failure = "if the store fails: local, whole limit";
    let expected = [
        format!("every request => all: fixed_window 9/h by client_ip, enforce, {failure}"),
        format!(
            "path = \"/search\" => search: fixed_window 5/h by client_ip, shadow (tried out: it rejects no request), {failure}"
        ),
    ];
    assert_eq!(listed(&live), expected);
    let layer = live.layer();
    for uri in ["/", "/search"] {
        assert_eq!(send(&layer, request(uri)).await.0, 200);
    }
    assert_eq!(listed(&live), expected);

    // The former rules are gone with the next ones.
    live.swap(rules(&window("all", "7/h", ""))).unwrap();
    assert_eq!(
        listed(&live),
        [format!("every request => all: fixed_window 7/h by client_ip, enforce, {failure}")]
    );
    let registry = Arc::clone(live.registry());
    drop((layer, live));
    assert!(registry.layers().is_empty());
}

#[test]
fn a_listed_rule_finds_the_key_of_a_request() {
    let live = live(&window("all", "9/h", ""));
    let layers = live.registry().layers();
    let (parts, _) = request("/").into_parts();
    let key = live.registry().key_of(&portcullis_tower::ClientIp::peer(), request("/")).unwrap();
    assert_eq!(layers[0].find_key("all", &parts), Ok(Some(key)));
}
