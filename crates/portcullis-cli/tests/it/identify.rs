//! `portcullis identify` as a process.

use std::process::Command;

/// The exit code, and what is written to standard output and standard error.
fn identify(arguments: &[&str]) -> (i32, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_portcullis")).arg("identify").args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

const XFF: [&str; 4] = ["--peer", "10.0.0.1", "--source", "x-forwarded-for"];

#[test]
fn it_prints_the_address_and_the_charged_prefix() {
    let xff = |more: &[&'static str]| [XFF.as_slice(), more].concat();
    for (arguments, expected) in [
        (vec!["--peer", "192.0.2.1"], "192.0.2.1 192.0.2.1/32\n"),
        (
            vec!["--peer", "192.0.2.1:80", "--source", "peer", "-H", "X-Forwarded-For: 6.6.6.6"],
            "192.0.2.1 192.0.2.1/32\n",
        ),
        (vec!["--peer", "::ffff:192.0.2.1"], "192.0.2.1 192.0.2.1/32\n"),
        (vec!["--peer", "fe80::1%eth0"], "fe80::1 fe80::/64\n"),
        (vec!["--peer", "[2001:db8:1:2:3::4]:80"], "2001:db8:1:2:3::4 2001:db8:1:2::/64\n"),
        (vec!["--peer", "2001:db8:1:2:3::4", "--ipv6-prefix", "48"], "2001:db8:1:2:3::4 2001:db8:1::/48\n"),
        (vec!["--peer", "192.0.2.1", "--ipv4-prefix", "24"], "192.0.2.1 192.0.2.0/24\n"),
        // No proxy is trusted by default.
        (xff(&["-H", "X-Forwarded-For: 6.6.6.6"]), "10.0.0.1 10.0.0.1/32\n"),
        (xff(&["--hops", "1", "-H", "X-Forwarded-For: 6.6.6.6, 192.0.2.1"]), "192.0.2.1 192.0.2.1/32\n"),
        (
            xff(&["--trust", "10.0.0.0/8", "192.0.2.0/24", "-H", "X-Forwarded-For: 198.51.100.1, 192.0.2.1"]),
            "198.51.100.1 198.51.100.1/32\n",
        ),
        (
            xff(&[
                "--trust",
                "10.0.0.0/8",
                "--trust",
                "192.0.2.0/24",
                "--hops",
                "1",
                "-H",
                "x-forwarded-for: 6.6.6.6, 192.0.2.1",
            ]),
            "192.0.2.1 192.0.2.1/32\n",
        ),
        (
            xff(&[
                "--trust",
                "10.0.0.0/8",
                "-H",
                "X-Forwarded-For:6.6.6.6",
                "-H",
                "X-Forwarded-For: 192.0.2.1",
            ]),
            "192.0.2.1 192.0.2.1/32\n",
        ),
        (
            vec![
                "--peer",
                "10.0.0.1",
                "--source",
                "forwarded",
                "--trust",
                "10.0.0.1",
                "-H",
                "Forwarded: for=\"[2001:db8::1]:80\"",
            ],
            "2001:db8::1 2001:db8::/64\n",
        ),
        (
            vec!["--peer", "10.0.0.1", "--source", "header-or-peer:X-Real-IP", "--trust", "10.0.0.1"],
            "10.0.0.1 10.0.0.1/32\n",
        ),
        (
            vec![
                "--peer",
                "10.0.0.1",
                "--source",
                "header:X-Real-IP",
                "--trust",
                "10.0.0.1",
                "-H",
                "X-Real-IP: 192.0.2.1",
            ],
            "192.0.2.1 192.0.2.1/32\n",
        ),
    ] {
        assert_eq!(identify(&arguments), (0, expected.to_owned(), String::new()), "{arguments:?}");
    }
}

#[test]
fn it_exits_with_2_and_the_error_of_the_layer() {
    let trusted = |more: &[&'static str]| [XFF.as_slice(), &["--trust", "10.0.0.0/8"], more].concat();
    for (arguments, expected) in [
        (
            trusted(&["-H", "X-Forwarded-For: unknown"]),
            "portcullis: element 1 of x-forwarded-for, counted from the right, is not an address\n",
        ),
        (
            vec!["--peer", "10.0.0.1", "--source", "header:x-real-ip", "--hops", "1"],
            "portcullis: x-real-ip is missing\n",
        ),
    ] {
        assert_eq!(identify(&arguments), (2, String::new(), expected.to_owned()), "{arguments:?}");
    }
    for arguments in [
        vec![],
        vec!["--peer", "nobody"],
        vec!["--peer", "192.0.2.1", "--source", "x-real-ip"],
        vec!["--peer", "192.0.2.1", "--source", "header:x real ip"],
        vec!["--peer", "192.0.2.1", "--source", "forwarded", "--trust", "10.0.0.1/8"],
        vec!["--peer", "192.0.2.1", "--ipv6-prefix", "129"],
        vec!["--peer", "192.0.2.1", "--ipv6-prefix", "0"],
        vec!["--peer", "192.0.2.1", "-H", "no colon"],
        vec!["--peer", "192.0.2.1", "-H", "a b: c"],
    ] {
        let (code, out, error) = identify(&arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        assert!(!error.is_empty(), "{arguments:?}");
    }
}
