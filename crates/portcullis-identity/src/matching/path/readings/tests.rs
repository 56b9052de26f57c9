mod servers;

use http::Request;
use proptest::prelude::*;

use self::servers::servers;
use super::*;
use crate::PathKey;

fn pattern(plain: &str, is_prefix: bool) -> PathPattern {
    let pattern = PathPattern::literal(plain).unwrap();
    if is_prefix { pattern.with_paths_below() } else { pattern }
}

fn compare(path: &str, plain: &str, is_prefix: bool) -> Result<bool, Undecided> {
    let (parts, ()) = Request::new(()).into_parts();
    let pattern = pattern(plain, is_prefix);
    PathReadings { written: OnceCell::from((path, Form::of(path))), ..PathReadings::of(&parts) }
        .compare(&pattern)
}

fn meets(path: &str, plain: &str, is_prefix: bool) -> bool {
    let (parts, ()) = Request::new(()).into_parts();
    let pattern = pattern(plain, is_prefix);
    PathReadings { written: OnceCell::from((path, Form::of(path))), ..PathReadings::of(&parts) }
        .meet(&pattern)
}

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
        ("/health:80", false, false),
    ] {
        assert_eq!(compare(path, "/health", false), Ok(exact), "{path}");
        assert_eq!(compare(path, "/health", true), Ok(prefix), "{path}");
    }
    assert_eq!(compare("/", "/", false), Ok(true));
    assert_eq!(compare("/a", "/", false), Ok(false));
    assert_eq!(compare("//", "/", false), AMBIGUOUS);
    for path in ["/", "/a", "/a/b"] {
        assert_eq!(compare(path, "/", true), Ok(true), "{path}");
    }
    assert_eq!(compare("/a//b", "/", true), AMBIGUOUS);
}

#[test]
fn path_with_another_reading_is_ambiguous() {
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
        "/admin.",
        "/admin...",
        "/admin%20",
        "/admin%2e%20.",
        "/admin/%20",
        "/%2561dmin",
        "/%2541DMIN.",
        "/%u0041dmin",
        "/x/%252e%252e/admin",
        "/x/%c0%ae%c0%ae/admin",
        "/x/%e0%80%ae%e0%80%ae/admin",
        "/x/%f0%80%80%ae/admin",
        "/admin%",
        "/admin%4",
        "/x%",
        "/x%0d%0a",
        "//x/admin",
        "///x//admin",
        "/\\x/admin",
        "/%2fx%2fadmin",
        "//x;v/admin",
        "/x%23/../admin%3f",
        "/x%3f/../admin%00x",
        "/x%2fy/../%2fadmin",
        "/x%2fy/../%2561dmin",
        "/x%2fy/%2e%2E/%2fadmin",
        "/x%2fy\\..\\%2fadmin",
        "/x%2fy//../%2fadmin",
        "/%2fadmin;%2fx",
        "/admin;%2f..%2fy",
        "/.//x/admin",
        "/x/..//y/admin",
        "/%c0%afadmin",
        "/%c1%a1dmin",
        "/%e0%81%a1dmin",
        "/%f0%80%81%a1dmin",
        "/adm%c4%b0n",
        "/adm%c4%b1n",
    ] {
        for is_prefix in [false, true] {
            assert_eq!(compare(path, "/admin", is_prefix), AMBIGUOUS, "{path}");
        }
    }
    for path in
        ["/admin//users", "/admin%2fusers", "/admin\\users", "/Admin/x", "/admin;v/users", "/admin/%20x"]
    {
        assert_eq!(compare(path, "/admin", true), AMBIGUOUS, "{path}");
        assert_eq!(compare(path, "/admin", false), Ok(false), "{path}");
    }
}

