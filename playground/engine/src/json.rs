//! Writes JSON. Results have some hundred thousand numbers, which need no other form.

use std::fmt::Write as _;

/// A text as a string of JSON, which is one of TOML and of Rust as well if it has no control characters.
pub(crate) fn quoted(text: &str) -> String {
    let mut json = Json::default();
    json.text(text);
    json.0
}

/// A text in JSON that grows.
#[derive(Default)]
pub(crate) struct Json(String);

impl Json {
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    /// Writes an object, whose members `write` writes.
    pub(crate) fn object(&mut self, write: impl FnOnce(&mut Self)) {
        self.separate();
        self.0.push('{');
        write(self);
        self.0.push('}');
    }

    /// Writes an array, whose values `write` writes.
    pub(crate) fn array(&mut self, write: impl FnOnce(&mut Self)) {
        self.separate();
        self.0.push('[');
        write(self);
        self.0.push(']');
    }

    /// Takes back the end of the object that was written last.
    pub(crate) fn reopen(&mut self) {
        self.0.pop();
    }

    /// Ends the object that was reopened.
    pub(crate) fn close(mut self) -> String {
        self.0.push('}');
        self.0
    }

    pub(crate) fn key(&mut self, key: &str) {
        self.text(key);
        self.0.push(':');
    }

    pub(crate) fn member(&mut self, key: &str, text: &str) {
        self.key(key);
        self.text(text);
    }

    pub(crate) fn number(&mut self, key: &str, number: impl Into<i128>) {
        self.key(key);
        self.value(number);
    }

    pub(crate) fn list<T>(
        &mut self,
        key: &str,
        items: impl Iterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.key(key);
        self.array(|json| items.for_each(|item| write(json, item)));
    }

    pub(crate) fn numbers(&mut self, numbers: impl IntoIterator<Item = i64>) {
        self.array(|json| numbers.into_iter().for_each(|number| json.value(number)));
    }

    pub(crate) fn value(&mut self, number: impl Into<i128>) {
        self.separate();
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{}", number.into());
    }

    pub(crate) fn null(&mut self) {
        self.separate();
        self.0.push_str("null");
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.separate();
        self.0.push('"');
        for character in text.chars() {
            match character {
                '"' | '\\' => self.0.extend(['\\', character]),
                '\n' => self.0.push_str("\\n"),
                control if control < ' ' => {
                    let _ = write!(self.0, "\\u{:04x}", u32::from(control));
                }
                other => self.0.push(other),
            }
        }
        self.0.push('"');
    }

    /// Writes a comma between two values.
    fn separate(&mut self) {
        if !matches!(self.0.as_bytes().last(), None | Some(b'{' | b'[' | b':')) {
            self.0.push(',');
        }
    }
}
