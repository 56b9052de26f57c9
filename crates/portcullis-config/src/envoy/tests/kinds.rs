//! Files that are recognised by what is in them, and those that are no descriptors.

use super::mistakes;
use crate::envoy::Descriptors;
use crate::load::Folder;

#[test]
fn descriptor_files_are_recognised_by_their_fields() {
    for (name, text, expected) in [
        ("a.yaml", "domain: d\ndescriptors: []\n", true),
        ("a.yaml", "\u{feff}domain: d\n", true),
        ("a.yaml", "---\n  domain: d\n  descriptors: []\n", true),
        ("a.yaml", "\"domain\": d\n", true),
        ("a.yaml", "{domain: d}", true),
        ("a.yaml", "domain:\td\n", true),
        ("a.yaml", "domain : d\n", true),
        ("a.yaml", "? domain\n: d\n", true),
        ("a.yaml", "descriptors:\n- key: a\n", true),
        ("a.yaml", "domain: d\nbroken\n", true),
        ("a.yaml", "x: {domain: d}\ny: [domain, e]\nz: &z 1\n*z : 2\ndomain: d\n", true),
        ("a.json", "{\n\t\"domain\": \"d\",\n\t\"descriptors\": []\n}", true),
        ("a", "domain: d", true),
        ("a.conf", "domain: d", true),
        ("a.yaml", "policy:\n  a:\n    domain: d\n", false),
        ("a.yaml", "text: |\n  x\ndomains: d\n", false),
        ("a.yaml", "a: domain\n", false),
        ("a.yaml", "- domain\n", false),
        ("a.yaml", "a: 1\n---\ndomain: d\n", false),
        ("a.yaml", "", false),
        ("a.toml", "domain = 'd'", false),
    ] {
        let folder = Folder::new(&[(name, text)]);
        assert_eq!(Descriptors::is_file(&folder.path(name)), expected, "{name} {text:?}");
    }
    assert!(!Descriptors::is_file("no-such-file.yaml".as_ref()));
}

#[test]
fn objects_of_kubernetes_are_named() {
    let object = "apiVersion: v1\nkind: ConfigMap\ndata:\n  shop.yaml: |\n    domain: shop\n";
    assert_eq!(
        mistakes(object),
        "test.yaml:2:7: error: kind: this is an object of Kubernetes, a ConfigMap, and not the file that limits are read from \
         (help: write the text that is below its `data` into a file of its own, or give the path at which a pod mounts it)"
    );
    assert!(mistakes("kind: ConfigMap\ndomain: d\n").contains("unknown field `kind`"));
}

#[test]
fn templates_are_named() {
    for (line, text) in [
        (3, "domain: d\ndescriptors:\n- key: {{ .Values.key }}\n  value: x\n"),
        (1, "{{- if .Values.limits }}\ndomain: d\n{{- end }}\n"),
        (1, "domain: {{ .Values.domain }}-x\ndescriptors: []\n"),
        (1, "domain: {{ d }}\n"),
    ] {
        let found = mistakes(text);
        assert!(found.starts_with(&format!("test.yaml:{line}:")), "{found}");
        assert!(found.contains("error: this is a template: \"{{") && !found.contains('\n'), "{found}");
    }
    // These are texts.
    for text in ["domain: '{{ d }}'\nx: [\n", "domain: d # {{ d }}\nx: [\n"] {
        assert!(mistakes(text).contains("not valid YAML"), "{text}");
    }
}
