//! Does what the first chapters of the book say, in a folder of its own for each: their commands print what the pages show, and
//! their code is that of the programs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod console;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use console::Console;

/// A page, and the program that a reader has after it.
struct Chapter {
    page: &'static str,
    program: &'static str,
    binary: &'static str,
}

macro_rules! chapter {
    ($page:literal, $program:literal) => {
        Chapter { page: $page, program: $program, binary: env!(concat!("CARGO_BIN_EXE_", $program)) }
    };
}

const CHAPTERS: [Chapter; 6] = [
    chapter!("first-limit", "first-limit"),
    chapter!("identity", "each-user"),
    chapter!("redis", "one-limit-for-all"),
    chapter!("rules", "limits-in-a-file"),
    chapter!("metrics", "live-page"),
    chapter!("stream", "token-stream"),
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Chapter {
    fn text(&self) -> String {
        fs::read_to_string(repository().join(format!("docs/start/{}.md", self.page))).unwrap()
    }

    fn source(&self) -> String {
        let name = format!("src/bin/{}.rs", self.program);
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
    }

    /// Blocks of code with what follows their fences.
    fn blocks(&self) -> Vec<(String, String)> {
        let text = self.text();
        let mut parts = text.split("```").skip(1);
        let mut blocks = Vec::new();
        while let Some(block) = parts.next() {
            let (kind, body) = block.split_once('\n').unwrap();
            blocks.push((kind.to_owned(), body.to_owned()));
            parts.next();
        }
        blocks
    }

    /// What the page shows of its program, without the whole of it that the book includes.
    fn shown(&self) -> Vec<String> {
        let blocks = self.blocks().into_iter().filter(|(kind, _)| kind.starts_with("rust"));
        blocks.map(|(_, body)| body).filter(|body| !body.contains("{{#include")).collect()
    }

    /// Runs all commands of the page, with the rules of the pages up to this one.
    fn run(&self) {
        let mut console = Console::new(self.page, self.binary);
        let before = CHAPTERS.iter().take_while(|chapter| chapter.page != self.page);
        let rules: Vec<_> = before.chain([self]).flat_map(Self::rules).collect();
        if !rules.is_empty() {
            console.write("limits.toml", &rules.join("\n"));
        }
        for earlier in CHAPTERS.iter().take_while(|chapter| chapter.page != self.page) {
            let blocks = earlier.blocks().into_iter();
            blocks.filter(|(kind, _)| kind == "console").for_each(|(_, body)| console.remember(&body));
        }
        let mut count = 0;
        for (kind, body) in self.blocks() {
            match &*kind {
                "console" => count += console.run(&body),
                "text" => console.await_log(&body),
                _ => {}
            }
        }
        assert!(count > 2, "{}: {count} commands", self.page);
    }

    fn rules(&self) -> Vec<String> {
        let blocks = self.blocks().into_iter();
        blocks
            .filter(|(kind, body)| kind == "toml" && body.contains("[policy."))
            .map(|(_, body)| body)
            .collect()
    }
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

#[test]
fn code_of_pages_is_in_their_programs() {
    for chapter in &CHAPTERS {
        let source = chapter.source();
        let source = lines(&source);
        for block in chapter.shown() {
            // Imports are sorted among those that the program has already. A comment of three dots stands for what is left out.
            let (imports, code): (Vec<_>, Vec<_>) =
                lines(&block).into_iter().partition(|line| line.starts_with("use "));
            for import in imports {
                assert!(source.contains(&import), "{} has no {import}", chapter.program);
            }
            let source: Vec<_> = source.iter().copied().filter(|line| !line.starts_with("use ")).collect();
            for part in code.split(|line| *line == "// ...") {
                let found = part.is_empty() || source.windows(part.len()).any(|window| window == part);
                assert!(found, "{} has no\n{}", chapter.program, part.join("\n"));
            }
        }
    }
}

/// So the changes of a page make of the program before it the one that follows.
#[test]
fn pages_show_each_line_that_is_new() {
    let mut before = String::new();
    for chapter in &CHAPTERS {
        let (source, shown) = (chapter.source(), chapter.shown().concat());
        let known: HashSet<_> = lines(&before).into_iter().chain(lines(&shown)).collect();
        let new = lines(&source).into_iter().filter(|line| !line.starts_with("//"));
        let missing: Vec<_> = new.filter(|line| !known.contains(line)).collect();
        assert!(missing.is_empty(), "{} does not show\n{}", chapter.page, missing.join("\n"));
        before = source;
    }
}

#[test]
fn pages_include_their_programs_and_lead_to_the_next() {
    for (index, chapter) in CHAPTERS.iter().enumerate() {
        let text = chapter.text();
        let include = format!("{{{{#include ../../examples/start/src/bin/{}.rs}}}}", chapter.program);
        assert!(index == 0 || text.contains(&include), "{}: no {include}", chapter.page);
        let command = format!("cargo run --bin {}", chapter.program);
        assert!(text.contains(&command), "{}: no {command}", chapter.page);
        if let Some(next) = CHAPTERS.get(index + 1) {
            assert!(text.contains(&format!("({}.md)", next.page)), "{}: no link to the next", chapter.page);
        }
    }
}

#[test]
fn file_has_the_rules_of_the_pages() {
    let file = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("limits.toml")).unwrap();
    let pages: Vec<_> = CHAPTERS.iter().flat_map(Chapter::rules).collect();
    assert_eq!(lines(&file), lines(&pages.concat()));
}

#[test]
fn first_limit() {
    CHAPTERS[0].run();
}

#[test]
fn identity() {
    CHAPTERS[1].run();
}

#[test]
fn redis() {
    CHAPTERS[2].run();
}

#[test]
fn rules() {
    CHAPTERS[3].run();
}

#[test]
fn metrics() {
    CHAPTERS[4].run();
}

#[test]
fn stream() {
    CHAPTERS[5].run();
}
