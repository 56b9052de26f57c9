use super::{Folder, names, shown, text};
use crate::source::Format;

#[test]
fn includes_are_sorted_and_relative_to_their_file() {
    let folder = Folder::new(&[
        ("limits.toml", "include = ['d/*.toml', 'more.yaml']\na = 1"),
        ("d/2.toml", "include = '../e/x.json'"),
        ("d/10.toml", ""),
        ("d/.hidden.toml", "broken"),
        ("d/readme.md", ""),
        ("e/x.json", "{}"),
        ("more.yaml", "b: 1"),
    ]);
    let loaded = folder.load("limits.toml");
    assert_eq!(folder.shown(&loaded), "");
    assert_eq!(
        names(&loaded, &folder),
        ["limits.toml", "d/10.toml", "d/2.toml", "d/../e/x.json", "more.yaml"]
    );
    assert_eq!(loaded.documents.len(), 5);
    assert!(loaded.documents.iter().all(|document| document.get("include").is_none()));
    assert_eq!(loaded.files.len(), 5);
    assert_eq!(loaded.folders, [folder.0.join("d")]);
}

#[test]
fn characters_of_the_folder_are_no_pattern() {
    let folder = Folder::new(&[("[a]*/limits.toml", "include = '?.toml'"), ("[a]*/b.toml", "")]);
    let loaded = folder.load("[a]*/limits.toml");
    assert_eq!(folder.shown(&loaded), "");
    assert_eq!(loaded.documents.len(), 2);
}

#[test]
fn cycles_name_both_places() {
    let folder = Folder::new(&[
        ("a.toml", "include = ['b.toml']"),
        ("b.toml", "x = 1\ninclude = ['c.toml', './a.toml']"),
        ("c.toml", "include = 'b.toml'"),
    ]);
    let loaded = folder.load("a.toml");
    assert_eq!(
        folder.shown(&loaded),
        "b.toml:2:22: error: include[1]: ./a.toml includes itself: it is the file that was loaded\n\
         c.toml:1:11: error: include: b.toml includes itself: it is being read because of a.toml:1:12"
    );
    assert_eq!(loaded.documents.len(), 3);
}

#[test]
fn duplicates_name_both_places() {
    let folder = Folder::new(&[("a.toml", "include = ['*.yaml',\n 'b.yaml']"), ("b.yaml", "")]);
    assert_eq!(
        folder.shown(&folder.load("a.toml")),
        "a.toml:2:2: error: include[1]: b.yaml is included twice, first at a.toml:1:12"
    );
}

#[test]
fn a_pattern_without_files_is_a_warning() {
    let folder = Folder::new(&[("a.toml", "include = ['d/*.toml']")]);
    let loaded = folder.load("a.toml");
    assert_eq!(folder.shown(&loaded), "a.toml:1:12: warning: include[0]: no file matches \"d/*.toml\" in d");
    assert_eq!(loaded.folders, [folder.0.join("d")]);
}

#[test]
fn missing_files_are_errors_and_are_watched() {
    let folder = Folder::new(&[("a.toml", "include = ['b.toml', 'd.txt', '', 1, 'x/**/*.toml', '[']")]);
    let loaded = folder.load("a.toml");
    assert_eq!(
        folder.shown(&loaded),
        "a.toml:1:12: error: include[0]: b.toml cannot be read: No such file or directory (os error 2)\n\
         a.toml:1:22: error: include[1]: d.txt: the end of the name gives no format \
         (help: name it .toml, .yaml, .yml or .json)\n\
         a.toml:1:31: error: include[2]: an empty path\n\
         a.toml:1:35: error: include[3]: expected paths of files, not a number \
         (help: include = [\"limits.d/*.toml\"])\n\
         a.toml:1:38: error: include[4]: \"x/**/*.toml\" looks into folders of any depth \
         (help: name the folders: \"limits.d/*/*.toml\")\n\
         a.toml:1:53: error: include[5]: invalid pattern \"[\": invalid range pattern"
    );
    assert!(loaded.files.contains(&folder.0.join("b.toml")));
    let loaded = folder.load("none.toml");
    assert_eq!(
        folder.shown(&loaded),
        "error: none.toml cannot be read: No such file or directory (os error 2)"
    );
    assert_eq!(loaded.files, [folder.0.join("none.toml")]);
}

#[test]
fn texts_include_nothing() {
    assert_eq!(
        shown(&text(Format::Toml, "include = 'x.toml'")),
        "limits:1:11: error: include: a text that is no file cannot include files"
    );
}

#[test]
fn mistakes_of_all_files_are_reported_together() {
    let folder = Folder::new(&[
        ("a.toml", "include = ['*.yaml', '*.json']\nx = 1\nx = 2"),
        ("b.yaml", "a: ["),
        ("c.json", "{"),
    ]);
    let shown = folder.shown(&folder.load("a.toml"));
    let places: Vec<_> = shown.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["a.toml:3:1", "b.yaml:1:5", "c.json:1:1"]);
}

#[test]
fn bytes_that_are_not_utf8_name_their_place() {
    let folder = Folder::new(&[]);
    folder.write("a.toml", b"a = '\xc3\xa9\xff'");
    assert_eq!(
        folder.shown(&folder.load("a.toml")),
        "a.toml:1:7: error: a byte that is not UTF-8 (help: save the file as UTF-8)"
    );
}

#[test]
fn folders_and_pipes_are_no_files() {
    let folder = Folder::new(&[("d.toml/x", "")]);
    assert_eq!(folder.shown(&folder.load("d.toml")), "error: d.toml cannot be read: it is no file");
}

/// A read of a pipe without a writer would never end.
#[cfg(unix)]
#[test]
fn named_pipes_are_no_files() {
    let folder = Folder::new(&[("a.toml", "include = ['pipe.toml', 'd/*.yaml']"), ("d/b.yaml", "x: 1")]);
    for pipe in ["pipe.toml", "d/pipe.yaml"] {
        let made = std::process::Command::new("mkfifo").arg(folder.0.join(pipe)).status();
        assert!(made.unwrap().success());
    }
    assert_eq!(folder.shown(&folder.load("pipe.toml")), "error: pipe.toml cannot be read: it is no file");
    let loaded = folder.load("a.toml");
    assert_eq!(
        folder.shown(&loaded),
        "a.toml:1:12: error: include[0]: pipe.toml cannot be read: it is no file\n\
         a.toml:1:25: error: include[1]: d/pipe.yaml cannot be read: it is no file"
    );
    assert_eq!(loaded.documents.len(), 2);
}
