//! The table of cases. The peer is 127.0.0.1 in all of them.

/// A request and the expected client: an address, or a part of the error message.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) source: &'a str,
    pub(super) trust: &'a str,
    pub(super) lines: &'a [&'a [u8]],
    pub(super) expected: &'a str,
}

const fn peer(lines: &'static [&'static [u8]], expected: &'static str) -> Case<'static> {
    Case { source: "peer", trust: "", lines, expected }
}

/// `X-Forwarded-For` with the peer and 10.0.0.0/8 trusted.
const fn xff(lines: &'static [&'static [u8]], expected: &'static str) -> Case<'static> {
    Case { source: "x-forwarded-for", trust: TRUSTED, lines, expected }
}

/// `Forwarded` with the same trust.
const fn fwd(lines: &'static [&'static [u8]], expected: &'static str) -> Case<'static> {
    Case { source: "forwarded", trust: TRUSTED, lines, expected }
}

/// `X-Real-IP` with the same trust.
const fn real(lines: &'static [&'static [u8]], expected: &'static str) -> Case<'static> {
    Case { source: "x-real-ip", trust: TRUSTED, lines, expected }
}

const fn with(
    source: &'static str,
    trust: &'static str,
    lines: &'static [&'static [u8]],
    expected: &'static str,
) -> Case<'static> {
    Case { source, trust, lines, expected }
}

/// IPv4-mapped networks in the list are IPv4 networks.
const TRUSTED: &str = "127.0.0.0/8 10.0.0.0/8 fd00::/8 ::ffff:172.16.0.0/108";
const NO_ADDRESS: &str = "is not an address";
const HIDDEN: &str = "does not tell its address";
const GRAMMAR: &str = "forwarded does not follow its grammar";

