//! The commit of a reservation: claimed, settled, and answered again if it is repeated.

use std::sync::Arc;
use std::time::Duration;

use portcullis::store::{ExchangedRecord, RecordExchange};
use portcullis::{Policy, PolicyName};
use portcullis_engine::Limits;
use portcullis_log::{Counted, LogThrottle, codes};
use tokio::time::Instant;

use super::expiry;
use super::open::Open;
use super::record::{self, Record, Reserved};
use super::registry::{Registry, Taken};
use crate::{CallError, RateLimitService};

/// A reservation that is to be committed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Commit {
    pub(super) id: u128,
    /// The fingerprint of the domain.
    pub(super) domain: u128,
    pub(super) actual: u64,
}

impl Commit {
    /// Settles the reservation, unless that was done before.
    ///
    /// # Cancel safety
    ///
    /// What was claimed is settled in a task.
    pub(super) async fn run(
        self,
        registry: &Arc<Registry>,
        service: &RateLimitService,
    ) -> Result<(), CallError> {
        let registry = Arc::clone(registry);
        let settling = match registry.take(self.id, self.domain, self.actual)? {
            Taken::Committed => return Ok(()),
            Taken::Open(open) => tokio::spawn(async move { self.of_own(&registry, *open).await }),
            Taken::Unknown => {
                let Some((record, reserved)) = self.read(service).await? else { return Ok(()) };
                let policies = reserved.held.iter().map(|held| held.receipt.policy().clone());
                let policies = policies.map(portcullis_engine::Limit::new).collect();
                let limits = Arc::new(service.no_limits.with_policies(policies));
                tokio::spawn(async move { self.of_record(&registry, record, reserved, &limits).await })
            }
        };
        settling.await.unwrap_or(Err(CallError::StoreFailed))
    }

