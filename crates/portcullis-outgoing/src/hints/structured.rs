//! The structured fields `RateLimit` and `RateLimit-Policy`.

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use portcullis_response::headers::{RATELIMIT, RATELIMIT_POLICY};
use sfv::{BareItem, Item, List, ListEntry, Parser};

use super::{Hint, Invalid};

/// The longest time until one of the exhausted policies has units again: `t` of an item with `r=0`, or the window `w` of the policy
/// if the item has no `t`. `None` if no policy is exhausted. A field that is malformed is ignored as a whole.
///
/// Source: draft-ietf-httpapi-ratelimit-headers-11.
pub(super) fn exhausted(headers: &HeaderMap) -> Hint {
    let Some(field) = joined(headers, &RATELIMIT)? else { return Ok(None) };
    let mut longest = None;
    for item in items(&field)? {
        if integer(&item, "r")?.ok_or(Invalid)? > 0 {
            continue;
        }
        let seconds = match integer(&item, "t")? {
            Some(seconds) => Some(seconds),
            None => window(headers, &item)?,
        };
        longest = longest.max(seconds.map(Duration::from_secs));
    }
    Ok(longest)
}

/// The window of the policy that an item is about.
fn window(headers: &HeaderMap, of: &Item) -> Result<Option<u64>, Invalid> {
    let Some(field) = joined(headers, &RATELIMIT_POLICY)? else { return Ok(None) };
    match items(&field)?.iter().find(|item| name(item) == name(of)) {
        Some(item) => integer(item, "w"),
        None => Ok(None),
    }
}

fn items(field: &[u8]) -> Result<Vec<Item>, Invalid> {
    let list: List = Parser::new(field).parse().map_err(|_| Invalid)?;
    list.into_iter()
        .map(|member| match member {
            ListEntry::Item(item) if name(&item).is_some() => Ok(item),
            _ => Err(Invalid),
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

/// A parameter that is an integer, and not negative.
fn integer(item: &Item, name: &str) -> Result<Option<u64>, Invalid> {
    let Some((_, value)) = item.params.iter().find(|(key, _)| key.as_str() == name) else { return Ok(None) };
    let integer = i64::from(value.as_integer().ok_or(Invalid)?);
    u64::try_from(integer).map(Some).map_err(|_| Invalid)
}

/// The lines of a field as one.
fn joined<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<Cow<'a, [u8]>>, Invalid> {
    let mut field: Option<Cow<'a, [u8]>> = None;
    for line in headers.get_all(name) {
        let line = line.as_bytes();
        let length = field.as_ref().map_or(0, |field| field.len() + 2).saturating_add(line.len());
        if length > MAX_LENGTH {
            return Err(Invalid);
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