#[test]
fn letters_are_folded_as_any_server_may() {
    for (path, pattern) in [
        ("/l%c4%b0mit", "/limit"),
        ("/l%c4%b1mit", "/limit"),
        ("/%e2%84%aaey", "/key"),
        ("/acce%c5%bf%c5%bf", "/access"),
        ("/ma%e1%ba%9ee", "/masse"),
        ("/ma%c3%9fe", "/masse"),
    ] {
        assert!(meets(path, pattern, false), "{path}");
        assert_eq!(compare(path, pattern, false), AMBIGUOUS, "{path}");
    }
}

/// `%u002f` and overlong forms are escapes to some servers, and text to others that decode what is beside them.
#[test]
fn odd_escape_is_also_text() {
    for (path, pattern) in [
        ("/x%u002fy%2fadmin", "/{any}/admin"),
        ("/x%u002fy%252fadmin", "/{any}/admin"),
        ("/x%c0%afy%252fadmin", "/{any}/admin"),
        ("/x%e0%80%afy%252fadmin", "/{any}/admin"),
        ("/%u002e%u002e/b/%252e%252e/admin", "/{any}/admin"),
        ("/x%u002fy%2fadmin", "/x/y/admin"),
        ("/x%c0%afy%252fadmin", "/x/y/admin"),
    ] {
        let (parts, ()) = Request::new(()).into_parts();
        let readings =
            PathReadings { written: OnceCell::from((path, Form::of(path))), ..PathReadings::of(&parts) };
        let pattern = PathPattern::parse(pattern).unwrap();
        assert!(readings.meet(&pattern), "{path} {pattern}");
        assert!(!readings.are_certain(&pattern), "{path} {pattern}");
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
        "/50%25",
        "/50%2525/x",
        "/m%FCller",
    ] {
        for is_prefix in [false, true] {
            assert_eq!(compare(path, "/admin", is_prefix), Ok(false), "{path}");
        }
    }
    assert_eq!(compare("/a/b%20x/c", "/a/b/c", true), Ok(false));
    assert_eq!(compare("/a/b%20/c", "/a/b/c", true), AMBIGUOUS);
    assert_eq!(compare("/a/%62/c", "/a/b/c", true), AMBIGUOUS);
    assert_eq!(compare("/a/%62", "/a/b/c", true), Ok(false));
}

fn path() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "/", "/", "a", "b", "A", ".", "..", "%2e", "%2F", "%5c", "\\", ";", "%3b", "%61", "%", "%2", "%25",
        "%3f", "%23", "%00", "x", "%2561", "%252f", "%2541", "%20", "%252e", "B",
    ]);
    prop::collection::vec(pieces, 0..10).prop_map(|pieces| format!("/{}", pieces.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn only_plain_paths_are_certain(path in path()) {
        for (plain, expected) in [("/a", &["a"][..]), ("/a/b", &["a", "b"])] {
            let is_plain_path = path == plain || path.starts_with(&format!("{plain}/"));
            for is_prefix in [false, true] {
                let may = servers().find(|server| {
                    let read = server.read(&path);
                    let read = if is_prefix { read.get(..expected.len()).unwrap_or_default() } else { &read };
                    read.iter().map(Vec::as_slice).eq(expected.iter().map(|name| name.as_bytes()))
                });
                match compare(&path, plain, is_prefix) {
                    Ok(true) => {
                        prop_assert!(is_plain_path && may.is_some() && !path.contains(['%', '\\', ';']), "{}", path);
                    }
                    Ok(false) => prop_assert!(may.is_none(), "{} is {} for {:?}", path, plain, may),
                    Err(_) => prop_assert!(path != plain, "{}", path),
                }
                prop_assert!(may.is_none() || meets(&path, plain, is_prefix), "{} is {} for {:?}", path, plain, may);
            }
        }
    }

    /// Whatever a server makes of a path, what it finds has the key that it has in plain.
    #[test]
    fn spelling_makes_no_new_key(path in path()) {
        let plain = |read: &[Vec<u8>]| {
            let is_plain = |name: &Vec<u8>| !name.is_empty() && name.iter().all(u8::is_ascii_alphanumeric);
            let names = read.iter().map(|name| String::from_utf8_lossy(name)).collect::<Vec<_>>();
            read.iter().all(is_plain).then(|| format!("/{}", names.join("/")))
        };
        let keys = [PathKey::whole(), PathKey::of("/a/{x}"), PathKey::of("/{x}/{*y}"), PathKey::of("/a{x}/b").segment("x")];
        let said = keys.each_ref().map(|key| key.said(&path));
        for server in servers() {
            let Some(read) = plain(&server.read(&path)) else { continue };
            for (key, said) in keys.iter().zip(&said) {
                let expected = key.said(&read).unwrap();
                let is_same = *said == Ok(expected.clone());
                prop_assert!(is_same || said.is_err() || expected.is_none(), "{} is {} for {:?}", path, read, server);
            }
        }
    }

    #[test]
    fn no_bytes_make_the_comparison_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), is_prefix: bool) {
        let path = String::from_utf8_lossy(&bytes);
        let _ = (compare(&path, "/a/b", is_prefix), compare(&format!("/{path}"), "/", is_prefix));
    }
}

