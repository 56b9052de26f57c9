//! The parts that extractors write, as the module `portcullis::key` describes them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use http::Request;
use http::request::Parts;
use portcullis_core::{Key, KeyWriter, Secret};
use portcullis_tower::{
    Bearer, ClientIp, Cookie, Extension, Global, Header, Host, Identity, KeyExtractor, PathKey, Query, Route,
};

/// The tags in the second column of the table and whether the last one is shared, by the first column without its links.
fn documented() -> BTreeMap<String, (Vec<&'static str>, bool)> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../portcullis/src/key.rs");
    let module = std::fs::read_to_string(module).unwrap();
    let section = module.split("//! # Parts of a key\n").nth(1).expect("the module has the section");
    let rows = section.lines().filter_map(|line| line.strip_prefix("//! | ")).skip(1);
    rows.map(|row| {
        let cells: Vec<_> = row.split(" | ").collect();
        let name = cells[0].replace("](crate::OnMissing::Shared)", "").replace(['[', ']', '`'], "");
        let tags = cells[1].split('`').skip(1).step_by(2).map(|tag| &*tag.to_owned().leak()).collect();
        (name, (tags, cells[1].ends_with(", shared")))
    })
    .collect()
}

fn key(write: impl FnOnce(&mut KeyWriter<'_>)) -> Key {
    let mut hasher = Secret::published().hasher();
    write(&mut hasher.writer());
    hasher.finish().unwrap()
}

fn parts(peer: &str) -> Parts {
    let request = Request::get("/pkg.Service/Call?tenant=acme")
        .header("x-api-key", "k-17")
        .header("authorization", "Bearer abc")
        .header("cookie", "sid=31d4")
        .header("host", "API.example.com:80")
        .extension(peer.parse::<SocketAddr>().unwrap())
        .extension("ada");
    request.body(()).unwrap().into_parts().0
}

/// The name in the table, the extractor, the peer, the values of the parts, and whether all clients share the key.
type Case<'a> = (&'a str, &'a dyn KeyExtractor, &'a str, &'a [&'a [u8]], bool);

#[test]
fn the_documented_parts_are_those_that_are_written() {
    let by_user = Extension::<&str>::new();
    let (v4, v6): (&str, &str) = ("192.0.2.1:1024", "[2001:db8:1:2:3::4]:1024");
    let network = [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 64];
    let type_name = std::any::type_name::<&str>();
    let cases: [Case<'_>; 14] = [
        ("ClientIp, IPv4", &ClientIp::peer(), v4, &[&[192, 0, 2, 1, 32]], false),
        ("ClientIp, IPv6", &ClientIp::peer(), v6, &[&network], false),
        ("Header", &Header::named("X-Api-Key"), v4, &[b"k-17", b"x-api-key"], false),
        ("Bearer", &Bearer, v4, &[b"abc"], false),
        ("Cookie", &Cookie::named("sid"), v4, &[b"31d4", b"sid"], false),
        ("Query", &Query::named("tenant"), v4, &[b"acme", b"tenant"], false),
        ("Extension::new", &by_user, v4, &[b"ada"], false),
        ("Host", &Host, v4, &[b"api.example.com"], true),
        ("PathKey::whole", &PathKey::whole(), v4, &[b"/pkg.service/call"], true),
        ("PathKey::of", &PathKey::of("/{service}/call"), v4, &[b"pkg.service", b"/{service}/call"], true),
        ("Route::http_method", &Route::http_method(), v4, &[b"GET"], true),
        ("Route::grpc_service", &Route::grpc_service(), v4, &[b"pkg.Service"], true),
        ("Route::grpc_method", &Route::grpc_method(), v4, &[b"pkg.Service/Call"], true),
        ("Global", &Global, v4, &[b""], true),
    ];
    let documented = documented();
    for (name, extractor, peer, values, is_shared) in cases {
        let (tags, shared) =
            documented.get(name).unwrap_or_else(|| panic!("no row for {name}: {documented:?}"));
        assert_eq!((tags.len(), *shared), (values.len(), is_shared), "{name}: {tags:?}");
        let written = key(|key| {
            assert_eq!(extractor.extract(&parts(peer), key), Ok(Identity::Found), "{name}");
        });
        let described = key(|key| {
            for (tag, value) in tags.iter().zip(values) {
                let tag = if name == "Extension::new" { type_name } else { tag };
                if is_shared { key.shared_part(tag, value) } else { key.part(tag, value) }
            }
        });
        assert_eq!(written, described, "{name}");
        assert_eq!((written.slot(), written.is_shared()), (described.slot(), is_shared), "{name}");
    }
    let others = ["Route::matched_path", "OnMissing::Shared", "a CORS preflight"];
    let mut known: Vec<_> = cases.iter().map(|(name, ..)| *name).chain(others).collect();
    known.sort_unstable();
    assert_eq!(documented.keys().map(String::as_str).collect::<Vec<_>>(), known);
}
