//! The calls of the service of reservations.

use std::sync::Arc;
use std::time::Duration;

use portcullis::store::RecordExchange;
use portcullis_engine::{EventKeys, EventKind, Limits};
use prost::Message as _;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::commit::Commit;
use super::expiry;
use super::open::Open;
use super::record::Reserved;
use crate::call::Call;
use crate::limits::Reservation;
use crate::messages::rate_limit_response::Code;
use crate::messages::{
    CommitRequest, CommitResponse, RateLimitRequest, RateLimitResponse, ReserveRequest, ReserveResponse,
};
use crate::{CallError, ChargeDeniedHits, RateLimitService, verdict};

impl RateLimitService {
    /// Charges all limits that apply to a request the amount, or none, until it is [committed](Self::commit) or ends. See
    /// [Reservations](crate#reservations).
    ///
    /// ```
    /// use portcullis::Limiter;
    /// use portcullis::rules::envoy::Descriptors;
    /// use portcullis_rls::RateLimitService;
    /// use portcullis_rls::messages::rate_limit_descriptor::Entry;
    /// use portcullis_rls::messages::{CommitRequest, RateLimitDescriptor, ReserveRequest, rate_limit_response::Code};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let text = "{domain: llm, descriptors: [{key: tokens, rate_limit: {unit: day, requests_per_unit: 1000}}]}";
    /// let service = RateLimitService::envoy(Limiter::memory(), Descriptors::parse(&[("llm.yaml", text)])?);
    /// let entry = Entry { key: "tokens".into(), value: "ada".into() };
    /// let descriptors = vec![RateLimitDescriptor { entries: vec![entry], ..Default::default() }];
    /// let ttl = Some(std::time::Duration::from_secs(30).try_into()?);
    /// let reserve = ReserveRequest { domain: "llm".into(), descriptors, amount: 600, ttl };
    ///
    /// let reserved = service.reserve(&reserve).await?;
    /// assert_eq!(reserved.code(), Code::Ok);
    /// assert_eq!(service.reserve(&reserve).await?.code(), Code::OverLimit, "600 of 1000 are held");
    /// let commit = CommitRequest {
    ///     domain: "llm".into(),
    ///     reservation_id: reserved.reservation_id,
    ///     actual_amount: 250,
    ///     ..Default::default()
    /// };
    /// assert!(service.commit(&commit).await?.reservation_released);
    /// assert_eq!(service.reserve(&reserve).await?.code(), Code::Ok, "250 are used");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the call is not valid, or the store cannot answer.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped once it was polled, the reservation is made all the same, and ends as one that is not committed. The amount
    /// of a request of more than 4 KiB, or of one beside a thousand others, may stay charged.
    ///
    /// # Panics
    ///
    /// Panics outside of a Tokio runtime.
    pub async fn reserve(&self, request: &ReserveRequest) -> Result<ReserveResponse, CallError> {
        let ttl = request.ttl.and_then(|ttl| Duration::try_from(ttl).ok());
        let ttl = ttl.filter(|ttl| (SHORTEST..=LONGEST).contains(ttl)).ok_or(CallError::Ttl)?;
        // In a task of its own: what a caller was charged that has left would be given back by nothing. Their number and size are bounded.
        let permit = self.limiter.engine().backlog.task_permit();
        let Some(permit) = permit.ok().filter(|_| request.encoded_len() <= MOST_DETACHED_BYTES) else {
            return self.reserve_for(request, ttl).await;
        };
        let (service, request) = (self.clone(), request.clone());
        let (answer, reserved) = oneshot::channel();
        drop(permit.spawn(async move {
            // Nobody waits any more, and the reservation ends by itself.
            let _ = answer.send(service.reserve_for(&request, ttl).await);
        }));
        reserved.await.unwrap_or(Err(CallError::StoreFailed))
    }

