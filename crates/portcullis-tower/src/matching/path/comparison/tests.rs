use proptest::prelude::*;

use super::*;

const AMBIGUOUS: Result<bool, Undecided> = Err(Undecided::Ambiguous);

#[test]
fn plain_paths_are_compared_by_whole_segments() {
    for (path, exact, prefix) in [
        ("/health", true, true),
        ("/health/live", false, true),
        ("/healthy", false, false),
        ("/healt", false, false),
        ("/", false, false),
        ("/x/health", false, false),
        ("/health-check", false, false),
        ("/health.", false, false),
        ("/health...", false, false),
        ("/health:80", false, false),
    ] {
        assert_eq!(compare(path, "/health", false), Ok(exact), "{path}");
        assert_eq!(compare(path, "/health", true), Ok(prefix), "{path}");
    }
    assert_eq!(compare("/", "/", false), Ok(true));
    assert_eq!(compare("/a", "/", false), Ok(false));
    assert_eq!(compare("//", "/", false), AMBIGUOUS);
    for path in ["/", "/a", "/a/b"] {
        assert_eq!(compare(path, "", true), Ok(true), "{path}");
    }
    assert_eq!(compare("/a//b", "", true), AMBIGUOUS);
}

#[test]
fn a_path_that_could_be_read_as_the_other_is_ambiguous() {
    for path in [
        "",
        "*",
        "/admin/",
        "//admin",
        "///admin//",
        "/%61dmin",
        "/%61%64%6D%69%6e",
        "/Admin",
        "/ADMIN",
        "/./admin",
        "/admin/.",
        "/x/../admin",
        "/admin/..",
        "/x/..",
        "/x/%2e%2e/admin",
        "/x/.%2E/admin",
        "/x%2f..%2fadmin",
        "/%2fadmin",
        "/%5cadmin",
        "/\\admin",
        "/x\\..\\admin",
        "/;/admin",
        "/admin;v=1",
        "/admin%3bv=1",
        "/x/..;/admin",
        "/x/..%3B/admin",
        "/admin%3fx",
        "/admin%23x",
        "/admin%00",
        "/%2561dmin",
        "/x/%252e%252e/admin",
        "/x/%c0%ae%c0%ae/admin",
        "/x/%e0%80%ae%e0%80%ae/admin",
        "/x/%f0%80%80%ae/admin",
        "/%u0061dmin",
        "/admin%",
        "/admin%4",
        "/x%",
        "/x%0d%0a",
    ] {
        for is_prefix in [false, true] {
            assert_eq!(compare(path, "/admin", is_prefix), AMBIGUOUS, "{path}");
        }
    }
    for path in
        ["/admin//users", "/admin%2fusers", "/admin\\users", "/Admin/x", "/admin;v/users", "/admin/%20"]
    {
        assert_eq!(compare(path, "/admin", true), AMBIGUOUS, "{path}");
        assert_eq!(compare(path, "/admin", false), Ok(false), "{path}");
    }
}

#[test]
fn other_paths_with_escapes_do_not_match() {
    for path in [
        "/caf%C3%A9",
        "/caf\u{e9}",
        "/users/",
        "/users//17",
        "/files/my%20file",
        "/projects/group%2Fadmin",
        "/x;admin",
        "/search/what%3F",
        "/x/admin%2f",
        "/administr%61tion",
        "/adm%69",
        "/x/...",
        "/%E2%82%AC",
        "/%F0%9F%98%80",
    ] {
        for is_prefix in [false, true] {
            assert_eq!(compare(path, "/admin", is_prefix), Ok(false), "{path}");
        }
    }
    assert_eq!(compare("/a/b%20/c", "/a/b/c", true), Ok(false));
    assert_eq!(compare("/a/%62/c", "/a/b/c", true), AMBIGUOUS);
    assert_eq!(compare("/a/%62", "/a/b/c", true), Ok(false));
}

/// Reads a path as a liberal server: decodes escapes once, joins slashes, resolves dot segments.
fn liberal(path: &str) -> Vec<String> {
    let (mut decoded, mut rest) = (Vec::new(), path.as_bytes());
    while let [byte, after @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        decoded.push(escaped.unwrap_or(*byte));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    let mut segments: Vec<String> = Vec::new();
    for segment in String::from_utf8_lossy(&decoded).to_lowercase().split(['/', '\\']) {
        match segment.split(';').next().unwrap_or_default() {
            "" | "." => {}
            ".." => drop(segments.pop()),
            name => segments.push(name.to_owned()),
        }
    }
    segments
}

fn path() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "/", "/", "a", "b", "A", ".", "..", "%2e", "%2F", "%5c", "\\", ";", "%3b", "%61", "%", "%2", "%25",
        "%3f", "x",
    ]);
    prop::collection::vec(pieces, 0..10).prop_map(|pieces| format!("/{}", pieces.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn only_plain_paths_match_and_none_that_may_match_is_excluded(path in path()) {
        let segments = liberal(&path);
        for (plain, expected) in [("/a", &["a"][..]), ("/a/b", &["a", "b"])] {
            let is_plain_path = path == plain || path.starts_with(&format!("{plain}/"));
            for is_prefix in [false, true] {
                let read = if is_prefix { segments.get(..expected.len()).unwrap_or_default() } else { &segments };
                let may = read == expected;
                match compare(&path, plain, is_prefix) {
                    Ok(true) => prop_assert!(is_plain_path && may && !path.contains(['%', '\\', ';']), "{}", path),
                    Ok(false) => prop_assert!(!may, "{} may be read as {}", path, plain),
                    Err(_) => prop_assert!(path != plain, "{}", path),
                }
            }
        }
    }

    #[test]
    fn no_bytes_make_the_comparison_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), is_prefix: bool) {
        let path = String::from_utf8_lossy(&bytes);
        let _ = (compare(&path, "/a/b", is_prefix), compare(&format!("/{path}"), "", is_prefix));
    }
}
