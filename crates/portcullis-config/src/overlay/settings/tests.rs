use crate::{Format, Loader, Rules};

#[test]
fn a_program_without_the_feature_refuses_the_table() {
    let key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    let file = format!("[remote]\nverify_key = '{key}'\nallow = ['limits']\n");
    let findings = Rules::load(&Loader::text("limits.toml", Format::Toml, file)).unwrap_err().to_string();
    let lines: Vec<_> = findings.lines().collect();
    assert!(lines[0].starts_with("limits.toml:1:2: error: remote: "), "{findings}");
    assert!(lines[0].contains("without the feature `signed`"), "{findings}");
    assert!(lines[1].contains("did you mean \"limit\"?"), "{findings}");
    assert_eq!(lines.len(), 2, "{findings}");
}
