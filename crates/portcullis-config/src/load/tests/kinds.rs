//! Documents that are no rules.

use super::{FORMATS, findings};
use crate::source::Format;

#[test]
fn descriptors_of_envoy_are_no_rules() {
    for text in ["domain: shop\ndescriptors: []\n", "\"domain\": shop\n", "  descriptors: []\n"] {
        let found = findings(Format::Yaml, text);
        assert!(found.contains("error: these are descriptors of Envoy's rate limit service"), "{found}");
        assert!(found.contains("`portcullis check`") && !found.contains('\n'), "{found}");
    }
    assert_eq!(findings(Format::Yaml, "policy: {}\ndomain: shop\n"), "");
}

#[test]
fn objects_of_kubernetes_are_no_rules() {
    for (format, text) in FORMATS.into_iter().zip([
        "kind = 'ConfigMap'\n[data]\n",
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  limits.toml: |\n    [policy.a]\n",
        "{\"kind\": \"ConfigMap\", \"data\": {}}",
    ]) {
        let found = findings(format, text);
        assert!(
            found.contains("error: kind: this is an object of Kubernetes, a ConfigMap, and not"),
            "{found}"
        );
        assert!(!found.contains('\n'), "{found}");
    }
}

#[test]
fn templates_are_no_rules() {
    for (format, text) in FORMATS.into_iter().zip([
        "[policy.a]\nquota = {{ .Values.quota }}\n",
        "policy:\n  a: {quota: {{ .Values.quota }}}\n",
        "{\"policy\":\n{\"a\": {{ .Values.quota }}}}",
    ]) {
        let found = findings(format, text);
        assert!(found.starts_with("limits:2:"), "{found}");
        assert!(
            found.contains("error: this is a template: \"{{ .Values.quota }}\" is not filled in"),
            "{found}"
        );
    }
    assert!(findings(Format::Yaml, "a: '{{ b }}'\nc: [\n").contains("invalid YAML"));
}
