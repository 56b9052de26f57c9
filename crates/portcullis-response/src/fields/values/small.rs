//! The text of small numbers, made at compile time: most figures of a budget are small.

/// Returns the decimal text of a number below [`COUNT`].
pub(super) fn text(number: u64) -> Option<&'static str> {
    let index = usize::try_from(number).ok().filter(|index| *index < COUNT)?;
    let digits = 1 + usize::from(index >= 10) + usize::from(index >= 100) + usize::from(index >= 1_000);
    let end = (index + 1) * WIDTH;
    TEXT.get(end - digits..end)
}

/// All numbers, each with leading zeros.
static TEXT: &str = match std::str::from_utf8(TABLE) {
    Ok(text) => text,
    Err(_) => panic!("digits are ASCII"),
};

const TABLE: &[u8; COUNT * WIDTH] = &table();

const fn table() -> [u8; COUNT * WIDTH] {
    let mut table = [b'0'; COUNT * WIDTH];
    let mut number = 0;
    while number < COUNT {
        let (mut rest, mut end) = (number, (number + 1) * WIDTH);
        while rest > 0 {
            end -= 1;
            table[end] = DIGITS[rest % 10];
            rest /= 10;
        }
        number += 1;
    }
    table
}

/// Covers the seconds of an hour. The table has 16 KiB, which a page that is downloaded does without.
const COUNT: usize = if cfg!(target_family = "wasm") { 10 } else { 4_096 };
const WIDTH: usize = 4;
const DIGITS: &[u8; 10] = b"0123456789";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_decimal_text() {
        for number in 0..4_096 {
            assert_eq!(text(number), Some(number.to_string().as_str()));
        }
        for number in [4_096, 10_000, u64::MAX] {
            assert_eq!(text(number), None);
        }
    }
}