pub(super) const CASES: &[Case<'_>] = &[
    // Only the peer counts: forged headers are ignored.
    peer(&[], "127.0.0.1"),
    peer(&[b"X-Forwarded-For: 6.6.6.6", b"Forwarded: for=6.6.6.6", b"X-Real-IP: 6.6.6.6"], "127.0.0.1"),
    // A peer that is not trusted: every header is ignored, malformed or not.
    with("x-forwarded-for", "10.0.0.0/8", &[b"X-Forwarded-For: 6.6.6.6"], "127.0.0.1"),
    with("x-forwarded-for", "10.0.0.0/8", &[b"X-Forwarded-For: \"'<>"], "127.0.0.1"),
    with("forwarded", "10.0.0.0/8", &[b"Forwarded: for=\"6.6.6.6"], "127.0.0.1"),
    with("x-real-ip", "10.0.0.0/8", &[b"X-Real-IP: 6.6.6.6", b"X-Real-IP: 7.7.7.7"], "127.0.0.1"),
    with("x-forwarded-for", "hops 0", &[b"X-Forwarded-For: 6.6.6.6"], "127.0.0.1"),
    // Forged on the left, correct on the right.
    xff(&[b"X-Forwarded-For: 192.0.2.1"], "192.0.2.1"),
    xff(&[b"X-Forwarded-For: 6.6.6.6, 192.0.2.1"], "192.0.2.1"),
    xff(&[b"X-Forwarded-For: 10.0.0.9, 192.0.2.1"], "192.0.2.1"),
    xff(&[b"X-Forwarded-For: 6.6.6.6, 192.0.2.1, 10.0.0.9, fd00::1"], "192.0.2.1"),
    xff(&[b"X-Forwarded-For: 6.6.6.6,192.0.2.1,10.0.0.9"], "192.0.2.1"),
    xff(&[b"X-Forwarded-For: 6.6.6.6 ,\t192.0.2.1 \t"], "192.0.2.1"),
    xff(&[b"X-Forwarded-For: garbage, \xff\xfe, , 192.0.2.1"], "192.0.2.1"),
    xff(&[b"Forwarded: for=6.6.6.6", b"X-Real-IP: 6.6.6.6", b"X-Forwarded-For: 192.0.2.1"], "192.0.2.1"),
    // Repeated and split over lines.
    xff(&[b"X-Forwarded-For: 6.6.6.6", b"X-Forwarded-For: 192.0.2.1"], "192.0.2.1"),
    xff(
        &[b"X-Forwarded-For: 6.6.6.6", b"x-forwarded-for: 192.0.2.1", b"X-FORWARDED-FOR: 10.0.0.9"],
        "192.0.2.1",
    ),
    xff(
        &[b"X-Forwarded-For: 192.0.2.1, 10.0.0.9", b"Accept: */*", b"X-Forwarded-For: 10.0.0.8"],
        "192.0.2.1",
    ),
    // All addresses are trusted: the farthest. No header: the peer.
    xff(&[b"X-Forwarded-For: 10.0.0.1, 10.0.0.2"], "10.0.0.1"),
    xff(&[], "127.0.0.1"),
    // Ports, brackets, zones.
    xff(&[b"X-Forwarded-For: 192.0.2.1:54321"], "192.0.2.1"),
    xff(&[b"X-Forwarded-For: 192.0.2.1, 10.0.0.9:80"], "192.0.2.1"),
    xff(&[b"X-Forwarded-For: 2001:db8::1"], "2001:db8::1"),
    xff(&[b"X-Forwarded-For: [2001:db8::1]"], "2001:db8::1"),
    xff(&[b"X-Forwarded-For: [2001:db8::1]:443, [fd00::9]:80"], "2001:db8::1"),
    xff(&[b"X-Forwarded-For: 2001:DB8:0:0:0:0:0:1"], "2001:db8::1"),
    xff(&[b"X-Forwarded-For: fe80::1%eth0"], "fe80::1"),
    xff(&[b"X-Forwarded-For: 192.0.2.1, fd00::9%25eth0"], "192.0.2.1"),
    // IPv4-mapped addresses are IPv4, for trust and for the key; IPv4-compatible and NAT64 addresses are not.
    xff(&[b"X-Forwarded-For: ::ffff:192.0.2.1"], "192.0.2.1"),
    xff(&[b"X-Forwarded-For: ::ffff:c000:0201"], "192.0.2.1"),
    xff(&[b"X-Forwarded-For: 192.0.2.1, ::ffff:10.0.0.9"], "192.0.2.1"),
    xff(&[b"X-Forwarded-For: 192.0.2.1, 172.16.0.9"], "192.0.2.1"),
    xff(&[b"X-Forwarded-For: 192.0.2.1, [::ffff:172.31.0.9]:80"], "192.0.2.1"),
    xff(&[b"X-Forwarded-For: 192.0.2.1, ::10.0.0.9"], "::a00:9"),
    xff(&[b"X-Forwarded-For: 192.0.2.1, 64:ff9b::10.0.0.9"], "64:ff9b::a00:9"),
    xff(&[b"X-Forwarded-For: 192.0.2.1, ::ffff:0:10.0.0.9"], "::ffff:0:a00:9"),
    // Malformed elements between hops are never skipped.
    xff(
        &[b"X-Forwarded-For: 192.0.2.1, unknown"],
        "element 1 of x-forwarded-for, counted from the right, is not an address",
    ),
    xff(&[b"X-Forwarded-For: 192.0.2.1, unknown, 10.0.0.9"], "element 2 of x-forwarded-for"),
    xff(
        &[b"X-Forwarded-For: 192.0.2.1, unknown", b"X-Forwarded-For: 10.0.0.9"],
        "element 2 of x-forwarded-for",
    ),
    xff(&[b"X-Forwarded-For: 192.0.2.1,"], NO_ADDRESS),
    xff(&[b"X-Forwarded-For: 192.0.2.1,,10.0.0.9"], NO_ADDRESS),
    xff(&[b"X-Forwarded-For:"], NO_ADDRESS),
    xff(&[b"X-Forwarded-For: 192.0.2.1", b"X-Forwarded-For:"], NO_ADDRESS),
    xff(&[b"X-Forwarded-For: \"192.0.2.1\""], NO_ADDRESS),
    xff(&[b"X-Forwarded-For: 192.0.2.1; 10.0.0.9"], NO_ADDRESS),
    xff(&[b"X-Forwarded-For: 192.0.2.1 10.0.0.9"], NO_ADDRESS),
    xff(&[b"X-Forwarded-For: 192.0.2.01"], NO_ADDRESS),
    xff(&[b"X-Forwarded-For: 3221225985"], NO_ADDRESS),
    xff(&[b"X-Forwarded-For: 192.0.2.1:99999"], NO_ADDRESS),
    xff(&[b"X-Forwarded-For: [192.0.2.1]"], NO_ADDRESS),
    xff(&[b"X-Forwarded-For: [2001:db8::1"], NO_ADDRESS),
    xff(&[b"X-Forwarded-For: localhost"], NO_ADDRESS),
    xff(&[b"X-Forwarded-For: 192.0.2.1\xa0"], NO_ADDRESS),
    // Trust by number of hops.
    with("x-forwarded-for", "hops 1", &[b"X-Forwarded-For: 6.6.6.6, 192.0.2.1"], "192.0.2.1"),
    with("x-forwarded-for", "hops 2", &[b"X-Forwarded-For: 6.6.6.6, 192.0.2.1, 203.0.113.9"], "192.0.2.1"),
    with("x-forwarded-for", "hops 2", &[b"X-Forwarded-For: 192.0.2.1"], "192.0.2.1"),
    with("x-forwarded-for", "hops 2", &[b"X-Forwarded-For: 192.0.2.1, odd"], NO_ADDRESS),
    with("forwarded", "hops 1", &[b"Forwarded: for=6.6.6.6", b"Forwarded: for=192.0.2.1"], "192.0.2.1"),
    // The standard header.
    fwd(&[b"Forwarded: for=192.0.2.1;proto=http;by=203.0.113.43"], "192.0.2.1"),
    fwd(&[b"Forwarded: FOR=192.0.2.1"], "192.0.2.1"),
    fwd(&[b"Forwarded: for=6.6.6.6, for=192.0.2.1, for=10.0.0.9;proto=https"], "192.0.2.1"),
    fwd(&[b"Forwarded: for=6.6.6.6", b"Forwarded: proto=https;for=\"[2001:db8::1]:4711\""], "2001:db8::1"),
    fwd(&[b"Forwarded: for=\"192.0.2.1:_port\", for=\"[fd00::9]\""], "192.0.2.1"),
    fwd(&[b"Forwarded: for=\"\\1\\9\\2.0.2.1\""], "192.0.2.1"),
    fwd(&[b"Forwarded: for=\"[::ffff:192.0.2.1]\", for=\"[::ffff:10.0.0.9]\""], "192.0.2.1"),
    fwd(&[b"Forwarded: host=\", for=6.6.6.6\";for=192.0.2.1"], "192.0.2.1"),
    fwd(&[b"Forwarded: for=_hidden, for=192.0.2.1"], "192.0.2.1"),
    fwd(&[b"Forwarded: for=10.0.0.7, for=10.0.0.9"], "10.0.0.7"),
    fwd(&[], "127.0.0.1"),
    fwd(&[b"Forwarded: for=192.0.2.1, for=unknown"], "element 1 of forwarded"),
    fwd(&[b"Forwarded: for=192.0.2.1, for=unknown, for=10.0.0.9"], HIDDEN),
    fwd(&[b"Forwarded: for=\"_gazonk\""], HIDDEN),
    fwd(&[b"Forwarded: proto=https"], HIDDEN),
    fwd(&[b"Forwarded: for=192.0.2.1,,for=10.0.0.9"], HIDDEN),
    fwd(&[b"Forwarded:"], HIDDEN),
    fwd(&[b"Forwarded: for=example.com"], NO_ADDRESS),
    fwd(&[b"Forwarded: for=\"2001:db8::1\""], NO_ADDRESS),
    fwd(&[b"Forwarded: for=[2001:db8::1]"], GRAMMAR),
    fwd(&[b"Forwarded: for=192.0.2.1:80"], GRAMMAR),
    fwd(&[b"Forwarded: for=\"6.6.6.6, for=192.0.2.1"], GRAMMAR),
    fwd(&[b"Forwarded: for=6.6.6.6;x=\", for=\"[2001:db8::1]\""], GRAMMAR),
    fwd(&[b"Forwarded: for=\"6.6.6.6", b"Forwarded: for=192.0.2.1"], GRAMMAR),
    fwd(&[b"Forwarded: for=6.6.6.6;for=192.0.2.1"], GRAMMAR),
    fwd(&[b"Forwarded: for=6.6.6.6 , for = 192.0.2.1"], GRAMMAR),
    fwd(&[b"Forwarded: 192.0.2.1"], GRAMMAR),
    // A header with a single value.
    real(&[b"X-Real-IP: 192.0.2.1"], "192.0.2.1"),
    real(&[b"x-real-ip: [2001:db8::1]:80"], "2001:db8::1"),
    real(&[b"X-Real-IP: ::ffff:192.0.2.1"], "192.0.2.1"),
    real(&[b"X-Real-IP: 10.0.0.9", b"X-Forwarded-For: 6.6.6.6"], "10.0.0.9"),
    real(&[b"X-Real-IP: 6.6.6.6", b"X-Real-IP: 192.0.2.1"], "x-real-ip was sent more than once"),
    real(&[b"X-Real-IP: 192.0.2.1", b"X-Real-IP: 192.0.2.1"], "x-real-ip was sent more than once"),
    real(&[b"X-Real-IP: 6.6.6.6, 192.0.2.1"], NO_ADDRESS),
    real(&[b"X-Real-IP:"], NO_ADDRESS),
    real(&[b"X-Forwarded-For: 192.0.2.1"], "x-real-ip is missing"),
];

