//! Logs that are compressed.

use std::io::{Read, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    compress_to_vec(text, CompressionLevel::Fastest)
}

/// The lines that are read, and how that ended.
fn read(log: &[u8]) -> (usize, Result<(), String>) {
    let mut reader = match Plain::new(log) {
        Ok(log) => LogReader::new(log),
        Err(error) => return (0, Err(error.to_string())),
    };
    for count in 0.. {
        match reader.next() {
            Ok(Some(_)) => {}
            Ok(None) => return (count, Ok(())),
            Err(error) => return (count, Err(error.to_string())),
        }
    }
    unreachable!("the log has an end")
}

fn log() -> Vec<u8> {
    format!("{COMMON}\n").repeat(5_000).into_bytes()
}

#[test]
fn logs_are_decompressed_by_their_first_bytes() {
    let text = log();
    assert_eq!(read(&text), (5_000, Ok(())));
    assert_eq!(read(&gzip(&text)), (5_000, Ok(())));
    assert_eq!(read(&zstd(&text)), (5_000, Ok(())));
    // Files one after the other, with a frame that is to be skipped.
    assert_eq!(read(&[gzip(&text), gzip(&text)].concat()), (10_000, Ok(())));
    let skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc".to_vec();
    assert_eq!(read(&[skipped.clone(), zstd(&text), skipped, zstd(&text)].concat()), (10_000, Ok(())));
    assert_eq!(read(b""), (0, Ok(())));
}

#[test]
fn damaged_data_is_an_error_with_its_place() {
    let text = log();
    for (name, data) in [("gzip", gzip(&text)), ("zstd", zstd(&text))] {
        let (_, cut) = read(&data[..data.len() - 6]);
        let error = cut.unwrap_err();
        let expected = format!("the {name} data ends too early at byte {} of the file", data.len() - 6);
        assert!(error.starts_with(&expected), "{error}");
        let mut damaged = data.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 0xff;
        let (_, result) = read(&damaged);
        let error = result.unwrap_err();
        assert!(error.starts_with(&format!("the {name} data is damaged at byte ")), "{error}");
        let mut trailing = data.clone();
        trailing.extend_from_slice(b"no frame");
        assert!(read(&trailing).1.is_err());
    }
}

#[test]
fn wide_windows_are_refused() {
    // A frame whose window is 3.75 TiB.
    let data = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff, 1, 0, 0];
    let error = read(&data).1.unwrap_err();
    assert!(error.contains("a window of more than 100 MiB: decompress it first"), "{error}");
}

#[test]
fn expansion_is_read_as_a_stream() {
    // 64 MiB of one line break each, in a few KiB.
    let data = gzip(&vec![b'\n'; 64 << 20]);
    assert!(data.len() < 1 << 20);
    let mut plain = Plain::new(&data[..]).unwrap();
    let mut first = [0; 10];
    plain.read_exact(&mut first).unwrap();
    assert!(plain.position().get() < data.len() as u64, "the rest is not read yet");
}

#[test]
fn other_compression_is_named() {
    for (first, name) in [(&b"BZh91AY"[..], "bzip2"), (b"\xfd7zXZ\0\0", "xz"), (b"PK\x03\x04", "zip")] {
        let error = read(first).1.unwrap_err();
        assert!(error.contains(name) && error.contains("--log -"), "{error}");
    }
}
