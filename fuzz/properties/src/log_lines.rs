//! Lines of access logs, in all formats.

use portcullis_cli::simulate::{Format, LogReader, Plain};

/// Checks the properties of any bytes as an access log: each line is read or skipped, in the order of time, and what is said about a
/// skipped one is a short text that fits on a screen.
///
/// The first line is the format as `--format` has it. If it is none, the lines are read in any format.
///
/// # Panics
///
/// If a property does not hold.
pub fn log_lines(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let (format, log) = input.split_at(end);
    let format = str::from_utf8(format).ok().and_then(|format| format.trim_end().parse::<Format>().ok());
    let Ok(plain) = Plain::new(log) else { return };
    let mut reader = LogReader::new(plain).format(format);
    let (mut read, mut last) = (0, 0);
    loop {
        // Compressed bytes may be damaged at any place.
        let Ok(line) = reader.next() else { return };
        let Some(line) = line else { break };
        assert!(line.micros >= last, "{} comes after {last}", line.micros);
        assert!((100..1_000).contains(&line.status), "{}", line.status);
        assert_eq!(line.peer, line.peer.to_canonical());
        (read, last) = (read + 1, line.micros);
    }
    let notes = reader.notes();
    assert_eq!(notes.lines, read + notes.bad);
    assert!(notes.lines <= notes.physical && notes.examples.len() as u64 <= notes.bad);
    for skipped in &notes.examples {
        let characters = skipped.excerpt.chars().count();
        assert!(skipped.line <= notes.physical && skipped.indent <= characters, "{skipped:?}");
        assert!(characters <= MOST && !skipped.excerpt.contains(char::is_control), "{skipped:?}");
        let advice = skipped.advice.as_deref().unwrap_or_default();
        assert!(!advice.contains(|c: char| c.is_control() && c != '\t'), "{advice:?}");
        if let Some(format) = advice.strip_prefix("--format '").and_then(|advice| advice.split('\'').next()) {
            assert!(format.parse::<Format>().is_ok(), "{format}");
        }
    }
}

/// 100 bytes, each as `\u{7f}` at most.
const MOST: usize = 600;