#[test]
fn readings_are_bounded() {
    for piece in [
        "/",
        "/a",
        "%2561%252f;%5c%3f",
        "/.%2e/x%252f..;%253b\\",
        "/.%2e/x%252f..;%253b\\%u002f%2523",
        "//..%5c%c0%af;%3f%2500",
        "%",
        "%ce%90",
    ] {
        let path = format!("/{}", piece.repeat(LONGEST / piece.len()));
        let readings = Readings::of(&path);
        assert!(readings.len() <= 7_040, "{piece} {}", readings.len());
        assert!(readings.iter().all(|reading| reading.count() <= 66), "{piece}");
    }
}

#[test]
fn long_path_with_several_readings_may_be_any() {
    for (filling, is_one) in [("a", false), ("/", true), ("%61", true)] {
        let path = format!("/{}", filling.repeat(LONGEST));
        assert_eq!(meets(&path, "/admin", false), is_one, "{filling}");
        assert_eq!(compare(&path, "/admin", false), if is_one { AMBIGUOUS } else { Ok(false) }, "{filling}");
    }
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn route_that_matched_has_its_case() {
    use axum::routing::any;
    use tower::ServiceExt as _;

    let handler = |parts: Parts| async move {
        let readings = PathReadings::of(&parts);
        let meets = |pattern| readings.meet(&PathPattern::parse(pattern).unwrap());
        let met = [
            "/search",
            "/Search",
            "/{page}",
            "/items/{id}",
            "/Items/{id}",
            "/items/{ID}",
            "/items/a",
            "/trail",
            "/{*all}",
        ];
        met.into_iter().filter(|pattern| meets(pattern)).collect::<Vec<_>>().join(" ")
    };
    let app = axum::Router::new()
        .route("/search", any(handler))
        .route("/Search", any(handler))
        .route("/items/{id}", any(handler))
        .route("/trail", any(handler))
        .route("/trail/", any(handler))
        .route("/items/{id}/", any(handler))
        .route("/{*all}", any(handler));
    for (path, met) in [
        ("/search", "/search /{page} /{*all}"),
        ("/Search", "/Search /{page} /{*all}"),
        ("/SEARCH", "/search /Search /{page} /{*all}"),
        ("/items/a", "/items/{id} /items/{ID} /items/a /{*all}"),
        ("/items/A", "/items/{id} /items/{ID} /items/a /{*all}"),
        ("/trail", "/{page} /trail /{*all}"),
        ("/trail/", "/{page} /trail /{*all}"),
        ("/items/a/", "/items/{id} /items/{ID} /items/a /{*all}"),
        ("/ITEMS/A", "/items/{id} /Items/{id} /items/{ID} /items/a /{*all}"),
    ] {
        let response = app.clone().oneshot(Request::get(path).body(axum::body::Body::empty()).unwrap()).await;
        let body = axum::body::to_bytes(response.unwrap().into_body(), 1_000).await.unwrap();
        assert_eq!(body, met.as_bytes(), "{path}");
    }
}
