//! Instants as text.

use jiff::Timestamp;

/// Seconds since the Unix epoch as `2000-10-10T20:55:36Z`.
pub(crate) fn text(seconds: u64) -> String {
    instant(seconds).to_string()
}

/// Like [`text`], but without the parts that buckets of this length share.
pub(crate) fn label(seconds: u64, bucket: u64) -> String {
    let parts = if bucket >= 86_400 { "%F" } else { "%m-%d %H:%M" };
    instant(seconds).strftime(parts).to_string()
}

/// The last instant of the calendar if there are more seconds.
fn instant(seconds: u64) -> Timestamp {
    i64::try_from(seconds)
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .unwrap_or(Timestamp::MAX)
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
