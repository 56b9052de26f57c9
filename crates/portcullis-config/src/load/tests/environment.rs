use super::{FORMATS, Folder, only, shown};
use crate::load::Loader;
use crate::source::Format;
use crate::tree::Value;

fn with(content: &str) -> super::Loaded {
    Loader::text("limits", Format::Toml, content)
        .environment(|name| match name {
            "LIMIT" => Some("10/s".to_owned()),
            "NUMBER" => Some("42".to_owned()),
            "EMPTY" => Some(String::new()),
            "LARGE" => Some("x".repeat(600 << 10)),
            _ => None,
        })
        .read()
}

#[test]
fn references_are_replaced_by_values_or_defaults() {
    for (written, expected) in [
        ("${LIMIT}", "10/s"),
        ("${LIMIT:-1/s}", "10/s"),
        ("${UNSET:-1/s burst 2}", "1/s burst 2"),
        ("${EMPTY:-1/s}", "1/s"),
        ("${UNSET:-}", ""),
        ("${EMPTY}", ""),
        ("a${LIMIT}b${NUMBER}c", "a10/sb42c"),
        ("$${LIMIT}", "${LIMIT}"),
        ("$$${LIMIT}", "$${LIMIT}"),
        ("$LIMIT $ {x}", "$LIMIT $ {x}"),
        ("${UNSET:-a:-b}", "a:-b"),
    ] {
        let loaded = with(&format!("a = '{written}'"));
        let entry = only(&loaded).get("a").unwrap();
        assert_eq!(entry.node.value, Value::String(expected.to_owned()), "{written}");
    }
}

#[test]
fn names_are_not_replaced() {
    assert!(only(&with("'${LIMIT}' = 1")).get("${LIMIT}").is_some());
}

#[test]
fn only_a_whole_value_may_be_a_number() {
    let loaded = with("a = '${NUMBER}'\nb = '${NUMBER} '\nc = '42'\nd = '${NO:-7}'");
    let document = only(&loaded);
    let is_free = |field| document.get(field).unwrap().node.from_environment;
    assert!(is_free("a") && !is_free("b") && !is_free("c") && is_free("d"));
}

#[test]
fn unset_and_bad_references_name_their_place() {
    let loaded = with("[p]\na = ['x ${UNSET} ${TOO}']\nb = '${1X}'\nc = 'ü ${LIMIT'");
    assert_eq!(
        shown(&loaded),
        "limits:2:9: error: p.a[0]: the environment variable UNSET is not set \
         (help: set it, or give a default: ${UNSET:-default})\n\
         limits:2:18: error: p.a[0]: the environment variable TOO is not set \
         (help: set it, or give a default: ${TOO:-default})\n\
         limits:3:6: error: p.b: \"${1X}\" is no reference to an environment variable \
         (help: write ${NAME} or ${NAME:-default}, and $${ for a literal ${)\n\
         limits:4:8: error: p.c: \"${LIMIT\" is no reference to an environment variable \
         (help: write ${NAME} or ${NAME:-default}, and $${ for a literal ${)"
    );
}

#[test]
fn replaced_texts_are_bounded() {
    let loaded = with("a = '${LARGE}'\nb = '${LARGE}'");
    assert_eq!(shown(&loaded), "limits:2:5: error: b: the texts with their variables have more than 1 MiB");
}

#[test]
fn references_stay_where_there_is_no_environment() {
    for (format, content) in FORMATS.into_iter().zip(["a = '${X'", "a: '${X'", "{\"a\": \"${X\"}"]) {
        let loaded = Loader::text("limits", format, content).without_environment().read();
        assert_eq!(only(&loaded).get("a").unwrap().node.value, Value::String("${X".to_owned()));
    }
}

#[test]
fn the_environment_of_the_process_is_the_default() {
    let loaded = Loader::text("limits", Format::Toml, "a = '${CARGO_PKG_NAME:-none}'").read();
    let expected = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "none".to_owned());
    assert_eq!(only(&loaded).get("a").unwrap().node.value, Value::String(expected));
}

/// Every way in which a message may show a value, whole or in parts.
#[test]
fn messages_name_variables_in_place_of_values() {
    const POLICY: &str = "[policy.a]\nstrategy = 'fixed_window'\n";
    for (value, text) in [
        ("hunter2-horse", format!("{POLICY}quota = '${{SECRET}}'\nkey = 'client_ip'")),
        ("10/hunter2", format!("{POLICY}quota = '${{SECRET}}'\nkey = 'client_ip'")),
        ("hunter2", format!("{POLICY}quota = '10/${{SECRET}}'\nkey = 'client_ip'")),
        ("hunter2", format!("{POLICY}quota = '1/s'\nkey = {{ header = 'x ${{SECRET}}' }}")),
        ("Hunter2", format!("{POLICY}quota = '1/s'\nkey = '${{SECRET}}'")),
        ("hunter2", format!("{POLICY}quota = '1/s'\nkey = 'client_ip'\ncost = '${{SECRET}}'")),
        ("hunter2", format!("{POLICY}quota = '1/s'\nkey = 'client_ip'\nmatch = {{ path = '${{SECRET}}' }}")),
        ("hunter2", format!("{POLICY}quota = '1/s'\nkey = 'client_ip'\nmode = '${{SECRET}}'")),
        (
            "hunter2",
            format!(
                "{POLICY}quota = '1/s'\nkey = 'client_ip'\n[client_ip]\ntrusted_proxies = ['${{SECRET}}']\nheader = 'forwarded'"
            ),
        ),
        (
            "hunter2hunter2 ",
            format!(
                "{POLICY}quota = '${{SECRET}}${{SECRET}}${{SECRET}}${{SECRET}}${{SECRET}}'\nkey = 'client_ip'"
            ),
        ),
    ] {
        let of_secret = move |name: &str| (name == "SECRET").then(|| value.to_owned());
        let loader = Loader::text("limits", Format::Toml, text.clone()).environment(of_secret);
        let errors = crate::Rules::load(&loader).expect_err(&text).to_string();
        assert!(!errors.to_lowercase().contains("hunter2"), "{text}\n{errors}");
        assert!(errors.contains("${SECRET}"), "{text}\n{errors}");
    }
}

#[test]
fn includes_name_variables_in_place_of_values() {
    for secret in ["hunter2", "hunter2\t\u{1b}x"] {
        let folder = Folder::new(&[(
            "limits.toml",
            "include = ['dir/${SECRET}.toml', '${SECRET}', '${SECRET}/*.toml']",
        )]);
        let of_secret = move |name: &str| (name == "SECRET").then(|| secret.to_owned());
        let loaded = Loader::file(folder.0.join("limits.toml")).environment(of_secret).read();
        let errors = shown(&loaded);
        assert!(!errors.contains("hunter2") && errors.contains("${SECRET}"), "{errors}");
    }
}

#[test]
fn defaults_are_shown() {
    let text = "[policy.a]\nstrategy = 'fixed_window'\nquota = '${UNSET:-10/fortnight}'\nkey = 'client_ip'";
    let loader = Loader::text("limits", Format::Toml, text).environment(|_| None);
    let errors = crate::Rules::load(&loader).unwrap_err().to_string();
    assert!(errors.contains("fortnight"), "{errors}");
}
