//! Windows of calendars.

const MONTHLY: &str = r#"
    [policy.monthly]
    strategy = "calendar_window"
    limit = 10_000
    windows = "months in Europe/Berlin"
    key = "client_ip"
"#;

#[test]
#[cfg(feature = "calendar")]
fn a_calendar_window_of_a_file_is_that_of_the_builder() {
    use portcullis_calendar::Calendar;
    use portcullis_core::Policy;

    let months = Calendar::monthly().in_zone("Europe/Berlin").unwrap();
    let rules = super::rules(MONTHLY);
    assert_eq!(rules.get("monthly").unwrap().policy(), &Policy::calendar_window("monthly", 10_000, months));

    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/calendar.toml");
    let rules = crate::Rules::from_file(path).unwrap();
    assert_eq!(rules.get("monthly").unwrap().policy(), &Policy::calendar_window("monthly", 10_000, months));
}

#[test]
#[cfg(feature = "calendar")]
fn an_unknown_zone_is_a_finding() {
    let findings = super::errors(&MONTHLY.replace("Berlin", "Berlni"));
    assert!(findings.starts_with("limits.toml:5:"), "{findings}");
    assert!(findings.contains("has no zone `Europe/Berlni`"), "{findings}");
}

#[test]
#[cfg(not(feature = "calendar"))]
fn without_the_feature_the_finding_names_it() {
    let findings = super::errors(MONTHLY);
    assert!(findings.contains("enable the feature `calendar`"), "{findings}");
}
