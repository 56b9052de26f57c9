use http::StatusCode;

use super::*;

/// The hash that a browser computes of `abc`, as in FIPS 180-2.
#[test]
fn hashes_are_those_of_a_content_security_policy() {
    assert_eq!(hash("abc"), "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
}

#[test]
fn the_policy_allows_one_style_and_one_script_by_hash() {
    let page = "<!-- x --><style>a{}</style><p>text</p><script>f()</script>";
    let policy = content_security_policy(page);
    assert!(
        policy.starts_with(&format!(
            "default-src 'none'; script-src '{}'; style-src '{}'; ",
            hash("f()"),
            hash("a{}")
        )),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
}

#[test]
fn the_page_is_static_and_not_stored() {
    let page = page();
    assert_eq!(page.status(), StatusCode::OK);
    let header = |name| page.headers()[name].to_str().unwrap();
    assert_eq!(header(CACHE_CONTROL), "no-store");
    assert_eq!(header(CONTENT_TYPE), "text/html; charset=utf-8");
    assert_eq!(header(X_CONTENT_TYPE_OPTIONS), "nosniff");
    assert_eq!(header(REFERRER_POLICY), "no-referrer");
    assert_eq!(header(CONTENT_SECURITY_POLICY), content_security_policy(PAGE));
    assert!(header(CONTENT_SECURITY_POLICY).contains("frame-ancestors 'none'"));
}

/// A hash is of one element only: the policy would forbid a second.
#[test]
fn the_page_has_one_style_and_one_script() {
    for name in ["style", "script"] {
        assert_eq!(PAGE.matches(&format!("<{name}")).count(), 1, "{name}");
        assert_eq!(PAGE.matches(&format!("</{name}>")).count(), 1, "{name}");
    }
    assert!(!PAGE.contains('\r'), "a browser hashes line feeds alone");
}

#[test]
fn the_page_parses_no_text_as_html_or_code() {
    let forbidden = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "setHTML",
        "document.write",
        "createContextualFragment",
        "DOMParser",
        "srcdoc",
        "eval(",
        "new Function",
        "import(",
        "setTimeout(\"",
        "javascript:",
    ];
    for construct in forbidden {
        assert!(!PAGE.contains(construct), "{construct}");
    }
}

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    // The name of the namespace of SVG, which is never fetched.
    let page = PAGE.replace("\"http://www.w3.org/2000/svg\"", "");
    for reference in
        ["http:", "https:", "src=", "url(", "@import", "<link", "<img", "<iframe", "<object", "<base"]
    {
        assert!(!page.contains(reference), "{reference}");
    }
}

/// The policy forbids both, so they would have no effect.
#[test]
fn the_page_has_no_style_attributes_and_no_inline_handlers() {
    let script = element(PAGE, "script");
    let style = element(PAGE, "style");
    let markup = PAGE.replace(script, "").replace(style, "");
    for tag in markup.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag) {
        for attribute in tag
            .split_whitespace()
            .skip(1)
            .filter_map(|attribute| attribute.split_once('='))
            .map(|(name, _)| name)
        {
            assert!(attribute != "style" && !attribute.starts_with("on"), "{attribute} in <{tag}>");
        }
    }
    assert!(
        !script.contains(".cssText") && !script.contains("\"style\""),
        "the script sets no style attribute"
    );
}

/// A token in an address would be in logs and in the history; storage that outlives the tab would keep it for others.
#[test]
fn the_token_is_neither_in_an_address_nor_stored_for_long() {
    let script = element(PAGE, "script");
    for construct in
        ["history.", "location.search", "location.hash", "document.cookie", "indexedDB", "URLSearchParams"]
    {
        assert!(!script.contains(construct), "{construct}");
    }
    let long: Vec<_> = script.lines().filter(|line| line.contains("\"localStorage\"")).collect();
    assert!(!long.is_empty() && long.iter().all(|line| line.contains("portcullis-theme")), "{long:?}");
}

#[test]
fn the_page_is_small() {
    assert!(PAGE.len() < 60_000, "{} bytes", PAGE.len());
}
