//! The scenario corpora on the algorithm alone.

use std::path::PathBuf;

use portcullis_testing::{Pure, Scenario, run};

fn corpora() -> Vec<Scenario> {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    let files = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    files.iter().map(|file| Scenario::read(file).unwrap_or_else(|error| panic!("{error}"))).collect()
}

#[tokio::test]
async fn the_algorithm_passes_all_corpora() {
    let corpora = corpora();
    assert_eq!(corpora.len(), 9);
    for corpus in corpora {
        let report = run(corpus.cases(), &mut Pure::new()).await;
        assert!(report.is_success() && report.skipped().is_empty(), "{report}");
        assert_eq!(report.passed(), corpus.cases().len());
    }
}

/// Every expected figure is compared: changing any of them makes its case fail at that field.
#[tokio::test]
async fn every_expectation_in_the_corpora_is_compared() {
    let mut changed = 0;
    for corpus in corpora() {
        let text = std::fs::read_to_string(corpus.file()).unwrap();
        let mut begins: Vec<usize> = text.match_indices("[[case]]").map(|(at, _)| at).collect();
        begins.push(text.len());
        for case in begins.windows(2) {
            // Empty lines replace the text before the case, so that line numbers stay the same.
            let lines_before = "\n".repeat(text[..case[0]].matches('\n').count());
            changed += count_compared_expectations(&lines_before, &text[case[0]..case[1]]).await;
        }
    }
    assert!(changed > 1_500, "{changed}");
}

async fn count_compared_expectations(lines_before: &str, case: &str) -> usize {
    let mut changed = 0;
    for (field, wrong) in [
        ("remaining = ", "4000000000"),
        ("limit = ", "4000000001"),
        ("uncharged = ", "4000000000"),
        ("held = ", "4000000000"),
        ("reset_after = ", "\"77days 3us\""),
        ("next_after = ", "\"77days 3us\""),
        ("retry_after = ", "\"77days 3us\""),
        ("delay = ", "\"77days 3us\""),
    ] {
        for (offset, _) in case.match_indices(field) {
            // The limit of a quota is not an expectation.
            let line_start = case[..offset].rfind('\n').map_or(0, |at| at + 1);
            let before = &case[line_start..offset];
            let in_strategy = before.rfind("strategy = ").is_some_and(|at| !before[at..].contains('}'));
            if in_strategy || before.contains('#') {
                continue;
            }
            let value = offset + field.len();
            let end = value + case[value..].find([',', '}']).unwrap();
            let spoiled = format!("{lines_before}{}{wrong} {}", &case[..value], &case[end..]);
            let corpus = Scenario::parse("spoiled.toml", &spoiled).unwrap();
            let report = run(corpus.cases(), &mut Pure::new()).await;
            let [failure] = report.failures() else { panic!("{spoiled}\n{report}") };
            assert_eq!(failure.field, field.trim_end_matches(" = "), "{report}");
            let line = 1 + lines_before.len() + case[..offset].matches('\n').count();
            assert_eq!(failure.line, line);
            changed += 1;
        }
    }
    changed
}
