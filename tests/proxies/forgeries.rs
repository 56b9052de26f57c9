//! Header lines with which a client can try to forge its address.

/// The header lines of a request.
pub(crate) type Lines = Vec<Vec<u8>>;

/// The forged header lines, each with whether a proxy may reject the request by itself.
pub(crate) fn forgeries() -> Vec<(Lines, bool)> {
    let mut forgeries = Vec::new();
    for name in NAMES {
        for value in VALUES {
            forgeries.push((vec![line(name, value)], false));
        }
        forgeries.push((vec![line(name, b"6.6.6.6"), line(name, b"7.7.7.7")], false));
        // Repeated in another case, after an empty value, and declared as hop-by-hop by `Connection`.
        forgeries
            .push((vec![line(&name.to_uppercase(), b""), line(&name.to_lowercase(), b"6.6.6.6")], false));
        for connection in ["", "close, ", "keep-alive, "] {
            let hop = line("Connection", format!("{connection}{name}").as_bytes());
            forgeries.push((vec![hop, line(name, b"6.6.6.6")], false));
        }
        forgeries.push((vec![line(&name.replace('-', "_"), b"6.6.6.6")], false));
        forgeries.push((vec![line(name, &b"6.6.6.6, ".repeat(300))], false));
        forgeries.push((vec![line(name, &b"6.6.6.6, ".repeat(2_000))], true));
        forgeries.push((vec![line(name, b"6.6.6.6"); 40], false));
        forgeries.push((vec![line(name, b"6.6.6.6"); 90], true));
        for odd in [&b"6.6.6.6\0"[..], b"6.6.6.6\r7.7.7.7", b"6.6.6.6\r\n 7.7.7.7", b"6.6.6.6\x7f", b"\x01"] {
            forgeries.push((vec![line(name, odd)], true));
        }
        for odd in [format!("{name} : 6.6.6.6"), format!(" {name}: 6.6.6.6"), format!("{name}\t: 6.6.6.6")] {
            forgeries.push((vec![odd.into_bytes()], true));
        }
    }
    forgeries.push((NAMES.iter().map(|name| line(name, b"6.6.6.6")).collect(), false));
    forgeries
}

fn line(name: &str, value: &[u8]) -> Vec<u8> {
    [name.as_bytes(), b": ", value].concat()
}

const NAMES: [&str; 9] = [
    "X-Forwarded-For",
    "Forwarded",
    "X-Real-IP",
    "CF-Connecting-IP",
    "True-Client-IP",
    "X-Client-IP",
    "X-Cluster-Client-IP",
    "Forwarded-For",
    "X-Original-Forwarded-For",
];

const VALUES: [&[u8]; 20] = [
    b"",
    b"6.6.6.6",
    b"127.0.0.1",
    b"10.0.0.1",
    b"::1",
    b"::ffff:127.0.0.1",
    b"6.6.6.6, 127.0.0.1",
    b"6.6.6.6, 127.0.0.1, 127.0.0.1, 127.0.0.1",
    b"6.6.6.6,",
    b",,,",
    b"6.6.6.6:80",
    b"[2001:db8::6]:80",
    b"2001:db8::6",
    b"unknown",
    b"for=6.6.6.6",
    b"for=\"6.6.6.6",
    b"for=6.6.6.6;x=\"",
    b"\"6.6.6.6, ",
    b"6.6.6.6\t,\t6.6.6.6",
    b"\xff\xfe6.6.6.6",
];
