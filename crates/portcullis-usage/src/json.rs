//! Finds numbers at known places of JSON that arrives in pieces.
//!
//! Not one of the tokenizers that exist: they keep each text, or fail at one that is longer than their buffer, and an answer is such a text.
//! This one keeps where it is, and one number.

mod name;

use crate::reader::UsageReader;
use name::{Name, Pushed};

/// Reads one document after the other. It is no validator: it accepts some texts that are no JSON, and is lost where it cannot know the
/// place.
#[derive(Debug)]
pub(crate) struct JsonScan {
    reader: UsageReader,
    step: Step,
    /// What is open around the value that is read, as long as a place may be inside: at most as deep as the places.
    open: Vec<Open>,
    /// The places that the value may be, or contain: a bit for each.
    wanted: u8,
}

/// A list or an object.
#[derive(Debug)]
struct Open {
    /// The places inside it.
    places: u8,
    /// The index of the element that is read. `None` in an object.
    index: Option<u64>,
}

/// What is read.
#[derive(Debug)]
enum Step {
    /// White space before a value, or the end of an empty list.
    Value,
    /// White space before a name, or the end of an object.
    BeforeName,
    Name(Name),
    /// White space between a name and its value.
    Colon,
    /// A number, if it is one that counts.
    Number(Option<u64>),
    /// `true`, `false` or `null`.
    Word,
    /// White space after a value.
    After,
    /// Lists and objects without a place: as many as are open.
    Skip(u64),
    /// A text that is no name of a place: how many lists and objects without a place are open around it, and whether its next byte is escaped.
    Text(u64, bool),
    /// The place is unknown, because this is no JSON.
    Lost,
}

impl JsonScan {
    pub(crate) fn new(reader: UsageReader) -> Self {
        let mut scan = Self { reader, step: Step::Lost, open: Vec::new(), wanted: 0 };
        scan.restart();
        scan
    }

    /// Expects a new document, whatever was read before.
    pub(crate) fn restart(&mut self) {
        self.step = Step::Value;
        self.open.clear();
        self.wanted = self.select(u8::MAX, |reader, place| place < reader.places());
    }

