//! Runs the files at a door.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Bytes;
use portcullis::Limiter;
use portcullis::testing::ManualClock;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep};

use crate::doors::{Answer, DoorKind, load};
use crate::events::Events;
use crate::expect;
use crate::program::Service;
use crate::stores::{StoreKind, Stores};
use crate::timeline::{File, Step};

/// Runs all files, and panics with all that differs.
pub(crate) async fn all(door: DoorKind, store: StoreKind) {
    let (stores, files) = (Stores::start(store), File::all());
    assert!(files.len() >= 20, "{} files", files.len());
    let mut differences = Vec::new();
    for file in &files {
        let found = one(door, &stores, file).await;
        let place = |text| format!("{} at {} on {store:?}: {text}", file.name, door.name());
        differences.extend(found.into_iter().map(place));
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

async fn one(door: DoorKind, stores: &Stores, file: &File) -> Vec<String> {
    let refused = sorted(file.timeline.refused_by.get(door.name()).cloned().unwrap_or_default());
    let refusals = sorted(door.refusals(&load(file)));
    if refusals != refused {
        return vec![format!("it refuses {refusals:?}, and {refused:?} was expected")];
    }
    let opened = stores.open().await;
    let (limiter, events) = Events::of(opened.limiter);
    let service = Service::default();
    let door_open = match door.open(file, limiter.clone(), &service).await {
        Ok(_) if !refused.is_empty() => return vec!["it opens with rules that it cannot apply".to_owned()],
        Err(reason) => return unless_named(&reason, &refused),
        Ok(open) => open,
    };
    events.take();
    let mut held = Held::new(opened.clock, limiter, events);
    let mut differences = Vec::new();
    let is_sent = |step: &Step| step.doors.is_empty() || step.doors.iter().any(|name| name == door.name());
    for (number, step) in file.timeline.requests.iter().enumerate().filter(|(_, step)| is_sent(step)) {
        held.go_to(step.at).await;
        opened.fails.store(step.store_fails, Ordering::SeqCst);
        let rest = service.plan(step.handler.clone());
        let answer = door_open.send(step).await;
        let difference = held.take(door, step, answer, rest).await;
        if let Some(difference) = difference {
            differences.push(format!("request {}, {} at {:?}: {difference}", number + 1, step.send, step.at));
        }
    }
    differences
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

/// A refusal has to name each field.
fn unless_named(reason: &str, fields: &[String]) -> Vec<String> {
    let missing = fields.iter().filter(|field| !reason.contains(field.as_str()));
    let missing: Vec<_> =
        missing.map(|field| format!("the refusal does not name {field}: {reason}")).collect();
    if fields.is_empty() { vec![format!("it does not open: {reason}")] } else { missing }
}

/// An event that has not come by then does not come.
const PATIENCE: Duration = Duration::from_secs(20);

/// The responses that are not read yet, and the time.
struct Held {
    clock: ManualClock,
    now: Duration,
    limiter: Limiter,
    events: Events,
    responses: Vec<(Duration, Answer, Sender<Bytes>)>,
}

impl Held {
    fn new(clock: ManualClock, limiter: Limiter, events: Events) -> Self {
        Self { clock, now: Duration::ZERO, limiter, events, responses: Vec::new() }
    }

    /// Lets time pass until an instant. Responses that end until then end.
    async fn go_to(&mut self, at: Duration) {
        assert!(at >= self.now, "the requests of a file are in the order of their times");
        self.responses.sort_by_key(|(until, ..)| *until);
        while self.responses.first().is_some_and(|(until, ..)| *until <= at) {
            let (until, answer, rest) = self.responses.remove(0);
            self.advance(until);
            drop(rest);
            answer.text().await;
            self.settle().await;
        }
        self.advance(at);
    }

    fn advance(&mut self, at: Duration) {
        self.clock.advance(at.saturating_sub(self.now));
        self.now = self.now.max(at);
    }

    /// Compares an answer, and reads its body now or later.
    async fn take(
        &mut self,
        door: DoorKind,
        step: &Step,
        answer: Answer,
        rest: Sender<Bytes>,
    ) -> Option<String> {
        let head = expect::head(door, step, &answer);
        if let Some(until) = step.until.filter(|_| step.is_admitted()) {
            self.responses.push((until, answer, rest));
            self.settle().await;
            return match head {
                None => self.unexpected_events(step).await,
                some => some,
            };
        }
        // A client may have gone before the rejected request would have been answered.
        let _ = rest.send(Bytes::from(step.handler.body.clone())).await;
        drop(rest);
        let body = answer.text().await;
        self.settle().await;
        match head.or_else(|| expect::body(door, step, &body)) {
            None => self.unexpected_events(step).await,
            some => some,
        }
    }

    /// Waits for refunds, settlements and releases.
    async fn settle(&self) {
        let drained = self.limiter.drain(Duration::from_secs(60)).await;
        assert_eq!(drained.left, 0, "{drained:?}");
    }

    /// Some events come after the response: a block begins once the store has counted the denial.
    async fn unexpected_events(&self, step: &Step) -> Option<String> {
        let Some(expected) = &step.events else {
            self.events.take();
            return None;
        };
        let mut events = self.events.take();
        let start = Instant::now();
        while events.len() < expected.len() && start.elapsed() < PATIENCE {
            sleep(Duration::from_millis(5)).await;
            events.extend(self.events.take());
        }
        // Which of two comes first depends on when a store answers.
        let differ = sorted(events.clone()) != sorted(expected.clone());
        differ.then(|| format!("events: {expected:?} expected, got {events:?}"))
    }
}