    async fn reserve_for(
        &self,
        request: &ReserveRequest,
        ttl: Duration,
    ) -> Result<ReserveResponse, CallError> {
        let call = Call::of_amount(&request.domain, &request.descriptors, request.amount)?;
        let registry = self.reservations.registry();
        let Reservation { over, held, limits } = self.limits.reserve(self, &call).await?;
        let answer = |code: Code, reservation_id| ReserveResponse { code: code.into(), reservation_id };
        if over {
            let code = if self.shadow { Code::Ok } else { Code::OverLimit };
            return Ok(answer(code, String::new()));
        }
        let reserved = Reserved { amount: request.amount, ttl, held };
        if reserved.held.is_empty() {
            return Ok(answer(Code::Ok, String::new()));
        }
        let Some(place) = registry.place(reserved.narrowest_key()) else {
            refuse(&reserved, &limits).await;
            return Ok(answer(Code::OverLimit, String::new()));
        };
        let mut bytes = [0; 16];
        let domain = self.fingerprint_of_domain(&request.domain);
        let is_made = getrandom::fill(&mut bytes).is_ok();
        let id = u128::from_be_bytes(bytes);
        let record = match reserved.encode(domain).filter(|_| is_made) {
            Some(record) => {
                let replacement = Some((record.clone(), reserved.kept_for()));
                let exchange = RecordExchange { id, expected: Vec::new(), replacement };
                match limits.engine().store().exchange_record(exchange).await {
                    Ok(Some(exchanged)) if !exchanged.is_replaced => Err(None),
                    Ok(exchanged) => Ok(exchanged.map(|_| record)),
                    Err(error) => Err(Some(error)),
                }
            }
            None if is_made => Ok(None),
            None => Err(None),
        };
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                if let Some(error) = error {
                    limits.emit_store_state(Some(&error));
                }
                reserved.settle(&limits, 0).await;
                return Err(CallError::StoreFailed);
            }
        };
        let ends_at = Instant::now() + ttl;
        let due = registry.due(ends_at);
        expiry::keep(registry, id, Open { domain, ends_at, due, reserved, limits, record, _place: place });
        Ok(answer(Code::Ok, format!("{id:032x}")))
    }

    /// Settles a reservation at what was used, or without an id charges that as [`report`](Self::report) does. See
    /// [Reservations](crate#reservations).
    ///
    /// # Errors
    ///
    /// If the call is not valid, the reservation is unknown, or the store cannot answer.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the reservation is settled all the same, or was not yet claimed.
    ///
    /// # Panics
    ///
    /// Panics outside of a Tokio runtime.
    pub async fn commit(&self, request: &CommitRequest) -> Result<CommitResponse, CallError> {
        let (id, actual) = (request.reservation_id.as_str(), request.actual_amount);
        if id.is_empty() {
            let call = Call::of_amount(&request.domain, &request.descriptors, actual)?;
            if actual > 0 {
                self.limits.decide(self, &call, self.charge_reports()).await?;
            }
            return Ok(CommitResponse { reservation_released: false });
        }
        let is_written_here = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let id = Some(id).filter(|id| id.len() == 32 && id.bytes().all(is_written_here));
        let id = id.and_then(|id| u128::from_str_radix(id, 16).ok()).ok_or(CallError::UnknownReservation)?;
        crate::call::check_domain(&request.domain)?;
        let domain = self.fingerprint_of_domain(&request.domain);
        Commit { id, domain, actual }.run(self.reservations.registry(), self).await?;
        Ok(CommitResponse { reservation_released: true })
    }

    /// Charges what a request has used. If that does not fit, what is left is charged, unless
    /// [`charge_denied_hits`](Self::charge_denied_hits) is [`Never`](ChargeDeniedHits::Never).
    ///
    /// # Errors
    ///
    /// Like [`decide`](Self::decide).
    pub async fn report(&self, request: &RateLimitRequest) -> Result<RateLimitResponse, CallError> {
        self.answer(&Call::read(request)?, self.charge_reports()).await
    }

    /// Asks whether something is left of each limit, and charges nothing, whatever the hits.
    ///
    /// # Errors
    ///
    /// Like [`decide`](Self::decide).
    pub async fn check(&self, request: &RateLimitRequest) -> Result<RateLimitResponse, CallError> {
        let mut call = Call::read(request)?;
        call.descriptors.iter_mut().for_each(|descriptor| {
            descriptor.hits = 0;
            descriptor.is_refund = false;
        });
        self.answer(&call, ChargeDeniedHits::Never).await
    }

    pub(crate) async fn answer(
        &self,
        call: &Call<'_>,
        charge_denied: ChargeDeniedHits,
    ) -> Result<RateLimitResponse, CallError> {
        let mut verdict = self.limits.decide(self, call, charge_denied).await?;
        verdict.over &= !self.shadow;
        Ok(verdict::response(verdict, self.headers))
    }

    /// A report is one whatever its hits are.
    fn charge_reports(&self) -> ChargeDeniedHits {
        match self.charge_denied_hits {
            ChargeDeniedHits::Never => ChargeDeniedHits::Never,
            _ => ChargeDeniedHits::Always,
        }
    }

    /// A reservation is of one domain, and of one secret.
    fn fingerprint_of_domain(&self, domain: &str) -> u128 {
        let key = self.limiter.key(|key| key.part("reservation of domain", domain.as_bytes()));
        key.map(|key| key.fingerprint()).unwrap_or_default()
    }
}

/// Refunds a reservation for which there is no place, and emits that.
async fn refuse(reserved: &Reserved, limits: &Arc<Limits>) {
    reserved.settle(limits, 0).await;
    if let Some(held) = reserved.held.first() {
        let policy = held.receipt.policy().name();
        limits.emit(EventKind::TooManyUnsettled { policy }, || EventKeys::One(policy, held.receipt.key()));
    }
}

/// Of a request whose caller may leave.
const MOST_DETACHED_BYTES: usize = 4_096;
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(3_600);