    /// Reads until a document has ended, and returns behind how many bytes. Each number at a place is given to `found`.
    pub(crate) fn push(&mut self, bytes: &[u8], mut found: impl FnMut(usize, u64)) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            match self.step {
                Step::Lost => return None,
                Step::Text(_, false) => {
                    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\');
                    at += bytes[at..].iter().position(is_special).unwrap_or(bytes.len() - at);
                }
                _ => {}
            }
            let Some(byte) = bytes.get(at) else { break };
            if self.byte(*byte, &mut found) {
                at += 1;
            }
            if matches!(self.step, Step::After) && self.open.is_empty() {
                self.restart();
                return Some(at);
            }
        }
        None
    }

    /// Whether the byte is read: only that behind a number or word is not.
    fn byte(&mut self, byte: u8, found: &mut impl FnMut(usize, u64)) -> bool {
        let is_space = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        let is_list = self.open.last().is_some_and(|open| open.index.is_some());
        match (&mut self.step, byte) {
            (Step::Value | Step::BeforeName | Step::Colon | Step::After, _) if is_space => {}
            (Step::Value, b'[' | b',' | b']') if self.open.is_empty() && self.reader.reads_lists() => {}
            (Step::Value, b'"') => self.step = Step::Text(0, false),
            (Step::Value, b'{') => self.enter(None),
            (Step::Value, b'[') => self.enter(Some(0)),
            (Step::Value, b'-') => self.step = Step::Number(None),
            (Step::Value, b'0'..=b'9') => self.step = Step::Number(Some((byte - b'0').into())),
            (Step::Value, b't' | b'f' | b'n') => self.step = Step::Word,
            (Step::Value | Step::After, b']') if is_list => self.leave(),
            (Step::BeforeName | Step::After, b'}') if !is_list => self.leave(),
            (Step::After, b',') => self.next(),
            (Step::BeforeName, b'"') => {
                self.wanted = self.open.last().map_or(0, |open| open.places);
                self.step = Step::Name(Name::default());
            }
            (Step::Name(_), _) => self.in_name(byte),
            (Step::Colon, b':') => self.step = Step::Value,
            (Step::Number(number), b'0'..=b'9') => {
                // A number that begins with 0 is 0.
                let before = number.filter(|number| *number > 0);
                let tenfold = before.and_then(|number| number.checked_mul(10));
                *number = tenfold.and_then(|number| number.checked_add((byte - b'0').into()));
            }
            (Step::Number(number), b'.' | b'e' | b'E' | b'+' | b'-') => *number = None,
            (Step::Number(number), _) if is_space || matches!(byte, b',' | b']' | b'}') => {
                let number = *number;
                self.step = Step::After;
                let depth = self.open.len();
                let ended = self.select(self.wanted, |reader, place| reader.name(place, depth).is_none());
                if let Some(number) = number {
                    each(ended).for_each(|place| found(place, number));
                }
                return false;
            }
            (Step::Word, b'a'..=b'z') => {}
            (Step::Word, _) => {
                self.step = Step::After;
                return false;
            }
            (Step::Text(depth, is_escaped), _) => match (byte, *is_escaped) {
                (b'"', false) if *depth == 0 => self.step = Step::After,
                (b'"', false) => self.step = Step::Skip(*depth),
                (_, escaped) => *is_escaped = byte == b'\\' && !escaped,
            },
            (Step::Skip(1), b'}' | b']') => self.step = Step::After,
            (Step::Skip(depth), b'}' | b']') => *depth -= 1,
            (Step::Skip(depth), b'{' | b'[') => *depth += 1,
            (Step::Skip(depth), b'"') => self.step = Step::Text(*depth, false),
            (Step::Skip(_), _) => {}
            _ => self.step = Step::Lost,
        }
        true
    }

    fn in_name(&mut self, byte: u8) {
        let Step::Name(name) = &mut self.step else { return };
        let pushed = name.push(byte);
        let depth = self.open.len().saturating_sub(1);
        match pushed {
            Pushed::Nothing => {}
            Pushed::Bytes(before, bytes, count) => {
                let fits = |name: &str| {
                    name.as_bytes().get(before..).is_some_and(|rest| rest.starts_with(&bytes[..count]))
                };
                self.wanted =
                    self.select(self.wanted, |reader, place| reader.name(place, depth).is_some_and(fits));
            }
            Pushed::End(length) => {
                let is_whole = |name: &str| name.len() == length;
                self.wanted =
                    self.select(self.wanted, |reader, place| reader.name(place, depth).is_some_and(is_whole));
                self.step = Step::Colon;
            }
            Pushed::Invalid => self.step = Step::Lost,
        }
    }

    /// Enters an object, or a list at this index.
    fn enter(&mut self, index: Option<u64>) {
        let depth = self.open.len();
        let places = self.select(self.wanted, |reader, place| reader.name(place, depth).is_some());
        if places == 0 {
            self.step = Step::Skip(1);
            return;
        }
        self.open.push(Open { places, index });
        if index.is_some() { self.element() } else { self.step = Step::BeforeName }
    }

    /// Expects the element of a list.
    fn element(&mut self) {
        self.step = Step::Value;
        let depth = self.open.len().saturating_sub(1);
        if let Some(Open { places, index: Some(index) }) = self.open.last() {
            let index = *index;
            self.wanted = self.select(*places, |reader, place| {
                reader.name(place, depth).and_then(as_index).is_some_and(|name| name == index)
            });
        }
    }

    /// Goes on behind a comma.
    fn next(&mut self) {
        match self.open.last_mut().and_then(|open| open.index.as_mut()) {
            Some(index) => {
                *index = index.saturating_add(1);
                self.element();
            }
            None => self.step = Step::BeforeName,
        }
    }

    fn leave(&mut self) {
        self.open.pop();
        self.step = Step::After;
    }

    /// Those of several places for which something holds.
    fn select(&self, places: u8, holds: impl Fn(&UsageReader, usize) -> bool) -> u8 {
        each(places).filter(|place| holds(&self.reader, *place)).fold(0, |some, place| some | 1 << place)
    }
}

fn each(places: u8) -> impl Iterator<Item = usize> {
    (0..8).filter(move |place| places & 1 << place != 0)
}

/// The index that a name is: digits, without a zero in front.
fn as_index(name: &str) -> Option<u64> {
    let is_digits = name.bytes().all(|byte| byte.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
    name.parse().ok().filter(|_| is_digits)
}
