//! Reads the fields of a strategy or a policy.

mod lease;

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, Expected, MapAccess, Unexpected, Visitor};

use super::kind::Kind;
use super::values::{Limit, Number, Text, one_of, quoted, unexpected_text};
use super::windows::ReadWindows;
use crate::quota::duration;
use crate::{Anchor, FailureMode, PolicyName, Quota, Refill, Timestamp, WindowTable};
use lease::{Lease, LeaseVisitor};

/// The fields as they are given; [`Fields::strategy`] checks them.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) kind: Option<Kind>,
    pub(super) quota: Option<Quota>,
    /// That of an unlimited quota where the text of one is given.
    pub(super) limit: Option<u64>,
    pub(super) is_unlimited: bool,
    pub(super) period: Option<Duration>,
    pub(super) burst: Option<u64>,
    pub(super) refill: Option<Refill>,
    pub(super) anchor: Option<Anchor>,
    pub(super) slots: Option<u32>,
    pub(super) windows: Option<&'static WindowTable>,
    pub(super) name: Option<PolicyName>,
    pub(super) on_store_failure: Option<FailureMode>,
    lease: Option<Lease>,
    pub(super) wait: Option<Duration>,
    pub(super) debt: Option<u64>,
    pub(super) caller_quotas: Option<(Quota, Quota)>,
    pub(super) overrides: Option<bool>,
}

pub(super) struct FieldsVisitor {
    pub(super) expecting: &'static str,
    /// [`strategy_field`] or [`policy_field`].
    pub(super) field: fn(&str) -> Result<Field, String>,
    /// Makes the windows of a calendar from their description.
    pub(super) windows: ReadWindows,
}

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Fields, E> {
        Err(unexpected_text(text, &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::default();
        while let Some(field) =
            map.next_key_seed(Text { expecting: "the name of a field", parse: self.field })?
        {
            fields.read(field, self.windows, &mut map)?;
        }
        Ok(fields)
    }
}

impl Fields {
    fn read<'de, A: MapAccess<'de>>(
        &mut self,
        field: Field,
        windows: ReadWindows,
        map: &mut A,
    ) -> Result<(), A::Error> {
        match field {
            Field::Strategy => {
                let text = Text { expecting: "`strategy`, a name such as \"gcra\"", parse: Kind::named };
                store(&mut self.kind, "strategy", map.next_value_seed(text)?)
            }
            Field::Quota => store(&mut self.quota, "quota", map.next_value()?),
            Field::Limit => {
                let limit = map.next_value_seed(Limit)?;
                self.is_unlimited = limit.is_none();
                store(&mut self.limit, "limit", limit.unwrap_or(Quota::UNLIMITED.limit()))
            }
            Field::Period => {
                let text = Text { expecting: "`period`, a duration such as \"15min\"", parse: duration };
                store(&mut self.period, "period", map.next_value_seed(text)?)
            }
            Field::Burst => store(
                &mut self.burst,
                "burst",
                map.next_value_seed(Number::new("`burst`, a whole number of units"))?,
            ),
            Field::Refill => {
                let text = Text { expecting: "`refill`, \"greedy\" or \"interval\"", parse: refill };
                store(&mut self.refill, "refill", map.next_value_seed(text)?)
            }
            Field::Anchor => store(&mut self.anchor, "anchor", map.next_value_seed(AnchorVisitor)?),
            Field::Slots => store(
                &mut self.slots,
                "slots",
                map.next_value_seed(Number::new("`slots`, a number from 1 to 1000"))?,
            ),
            Field::Windows => {
                let text =
                    Text { expecting: "`windows`, such as \"months in Europe/Berlin\"", parse: windows };
                store(&mut self.windows, "windows", map.next_value_seed(text)?)
            }
            Field::Name => store(&mut self.name, "name", map.next_value()?),
            Field::OnStoreFailure => store(&mut self.on_store_failure, "on_store_failure", map.next_value()?),
            Field::Lease => store(&mut self.lease, "lease", map.next_value_seed(LeaseVisitor)?),
            Field::Wait => {
                let text = Text { expecting: "`wait`, a duration such as \"500ms\"", parse: duration };
                store(&mut self.wait, "wait", map.next_value_seed(text)?)
            }
            Field::Debt => store(
                &mut self.debt,
                "debt",
                map.next_value_seed(Number::new("`debt`, a whole number of units"))?,
            ),
            Field::Overrides => store(&mut self.overrides, "overrides", map.next_value()?),
            Field::CallerQuotas => store(&mut self.caller_quotas, "caller_quotas", map.next_value()?),
        }
    }
}

fn store<T, E: Error>(place: &mut Option<T>, field: &'static str, value: T) -> Result<(), E> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(field)),
    }
}

fn refill(text: &str) -> Result<Refill, String> {
    one_of("refill", text, &[("greedy", Refill::Greedy), ("interval", Refill::Interval)])
}

struct AnchorVisitor;

impl<'de> DeserializeSeed<'de> for AnchorVisitor {
    type Value = Anchor;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Anchor, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for AnchorVisitor {
    type Value = Anchor;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let latest = Timestamp::MAX.as_micros();
        write!(
            f,
            "`anchor`: \"epoch\", \"first_request\", or microseconds since the Unix epoch from 0 to {latest}"
        )
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Anchor, E> {
        match text {
            "epoch" => Ok(Anchor::Epoch),
            "first_request" => Ok(Anchor::FirstRequest),
            _ => {
                let expected: &dyn Expected = &self;
                Err(E::custom(format_args!("unknown anchor {}, expected {expected}", quoted(text))))
            }
        }
    }

    fn visit_u64<E: Error>(self, micros: u64) -> Result<Anchor, E> {
        if micros > Timestamp::MAX.as_micros() {
            return Err(E::invalid_value(Unexpected::Unsigned(micros), &self));
        }
        Ok(Anchor::Instant(Timestamp::from_micros(micros)))
    }

    fn visit_i64<E: Error>(self, micros: i64) -> Result<Anchor, E> {
        match u64::try_from(micros) {
            Ok(micros) => self.visit_u64(micros),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(micros), &self)),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum Field {
    Strategy,
    Quota,
    Limit,
    Period,
    Burst,
    Refill,
    Anchor,
    Slots,
    Windows,
    Name,
    OnStoreFailure,
    Lease,
    Wait,
    Debt,
    CallerQuotas,
    Overrides,
}

pub(super) fn strategy_field(text: &str) -> Result<Field, String> {
    one_of("field", text, &FIELDS[..STRATEGY_FIELDS])
}

pub(super) fn policy_field(text: &str) -> Result<Field, String> {
    one_of("field", text, &FIELDS)
}

/// The fields of a policy, those of its strategy first.
const FIELDS: [(&str, Field); 16] = [
    ("strategy", Field::Strategy),
    ("quota", Field::Quota),
    ("limit", Field::Limit),
    ("period", Field::Period),
    ("burst", Field::Burst),
    ("refill", Field::Refill),
    ("anchor", Field::Anchor),
    ("slots", Field::Slots),
    ("windows", Field::Windows),
    ("lease", Field::Lease),
    ("name", Field::Name),
    ("on_store_failure", Field::OnStoreFailure),
    ("wait", Field::Wait),
    ("debt", Field::Debt),
    ("caller_quotas", Field::CallerQuotas),
    ("overrides", Field::Overrides),
];
const STRATEGY_FIELDS: usize = 10;
