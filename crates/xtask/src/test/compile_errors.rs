//! Checks what the compiler says about mistakes. The package at `MANIFEST` has them, each behind lines that begin with `//~` and
//! have the texts that its error has to contain.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::workspace::Workspace;

pub(super) const MANIFEST: &str = "crates/portcullis/compile_errors/Cargo.toml";
const SOURCE: &str = "src/lib.rs";

/// Compiles the mistakes, and compares the errors.
pub(super) fn check(workspace: &Workspace) -> Result<()> {
    workspace.share_lock(MANIFEST)?;
    let source = fs::read_to_string(workspace.root.join(MANIFEST).with_file_name("").join(SOURCE))?;
    let mut mistakes = Mistakes::read(&source);
    let check = workspace.cargo_beside("check --message-format json", MANIFEST);
    println!("$ {check}\n  (has to fail)");
    let output = check.output(&workspace.root)?;
    ensure!(!output.status.success(), "mistakes compile");
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        mistakes.add(line)?;
    }
    ensure!(
        mistakes.errors.values().any(|error| !error.is_empty()),
        "the mistakes are not compiled:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let missing = mistakes.missing();
    ensure!(missing.is_empty(), "errors do not name their cure:\n{missing}");
    println!("  it failed: {} errors name their cure", mistakes.errors.len());
    Ok(())
}

/// The mistakes of a file, by the line at which each begins.
struct Mistakes {
    expected: BTreeMap<usize, Vec<String>>,
    errors: BTreeMap<usize, String>,
}

impl Mistakes {
    fn read(source: &str) -> Self {
        let (mut expected, mut first) = (BTreeMap::<_, Vec<_>>::new(), None);
        for (line, text) in (1..).zip(source.lines()) {
            match text.strip_prefix("//~ ") {
                Some(text) => expected.entry(*first.get_or_insert(line)).or_default().push(text.to_owned()),
                None => first = None,
            }
        }
        let errors = expected.keys().map(|line| (*line, String::new())).collect();
        Self { expected, errors }
    }

    /// Adds the error in a line of cargo's messages, if it is one, to the mistake in which it is.
    fn add(&mut self, line: &str) -> Result<()> {
        #[derive(Deserialize)]
        struct Line {
            message: Option<Message>,
        }
        #[derive(Deserialize)]
        struct Message {
            level: String,
            rendered: String,
            spans: Vec<Span>,
        }
        #[derive(Deserialize)]
        struct Span {
            file_name: String,
            line_start: usize,
            is_primary: bool,
        }
        let line: Line = serde_json::from_str(line).context("cannot read a message of cargo")?;
        let Some(message) = line.message.filter(|message| message.level == "error") else { return Ok(()) };
        let place = message.spans.iter().find(|span| span.is_primary && span.file_name.ends_with(SOURCE));
        // The last error says how many there are, and is nowhere.
        let Some(place) = place else { return Ok(()) };
        let error = self.errors.range_mut(..place.line_start).next_back();
        let (_, error) =
            error.with_context(|| format!("an error before all mistakes:\n{}", message.rendered))?;
        error.push_str(&message.rendered);
        Ok(())
    }

    /// The errors that lack a text, with the texts.
    fn missing(&self) -> String {
        let mut missing = Vec::new();
        for ((line, error), expected) in self.errors.iter().zip(self.expected.values()) {
            let texts = expected.iter().filter(|text| !error.contains(*text));
            missing.extend(texts.map(|text| format!("{SOURCE}:{line}: {text:?} is not in\n{error}\n")));
        }
        missing.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_belong_to_the_mistakes_above_them() {
        let mut mistakes = Mistakes::read("\n//~ one\n//~ two\nfn a() {}\n\n//~ three\nfn b() {}\n");
        let error = |line: usize, text: &str| {
            format!(
                r#"{{"reason":"compiler-message","message":{{"level":"error","rendered":"{text}","spans":[{{"file_name":"src/lib.rs","line_start":{line},"is_primary":true}}]}}}}"#
            )
        };
        for line in [&error(4, "error: one"), &error(7, "error: three"), r#"{"reason":"build-finished"}"#] {
            mistakes.add(line).unwrap();
        }
        assert_eq!(mistakes.missing(), "src/lib.rs:2: \"two\" is not in\nerror: one\n");
        mistakes.add(&error(4, "two")).unwrap();
        assert_eq!(mistakes.missing(), "");
        assert!(mistakes.add(&error(1, "elsewhere")).is_err());
    }
}
