use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Loaded, Loader};
use crate::diagnostic::Diagnostics;
use crate::source::Format;
use crate::tree::{Node, Value};

mod bounds;
mod environment;
mod formats;
mod include;
mod kinds;
mod mutated;
mod yaml;

const FORMATS: [Format; 3] = [Format::Toml, Format::Yaml, Format::Json];

/// A folder that is removed at the end of a test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("portcullis-config-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&folder.0).unwrap();
        for (file, text) in files {
            folder.write(file, text.as_bytes());
        }
        folder
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    fn write(&self, file: &str, bytes: &[u8]) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn load(&self, file: &str) -> Loaded {
        Loader::file(self.0.join(file)).read()
    }

    /// The findings without the name of the folder.
    fn shown(&self, loaded: &Loaded) -> String {
        shown(loaded).replace(&format!("{}/", self.0.display()), "").replace(self.0.to_str().unwrap(), ".")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn shown(loaded: &Loaded) -> String {
    Diagnostics::new(loaded.sources.clone(), loaded.findings.clone()).to_string()
}

fn text(format: Format, text: &str) -> Loaded {
    Loader::text("limits", format, text).environment(|_| None).read()
}

/// The findings of a text in which there is no environment.
fn findings(format: Format, content: &str) -> String {
    shown(&text(format, content))
}

/// The only document of a load without findings.
fn only(loaded: &Loaded) -> &Node {
    assert_eq!(shown(loaded), "");
    assert_eq!(loaded.documents.len(), 1);
    &loaded.documents[0]
}

/// All values below a node, with their places.
fn all(node: &Node) -> Vec<&Node> {
    let children: Vec<_> = match &node.value {
        Value::List(list) => list.iter().collect(),
        Value::Map(entries) => entries.iter().map(|entry| &entry.node).collect(),
        _ => Vec::new(),
    };
    std::iter::once(node).chain(children.into_iter().flat_map(all)).collect()
}

/// The text at a place.
fn slice<'a>(loaded: &'a Loaded, node: &Node) -> &'a str {
    &loaded.sources.get(node.span.file).unwrap().text[node.span.start..node.span.end]
}

fn names(loaded: &Loaded, folder: &Folder) -> Vec<String> {
    let names =
        loaded.sources.iter().map(|source| source.name.strip_prefix(&folder.0).unwrap_or(Path::new("?")));
    names.map(|name| name.display().to_string()).collect()
}
