//! Paths have one key, however they are written.

use super::*;

fn said(key: &PathKey, path: &str) -> Option<String> {
    let said = key.said(path).unwrap_or_else(|_| panic!("{path} is ambiguous"));
    said.map(|said| String::from_utf8_lossy(&said).replace('\0', "+"))
}

#[test]
fn spellings_of_path_have_one_key() {
    let (whole, segment) = (PathKey::whole(), PathKey::of("/channels/{channel}"));
    for path in [
        "/channels/a b",
        "/channels/a%20b",
        "/Channels/A%20B",
        "/channels/a%2520b",
        "/channels/a%20b/",
        "/channels//a%20b",
        "/channels/./a%20b.",
        "/channels/a%20b;v=1",
        "/channels/a%20b%3fx",
        "/channels%2Fa%20b%2F",
        "/%63hannels\\a%20b",
    ] {
        assert_eq!(said(&whole, path).as_deref(), Some("/channels/a b"), "{path}");
        assert_eq!(said(&segment, path).as_deref(), Some("a b"), "{path}");
    }
    assert_eq!(said(&whole, "/").as_deref(), Some("/"));
    // One segment for a server that decodes after it has split the path.
    assert_eq!(
        said(&PathKey::of("/projects/{id}"), "/projects/group%2FProject").as_deref(),
        Some("group/project")
    );
    assert_eq!(said(&segment, "//channels/7").as_deref(), Some("7"));
}

#[test]
fn path_that_servers_read_apart_is_an_error() {
    for path in [
        "/a/../b",
        "/a%3F/../b",
        "/a/%2e%2e/b",
        "//host/a",
        "/a%00b/../c",
        "/100%",
        "/a%252525",
        "/%c0%afa",
        "/a\u{1}",
        &format!("/%61{}", "a".repeat(4_096)),
    ] {
        assert_eq!(PathKey::whole().said(path), Err(Undecided::Ambiguous), "{path}");
    }
    let rest = PathKey::of("/{tenant}/{*rest}").segment("tenant");
    assert_eq!(rest.said("/a/../b/c"), Err(Undecided::Ambiguous));
}

#[test]
fn named_segments_are_those_of_pattern() {
    for (key, path, expected) in [
        (PathKey::of("/repos/{owner}/{repo}"), "/repos/Acme/Tool", Some("acme+tool")),
        (PathKey::of("/repos/{owner}/{repo}"), "/repos/acme", None),
        (PathKey::of("/repos/{owner}/{*rest}").segment("owner"), "/repos/acme/a/b", Some("acme")),
        (PathKey::of("/files/{*rest}"), "/files/a//B", Some("/a/b")),
        (PathKey::of("/files/{name}.json"), "/files/a.b.JSON", Some("a.b")),
        (PathKey::of("/files/{name}.json"), "/files/.json", None),
        (PathKey::of("/files/{name}.json"), "/files/a.xml", None),
        (PathKey::of("/v1/User-{id}:follow"), "/v1/user-7:follow", Some("7")),
    ] {
        assert_eq!(said(&key, path).as_deref(), expected, "{key:?} {path}");
    }
    let shown = |key: PathKey| key.description().into_owned();
    assert_eq!(shown(PathKey::of("/a/{b}")), "path /a/{b}");
    assert_eq!(shown(PathKey::of("/a/{b}/{*c}").segment("b")), "{b} of path /a/{b}/{*c}");
    assert_eq!(shown(PathKey::whole()), "path");
}

#[test]
fn long_plain_path_has_key_of_its_spelling() {
    let path = "/a".repeat(100);
    assert_eq!(said(&PathKey::whole(), &path), said(&PathKey::whole(), &format!("{path}/")));
}

#[test]
#[should_panic(expected = "/channels names no segment")]
fn pattern_without_segment_panics() {
    let _ = PathKey::of("/channels");
}

#[test]
#[should_panic(expected = "no segment `guild`")]
fn unknown_segment_panics() {
    let _ = PathKey::of("/channels/{channel}").segment("guild");
}
