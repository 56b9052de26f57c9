//! The tests of a program, and which of them depend on time.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use wait4::Wait4 as _;

use super::super::programs::Program;
use super::super::rules;

/// The tests of a program.
///
/// A test counts as one that waits, has a deadline or starts a process if a run of it alone takes clearly longer than the processor
/// time of itself and its children, or if the file that defines it names something of [`WORDS`]. Both err on the side of more.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct List(Vec<Test>);

#[derive(Debug, Deserialize, Serialize)]
struct Test {
    name: String,
    /// Why it counts as one that waits.
    reason: Option<Reason>,
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Reason {
    Text,
    Measured,
}

impl List {
    /// Makes the list of a program, or reads it if it was made since the program was built.
    pub(super) fn of(program: &Program, folder: &Path) -> Result<Self> {
        let file = folder.join(format!("{}.json", program.id()?));
        if let Ok(text) = fs::read_to_string(&file) {
            return serde_json::from_str(&text).with_context(|| format!("cannot read {}", file.display()));
        }
        let sources = sources(program.folder())?;
        let terse = program.command().args("--list --format terse").read(program.folder())?;
        let mut tests = Vec::new();
        for name in terse.lines().filter_map(|line| line.strip_suffix(": test")) {
            let reason = if names_time(name, &sources) {
                Some(Reason::Text)
            } else {
                waits(program, name)?.then_some(Reason::Measured)
            };
            tests.push(Test { name: name.to_owned(), reason });
        }
        let list = Self(tests);
        let text = serde_json::to_string_pretty(&list)?;
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(list)
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.of_kind(|_| true)
    }

    pub(super) fn waiting(&self) -> Vec<String> {
        self.of_kind(|test| test.reason.is_some())
    }

    pub(super) fn others(&self) -> Vec<String> {
        self.of_kind(|test| test.reason.is_none())
    }

    fn of_kind(&self, is_wanted: impl Fn(&Test) -> bool) -> Vec<String> {
        self.0.iter().filter(|test| is_wanted(test)).map(|test| test.name.clone()).collect()
    }
}

/// Whether a file that defines the test names time, servers or processes.
fn names_time(test: &str, sources: &[String]) -> bool {
    let name = test.rsplit("::").next().unwrap_or(test);
    let definition = format!("fn {name}(");
    let mut defining = sources.iter().filter(|source| source.contains(&definition));
    defining.any(|source| WORDS.split(' ').any(|word| source.contains(word)))
}

/// Whether the test waits when it runs alone,.
fn waits(program: &Program, test: &str) -> Result<bool> {
    let start = Instant::now();
    let mut command = program.command().args("--exact").word(test).command(program.folder());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let used = child.wait4()?.rusage;
    Ok(start.elapsed() > used.utime + used.stime + WAIT)
}

fn sources(package: &Path) -> Result<Vec<String>> {
    let files = rules::files(package)?;
    let sources = files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
    sources.map(|file| rules::read(package, file)).collect()
}

/// A test that starts no thread and waits for nothing is interrupted for less than that.
const WAIT: Duration = Duration::from_millis(20);
const WORDS: &str = "sleep timeout deadline elapsed within_a_minute Instant::now interval Server:: Cluster:: Command Process \
    TcpListener TcpStream";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_names_time_is_recognised() {
        let sources = ["fn waits() { sleep(1) }".to_owned(), "fn adds() { 1 + 1 }".to_owned()];
        assert!(names_time("a::tests::waits", &sources));
        assert!(!names_time("adds", &sources));
        assert!(!names_time("sleep", &sources));
    }

    #[test]
    fn list_is_read_as_written() {
        let text = r#"[{"name":"a::b","reason":"text"},{"name":"c","reason":null},{"name":"d","reason":"measured"}]"#;
        let list: List = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&list).unwrap(), text);
        assert_eq!(list.waiting(), ["a::b", "d"]);
        assert_eq!(list.others(), ["c"]);
        assert_eq!(list.all().len(), 3);
    }
}
