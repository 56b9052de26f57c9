//! The configurations in docs/identity.md, which are what is tested.

const BOOK: &str = include_str!("../../docs/identity.md");

/// The code in `language` below a heading, the `index`-th of its kind, with some words replaced. Each of them must be there.
pub(crate) fn snippet(heading: &str, language: &str, index: usize, replaced: &[(&str, &str)]) -> String {
    let (_, section) = BOOK.split_once(&format!("\n### {heading}\n")).expect(heading);
    let section = section.split("\n##").next().unwrap();
    let (_, code) = section.split(&format!("\n```{language}\n")).enumerate().nth(index + 1).expect(heading);
    let (code, _) = code.split_once("\n```").unwrap();
    replaced.iter().fold(code.to_owned(), |code, (from, to)| {
        assert!(code.contains(from), "{from} does not stand in the {language} below {heading}");
        code.replace(from, to)
    }) + "\n"
}
