//! What the value of a field may be.

use super::Table;

/// What a value may be.
#[derive(Clone, Copy)]
pub(crate) enum ValueKind {
    Text,
    /// A text of a form that only its reader knows exactly: a pattern that it has to match, and an example.
    Form(&'static str, &'static str),
    Bool,
    /// A whole number from the first to the second.
    Integer(u64, u64),
    /// A number from the first to the second.
    Number(f64, f64),
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// The name of a field of the table.
    FieldOf(&'static Table),
    Nested(&'static Table),
    /// A value of a name of its own, because it may be inside of itself.
    Named(&'static str, &'static ValueKind),
    /// A list of at least the first number of values, and at most the second.
    List(&'static ValueKind, usize, usize),
    /// A value, or a list of such values.
    OneOrMore(&'static ValueKind),
    /// A table whose names the author chooses.
    Map(&'static ValueKind),
    AnyOf(&'static [ValueKind]),
}

impl ValueKind {
    /// The table that it may be, alone or in a list.
    pub(crate) fn table(&self) -> Option<&'static Table> {
        match self {
            Self::Nested(table) => Some(table),
            Self::Named(_, kind) | Self::List(kind, ..) | Self::OneOrMore(kind) | Self::Map(kind) => {
                kind.table()
            }
            Self::AnyOf(kinds) => kinds.iter().find_map(Self::table),
            _ => None,
        }
    }
}

/// As many as there are.
pub(super) const ANY: usize = usize::MAX;

/// Any number of units.
pub(super) const UNITS: ValueKind = ValueKind::Integer(0, u64::MAX);
pub(super) const POSITIVE: ValueKind = ValueKind::Integer(1, u64::MAX);
pub(super) const TEXTS: ValueKind = ValueKind::OneOrMore(&ValueKind::Text);
/// Any number of units, or no limit.
pub(super) const LIMIT: ValueKind = ValueKind::AnyOf(&[UNITS, ValueKind::Choice(&["unlimited"])]);
pub(super) const QUOTA: ValueKind = ValueKind::Form(r"^\s*([0-9_]+\s*/\s*\S|unlimited\s*$)", "10/s burst 20");
pub(super) const DURATION: ValueKind = ValueKind::Form(r"^\s*[0-9]", "1m 30s");

/// The names of the choices of a field.
pub(super) const fn names<T: Copy, const N: usize>(choices: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut index = 0;
    while index < N {
        names[index] = choices[index].0;
        index += 1;
    }
    names
}
