//! Headers of each policy, side by side.

use std::time::Duration;

use http::{HeaderMap, HeaderName};
use portcullis_core::{Decision, PolicyName};

use super::values::{self, ItemBuf};

/// The names of the headers of one policy.
#[derive(Clone)]
pub(super) struct OwnHeaders([HeaderName; 3]);

impl OwnHeaders {
    pub(super) fn of(policy: &PolicyName) -> Self {
        Self(["limit", "remaining", "reset"].map(|figure| {
            let name = format!("x-ratelimit-{figure}-{policy}");
            let name = name.replace(|character| !is_of_names(character), "-");
            HeaderName::try_from(name).expect("all characters are those of names")
        }))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &HeaderName> {
        self.0.iter()
    }

    /// Writes the figures of the policy, over those of a service behind a proxy, which are about somebody else.
    pub(super) fn write(&self, decision: &Decision, has_reset: bool, headers: &mut HeaderMap) {
        let [limit, remaining, reset] = &self.0;
        headers.insert(limit, values::number(decision.limit()));
        headers.insert(remaining, values::number(decision.remaining()));
        if has_reset {
            let mut text = ItemBuf::new();
            push_duration(&mut text, decision.reset_after());
            headers.insert(reset, values::value(&text));
        } else {
            headers.remove(reset);
        }
    }
}

/// Whether the name of a header may have the character.
///
/// Source: RFC 9110, section 5.6.2.
fn is_of_names(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
}

/// A duration as Go writes it, in whole milliseconds, rounded up: `20ms`, `1.5s`, `6m0s`, `1h0m0s`.
fn push_duration(text: &mut ItemBuf, wait: Duration) {
    let millis = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let (seconds, millis) = (millis / 1_000, millis % 1_000);
    if seconds == 0 && millis > 0 {
        values::push_number(text, millis);
        text.extend_from_slice(b"ms");
        return;
    }
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    for (number, unit) in [(hours, b'h'), (minutes, b'm')] {
        if number > 0 || !text.is_empty() {
            values::push_number(text, number);
            text.push(unit);
        }
    }
    values::push_number(text, seconds % 60);
    if millis > 0 {
        let digits = format!(".{millis:03}");
        text.extend_from_slice(digits.trim_end_matches('0').as_bytes());
    }
    text.push(b's');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (micros, expected) in [
            (0, "0s"),
            (1, "1ms"),
            (20_000, "20ms"),
            (999_001, "1s"),
            (1_000_000, "1s"),
            (1_500_000, "1.5s"),
            (8_640_000, "8.64s"),
            (360_000_000, "6m0s"),
            (3_600_000_000, "1h0m0s"),
            (90_061_007_000, "25h1m1.007s"),
        ] {
            let mut text = ItemBuf::new();
            push_duration(&mut text, Duration::from_micros(micros));
            assert_eq!(str::from_utf8(&text), Ok(expected));
        }
        let mut text = ItemBuf::new();
        push_duration(&mut text, Duration::MAX);
        assert_eq!(str::from_utf8(&text), Ok("5124095576030h25m51.615s"));
    }

    #[test]
    fn names_of_policies_become_names_of_headers() {
        let own = |policy: &str| OwnHeaders::of(&PolicyName::new(policy).unwrap()).0[0].to_string();
        assert_eq!(own("tokens"), "x-ratelimit-limit-tokens");
        assert_eq!(own("GPT 5: a/b.in_flight"), "x-ratelimit-limit-gpt-5--a-b.in_flight");
    }
}
