//! Which layers are kept.

use http::header::HOST;

use super::*;

#[tokio::test]
async fn requests_with_many_hosts_do_not_fill_what_is_kept() {
    let mut text = String::new();
    for number in 0..9 {
        let host = format!("match = {{ hosts = [\"h{number}.example.com\"] }}");
        text += &window(&format!("host{number}"), "1000/h", &host);
    }
    let live = live(&text);
    let layer = live.layer();
    let with_hosts = |set: u32| {
        let mut request = request("/");
        for number in (0..9).filter(|number| set & (1 << number) != 0) {
            request.headers_mut().append(HOST, format!("h{number}.example.com").parse().unwrap());
        }
        request
    };
    for set in 1..512 {
        assert_eq!(send(&layer, with_hosts(set)).await.0, 200);
    }
    // Those with one host.
    assert_eq!(live.0.current.load().kept(), 9);
}

#[tokio::test]
async fn paths_with_several_readings_do_not_fill_what_is_kept() {
    let text = (0..30).fold(String::new(), |mut text, number| {
        text += &window(&format!("p{number}"), "1000/h", &format!("match = {{ path = \"/p{number}\" }}"));
        text
    });
    let live = live(&text);
    let layer = live.layer();
    for (one, other) in (0..30).flat_map(|one| (0..one).map(move |other| (one, other))) {
        // One without parameters, and the other if slashes are decoded.
        let path = format!("/p{one};%2F..%2Fp{other}");
        let set = live.current().matching(&request(&path).into_parts().0);
        assert_eq!(set.len(), 2);
        assert_eq!(send(&layer, request(&path)).await.0, 200);
    }
    assert_eq!(live.0.current.load().kept(), 0);
    for path in ["/p1/", "/%701", "/x/../p1", "//p1;v=1"] {
        assert_eq!(send(&layer, request(path)).await.0, 200);
    }
    assert_eq!(live.0.current.load().kept(), 1);
}

#[tokio::test]
async fn each_rule_of_a_large_file_has_a_layer_that_is_kept() {
    let text = (0..500).fold(String::new(), |mut text, number| {
        text += &window(&format!("p{number}"), "5/h", &format!("match = {{ path = \"/p{number}\" }}"));
        text
    });
    let store = MemoryStore::builder().clock(ManualClock::default()).capacity(100).build();
    let live =
        LiveRules::new(Arc::new(Registry::new(Arc::new(store), Secret::published())), rules(&text)).unwrap();
    let layer = live.layer();
    for number in 0..500 {
        assert_eq!(get(&layer, &format!("/p{number}")).await, left(200, "4"));
    }
    assert_eq!(live.0.current.load().kept(), 500);
}

/// The lock under which rules are replaced is held by this test, so that a request that needs it would never be answered.
#[test]
fn requests_whose_layer_is_kept_take_no_lock() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let status = |layer: &RulesLayer, path: &str| runtime.block_on(get(layer, path)).0;
    let text = window("search", "100/h", "match = { path = \"/search\" }") + &window("all", "100/h", "");
    let live = live(&text);
    let (layer, one) = (live.layer(), live.layer_of("search").unwrap());
    for path in ["/", "/search"] {
        assert_eq!(status(&layer, path), 200);
    }
    assert_eq!(status(&one, "/"), 200);
    let _changes = live.0.changes();
    // However odd a path is, what counts is the set of rules that match it.
    for path in
        ["/", "/caf%C3%A9//x", "/search", "/%73earch", "//search/", "/x/..;v/search", "/%2e%2e/%2F;%5c"]
    {
        assert_eq!(status(&layer, path), 200, "{path}");
        assert_eq!(status(&one, path), 200, "{path}");
    }
}
