//! Instants as text.

/// Seconds since the Unix epoch as `2000-10-10T20:55:36Z`.
pub(crate) fn text(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3_600, second / 60 % 60, second % 60)
}

/// The same without the parts that buckets of this length share.
pub(crate) fn label(seconds: u64, bucket: u64) -> String {
    let text = text(seconds);
    let range = if bucket >= 86_400 { 0..10 } else { 5..16 };
    text[range].replace('T', " ")
}

/// The date of a day since the Unix epoch. Years begin in March, so that the leap day is the last one.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_shown_in_utc() {
        assert_eq!(text(0), "1970-01-01T00:00:00Z");
        assert_eq!(text(971_211_336), "2000-10-10T20:55:36Z");
        assert_eq!(text(1_709_164_800), "2024-02-29T00:00:00Z");
        assert_eq!(label(971_211_336, 60), "10-10 20:55");
        assert_eq!(label(971_211_336, 86_400), "2000-10-10");
    }
}
