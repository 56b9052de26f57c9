//! What a proxy or a first step of a server makes of a path before it is decoded.

use smallvec::SmallVec;

use super::decode::Bytes;

/// The path without `.` and `..` as they are written; the same with several slashes as one; the same as browsers read a URL, with escaped dots
/// and backslashes; and without parameters. Each only if it differs, and if a server may split it in another way than this step.
pub(super) fn forwarded(path: &[u8]) -> SmallVec<[Bytes; 4]> {
    let mut texts: SmallVec<[Bytes; 4]> = SmallVec::new();
    let mut add = |text: Bytes| {
        if &*text != path && !texts.contains(&text) {
            texts.push(text);
        }
    };
    let has_two_slashes = path.windows(2).any(|two| two == b"//");
    if !path.iter().any(|byte| matches!(byte, b'%' | b'\\')) && !has_two_slashes {
        return texts;
    }
    if segments(path, false).any(|segment| Dots::written(name(segment)).is_some()) {
        add(resolved(path, false, Dots::written));
        if has_two_slashes {
            add(resolved(path, true, Dots::written));
        }
    }
    if segments(path, true).any(|segment| Dots::of_url(name(segment)).is_some()) {
        let slashes = path.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte });
        add(resolved(&slashes.collect::<Bytes>(), false, Dots::of_url));
    }
    if path.contains(&b';') {
        add(without_parameters(path));
    }
    texts
}

enum Dots {
    Here,
    Above,
}

impl Dots {
    fn written(name: &[u8]) -> Option<Self> {
        match name {
            b"." => Some(Self::Here),
            b".." => Some(Self::Above),
            _ => None,
        }
    }

    /// Also escaped, in either case.
    fn of_url(name: &[u8]) -> Option<Self> {
        let dot = |name: &[u8]| match name {
            [b'.', ..] => Some(1),
            [b'%', b'2', b'e' | b'E', ..] => Some(3),
            _ => None,
        };
        let rest = name.get(dot(name)?..)?;
        if rest.is_empty() {
            return Some(Self::Here);
        }
        (dot(rest)? == rest.len()).then_some(Self::Above)
    }
}

/// The segments, each with the slash behind it.
fn segments(path: &[u8], at_backslashes: bool) -> impl Iterator<Item = &[u8]> {
    path.split_inclusive(move |byte| *byte == b'/' || at_backslashes && *byte == b'\\')
}

fn name(segment: &[u8]) -> &[u8] {
    segment.strip_suffix(b"/").or_else(|| segment.strip_suffix(b"\\")).unwrap_or(segment)
}

fn resolved(path: &[u8], merges: bool, dots: impl Fn(&[u8]) -> Option<Dots>) -> Bytes {
    let mut resolved = Bytes::new();
    for segment in segments(path, false) {
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