/// Forty hops, and eight kibibytes of forged, trusted and quoted elements.
pub(super) fn long_cases() -> Vec<(&'static str, String, &'static str)> {
    let hops: Vec<_> = (1..=40).map(|hop| format!("10.0.0.{hop}")).collect();
    let (forged, trusted) = ("6.6.6.6, ".repeat(910), ", 10.0.0.1".repeat(820));
    vec![
        ("x-forwarded-for", format!("X-Forwarded-For: 192.0.2.1, {}", hops.join(", ")), "192.0.2.1"),
        (
            "x-forwarded-for",
            format!("X-Forwarded-For: odd, {}", hops.join(", ")),
            "element 41 of x-forwarded-for",
        ),
        ("forwarded", format!("Forwarded: for=192.0.2.1, for={}", hops.join(", for=")), "192.0.2.1"),
        ("x-forwarded-for", format!("X-Forwarded-For: {forged}192.0.2.1"), "192.0.2.1"),
        ("x-forwarded-for", format!("X-Forwarded-For: 192.0.2.1{trusted}"), "192.0.2.1"),
        ("x-forwarded-for", format!("X-Forwarded-For: {}192.0.2.1", ",".repeat(8_192)), "192.0.2.1"),
        (
            "forwarded",
            format!("Forwarded: for=6.6.6.6;x=\"{}\", for=192.0.2.1", "\\\"".repeat(4_096)),
            "192.0.2.1",
        ),
        ("forwarded", format!("Forwarded: for=192.0.2.1;x=\"{}", "\\\"".repeat(4_096)), GRAMMAR),
        ("forwarded", format!("Forwarded: {}for=192.0.2.1", ";".repeat(8_192)), "192.0.2.1"),
        ("x-real-ip", format!("X-Real-IP: {}", "1".repeat(8_192)), NO_ADDRESS),
    ]
}
