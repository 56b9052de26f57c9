//! What others have put around a line: container runtimes, their tools, and syslog.

use super::time;

/// A part of a line, as a container runtime cuts long ones.
pub(super) struct CriPart<'a> {
    pub(super) text: &'a [u8],
    pub(super) is_last: bool,
}

/// Reads `2016-10-06T00:17:09.669794202Z stdout F text`. A line whose tag is `P` goes on in the next one.
///
/// Source: Kubernetes, `pkg/kubelet/kuberuntime/logs`.
pub(super) fn cri(line: &[u8]) -> Option<CriPart<'_>> {
    let rest = timestamp(line)?;
    let rest = rest.strip_prefix(b"stdout ").or_else(|| rest.strip_prefix(b"stderr "))?;
    let (tags, text) = rest.split_at(rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len()));
    let is_last = match tags.split(|byte| *byte == b':').next() {
        Some(b"F") => true,
        Some(b"P") => false,
        _ => return None,
    };
    Some(CriPart { text: text.get(1..).unwrap_or_default(), is_last })
}

/// The line without what is in front of it: a time of `docker logs --timestamps`, the service of `docker compose logs`, the pod of
/// `kubectl logs --prefix`, or the fields of syslog. `None` if there is nothing of it.
pub(super) fn without_prefix(line: &[u8]) -> Option<&[u8]> {
    let mut text = line;
    for _ in 0..MAX_PREFIXES {
        match one_prefix(text) {
            Some(rest) => text = rest.trim_ascii_start(),
            None => break,
        }
    }
    (text.len() < line.len()).then_some(text)
}

fn one_prefix(text: &[u8]) -> Option<&[u8]> {
    timestamp(text)
        .map(|rest| tag(rest).unwrap_or(rest))
        .or_else(|| compose(text))
        .or_else(|| syslog(text))
        .or_else(|| {
            let end = text.strip_prefix(b"[pod/")?.iter().position(|byte| *byte == b' ')?;
            text[5..][..end].ends_with(b"]").then_some(&text[5 + end..])
        })
}

/// What follows a time of RFC 3339 and a space.
fn timestamp(text: &[u8]) -> Option<&[u8]> {
    if text.get(4) != Some(&b'-') || text.get(10) != Some(&b'T') {
        return None;
    }
    let (first, rest) = word(text)?;
    time::any(first).map(|_| rest)
}

/// `web-1  | text`.
fn compose(text: &[u8]) -> Option<&[u8]> {
    let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let name = text.iter().take(MAX_NAME).take_while(is_name).count();
    let bar = text[name..].strip_prefix(b" ").filter(|_| name > 0)?.trim_ascii_start();
    bar.strip_prefix(b"|")
}

/// `<134>Feb  6 12:14:14 host haproxy[14389]: text`, or `<134>1 2003-10-11T22:14:15.003Z host haproxy 14389 - - text`.
///
/// Source: RFC 3164, section 4.1, and RFC 5424, section 6.
fn syslog(text: &[u8]) -> Option<&[u8]> {
    let priority = text.strip_prefix(b"<").and_then(|rest| {
        let end = rest.iter().take(4).position(|byte| *byte == b'>')?;
        Some(&rest[end + 1..])
    });
    if let Some(mut rest) = priority.and_then(|rest| rest.strip_prefix(b"1 ")) {
        for _ in 0..5 {
            rest = word(rest)?.1;
        }
        return rest.strip_prefix(b"- ").or_else(|| {
            let end = rest.strip_prefix(b"[")?.windows(2).position(|pair| pair == b"] ")?;
            Some(&rest[end + 3..])
        });
    }
    let text = priority.unwrap_or(text);
    let &[_, _, _, b' ', _, _, b' ', _, _, b':', _, _, b':', _, _] = text.get(..15)? else { return None };
    tag(text[15..].strip_prefix(b" ")?)
}

/// What follows `host name[7]: `.
fn tag(text: &[u8]) -> Option<&[u8]> {
    let (_host, rest) = word(text)?;
    let (name, rest) = word(rest)?;
    (name.len() <= MAX_NAME && name.ends_with(b":")).then_some(rest)
}

fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == b' ')?;
    Some((&text[..end], &text[end + 1..]))
}

/// A line of a service in a pod that syslog has taken has three.
const MAX_PREFIXES: usize = 3;
/// Of a service or a program, in bytes.
const MAX_NAME: usize = 80;
