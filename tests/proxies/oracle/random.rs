//! Random header lines, reproducible from a seed.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use fastrand::Rng;

/// Random lines.
pub(super) struct Random(Rng);

impl Random {
    /// Creates a generator seeded by `PORTCULLIS_SEED`, or randomly. Prints the seed.
    pub(super) fn seeded() -> Self {
        let seed = match std::env::var("PORTCULLIS_SEED") {
            Ok(seed) => seed.parse().expect("PORTCULLIS_SEED is a number"),
            Err(_) => RandomState::new().hash_one("seed"),
        };
        println!("repeat with PORTCULLIS_SEED={seed}");
        Self(Rng::with_seed(seed))
    }

    /// Returns up to four lines of `X-Forwarded-For`.
    pub(super) fn lines(&mut self) -> Vec<String> {
        (0..self.0.u64(..5)).map(|_| self.line()).collect()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let elements = 1 + self.0.u64(..5);
        for index in 0..elements {
            if index > 0 {
                line += self.one_of(&[",", ", ", ", ", ", ", " ,", " , ", ",  "]);
            }
            line += &self.element();
        }
        line
    }

    fn element(&mut self) -> String {
        match self.0.u64(..60) {
            0..=19 => self.trusted(),
            20..=44 => self.address(),
            45 => String::new(),
            46 => self.address() + " " + &self.address(),
            47 => self
                .one_of(&[
                    "unknown",
                    "_hidden",
                    "-",
                    "localhost",
                    "for=1.2.3.4",
                    "\"1.2.3.4\"",
                    "1.2.3",
                    "1.2.3.256",
                ])
                .to_owned(),
            48 => self.loose(),
            49 => format!("[{}]", self.ipv6()),
            50 => format!("{}%eth0", self.ipv6()),
            51 => format!("[{}%1]:80", self.ipv6()),
            52 => format!("{}:0", self.ipv4()),
            53 => format!("{}:{}", self.ipv4(), self.one_of(&["65536", "http", "", "+80", "-1"])),
            54 => format!("\t{}", self.address()),
            55 => format!("{}\t", self.trusted()),
            56 => format!("[{}", self.ipv6()),
            57 => format!("{}]:80", self.ipv6()),
            58 => self.unspecified(),
            _ => self.garbage(),
        }
    }

    fn address(&mut self) -> String {
        match self.0.u64(..8) {
            0..=2 => self.ipv4().to_string(),
            3 => self.ipv6().to_string(),
            4 => format!("{}:{}", self.ipv4(), 1 + self.0.u64(..65_535)),
            5 => format!("[{}]:{}", self.ipv6(), 1 + self.0.u64(..65_535)),
            6 => self.ipv4().to_ipv6_mapped().to_string(),
            _ => format!("::ffff:{:x}:{:x}", self.0.u64(..0xffff), self.0.u64(..0xffff)),
        }
    }

    fn trusted(&mut self) -> String {
        let low = self.0.u8(..);
        match self.0.u64(..6) {
            0 => format!("127.1.0.{low}"),
            1 => format!("10.0.{low}.1:8080"),
            2 => format!("172.31.255.{low}"),
            3 => format!("fd00::{low:x}"),
            4 => format!("[fdff::{low:x}]:443"),
            _ => format!("10.{low}.0.0"),
        }
    }

    /// Loosely written elements: some that nginx parses, and similar ones that it does not.
    fn loose(&mut self) -> String {
        self.one_of(&[
            "192.0.2.01",
            "192..2.1",
            "...",
            "010.0.0.1",
            "192.0.2.1:00080",
            "192.0.2.1:0000080",
            "2001:db8::1:",
            ":1::2",
            "1:2:3:4:5:6:7:",
            "::ffff:192.0.2.01",
            "1.2.3.4.",
            ".1.2.3.4",
            "00000192.0.2.1",
            "[::1:]:80",
        ])
        .to_owned()
    }

    fn unspecified(&mut self) -> String {
        self.one_of(&["0.0.0.0", "0.0.0.0:80", "::", "0::0", "[::]:80", "::ffff:0.0.0.0", "[::ffff:0:0]:80"])
            .to_owned()
    }

    fn garbage(&mut self) -> String {
        let length = 1 + self.0.u64(..12);
        (0..length)
            .map(|_| {
                self.one_of(&[
                    "0", "1", "2", "5", "9", ".", ".", ":", "::", "a", "f", "[", "]", "%", "/", "x",
                ])
            })
            .collect()
    }

    fn ipv4(&mut self) -> Ipv4Addr {
        let [.., a, b, c, d] = self.0.u64(..).to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    }

    fn ipv6(&mut self) -> Ipv6Addr {
        let [a, b, c, ..] = self.0.u64(..).to_be_bytes();
        let zeros = Ipv6Addr::new(0x2001, 0xdb8, a.into(), 0, 0, 0, b.into(), c.into());
        let all = Ipv6Addr::from(self.0.u128(..));
        if self.0.u64(..2) == 0 { zeros } else { all }
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.0.usize(..choices.len())]
    }
}
