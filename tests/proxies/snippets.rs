//! The configurations in docs/identity.md, which the tests run.

const PAGE: &str = include_str!("../../docs/identity.md");

/// Returns the `index`-th code block in `language` below a heading, with some words replaced. Panics if one of the words is
/// missing.
pub(crate) fn snippet(heading: &str, language: &str, index: usize, replaced: &[(&str, &str)]) -> String {
    let (_, section) = PAGE.split_once(&format!("\n### {heading}\n")).expect(heading);
    let section = section.split("\n##").next().unwrap();
    let (_, code) = section.split(&format!("\n```{language}\n")).enumerate().nth(index + 1).expect(heading);
    let (code, _) = code.split_once("\n```").unwrap();
    replaced.iter().fold(code.to_owned(), |code, (from, to)| {
        assert!(code.contains(from), "{from} is not in the {language} below {heading}");
        code.replace(from, to)
    }) + "\n"
}
