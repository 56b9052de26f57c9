//! The format of the files.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    #[serde(skip)]
    pub(crate) name: String,
    /// A file of rules.
    pub(crate) rules: toml::Table,
    pub(crate) timeline: Timeline,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Timeline {
    /// The doors that refuse the rules, each with the fields that it cannot do.
    #[serde(default)]
    pub(crate) refused_by: BTreeMap<String, Vec<String>>,
    pub(crate) requests: Vec<Step>,
}

/// A request, and what is expected of its answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// The time since the beginning.
    #[serde(default, with = "humantime_serde")]
    pub(crate) at: std::time::Duration,
    /// The method and the path.
    #[serde(default = "home")]
    pub(crate) send: String,
    /// The version of HTTP, 1 or 2.
    #[serde(default = "one")]
    pub(crate) version: u8,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, Texts>,
    #[serde(default = "loopback")]
    pub(crate) peer: IpAddr,
    #[serde(default)]
    pub(crate) body: String,
    /// What the program adds to the request before the layer: `account` and `tier`.
    #[serde(default)]
    pub(crate) program: BTreeMap<String, String>,
    /// The store does not answer.
    #[serde(default)]
    pub(crate) store_fails: bool,
    #[serde(default)]
    pub(crate) handler: Handler,
    /// The response is read to its end at this time, not at once.
    #[serde(default, with = "humantime_serde")]
    pub(crate) until: Option<std::time::Duration>,

    /// The doors at which it is sent; all of them if it names none.
    #[serde(default)]
    pub(crate) doors: Vec<String>,
    #[serde(default = "ok")]
    pub(crate) status: u16,
    /// Whether the request is rejected although its status is that of the service, as gRPC does.
    #[serde(default)]
    pub(crate) rejected: bool,
    /// Headers of the response: a value, or false for one that is not there.
    #[serde(default)]
    pub(crate) shows: BTreeMap<String, Shown>,
    /// A part of the body.
    pub(crate) text: Option<String>,
    /// What observers see, in any order. Without it, nothing is compared.
    pub(crate) events: Option<Vec<String>>,
}

/// What the service behind the limits answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Handler {
    #[serde(default = "ok")]
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// The units that the response counts.
    pub(crate) uses: Option<u64>,
    #[serde(default = "found")]
    pub(crate) body: String,
}

impl Default for Handler {
    fn default() -> Self {
        Self { status: ok(), headers: BTreeMap::new(), uses: None, body: found() }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Texts {
    One(String),
    Many(Vec<String>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Shown {
    Is(String),
    There(bool),
}

impl File {
    /// All files, sorted by name.
    pub(crate) fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/requests");
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut paths: Vec<_> = entries.collect();
        paths.sort();
        paths.iter().map(Self::read).collect()
    }

    fn read(path: &PathBuf) -> Self {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(path).unwrap();
        let file: Self = toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { name, ..file }
    }
}

impl Step {
    pub(crate) fn method(&self) -> &str {
        self.send.split_once(' ').expect("a method and a path").0
    }

    pub(crate) fn path(&self) -> &str {
        self.send.split_once(' ').expect("a method and a path").1
    }

    /// All lines of all headers.
    pub(crate) fn header_lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().flat_map(|(name, texts)| {
            let texts = match texts {
                Texts::One(text) => std::slice::from_ref(text),
                Texts::Many(texts) => texts.as_slice(),
            };
            texts.iter().map(move |text| (name.as_str(), text.as_str()))
        })
    }

    /// Whether the request reaches the service.
    pub(crate) fn is_admitted(&self) -> bool {
        self.status == self.handler.status && !self.rejected
    }
}

fn home() -> String {
    "GET /".to_owned()
}

fn found() -> String {
    "found".to_owned()
}

const fn one() -> u8 {
    1
}

const fn ok() -> u16 {
    200
}

const fn loopback() -> IpAddr {
    IpAddr::V4(Ipv4Addr::LOCALHOST)
}
