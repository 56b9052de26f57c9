//! The files of a folder.

use crate::envoy::{Descriptors, Files, Loader, MAX_FILES, MAX_FOLDERS};
use crate::load::Folder;

/// The domains of the files at a path, sorted.
fn domains(folder: &Folder) -> Result<Vec<String>, String> {
    let loaded = Loader::new().load_path(&Files::at(folder.path("")));
    let descriptors = loaded.map_err(|found| found.to_string())?;
    let mut domains: Vec<_> = descriptors.domains().map(ToOwned::to_owned).collect();
    domains.sort();
    assert_eq!(descriptors.files(), domains.len());
    Ok(domains)
}

#[test]
fn all_files_of_folders_are_read() {
    let folder = Folder::new(&[
        ("a.yaml", "domain: a"),
        ("b.yml", "domain: b"),
        ("c.json", "{\"domain\": \"c\", \"descriptors\": []}"),
        ("d", "domain: d"),
        ("sub/e.yaml", "domain: e"),
        ("sub/deep/f.conf", "domain: f"),
        (".a.yaml.swp", "no \0 text"),
        (".git/config", "[core]"),
        ("sub/.hidden.yaml", "domain: a"),
    ]);
    assert_eq!(domains(&folder), Ok(["a", "b", "c", "d", "e", "f"].map(String::from).to_vec()));
    let single = Files::at(folder.path("a.yaml"));
    assert_eq!(single.paths(), [folder.path("a.yaml")]);
}

#[test]
fn folders_without_files_have_no_limits() {
    let folder = Folder::new(&[(".keep", "")]);
    assert_eq!(domains(&folder), Ok(Vec::new()));
}

#[test]
fn other_files_of_folders_are_mistakes() {
    let folder = Folder::new(&[("a.yaml", "domain: a"), ("a.yaml~", "domain: a"), ("README", "Read me.")]);
    let found = domains(&folder).unwrap_err();
    assert!(found.contains("README:1:1: error: expected the fields of a domain"), "{found}");
    assert!(found.contains("a.yaml~"), "{found}");
}

#[test]
fn nesting_of_folders_is_bounded() {
    let deepest = "d/".repeat(MAX_FOLDERS - 1);
    let folder = Folder::new(&[(&format!("{deepest}a.yaml"), "domain: a")]);
    assert_eq!(domains(&folder), Ok(vec!["a".to_owned()]));
    let folder = Folder::new(&[(&format!("{deepest}d/a.yaml"), "domain: a")]);
    let found = domains(&folder).unwrap_err();
    assert!(found.contains("folders are nested more than 16 deep"), "{found}");
}

#[test]
fn number_of_files_is_bounded() {
    let names: Vec<_> = (0..MAX_FILES + 5).map(|index| format!("{index}.yaml")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), "domain: a")).collect();
    let folder = Folder::new(&files);
    assert_eq!(Files::at(folder.path("")).paths().len(), MAX_FILES + 1);
    let found = Loader::new().merge_domains(true).load_path(&Files::at(folder.path(""))).unwrap_err();
    assert!(found.to_string().contains("there are more than 1000 files"), "{found}");
}

#[cfg(unix)]
mod links {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A mounted `ConfigMap`: links to files below a link to a folder, which is replaced as a whole.
    #[test]
    fn files_of_kubernetes_are_read_once() {
        let folder = Folder::new(&[
            ("..2026_01_01/shop.yaml", "domain: old"),
            ("..2026_01_02/shop.yaml", "domain: new"),
        ]);
        symlink("..2026_01_01", folder.path("..data")).unwrap();
        symlink("..data/shop.yaml", folder.path("shop.yaml")).unwrap();
        assert_eq!(domains(&folder), Ok(vec!["old".to_owned()]));
        symlink("..2026_01_02", folder.path("..data_tmp")).unwrap();
        std::fs::rename(folder.path("..data_tmp"), folder.path("..data")).unwrap();
        assert_eq!(domains(&folder), Ok(vec!["new".to_owned()]));
    }

    #[test]
    fn locks_of_editors_are_left_out() {
        let folder = Folder::new(&[("a.yaml", "domain: a")]);
        symlink("ada@host.1234:5678", folder.path(".#a.yaml")).unwrap();
        assert_eq!(domains(&folder), Ok(vec!["a".to_owned()]));
        symlink("no-such-file", folder.path("b.yaml")).unwrap();
        assert!(domains(&folder).unwrap_err().contains("b.yaml cannot be read"));
    }

    #[test]
    fn links_to_folders_are_not_followed() {
        let folder = Folder::new(&[("a.yaml", "domain: a")]);
        symlink(".", folder.path("loop")).unwrap();
        let loaded = Loader::new().load_path(&Files::at(folder.path(""))).unwrap();
        assert_eq!(loaded.files(), 1);
        assert!(loaded.warnings().to_string().contains("loop is a link to a folder, which is not read"));
    }
}

#[test]
fn missing_paths_are_mistakes() {
    let found = Loader::new().load_path(&Files::at("no-such-folder")).unwrap_err();
    assert!(found.to_string().contains("no-such-folder cannot be read"), "{found}");
    assert!(Descriptors::from_files(&["no-such-folder"]).is_err());
}
