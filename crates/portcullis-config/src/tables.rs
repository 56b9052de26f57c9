//! The tables of rules in files: their fields, what each may be, and what it does. The reader, the schema and the page
//! `docs/reference/rules.md` are made from them.

/// Defines a table: its name, what it is, how many fields it has, and a row for each field.
macro_rules! table {
    ($visible:vis $table:ident, $name:literal, $about:literal, $least:literal to $most:expr;
     $($field:literal, $kind:expr, $what:literal $(, $option:ident($($value:literal)?))?;)*) => {
        $visible static $table: Table = Table {
            name: $name,
            about: $about,
            least: $least,
            most: $most,
            fields: &[$(Field::new($field, $kind, $what)$(.$option($($value)?))?),*],
        };
    };
}

mod file;
mod kind;
mod parts;
mod policy;
#[cfg(test)]
mod tests;

pub(crate) use file::{CLIENT_IP, FORMATS, HEADERS, LAYER, REMOTE, ROOT};
pub(crate) use kind::ValueKind;
pub(crate) use parts::{
    COST, COST_WHEN, KEY_SOURCE, MATCH, PARAMETER_TABLE, PLAIN_KEYS, REQUESTS, UNTIL, VALUE_TABLE,
};
#[cfg(feature = "usage")]
pub(crate) use policy::USAGES;
pub(crate) use policy::{MODES, MOST_UNSETTLED, ON_ABORT, ON_MISSING, POLICY};

/// A table of a file.
pub(crate) struct Table {
    /// What the schema and the page call it.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) fields: &'static [Field],
    /// The fewest fields that are given.
    pub(crate) least: usize,
    /// The most fields that are given.
    pub(crate) most: usize,
}

/// A field of a table.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: ValueKind,
    pub(crate) about: &'static str,
    pub(crate) required: Required,
    /// What it is where a file leaves it out: JSON, or a text without its quotes.
    pub(crate) default: Option<&'static str>,
}

/// Whether a table needs a field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Required {
    No,
    /// With the help for a table that lacks it.
    Yes(Option<&'static str>),
    /// The strategy, which is read with the fields that it has. Its reader reports it.
    ByStrategy,
}

impl Table {
    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The names of the fields, in their order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.fields.iter().map(|field| field.name)
    }
}

impl Field {
    const fn new(name: &'static str, kind: ValueKind, about: &'static str) -> Self {
        Self { name, kind, about, required: Required::No, default: None }
    }

    const fn required(self) -> Self {
        Self { required: Required::Yes(None), ..self }
    }

    const fn required_with(self, help: &'static str) -> Self {
        Self { required: Required::Yes(Some(help)), ..self }
    }

    const fn by_strategy(self) -> Self {
        Self { required: Required::ByStrategy, ..self }
    }

    const fn default(self, value: &'static str) -> Self {
        Self { default: Some(value), ..self }
    }
}
