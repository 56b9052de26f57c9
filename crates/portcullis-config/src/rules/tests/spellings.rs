//! No spelling of a path avoids a limit.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::{errors, parts, rules};

#[test]
fn known_spellings_of_a_path_match() {
    let rules = rules(
        "[policy.p]\nstrategy = \"gcra\"\nquota = \"1/s\"\nkey = \"global\"\nmatch = { path = \"/a/search\" }",
    );
    for path in [
        "/a/search",
        "/a/%73earch",
        "/a//search",
        "//a/search",
        "/a/search/",
        "/a/./search",
        "/a/x/../search",
        "/a%2Fsearch",
        "/a/search;x=1",
        "/a;b/search",
        "/a/%2e/search",
        "/x/%2e%2e/a/search",
        "/a\\search",
        "/../a/search",
        "/a/search//",
        "/a/search/.",
        "/a/search/x/..",
        "/a/search%3Fx",
        "/a/search%00.png",
        "/a/search;x=%2F/y/..",
        "/./%61//./SEARCH/../s%65arch;v=1//",
        "/a/SEARCH",
        "/A/Search/",
        "/a/%53earch",
        "/a/%2573earch",
        "/a%252F%2553EARCH",
        "/a%2F%2573earch",
        "/a/x/%252e%252e/search",
        "/a/search.",
        "/a/search%20",
        "/a/search%2520..%20",
        "/a./search",
        "/a/search%0a",
        "/a/search/%20",
        "/a/%u0073earch",
        "/a/\u{17f}earch",
        "/a/%C5%BFearch",
        "/;x/host/a/search",
    ] {
        assert!(!rules.matching(&parts("GET", path)).is_empty(), "{path}");
    }
    for path in [
        "/a/%25252573earch",
        "/a/searc",
        "/a/search-",
        "/a/.search",
        "/a/search/x",
        "/search",
        "/a/search/..",
        "/a/se/arch",
        "/a/%zzearch",
    ] {
        assert!(rules.matching(&parts("GET", path)).is_empty(), "{path}");
    }
}

/// A way to write a segment that a lenient router takes for the same.
fn spelled(segment: String) -> impl Strategy<Value = String> {
    let byte = (0..3_u8, any::<bool>(), any::<bool>());
    let end = prop::sample::select(vec!["", "", ".", "%20", "%2e%20", "..", "%2520"]);
    (proptest::collection::vec(byte, segment.len()), 0..6_usize, end).prop_map(move |(bytes, before, end)| {
        let prefix = ["", "/", "./", "x/../", "%2e/", "y;z/%2E%2e/"][before];
        let mut text = prefix.to_owned();
        for (byte, (escapes, upper, upper_escape)) in segment.bytes().zip(bytes) {
            let byte = if upper { byte.to_ascii_uppercase() } else { byte };
            match (escapes, upper_escape) {
                (0, _) => text.push(char::from(byte)),
                (1, true) => drop(write!(text, "%{byte:02X}")),
                (1, false) => drop(write!(text, "%{byte:02x}")),
                _ => drop(write!(text, "%25{byte:02x}")),
            }
        }
        text + end
    })
}

fn cases() -> impl Strategy<Value = (String, String)> {
    let segment = (any::<bool>(), "[a-z0-9~.-]{1,6}")
        .prop_filter("not dots", |(_, text)| !text.bytes().all(|byte| byte == b'.'));
    let segments = proptest::collection::vec(segment, 1..5);
    let end =
        prop_oneof![Just(""), Just("/"), Just("//"), Just("/."), Just("/x/.."), Just(";v=1"), Just("%2F")];
    (segments, end).prop_flat_map(|(segments, end)| {
        let pattern: String = segments
            .iter()
            .enumerate()
            .map(|(at, (is_one, text))| if *is_one { format!("/{{p{at}}}") } else { format!("/{text}") })
            .collect();
        let path: Vec<_> = segments.into_iter().map(|(_, text)| spelled(text)).collect();
        path.prop_map(move |path| (pattern.clone(), format!("/{}{end}", path.join("/"))))
    })
}

#[test]
fn pattern_within_segment_matches_its_spellings() {
    let text = |pattern: &str| {
        format!(
            "[policy.p]\nstrategy = \"gcra\"\nquota = \"1/s\"\nkey = \"global\"\nmatch = {{ path = \"{pattern}\" }}"
        )
    };
    let rules = rules(&text("/v1/User-{id}:follow"));
    for (path, matches) in [
        ("/v1/User-7:follow", true),
        ("/v1/user-7:FOLLOW/", true),
        ("/v1/user%2d7%3afollow", true),
        ("/v1//user-%37:follow.;x", true),
        ("/v1/user-:follow", false),
        ("/v1/user-7:follows", false),
        ("/v1/user-7", false),
    ] {
        assert_eq!(!rules.matching(&parts("GET", path)).is_empty(), matches, "{path}");
    }
    for pattern in ["/{a}-{b}", "/a{*rest}", "/a{}", "/a{b", "/a}b", "/:a{b}"] {
        assert!(errors(&text(pattern)).contains("is no segment: write `{name}`"), "{pattern}");
    }
}

proptest! {
    #[test]
    fn no_spelling_of_a_path_goes_unmatched((pattern, path) in cases()) {
        let text = format!("[policy.p]\nstrategy = \"gcra\"\nquota = \"1/s\"\nkey = \"global\"\nmatch = {{ path = \"{pattern}\" }}");
        prop_assert!(!rules(&text).matching(&parts("GET", &path)).is_empty(), "{} is no {}", path, pattern);
    }
}