    /// Settles a reservation of this instance.
    async fn of_own(self, registry: &Arc<Registry>, open: Open) -> Result<(), CallError> {
        let claimed = record::claimed(self.domain, registry.token);
        if let Some(expected) = &open.record {
            let replacement = Some((claimed.clone(), CLAIM));
            let exchange = RecordExchange { id: self.id, expected: expected.clone(), replacement };
            match open.limits.engine().store().exchange_record(exchange).await {
                Ok(Some(exchanged)) if !is_claimed(&exchanged, &claimed) => {
                    match Record::read(&exchanged.found, self.domain) {
                        Some(Record::Committed) => {
                            registry.finish(self.id, self.domain, Some(Instant::now() + open.reserved.ttl));
                            return Ok(());
                        }
                        Some(Record::Claimed) => {
                            expiry::keep(registry, self.id, open);
                            return Err(CallError::BeingCommitted);
                        }
                        Some(Record::Open(_)) | None => {
                            open.reserved.keep(&open.limits);
                            registry.finish(self.id, self.domain, None);
                            return Err(CallError::UnknownReservation);
                        }
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    open.limits.emit_store_state(Some(&error));
                    // The claim may have been made: it is recognised when the commit is repeated.
                    expiry::keep(registry, self.id, open);
                    return Err(CallError::StoreFailed);
                }
            }
        }
        open.reserved.settle(&open.limits, self.actual).await;
        let is_kept = registry.finish(self.id, self.domain, Some(Instant::now() + open.reserved.ttl));
        if open.record.is_some() {
            self.keep_answer(claimed, is_kept, open.reserved.ttl, &open.limits).await;
        }
        Ok(())
    }

    /// Reads the record of a reservation of another instance. `None` if it was committed.
    async fn read(self, service: &RateLimitService) -> Result<Option<(Vec<u8>, Reserved)>, CallError> {
        let answer = service.limiter.store().exchange_record(RecordExchange::read(self.id)).await;
        let answer = answer.inspect_err(|error| service.no_limits.emit_store_state(Some(error)));
        let found = match answer {
            Ok(Some(ExchangedRecord { found, .. })) => found,
            Ok(None) => return Err(CallError::UnknownReservation),
            Err(_) => return Err(CallError::StoreFailed),
        };
        match Record::read(&found, self.domain) {
            Some(Record::Committed) => Ok(None),
            Some(Record::Claimed) => Err(CallError::BeingCommitted),
            None => Err(CallError::UnknownReservation),
            Some(Record::Open(bytes)) => {
                let find = |name: &PolicyName, limit| service.policy_of_receipt(name, limit);
                let Some(reserved) = Reserved::decode(bytes, find) else {
                    log_unreadable(service);
                    return Err(CallError::UnknownReservation);
                };
                let most = reserved.most();
                if self.actual > most {
                    return Err(CallError::ActualTooLarge { actual: self.actual, most });
                }
                Ok(Some((found, reserved)))
            }
        }
    }

    /// Settles a reservation of another instance, if no other one has claimed it since its record was read.
    async fn of_record(
        self,
        registry: &Arc<Registry>,
        record: Vec<u8>,
        reserved: Reserved,
        limits: &Arc<Limits>,
    ) -> Result<(), CallError> {
        let claimed = record::claimed(self.domain, registry.token);
        let replacement = Some((claimed.clone(), CLAIM));
        let exchange = RecordExchange { id: self.id, expected: record.clone(), replacement };
        match limits.engine().store().exchange_record(exchange).await {
            Ok(Some(exchanged)) if exchanged.is_replaced => {}
            Ok(Some(exchanged)) => {
                return match Record::read(&exchanged.found, self.domain) {
                    Some(Record::Committed) => Ok(()),
                    Some(Record::Claimed) => Err(CallError::BeingCommitted),
                    _ => Err(CallError::UnknownReservation),
                };
            }
            Ok(None) => return Err(CallError::UnknownReservation),
            Err(error) => {
                limits.emit_store_state(Some(&error));
                // The claim may have been made: this instance recognises it when the commit is repeated.
                if let Some(place) = registry.place(reserved.narrowest_key()) {
                    let (domain, limits) = (self.domain, Arc::clone(limits));
                    let ends_at = Instant::now() + CLAIM;
                    let due = registry.due(ends_at);
                    let record = Some(record);
                    let open = Open { domain, ends_at, due, reserved, limits, record, _place: place };
                    expiry::keep(registry, self.id, open);
                }
                return Err(CallError::StoreFailed);
            }
        }
        reserved.settle(limits, self.actual).await;
        let is_kept = registry.finish(self.id, self.domain, Some(Instant::now() + reserved.ttl));
        self.keep_answer(claimed, is_kept, reserved.ttl, limits).await;
        Ok(())
    }

    /// Lets all instances answer a repeated commit. If the store fails, the claim ends by itself, and nothing is settled twice.
    async fn keep_answer(self, claimed: Vec<u8>, is_kept: bool, ttl: Duration, limits: &Limits) {
        let ttl = if is_kept { ttl } else { ttl.min(BEYOND) };
        let replacement = Some((record::committed(self.domain), ttl));
        let exchange = RecordExchange { id: self.id, expected: claimed, replacement };
        if let Err(error) = limits.engine().store().exchange_record(exchange).await {
            limits.emit_store_state(Some(&error));
        }
    }
}

impl RateLimitService {
    /// The policy of a receipt that another instance has written.
    fn policy_of_receipt(&self, name: &PolicyName, limit: u64) -> Option<Policy> {
        self.limits.policy(self, name, limit)
    }
}

/// Whether a record is claimed now, or was by a commit whose answer was lost.
fn is_claimed(exchanged: &ExchangedRecord, claimed: &[u8]) -> bool {
    exchanged.is_replaced || exchanged.found == claimed
}

#[cold]
fn log_unreadable(service: &RateLimitService) {
    let unsaid = &service.limiter.engine().backlog.unsaid_lines;
    UNREADABLE.count(1, Some(unsaid), || {
        |counted: Counted| {
            tracing::warn!(
                code = %codes::RESERVATION_UNREADABLE,
                reservations = counted.events,
                "reservations of other instances cannot be read, and stay charged: an instance has other rules, or another version"
            );
        }
    });
}

static UNREADABLE: LogThrottle = LogThrottle::per_minute();

/// How long the store keeps an answer beyond those of the bound, so that the records of an instance are bounded as well.
const BEYOND: Duration = Duration::from_secs(5);
/// How long a claim lasts whose instance is gone. Then the reservation is unknown.
const CLAIM: Duration = Duration::from_secs(60);
