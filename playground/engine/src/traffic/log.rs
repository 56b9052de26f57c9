//! Reads what is pasted of an access log in the common log format: the address, and the time in brackets.

/// What was found: instants in microseconds since the first line, with the client that an address stands for.
pub(super) struct Found {
    pub(super) requests: Vec<(u64, usize)>,
    pub(super) left_out: u64,
}

/// Addresses are the clients in the order in which they come; those that are more than the clients are left out. Lines of one second are
/// spread evenly over it.
pub(super) fn requests(text: &str, clients: usize) -> Found {
    let (mut addresses, mut lines, mut left_out) = (Vec::new(), Vec::new(), 0);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let Some((address, second)) = address_and_second(line) else {
            left_out += 1;
            continue;
        };
        let known = addresses.iter().position(|known| *known == address);
        let client = known.unwrap_or(addresses.len());
        if client >= clients {
            left_out += 1;
            continue;
        }
        if known.is_none() {
            addresses.push(address);
        }
        lines.push((second, client));
    }
    lines.sort_by_key(|(second, _)| *second);
    let first = lines.first().map_or(0, |(second, _)| *second);
    let mut requests = Vec::with_capacity(lines.len());
    for same in lines.chunk_by(|(left, _), (right, _)| left == right) {
        for (number, (second, client)) in same.iter().enumerate() {
            let within = number as u64 * 1_000_000 / same.len() as u64;
            let seconds = u64::try_from(second - first).unwrap_or(0);
            requests.push((seconds.saturating_mul(1_000_000).saturating_add(within), *client));
        }
    }
    Found { requests, left_out }
}

/// The address, and the seconds since the epoch, of `192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.1" 200 17`.
fn address_and_second(line: &str) -> Option<(&str, i64)> {
    let (address, rest) = line.trim_start().split_once(' ')?;
    let (time, _) = rest.split_once('[')?.1.split_once(']')?;
    let (time, zone) = time.split_once(' ').unwrap_or((time, "+0000"));
    let (day, rest) = time.split_once('/')?;
    let (name, rest) = rest.split_once('/')?;
    let month = (1..).zip(MONTHS).find(|(_, month)| *month == name)?.0;
    let number = |text: &str, most: i64| text.parse().ok().filter(|number| (0..=most).contains(number));
    let day = number(day, 31)?;
    let mut parts = rest.split(':');
    let mut number = |most: i64| number(parts.next()?, most);
    let (year, hour, minute, second) = (number(9_999)?, number(23)?, number(59)?, number(60)?);
    let zone: i64 = zone.parse().ok()?;
    let offset = zone / 100 * 3_600 + zone % 100 * 60;
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some((address, seconds - offset))
}

/// The days from the epoch to a date.
///
/// Source: Hinnant, chrono-compatible low-level date algorithms, `days_from_civil`.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_second_are_spread_over_it() {
        let text = "192.0.2.1 - - [10/Oct/2000:13:55:37 -0700] \"GET /b HTTP/1.1\" 200 17\n\
                    no line of a log\n\
                    192.0.2.2 - - [10/Oct/2000:20:55:36 +0000] \"GET /a HTTP/1.1\" 200 17\n\
                    192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.1\" 200 17\n\
                    192.0.2.3 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.1\" 200 17\n";
        let found = requests(text, 2);
        assert_eq!(found.requests, [(0, 1), (500_000, 0), (1_000_000, 0)]);
        assert_eq!(found.left_out, 2, "a line that is none, and a third client");
    }

    #[test]
    fn dates_are_days_since_the_epoch() {
        assert_eq!([days(1970, 1, 1), days(2000, 2, 29), days(2026, 1, 1)], [0, 11_016, 20_454]);
    }
}
