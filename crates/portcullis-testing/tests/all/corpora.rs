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
async fn the_algorithm_alone_goes_as_the_corpora_say() {
    let corpora = corpora();
    assert!(corpora.len() >= 3);
    for corpus in corpora {
        let report = run(corpus.cases(), &mut Pure::new()).await;
        assert!(report.is_success() && report.skipped().is_empty(), "{report}");
        assert_eq!(report.passed(), corpus.cases().len());
    }
}

/// Every figure that is written is compared: each one, made wrong, makes its case fail at that field.
#[tokio::test]
async fn every_expectation_of_the_corpora_counts() {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    let mut changed = 0;
    for name in ["gcra", "fixed_window", "several"] {
        let text = std::fs::read_to_string(data.join(name).with_extension("toml")).unwrap();
        for (field, wrong) in [
            ("remaining = ", "4000000000"),
            ("limit = ", "4000000001"),
            ("uncharged = ", "4000000000"),
            ("reset_after = ", "\"77days 3us\""),
            ("next_after = ", "\"77days 3us\""),
            ("retry_after = ", "\"77days 3us\""),
            ("delay = ", "\"77days 3us\""),
        ] {
            for (offset, _) in text.match_indices(field) {
                // The limit of a quota is no expectation.
                let line_start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
                let before = &text[line_start..offset];
                let in_strategy = before.rfind("strategy = ").is_some_and(|at| !before[at..].contains('}'));
                if in_strategy || before.contains('#') {
                    continue;
                }
                let value = offset + field.len();
                let end = value + text[value..].find([',', '}']).unwrap();
                let spoiled = format!("{}{wrong} {}", &text[..value], &text[end..]);
                let corpus = Scenario::parse(name, &spoiled).unwrap();
                let report = run(corpus.cases(), &mut Pure::new()).await;
                let [failure] = report.failures() else { panic!("{spoiled}\n{report}") };
                assert_eq!(failure.field, field.trim_end_matches(" = "), "{report}");
                assert_eq!(failure.line, 1 + text[..offset].matches('\n').count());
                changed += 1;
            }
        }
    }
    assert!(changed > 500, "{changed}");
}
