//! `key`: what requests are charged to.

use http::HeaderValue;
use http::header::HOST;
use portcullis_tower::matching::PathPattern;

use super::super::key::Key;
use super::Reader;
use crate::fields::{Fields, did_you_mean, quoted};
use crate::tables::{KEY_SOURCE, PLAIN_KEYS};
use crate::tree::{Node, Value};

impl Reader<'_> {
    pub(super) fn key(&self, node: &Node, path: &str) -> Option<Key> {
        self.key_inside(node, path, false)
    }

    /// `is_part` of a key of several sources.
    fn key_inside(&self, node: &Node, path: &str, is_part: bool) -> Option<Key> {
        match &node.value {
            Value::String(name) => self.plain_key(name, node, path),
            Value::List(list) => {
                let keys = self.keys(list, path);
                if list.is_empty() {
                    self.findings
                        .error(path, node.span, "the list is empty")
                        .help("name a source, such as \"client_ip\"");
                }
                let keys = keys?;
                if let Some(last) =
                    keys.iter().position(Key::is_always_there).filter(|at| at + 1 < keys.len())
                {
                    let message = format!(
                        "each request has {}, so the sources behind it are never used",
                        keys.get(last)?
                    );
                    self.findings.warning(path, node.span, message).help("write it last");
                }
                Some(single_or(keys, Key::First))
            }
            Value::Map(_) => self.key_table(node, path, is_part),
            other => {
                self.findings
                    .error(path, node.span, format!("expected a key, not {}", other.kind()))
                    .help("write \"client_ip\", { header = \"x-api-key\" }, or a list, of which the first that is there counts");
                None
            }
        }
    }

    fn keys(&self, list: &[Node], path: &str) -> Option<Vec<Key>> {
        // All are read, so that all mistakes are found.
        let keys: Vec<_> = list.iter().map(|one| self.key_inside(one, path, true)).collect();
        keys.into_iter().collect::<Option<Vec<_>>>().filter(|keys| !keys.is_empty())
    }

    fn plain_key(&self, name: &str, node: &Node, path: &str) -> Option<Key> {
        if let Some(key) = Key::plain(name) {
            return Some(key);
        }
        let forms = || format!("write {{ header = \"..\" }} or the like, or one of {PLAIN_KEYS:?}");
        self.findings
            .error(path, node.span, format!("unknown key {}", quoted(name)))
            .help(did_you_mean(name, PLAIN_KEYS).unwrap_or_else(forms));
        None
    }

    fn key_table(&self, node: &Node, path: &str, is_part: bool) -> Option<Key> {
        let fields = Fields::of(node, path, &KEY_SOURCE, self.findings)?;
        let header = fields.header("header");
        if header == Some(HOST) {
            fields
                .warning(
                    "header",
                    "over HTTP/2 requests have no header host, and its spellings are several keys",
                )
                .help("write key = \"host\"");
        }
        let is_trusted = self.trusted(&fields, header.as_ref());
        let segments = Self::segments(&fields);
        let [cookie, query, extension, lookup] =
            ["cookie", "query", "extension", "lookup"].map(|field| fields.read::<String>(field));
        let all = fields.node("all");
        let all = all.and_then(|node| {
            let path = fields.path("all");
            match &node.value {
                Value::List(list) if !list.is_empty() => self.keys(list, &path),
                _ => {
                    self.findings.error(path, node.span, "expected a list of keys, which are joined");
                    None
                }
            }
        });
        let challenge: Option<HeaderValue> = fields.parse("challenge");
        let given = SOURCES.iter().filter(|field| fields.has(field)).count();
        if given != 1 {
            let misspelt = if given == 0 { &SOURCES[..] } else { &[] };
            fields
                .missing(misspelt, format!("the table names {given} sources of a key"))
                .help("write one of `header`, `cookie`, `query`, `path`, `extension`, `lookup` and `all`");
        }
        self.check_names(&fields, extension.as_ref(), lookup.as_ref(), is_part);
        if given != 1 {
            return None;
        }
        if is_trusted && !self.names_proxies() {
            // An error, and no client chooses what stands in for it.
            return Some(Key::ClientIp);
        }
        let key = header
            .map(if is_trusted { Key::Trusted } else { Key::Header })
            .or(cookie.map(Key::Cookie))
            .or(query.map(Key::Query))
            .or(segments)
            .or(extension.map(Key::Extension))
            .or(lookup.map(Key::Lookup))
            .or(all.map(|keys| single_or(keys, Key::All)))?;
        Some(match challenge {
            Some(challenge) if !matches!(key, Key::Lookup(_)) => Key::Credential(Box::new(key), challenge),
            _ => key,
        })
    }

    /// `path` and `segment`.
    fn segments(fields: &Fields<'_>) -> Option<Key> {
        let segment: Option<String> = fields.read("segment");
        if fields.has("segment") && !fields.has("path") {
            fields.missing(&["path"], "`segment` is one of a path").help("write the pattern in `path`");
        }
        let pattern = fields.parse_with("path", PathPattern::parse)?;
        let names: Vec<_> = pattern.parameters().map(|(_, name)| name).collect();
        if names.is_empty() {
            let whole = "key = \"path\" is the whole path";
            fields
                .error("path", format!("{} names no segment", quoted(pattern.text())))
                .help(format!("write {{name}} in place of the segment; {whole}"));
            return None;
        }
        if let Some(name) = segment.as_deref().filter(|name| !names.contains(name)) {
            let known = did_you_mean(name, names.iter().copied());
            fields
                .error("segment", format!("{} has no segment {}", quoted(pattern.text()), quoted(name)))
                .help(known.unwrap_or_else(|| format!("it has {}", names.join(", "))));
            return None;
        }
        Some(Key::Segments(pattern, segment))
    }

    /// The names that a program registers.
    fn check_names(
        &self,
        fields: &Fields<'_>,
        extension: Option<&String>,
        lookup: Option<&String>,
        is_part: bool,
    ) {
        if let Some(name) = extension {
            self.registered(&self.hooks.keys, fields, ["extension"; 3], name, NO_KEY);
        }
        if let Some(name) = lookup {
            self.registered(&self.hooks.lookups, fields, ["lookup"; 3], name, NO_KEY);
        }
        if lookup.is_some() && is_part {
            fields
                .error("lookup", "a look-up cannot be combined with other keys")
                .help("write it alone, and the other key in another policy");
        }
    }
}

fn single_or(mut keys: Vec<Key>, many: fn(Vec<Key>) -> Key) -> Key {
    match keys.pop() {
        Some(key) if keys.is_empty() => key,
        last => {
            keys.extend(last);
            many(keys)
        }
    }
}

const NO_KEY: &str = "the rule limits nothing";
const SOURCES: [&str; 7] = ["header", "cookie", "query", "path", "extension", "lookup", "all"];
