use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderValue, header};
use portcullis_usage::Count::{AtLeast, Total};
use portcullis_usage::{MOST_READ, Unreadable, UsageReader, UsageScan};
use proptest::prelude::*;

use crate::{EVENTS, JSON, headers};

fn encoded(content_type: &'static str, encoding: &'static str) -> HeaderMap {
    let mut headers = headers(content_type);
    headers.append(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    headers
}

fn scan(content_type: &'static str) -> UsageScan {
    UsageReader::OPENAI.scan(&encoded(content_type, "gzip"))
}

/// Compresses pieces, each of which a client can decode as soon as it has come.
fn gzip(pieces: &[&str]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    for piece in pieces {
        encoder.write_all(piece.as_bytes()).unwrap();
        encoder.flush().unwrap();
    }
    encoder.finish().unwrap()
}

const USAGE: &str = "data: {\"usage\":{\"total_tokens\":5}}\n\n";

#[test]
fn gzip_is_decoded_as_it_passes() {
    let stream = gzip(&["data: {\"usage\":null}\n\n", USAGE, "data: [DONE]\n\n"]);
    let whole = stream.iter().position(|_| true).map(|_| scan(EVENTS).push(&stream));
    assert_eq!(whole, Some(Some(Total(5))));
    let mut bytes = scan(EVENTS);
    // The usage is known before the stream has ended.
    let known = stream.iter().position(|byte| bytes.push(&[*byte]).is_some()).unwrap();
    assert!(known < stream.len() - 10, "{known} of {}", stream.len());
    assert_eq!((bytes.count(), bytes.unreadable()), (Some(Total(5)), None));
}

#[test]
fn members_of_gzip_are_one_body() {
    let (first, second) = USAGE.split_at(20);
    let members = [gzip(&[first]), gzip(&[second])].concat();
    assert_eq!(scan(EVENTS).push(&members), Some(Total(5)));
}

#[test]
fn other_encodings_are_not_read() {
    for encoding in ["br", "zstd", "deflate", "gzip, gzip"] {
        let mut scan = UsageReader::OPENAI.scan(&encoded(EVENTS, encoding));
        assert_eq!(
            (scan.push(USAGE.as_bytes()), scan.unreadable()),
            (None, Some(Unreadable::Encoding)),
            "{encoding}"
        );
    }
    let mut twice = encoded(EVENTS, "gzip");
    twice.append(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    assert_eq!(UsageReader::OPENAI.scan(&twice).unreadable(), Some(Unreadable::Encoding));
    for encoding in ["identity", "X-GZIP"] {
        assert_eq!(UsageReader::OPENAI.scan(&encoded(EVENTS, encoding)).unreadable(), None, "{encoding}");
    }
}

#[test]
fn damaged_gzip_is_not_read() {
    for damaged in [USAGE.as_bytes(), &gzip(&["{", "}"])[3..], &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0, 0xff]] {
        let mut scan = scan(EVENTS);
        assert_eq!((scan.push(damaged), scan.unreadable()), (None, Some(Unreadable::Damaged)), "{damaged:?}");
    }
    let mut behind = scan(EVENTS);
    assert_eq!(behind.push(&gzip(&[USAGE])), Some(Total(5)));
    assert_eq!(
        (behind.push(b"rubbish rubbish"), behind.unreadable()),
        (Some(AtLeast(5)), Some(Unreadable::Damaged))
    );
}

#[test]
fn dense_gzip_is_not_read() {
    // A thousand to one.
    let bomb = gzip(&[&"0".repeat(10_000_000), USAGE]);
    let mut scan = scan(EVENTS);
    assert_eq!((scan.push(&bomb), scan.unreadable()), (None, Some(Unreadable::TooDense)));
    // A short one is decoded.
    let body = format!("{{\"a\":\"{}\",\"usage\":{{\"total_tokens\":5}}}}", "0".repeat(30_000));
    assert_eq!(self::scan(JSON).push(&gzip(&[&body])), Some(Total(5)));
}

#[test]
fn decoded_document_has_the_same_bound() {
    // Fewer than a hundred to one.
    let line = (0..100_000).map(|number: u32| number.to_string()).collect::<String>();
    let text = line.repeat(MOST_READ / line.len() + 1);
    let body = format!("{{\"a\":\"{text}\",\"usage\":{{\"total_tokens\":5}}}}");
    let mut scan = scan(JSON);
    assert_eq!((scan.push(&gzip(&[&body])), scan.unreadable()), (None, Some(Unreadable::TooLarge)));
}

proptest! {
    #[test]
    fn any_bytes_are_pushed_without_a_panic(bytes: Vec<u8>, cut: prop::sample::Index, header: bool) {
        let bytes = if header { [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0], bytes.as_slice()].concat() } else { bytes };
        let (first, second) = bytes.split_at(cut.index(bytes.len() + 1));
        let mut scan = scan(EVENTS);
        scan.push(first);
        scan.push(second);
        prop_assert_eq!(scan.count(), None);
    }

    #[test]
    fn cuts_do_not_matter_in_gzip(text in "[a-z]{0,300}", cuts: [prop::sample::Index; 3]) {
        let bytes = gzip(&["data: {\"a\":\"", &text, "\"}\n\n", USAGE]);
        let mut cuts = cuts.map(|cut| cut.index(bytes.len()));
        cuts.sort_unstable();
        let mut scan = scan(EVENTS);
        let mut from = 0;
        for to in cuts.into_iter().chain([bytes.len()]) {
            scan.push(&bytes[from..to]);
            from = to;
        }
        prop_assert_eq!((scan.count(), scan.unreadable()), (Some(Total(5)), None));
    }
}
