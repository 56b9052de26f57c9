//! Servers that read paths in many ways.

/// A server that reads paths in one of many ways.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub(super) struct Server {
    before: Step,
    /// How often it decodes escapes before it splits the path, and afterwards.
    decodes: (u8, u8),
    splits_at_backslash: bool,
    ends_at: Option<u8>,
    has_parameters: bool,
    /// Whether two slashes begin a reference to another host.
    has_authority: bool,
    keeps_empty: bool,
    resolves_dots: bool,
}

/// What a proxy in front of it does, or the server itself at first.
#[derive(Clone, Copy, Debug)]
enum Step {
    Nothing,
    Dots,
    SlashesAndDots,
    Url,
    Parameters,
}

impl Server {
    /// Without regard to case, and without blanks and dots at the end of a segment: so it takes the most paths for one.
    pub(super) fn read(self, path: &str) -> Vec<Vec<u8>> {
        let times = |text: &[u8], times| (0..times).fold(text.to_vec(), |text, _| decoded(&text));
        let path = match self.before {
            Step::Nothing => path.to_owned(),
            Step::Dots => resolved(path),
            Step::SlashesAndDots => resolved(
                &path
                    .split('/')
                    .filter(|name| !name.is_empty())
                    .fold(String::new(), |path, name| format!("{path}/{name}")),
            ),
            Step::Url => resolved(&path.replace('\\', "/").replace("%2e", ".")),
            Step::Parameters => {
                let names = path.split('/').map(|name| name.split(';').next().unwrap_or_default());
                names.collect::<Vec<_>>().join("/")
            }
        };
        let mut text = times(path.strip_prefix('/').unwrap_or(&path).as_bytes(), self.decodes.0);
        if let Some(end) = text.iter().position(|byte| Some(*byte) == self.ends_at) {
            text.truncate(end);
        }
        let splits = |byte: &u8| *byte == b'/' || *byte == b'\\' && self.splits_at_backslash;
        if self.has_authority && text.first().is_some_and(splits) {
            let host = text.iter().position(|byte| !splits(byte)).unwrap_or(text.len());
            let end = text.iter().skip(host).position(splits).map_or(text.len(), |end| host + end + 1);
            text.drain(..end);
        }
        let mut read: Vec<Vec<u8>> = Vec::new();
        for segment in text.split(splits) {
            let name = segment.split(|byte| *byte == b';' && self.has_parameters).next().unwrap_or_default();
            let mut name = times(name, self.decodes.1);
            name.make_ascii_lowercase();
            match &*name {
                b"" if !self.keeps_empty => {}
                b"." if self.resolves_dots => {}
                b".." if self.resolves_dots => drop(read.pop()),
                _ => {
                    while matches!(name.last(), Some(b'.' | b' ')) && !name.iter().all(|byte| *byte == b'.') {
                        name.pop();
                    }
                    read.push(name);
                }
            }
        }
        if read.len() > 1 && read.last().is_some_and(Vec::is_empty) {
            read.pop();
        }
        read
    }
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let (mut decoded, mut rest) = (Vec::new(), text);
    while let [byte, after @ ..] = rest {
        let digits = rest.get(1..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.filter(|_| *byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(escaped.unwrap_or(*byte));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    decoded
}

/// The path without its `.`, `..` and the segments before those, as a proxy forwards it.
fn resolved(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match segment {
            ".." => drop(kept.pop()),
            "." => {}
            segment => kept.push(segment),
        }
        if matches!(segment, "." | "..") && segments.peek().is_none() {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

pub(super) fn servers() -> impl Iterator<Item = Server> {
    let decodes = [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (2, 0)];
    let ends = [None, Some(b'?'), Some(b'#'), Some(0)];
    let steps = [Step::Nothing, Step::Dots, Step::SlashesAndDots, Step::Url, Step::Parameters];
    let decodes = move || decodes.into_iter().flat_map(move |decodes| steps.map(|step| (decodes, step)));
    decodes().flat_map(move |(decodes, before)| {
        ends.into_iter().flat_map(move |ends_at| {
            (0..32_u8).map(move |flags| {
                let is = |flag: u8| flags & (1 << flag) != 0;
                Server {
                    before,
                    decodes,
                    splits_at_backslash: is(1),
                    ends_at,
                    has_parameters: is(0),
                    has_authority: is(2),
                    keeps_empty: is(3),
                    resolves_dots: is(4),
                }
            })
        })
    })
}
