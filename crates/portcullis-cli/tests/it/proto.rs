//! `portcullis proto` as a process.

use std::fs;

use portcullis_rls::PROTO_FILES;

use crate::rules::{Folder, portcullis};

#[test]
fn proto_files_are_printed_and_written() {
    let folder = Folder::new("proto");
    let (code, printed, error) = portcullis(&["proto"]);
    assert_eq!((code, error.as_str()), (0, ""));
    let target = folder.path("protos");
    for _ in 0..2 {
        let (code, written, error) = portcullis(&["proto", &target]);
        assert_eq!((code, error.as_str()), (0, ""));
        assert_eq!(written.lines().count(), PROTO_FILES.len());
        for (path, text) in PROTO_FILES {
            assert!(printed.contains(&format!("// {path}\n{text}")), "{path}");
            assert_eq!(fs::read_to_string(format!("{target}/{path}")).unwrap(), text);
            assert!(written.contains(path), "{written}");
        }
    }
}

#[test]
fn changed_proto_file_is_not_replaced() {
    let folder = Folder::new("proto-changed");
    let file = folder.path(PROTO_FILES[0].0);
    fs::create_dir_all(std::path::Path::new(&file).parent().unwrap()).unwrap();
    fs::write(&file, "mine").unwrap();
    let (code, _, error) = portcullis(&["proto", &folder.path("")]);
    assert!(code == 2 && error.contains("has another text") && error.contains(PROTO_FILES[0].0), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}
