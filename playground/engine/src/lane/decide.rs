//! Decides about the requests of a lane, by the engine.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::Request as HttpRequest;
use http::Response;
use portcullis_core::store::{Checks, Outcome};
use portcullis_core::{Decision, FailureMode, StoreError};
use portcullis_engine::{Ask, Limits, Now, Rejected, StoreCall, is_in_flight, now};
use portcullis_response::Rejection;
use portcullis_response::internal::{Cause, Individual};

use super::leased::ready;
use super::{Lane, Row, Step, Verdict, What};
use crate::json::Json;
use crate::traffic::Request;

impl Lane<'_> {
    /// Decides about a request. Returns the one with which its client tries again.
    pub(super) fn arrive(&mut self, request: Request) -> Option<Request> {
        let (number, instance) = (self.rows.len(), self.instance_of(&request));
        let class = self.scene.clients[request.client].class;
        let mut row = Row::new(request, instance);
        let entered = match &mut self.gate {
            None => None,
            Some(gate) => {
                let Some(entered) = gate.enter(request.at, class) else {
                    row.verdict = Verdict::Shed;
                    self.rows.push(row);
                    return self.reject(number, Cause::Shed);
                };
                Some(entered)
            }
        };
        let decided = self.decide(&request, instance);
        self.steps.push(Step::Check(number));
        let retry = match decided {
            Ok(outcome) => {
                self.admit(row, outcome);
                match entered {
                    Some(entered) => {
                        self.entered.get_or_insert_with(number, || entered);
                        if self.gate.as_mut().is_some_and(|gate| gate.start(number)) {
                            self.schedule_end(number, request.at);
                        }
                    }
                    None if self.receipts.get(&number).is_some() => self.schedule_end(number, request.at),
                    None => self.rows[number].end = Some(request.at + self.rows[number].wait + request.takes),
                }
                None
            }
            Err(rejected) => {
                if let Some(gate) = &mut self.gate {
                    gate.leave();
                }
                row.verdict = if matches!(rejected, Rejected::Limited { .. }) {
                    Verdict::Limited
                } else {
                    Verdict::StoreFailed
                };
                if let Rejected::Limited { outcome, .. } = &rejected {
                    row.show(outcome, self.settings.limits.iter().map(|limit| limit.policy.name().as_str()));
                }
                self.rows.push(row);
                self.reject(number, Cause::Limits(&rejected))
            }
        };
        self.sample_row(request.at, number);
        retry
    }

    /// Whether the limits admit a request, and what they have charged.
    #[expect(clippy::result_large_err, reason = "moved no further than its caller")]
    fn decide(&self, request: &Request, instance: usize) -> Result<Option<Outcome>, Rejected> {
        let limits = &self.instances[instance].limits;
        let mut ask = Ask::new(limits);
        for index in 0..limits.policies().len() {
            ask.add(limits, index, self.key(index, request.client, request.member), request.cost);
        }
        if ask.is_empty() {
            return Ok(None);
        }
        let answer = if ask.is_decided_by_answer(limits) {
            match now::decide(limits, &ask) {
                Now::One(asked, check) => return Ok(Some(asked.outcome(limits, check))),
                Now::All(mut call) => return Ok(Some(now::taken(&mut call))),
                Now::Rejected(rejected) => return Err(rejected),
                Now::Later(Some(call)) => polled(call),
                Now::Later(None) => ready(limits.check(checks(&ask, limits))),
            }
        } else {
            ready(limits.check(checks(&ask, limits)))
        };
        match answer {
            Ok(outcome) if outcome.is_allowed() => Ok(Some(outcome)),
            Ok(outcome) => {
                Err(Rejected::Limited { outcome, checked: ask.checked(), key: ask.narrowest_key() })
            }
            Err(error) if error.kind().is_overload() => Err(Rejected::Overloaded),
            Err(error) => {
                let mut modes = ask.enforced().iter().map(|asked| asked.policy(limits).failure_mode());
                if modes.any(|mode| mode != FailureMode::Open) {
                    return Err(Rejected::StoreFailed);
                }
                Ok(Some(Outcome::unanswered(checks(&ask, limits), limits.engine().now(), error)))
            }
        }
    }

    fn admit(&mut self, mut row: Row, outcome: Option<Outcome>) {
        let number = self.rows.len();
        if let Some(outcome) = outcome {
            row.show(&outcome, self.settings.limits.iter().map(|limit| limit.policy.name().as_str()));
            row.wait = micros(outcome.decision().delay());
            row.verdict = if row.wait > 0 { Verdict::Wait } else { Verdict::Pass };
            row.is_leased = outcome.is_leased();
            if self.wanted == Some(number) {
                let mut response = Response::new(());
                let checks = outcome.checks().iter().as_slice();
                let (decision, all) = (outcome.decision(), outcome.decisions());
                self.responses.write_admitted(decision, all, Individual::Among(checks), false, &mut response);
                self.explained = Some(written(&response, ""));
            }
            let settles = |name: &str| {
                self.settings.limits.iter().any(|limit| limit.settle && limit.policy.name().as_str() == name)
            };
            let owed: Vec<_> = outcome
                .into_receipts()
                .filter(|receipt| is_in_flight(receipt.policy()) || settles(receipt.policy().name().as_str()))
                .collect();
            if !owed.is_empty() {
                self.receipts.get_or_insert_with(number, || owed);
            }
        } else if self.wanted == Some(number) {
            self.explained = Some(written(&Response::new(()), ""));
        }
        self.rows.push(row);
    }

    /// Records the wait of a rejection. Returns the next attempt of its client.
    fn reject(&mut self, number: usize, cause: Cause<'_>) -> Option<Request> {
        let (parts, ()) = HttpRequest::new(()).into_parts();
        let offset = match cause {
            Cause::Shed => SHED_RETRY,
            _ => self.responses.retry_offset(cause),
        };
        let rejection = Rejection::new(&parts, cause).retried_later_by(offset);
        if self.wanted == Some(number) {
            let response = self.responses.render_rejection(&rejection);
            self.explained = Some(written(&response, &String::from_utf8_lossy(response.body())));
        }
        let row = &mut self.rows[number];
        row.retry = rejection.retry_after().map(micros);
        let seconds = rejection.retry_after_seconds()?;
        let Request { at, attempt, attempts, .. } = row.request;
        let again = at.saturating_add(seconds.saturating_mul(1_000_000));
        (attempt < attempts).then_some(Request { at: again, attempt: attempt + 1, ..row.request })
    }

    fn schedule_end(&mut self, number: usize, now: u64) {
        let Row { request, wait, .. } = self.rows[number];
        self.schedule(now + wait + request.takes, What::End(number));
    }

    /// A request has ended: its permits are released, and it is settled at what it has used.
    pub(super) fn end(&mut self, at: u64, number: usize) {
        self.rows[number].end = Some(at);
        let Row { request, instance, .. } = self.rows[number];
        let limits = Arc::clone(&self.instances[instance].limits);
        for receipt in self.receipts.remove(&number).unwrap_or_default() {
            let name = receipt.policy().name().clone();
            let same = |limit: &crate::scene::LimitSettings| *limit.policy.name() == name;
            let Some(limit) = self.settings.limits.iter().position(same) else { continue };
            let step = if is_in_flight(receipt.policy()) {
                ready(limits.refund(receipt)).ok().map(|_| Step::Release { at, row: number, limit })
            } else {
                let cost = request.uses.unwrap_or(request.cost);
                ready(limits.settle(receipt, cost)).ok().map(|_| Step::Settle {
                    at,
                    row: number,
                    limit,
                    cost,
                })
            };
            self.steps.extend(step);
        }
        if let Some(entered) = self.entered.remove(&number)
            && let Some(next) = self.gate.as_mut().and_then(|gate| gate.end(at, entered))
        {
            self.schedule_end(next, at);
        }
        self.sample_row(at, number);
    }
}

