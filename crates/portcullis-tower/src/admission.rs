//! From a request to its verdict: what is asked, in which order, and what is given back.
//!
//! Neither the inner service nor the body type is known here. [`Admission::start`] decides at once where the store answers at
//! once; otherwise the rest of the decision is an [`Admission`], to be polled with the request.

mod first;
mod lookups;
mod passing;
mod pending_check;
mod refunds;
mod second;

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use http_body_util::Full;
use portcullis_core::Outcome;
use tokio::time::Instant;

use crate::Charge;
use crate::answer::Note;
use crate::rules::{LayerConfig, Plan};
use crate::waiters::WaitPermit;
use first::First;
use lookups::LookingUp;
use passing::{Delayed, Watched};
use refunds::{Keep, Refunding, Refunds};
use second::Second;

/// What becomes of a request.
pub(crate) enum Verdict {
    /// It goes to the inner service.
    Admitted(Admitted),
    Rejected(Response<Full<Bytes>>),
}

/// A request that goes to the inner service.
#[derive(Default)]
pub(crate) struct Admitted {
    /// For the response.
    pub(crate) note: Note,
    /// Held until the inner service is called, if the request had to wait.
    _permit: Option<WaitPermit>,
}

/// A verdict, or what it waits for.
#[expect(clippy::large_enum_variant, reason = "what waits is boxed, together with the request")]
pub(crate) enum Step {
    Done(Verdict),
    Wait(Admission),
}

/// A request that waits for its verdict.
///
/// # Cancel safety
///
/// Dropped while look-ups run, it keeps the charges of policies that count rejections and refunds the others. Dropped while the
/// store is asked, what was asked may stay charged. Dropped then or in a queue, it gives its slot in the queue up. A refund that
/// has begun goes on by itself.
pub(crate) struct Admission {
    rules: Arc<LayerConfig>,
    state: State,
}

enum State {
    /// The policies with synchronous keys are asked.
    First(First),
    LookingUp(Box<LookingUp>),
    /// The policies whose keys were looked up are asked.
    Second(Box<Second>),
    /// The shadow policies are asked.
    Watched(Watched),
    Delayed(Delayed),
    /// A rejected request is refunded.
    Refunding(Refunding),
}

impl Admission {
    /// Decides about a request, as far as that takes no waiting.
    pub(crate) fn start(rules: &Arc<LayerConfig>, question: Plan, parts: &mut Parts) -> Step {
        first::ask(rules, question, parts)
    }

    /// Whether what it waits for is a store, which answers within its deadline, so that the inner service may be kept ready
    /// meanwhile. A delay or a look-up may take longer.
    pub(crate) fn keeps_readiness(&self) -> bool {
        match self.state {
            State::First(_) | State::Second(_) | State::Watched(_) | State::Refunding(_) => true,
            State::LookingUp(_) | State::Delayed(_) => false,
        }
    }

    /// How long a request that was admitted after a wait has the inner service get ready.
    pub(crate) fn ready_deadline(&self) -> Duration {
        self.rules.ready_deadline()
    }

    /// Rejects a request that was admitted, because the inner service is not ready in time. The next [`poll`](Self::poll)
    /// refunds it.
    pub(crate) fn reject_admitted(&mut self, admitted: &Admitted, parts: &Parts) {
        let response = self.rules.refuse_not_ready(parts);
        self.state = State::Refunding(Refunding::new(self.refund(admitted), response));
    }

    /// Refunds a request that was admitted, because the inner service has failed before it was called. What cannot be
    /// refunded at once is refunded in the background.
    pub(crate) fn refund_admitted(&self, admitted: &Admitted) {
        drop(self.refund(admitted));
    }

    fn refund(&self, admitted: &Admitted) -> Refunds {
        let charged = admitted.note.charge.as_ref().and_then(Charge::charged);
        Refunds::start(&self.rules, charged.as_ref(), None, Keep::Nothing)
    }

    /// Goes on. `parts` are those of the request that it was [started](Self::start) with.
    pub(crate) fn poll(&mut self, parts: &mut Parts, cx: &mut Context<'_>) -> Poll<Verdict> {
        loop {
            let Self { rules, state } = self;
            let step = match state {
                State::First(first) => first.poll(rules, parts, cx),
                State::LookingUp(looking_up) => looking_up.poll(rules, parts, cx),
                State::Second(second) => second.poll(rules, parts, cx),
                State::Watched(watched) => watched.poll(rules, parts, cx),
                State::Delayed(delayed) => delayed.poll(rules, parts, cx),
                State::Refunding(refunding) => refunding.poll(cx),
            };
            match ready!(step) {
                Step::Done(verdict) => return Poll::Ready(verdict),
                Step::Wait(next) => *self = next,
            }
        }
    }
}

/// Gives up the slots of a request that has waited in several queues.
pub(crate) fn give_up_slots(rules: &Arc<LayerConfig>, charged: &Outcome) {
    drop(Refunds::start(rules, Some(charged), None, Keep::AllButSlots));
}

impl Step {
    fn wait(rules: &Arc<LayerConfig>, state: State) -> Self {
        Self::Wait(Admission { rules: Arc::clone(rules), state })
    }

    fn rejected(response: Response<Full<Bytes>>) -> Self {
        Self::Done(Verdict::Rejected(response))
    }

    /// Rejects a request once what it was `charged` is refunded, except for what it keeps. A refund that fails makes no
    /// difference to the answer. `slot` is the time of the request's slot, if it had to wait.
    fn refunded(
        rules: &Arc<LayerConfig>,
        charged: Option<&Outcome>,
        slot: Option<Instant>,
        keep: Keep,
        response: Response<Full<Bytes>>,
    ) -> Self {
        let refunds = Refunds::start(rules, charged, slot, keep);
        if refunds.are_over() {
            return Self::rejected(response);
        }
        Self::wait(rules, State::Refunding(Refunding::new(refunds, response)))
    }
}
