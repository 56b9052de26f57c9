//! What a proxy or a first step of a server makes of a path before it is decoded.

use smallvec::SmallVec;

use super::decode::Bytes;
use super::dots::Dots;

/// The path without `.` and `..` as they are written; without them and with several slashes as one; without them as browsers read a
/// URL, with escaped dots and backslashes; and without parameters. Each only if it differs, and if a server may split it in another
/// way than this step.
pub(super) fn forwarded(path: &[u8]) -> SmallVec<[Bytes; 4]> {
    let mut texts: SmallVec<[Bytes; 4]> = SmallVec::new();
    let mut add = |text: Bytes| {
        if &*text != path && !texts.contains(&text) {
            texts.push(text);
        }
    };
    let has_two_slashes = path.windows(2).any(|two| two == b"//");
    // Without its parameters it may begin with two slashes.
    let begins_with_parameter = path.first() == Some(&b';');
    let is_split_alike = !path.iter().any(|byte| matches!(byte, b'%' | b'\\'));
    if is_split_alike && !has_two_slashes && !begins_with_parameter {
        return texts;
    }
    if has(path, Dots::of) {
        add(resolved(path, false, Dots::of));
        if has_two_slashes {
            add(resolved(path, true, Dots::of));
        }
    }
    let slashes: Bytes = path.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect();
    if has(&slashes, Dots::of_url) {
        add(resolved(&slashes, false, Dots::of_url));
    }
    if path.contains(&b';') {
        add(without_parameters(path));
    }
    texts
}

fn has(path: &[u8], dots: fn(&[u8]) -> Option<Dots>) -> bool {
    path.split(|byte| *byte == b'/').any(|segment| dots(segment).is_some())
}

fn resolved(path: &[u8], merges: bool, dots: fn(&[u8]) -> Option<Dots>) -> Bytes {
    let mut resolved = Bytes::new();
    for segment in path.split_inclusive(|byte| *byte == b'/') {
        match dots(segment.strip_suffix(b"/").unwrap_or(segment)) {
            Some(Dots::Here) => {}
            Some(Dots::Above) => {
                let above = resolved.strip_suffix(b"/").unwrap_or(&resolved);
                let end = above.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
                resolved.truncate(end);
            }
            None if merges && segment == b"/" => {}
            None => resolved.extend_from_slice(segment),
        }
    }
    resolved
}

fn without_parameters(path: &[u8]) -> Bytes {
    let mut is_parameter = false;
    let is_kept = |byte: &&u8| {
        match byte {
            b'/' => is_parameter = false,
            b';' => is_parameter = true,
            _ => {}
        }
        !is_parameter
    };
    path.iter().filter(is_kept).copied().collect()
}
