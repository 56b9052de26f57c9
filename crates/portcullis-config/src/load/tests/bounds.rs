use std::fmt::Write;

use super::{FORMATS, Folder, findings, only, shown, text};
use crate::load::{Loader, MAX_FILE};
use crate::source::Format;

const TOO_DEEP: &str = "more than 32 lists and tables inside each other";

#[test]
fn files_have_at_most_one_mebibyte() {
    let mut content = "#".repeat(MAX_FILE);
    let folder = Folder::new(&[("a.toml", &content)]);
    assert_eq!(folder.shown(&folder.load("a.toml")), "");
    assert_eq!(findings(Format::Toml, &content), "");
    content.push('#');
    folder.write("a.toml", content.as_bytes());
    assert_eq!(folder.shown(&folder.load("a.toml")), "error: a.toml cannot be read: it has more than 1 MiB");
    assert_eq!(findings(Format::Toml, &content), "error: limits cannot be read: it has more than 1 MiB");
}

#[test]
fn at_most_64_files_are_read() {
    let folder = Folder::new(&[("a.toml", "include = 'd/*.toml'")]);
    for number in 0..63 {
        folder.write(&format!("d/{number}.toml"), b"");
    }
    let loaded = folder.load("a.toml");
    assert_eq!((folder.shown(&loaded), loaded.documents.len()), (String::new(), 64));
    folder.write("d/more.toml", b"");
    let loaded = folder.load("a.toml");
    assert_eq!(folder.shown(&loaded), "a.toml:1:11: error: include: more than 64 files");
    assert_eq!(loaded.documents.len(), 64);
}

#[test]
fn patterns_look_at_a_bounded_number_of_entries() {
    let folder = Folder::new(&[("a.toml", "x = 1\ninclude = ['d/*.toml', 'e/*/*.toml']"), ("d/x.toml", "")]);
    for number in 1..2_500 {
        folder.write(&format!("d/{number}.txt"), b"");
    }
    folder.write("e/1/x.toml", b"");
    // 2 500 in d, one in e, and 2 499 below it.
    for number in 1..2_499 {
        folder.write(&format!("e/1/{number}.txt"), b"");
    }
    let loaded = folder.load("a.toml");
    assert_eq!((folder.shown(&loaded), loaded.documents.len()), (String::new(), 3));
    folder.write("e/1/more.txt", b"");
    assert_eq!(
        folder.shown(&folder.load("a.toml")),
        "a.toml:2:24: error: include[1]: the folders of \"e/*/*.toml\" have more than 5000 entries \
         (help: keep the files of rules in a folder of their own)"
    );
}

#[test]
fn a_bounded_number_of_includes_is_tried() {
    let includes: Vec<_> = (0..1_200).map(|number| format!("'{number}.toml'")).collect();
    let includes = includes.join(", ");
    let folder = Folder::new(&[("a.toml", &format!("include = [{includes}]"))]);
    let loaded = folder.load("a.toml");
    assert_eq!(loaded.files.len(), 1_000);
    assert!(folder.shown(&loaded).starts_with("error: there are more findings"));
    let same = "'a.toml', ".repeat(100_000);
    folder.write("b.toml", format!("include = [{same}]").as_bytes());
    assert_eq!(folder.load("b.toml").documents.len(), 2);
}

/// Lists inside each other as the value of a field.
fn nested(format: Format, lists: usize) -> String {
    let list = "[".repeat(lists) + &"]".repeat(lists);
    match format {
        Format::Toml => format!("a = {list}"),
        Format::Yaml => format!("a: {list}"),
        Format::Json => format!("{{\"a\": {list}}}"),
    }
}

#[test]
fn depth_is_at_most_32() {
    for format in FORMATS {
        // The table of the document counts.
        let loaded = text(format, &nested(format, 31));
        only(&loaded);
        for lists in [32, 40, 70] {
            let shown = findings(format, &nested(format, lists));
            assert!(shown.ends_with(TOO_DEEP), "{format:?} {shown}");
            assert_eq!(shown.lines().count(), 1, "{format:?}");
        }
    }
}

