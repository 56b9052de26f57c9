//! Policies that decide and report only.
//!
//! They are asked after those that are enforced have let the request pass, because what is refused would not reach them;
//! and each by itself, because in one question the denial of one would keep the others from being charged.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::SystemTime;

use http::{Extensions, HeaderValue};
use portcullis_core::{Checks, Decision, Outcome, StoreError, StoreFuture};

use super::LayerConfig;
use crate::answer::shadow_names;
use crate::{RateLimitHeaders, Shadow};

/// One question per shadow rule that counts the request, with the rule's index.
pub(crate) type ShadowChecks = Vec<(usize, Checks)>;

/// Questions to shadow policies that are answered or not yet.
#[derive(Default)]
pub(crate) struct Watching(Vec<Watched>);

#[expect(
    clippy::large_enum_variant,
    reason = "they are in a vector already, and the answer takes the place of the question"
)]
enum Watched {
    Asked { index: usize, store: StoreFuture<Outcome> },
    Answered(Decision),
}

impl Watching {
    pub(crate) fn is_over(&self) -> bool {
        self.0.iter().all(|watched| matches!(watched, Watched::Answered(_)))
    }
}

impl LayerConfig {
    pub(crate) fn ask_shadows(&self, checks: ShadowChecks) -> Watching {
        Watching(
            checks
                .into_iter()
                .map(|(index, checks)| match self.ask(checks).into_ready() {
                    Ok(answer) => Watched::Answered(self.seen(index, answer)),
                    Err(store) => Watched::Asked { index, store },
                })
                .collect(),
        )
    }

    /// Waits for all at once.
    pub(crate) fn poll_shadows(&self, watching: &mut Watching, cx: &mut Context<'_>) -> Poll<()> {
        for watched in &mut watching.0 {
            if let Watched::Asked { index, store } = watched
                && let Poll::Ready(answer) = Pin::new(store).poll(cx)
            {
                *watched = Watched::Answered(self.seen(*index, answer));
            }
        }
        if watching.is_over() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Tells the inner service and the log. What is returned is told the client, if it is to be told.
    pub(crate) fn report(&self, watching: Watching, extensions: &mut Extensions) -> Option<HeaderValue> {
        let mut shadow = extensions.remove::<Shadow>().unwrap_or_default();
        let mut refused_by = Vec::new();
        for watched in watching.0 {
            let Watched::Answered(decision) = watched else { continue };
            if !decision.is_allowed() {
                self.notices.shadow_would_refuse(decision.policy());
                refused_by.push(decision.policy().clone());
            }
            shadow.push(decision);
        }
        extensions.insert(shadow);
        let is_told = !refused_by.is_empty() && self.answers.headers().contains(RateLimitHeaders::SHADOW);
        is_told.then(|| shadow_names(refused_by.iter()))
    }

    fn seen(&self, index: usize, answer: Result<Outcome, StoreError>) -> Decision {
        self.note_answer(&answer);
        match answer {
            Ok(outcome) => outcome.into_decision(),
            Err(_) => Decision::degraded(&self.list[index].policy, SystemTime::now().into()),
        }
    }
}
