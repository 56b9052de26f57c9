//! The structured fields `RateLimit` and `RateLimit-Policy`.

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use portcullis_response::headers::{RATELIMIT, RATELIMIT_POLICY};
use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parser};

use super::{Hint, Invalid};

/// The longest time until one of the exhausted policies has units again: `t` of an item with `r=0`, or the window `w` of the policy
/// if the item has no `t`; in a line of draft 7 `reset`, if `remaining=0`. `None` if no policy is exhausted. A field that is malformed
/// is ignored as a whole.
///
/// Source: draft-ietf-httpapi-ratelimit-headers-11, and draft 7, section 5.1.
pub(super) fn exhausted(headers: &HeaderMap) -> Hint {
    let Some(field) = joined(headers, &RATELIMIT)? else { return Ok(None) };
    let Some(items) = items(&field) else { return draft_7(headers) };
    let mut longest = None;
    for item in items {
        if integer(&item, "r", &RATELIMIT)?.ok_or_else(|| Invalid::of(&RATELIMIT))? > 0 {
            continue;
        }
        let seconds = match integer(&item, "t", &RATELIMIT)? {
            Some(seconds) => Some(seconds),
            None => window(headers, &item)?,
        };
        longest = longest.max(seconds.map(Duration::from_secs));
    }
    Ok(longest)
}

/// Reads lines such as `limit=2, remaining=0, reset=45`. Each is a budget.
fn draft_7(headers: &HeaderMap) -> Hint {
    let mut longest = None;
    for line in headers.get_all(&RATELIMIT) {
        let (remaining, reset) =
            remaining_and_reset(line.as_bytes()).ok_or_else(|| Invalid::of(&RATELIMIT))?;
        if remaining == 0 {
            longest = longest.max(Some(Duration::from_secs(reset)));
        }
    }
    Ok(longest)
}

fn remaining_and_reset(line: &[u8]) -> Option<(u64, u64)> {
    let line: Dictionary = Parser::new(line).parse().ok()?;
    let number = |name: &str| match line.get(name)? {
        ListEntry::Item(item) => u64::try_from(i64::from(item.bare_item.as_integer()?)).ok(),
        ListEntry::InnerList(_) => None,
    };
    Some((number("remaining")?, number("reset")?))
}

/// The window of the policy that an item is about.
fn window(headers: &HeaderMap, of: &Item) -> Result<Option<u64>, Invalid> {
    let Some(field) = joined(headers, &RATELIMIT_POLICY)? else { return Ok(None) };
    let items = items(&field).ok_or_else(|| Invalid::of(&RATELIMIT_POLICY))?;
    match items.iter().find(|item| name(item) == name(of)) {
        Some(item) => integer(item, "w", &RATELIMIT_POLICY),
        None => Ok(None),
    }
}

/// `None` if the field is no list of named items.
fn items(field: &[u8]) -> Option<Vec<Item>> {
    let list: List = Parser::new(field).parse().ok()?;
    list.into_iter()
        .map(|member| match member {
            ListEntry::Item(item) if name(&item).is_some() => Some(item),
            _ => None,
        })
        .collect()
}

fn name(item: &Item) -> Option<&str> {
    match &item.bare_item {
        BareItem::String(name) => Some(name.as_str()),
        BareItem::Token(name) => Some(name.as_str()),
        _ => None,
    }
}

/// A parameter that is an integer, and not negative. The item is from the header `of`.
fn integer(item: &Item, name: &str, of: &HeaderName) -> Result<Option<u64>, Invalid> {
    let Some((_, value)) = item.params.iter().find(|(key, _)| key.as_str() == name) else { return Ok(None) };
    let integer = value.as_integer().and_then(|integer| u64::try_from(i64::from(integer)).ok());
    integer.map(Some).ok_or_else(|| Invalid::of(of))
}

/// The lines of a field as one.
fn joined<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<Cow<'a, [u8]>>, Invalid> {
    let mut field: Option<Cow<'a, [u8]>> = None;
    for line in headers.get_all(name) {
        let line = line.as_bytes();
        let length = field.as_ref().map_or(0, |field| field.len() + 2).saturating_add(line.len());
        if length > MAX_LENGTH {
            return Err(Invalid::of(name));
        }
        match &mut field {
            None => field = Some(Cow::Borrowed(line)),
            Some(field) => {
                let field = field.to_mut();
                field.extend_from_slice(b", ");
                field.extend_from_slice(line);
            }
        }
    }
    Ok(field)
}

/// A few dozen policies.
const MAX_LENGTH: usize = 1_024;
