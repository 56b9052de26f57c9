//! The configurations in the pages on the client's address, which the tests run.

/// The text of a page below `docs/how-to/address`.
macro_rules! page {
    ($name:literal) => {
        include_str!(concat!("../../docs/how-to/address/", $name))
    };
}

pub(crate) const NGINX: &str = page!("nginx.md");
pub(crate) const HAPROXY: &str = page!("haproxy.md");

/// Returns the `index`-th code block of a page in this language, with some words replaced. Panics if one of the words is missing.
pub(crate) fn snippet(page: &str, language: &str, index: usize, replaced: &[(&str, &str)]) -> String {
    let code = page.split(&format!("\n```{language}\n")).nth(index + 1).expect("the page has such a block");
    let (code, _) = code.split_once("\n```").unwrap();
    replaced.iter().fold(code.to_owned(), |code, (from, to)| {
        assert!(code.contains(from), "{from} is not in the {language} of the page");
        code.replace(from, to)
    }) + "\n"
}
