//! Reads what a response states that it has used, as its body passes.

use http::{Response, StatusCode};
use portcullis_engine::UsageLoss;
use portcullis_usage::{Count, Unreadable, UsageReader, UsageScan};
use smallvec::SmallVec;

use crate::Usage;
use crate::charge::usage::Counter;

/// The scans of one response: one for each place where policies look for the usage.
pub(super) struct UsageScans {
    usage: Usage,
    scans: SmallVec<[(UsageReader, UsageScan); 1]>,
}

impl UsageScans {
    /// `None` if no policy reads the usage, or the response has no body.
    pub(super) fn of<B>(usage: &Usage, has_no_body: bool, response: &Response<B>) -> Option<Self> {
        let mut scans: SmallVec<[(UsageReader, UsageScan); 1]> = SmallVec::new();
        for counter in usage.counters() {
            let Some(reader) = counter.reader() else { continue };
            if has_failed(response.status()) {
                counter.set(0);
            }
            if !scans.iter().any(|(known, _)| known == reader) {
                scans.push((reader.clone(), reader.scan(response.headers())));
            }
        }
        let is_read = !has_no_body && !scans.is_empty();
        is_read.then(|| Self { usage: usage.clone(), scans })
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        for (reader, scan) in &mut self.scans {
            if let Some(count) = scan.push(bytes) {
                counters_of(&self.usage, reader).for_each(|counter| counter.set_read(count));
            }
        }
    }

    /// The counters that do not have the whole usage of a response that was read to its end.
    pub(super) fn lost(&self) -> impl Iterator<Item = (&Counter, UsageLoss)> {
        let lost = self.scans.iter().filter(|(_, scan)| !matches!(scan.count(), Some(Count::Total(_))));
        lost.flat_map(|(reader, scan)| {
            let cause = scan.unreadable().map_or(UsageLoss::Missing, loss);
            // A handler may have counted, and a response that has failed uses nothing.
            let is_lost = |counter: &&Counter| scan.count().is_some() || counter.units().is_none();
            counters_of(&self.usage, reader).filter(is_lost).map(move |counter| (counter, cause))
        })
    }
}

fn counters_of<'a>(usage: &'a Usage, reader: &UsageReader) -> impl Iterator<Item = &'a Counter> {
    usage.counters().iter().filter(move |counter| counter.reader() == Some(reader))
}

/// Whether nothing is used. Whether what is behind a gateway that has waited for too long has done its work is unknown.
fn has_failed(status: StatusCode) -> bool {
    let is_error = status.is_redirection() || status.is_client_error() || status.is_server_error();
    is_error && status != StatusCode::GATEWAY_TIMEOUT
}

fn loss(unreadable: Unreadable) -> UsageLoss {
    match unreadable {
        Unreadable::ContentType => UsageLoss::ContentType,
        Unreadable::Encoding => UsageLoss::Encoding,
        Unreadable::TooLarge => UsageLoss::TooLarge,
        Unreadable::TooDense => UsageLoss::TooDense,
        _ => UsageLoss::Damaged,
    }
}