/// Documents that make parsers recurse as deeply as they do.
#[test]
fn deep_documents_do_not_exhaust_the_stack() {
    let half = MAX_FILE / 2;
    let mut by_line = String::new();
    let mut indentation = 0;
    while by_line.len() + indentation + 100 < MAX_FILE {
        let _ = writeln!(by_line, "{}{}", " ".repeat(indentation), "- ".repeat(32));
        indentation += 64;
    }
    let mut by_column = String::new();
    let mut indentation = 0;
    while by_column.len() + indentation + 100 < MAX_FILE {
        let _ = writeln!(by_column, "{}a:", " ".repeat(indentation));
        indentation += 1;
    }
    let mut aliases = String::from("a0: &a0 x\n");
    for number in 1..500 {
        let brackets = 240;
        let _ = writeln!(
            aliases,
            "a{number}: &a{number} {}*a{}{}",
            "[".repeat(brackets),
            number - 1,
            "]".repeat(brackets)
        );
    }
    let mut dotted = String::new();
    for _ in 0..75 {
        dotted.push_str(&"a.".repeat(78));
        dotted.push_str("a = {");
    }
    for (format, content) in [
        (Format::Yaml, "- ".repeat(half)),
        (Format::Yaml, "? ".repeat(half)),
        (Format::Yaml, "-\t".repeat(half)),
        (Format::Yaml, "- ? ".repeat(half / 2)),
        (Format::Yaml, "[".repeat(half)),
        (Format::Yaml, "{a: ".repeat(half / 2)),
        (Format::Yaml, "a: ".repeat(half / 2)),
        (Format::Yaml, "!a ".repeat(half / 2)),
        (Format::Yaml, by_line),
        (Format::Yaml, by_column),
        (Format::Yaml, aliases),
        (Format::Json, "[".repeat(half)),
        (Format::Json, "{\"a\":".repeat(half / 3)),
        (Format::Json, "[".repeat(half) + &"]".repeat(half)),
        (Format::Json, format!("{}1{}", "{\"a\":".repeat(half / 3), "}".repeat(half / 3))),
        (Format::Yaml, "[".repeat(half) + &"]".repeat(half)),
        (Format::Toml, format!("a = {}{}", "[".repeat(half - 2), "]".repeat(half - 2))),
        (Format::Toml, format!("a = {}", "[".repeat(half))),
        (Format::Toml, "a.".repeat(half)),
        (Format::Toml, format!("[{}a]", "a.".repeat(half - 10))),
        (Format::Toml, format!("{dotted}{}", "}".repeat(75))),
    ] {
        assert_ne!(findings(format, &content), "", "{format:?} {}", &content[..20]);
    }
}

#[test]
fn aliases_are_bounded() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for number in 1..10 {
        let before = format!("*a{}, ", number - 1).repeat(10);
        let _ = writeln!(bomb, "a{number}: &a{number} [{before}]");
    }
    assert!(findings(Format::Yaml, &bomb).contains("alias expansion exceeded"));
}

#[test]
fn messages_are_bounded() {
    let long = "x".repeat(100_000);
    for (format, content) in [
        (
            Format::Toml,
            format!(
                "a = '${{{long}}}'\n{long} = 1\n{long} = 2\ninclude = '{long}.toml'\n[{long}.b]\nc = '${{'"
            ),
        ),
        (Format::Yaml, format!("a: !{long} x\n{long}: 1\n{long}: 2")),
        (Format::Json, format!("{{\"{long}\": 1, \"{long}\": \"${{{long}\"}}")),
    ] {
        let loaded = text(format, &content);
        assert!(!loaded.findings.is_empty());
        for finding in &loaded.findings {
            assert!(finding.message.len() + finding.field.len() <= 1006, "{}", finding.message.len());
        }
    }
}

#[test]
fn findings_are_bounded() {
    let loaded = Loader::text("limits", Format::Toml, "a = '${X'\nb = 1\nb = 2\n").read();
    assert_eq!(shown(&loaded).lines().count(), 2);
    let many = (0..500).fold(String::new(), |mut all, number| {
        let _ = writeln!(all, "a{number} = '${{X'");
        all
    });
    let shown = findings(Format::Toml, &many);
    assert_eq!(shown.lines().count(), 100);
    assert!(shown.starts_with("error: there are more findings, which are listed when these are mended\n"));
}

#[test]
fn what_is_too_deep_in_json_is_skipped_as_a_whole() {
    let deep = format!(r#"{}{{"]": "\\\"]}}", "b": ["}}"]}}{}"#, "[".repeat(40), "]".repeat(40));
    let loaded = text(Format::Json, &format!(r#"{{"a": {deep}, "b": 7}}"#));
    assert_eq!(loaded.findings.len(), 1, "{:?}", loaded.findings);
    assert!(loaded.findings[0].message.contains("more than 32 lists and tables"));
    assert_eq!(
        loaded.documents[0].get("b").map(|entry| entry.node.value.clone()),
        Some(crate::tree::Value::Integer(7))
    );
}