impl Row {
    fn new(request: Request, instance: usize) -> Self {
        Self {
            request,
            verdict: Verdict::Pass,
            wait: 0,
            limit: 0,
            remaining: 0,
            reset: 0,
            retry: None,
            policy: None,
            instance,
            is_degraded: false,
            is_leased: false,
            end: None,
        }
    }

    /// Takes over the figures of the decisive decision. `names` are those of the limits.
    fn show<'n>(&mut self, outcome: &Outcome, mut names: impl Iterator<Item = &'n str>) {
        let decision = outcome.decision();
        self.limit = decision.limit();
        self.remaining = decision.remaining();
        self.reset = micros(decision.reset_after());
        self.policy = names.position(|name| name == decision.policy().as_str());
        self.is_degraded = outcome.decisions().iter().any(Decision::is_degraded);
    }
}

fn checks(ask: &Ask, limits: &Limits) -> Checks {
    let enforced = ask.enforced();
    Checks::of(enforced.len(), |number| {
        (enforced[number].policy(limits), enforced[number].key, enforced[number].cost)
    })
}

/// The answer to a call of a store in memory.
fn polled(call: StoreCall) -> Result<Outcome, StoreError> {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("a store in memory answers at once"),
    }
}

/// The status, the header lines and the body of a response.
fn written<B>(response: &Response<B>, body: &str) -> String {
    let mut json = Json::default();
    json.object(|json| {
        json.number("status", response.status().as_u16());
        json.list("headers", response.headers().iter(), |json, (name, value)| {
            json.array(|json| {
                json.text(name.as_str());
                json.text(&String::from_utf8_lossy(value.as_bytes()));
            });
        });
        json.member("body", body);
    });
    json.into_text()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The shortest wait of a layer that sheds load.
const SHED_RETRY: Duration = Duration::from_secs(1);
