//! The corpora, which every store has to answer alike, on a store that remembers denials: where it repeats one, a store without a memory
//! gives the same answer at that instant.
//!
//! Both are on the time of the scenarios. The memory is on the clock of this process, which is paused and moved along with them.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use portcullis_core::overrides::Block;
use portcullis_core::store::{Check, Checks, Outcome, Renewal, Renewed, Store as _};
use portcullis_core::{Decision, Key, Policy, Receipt, Retry, Settlement, StoreError, Timestamp};
use portcullis_redis::RedisStore;
use portcullis_servers::RedisServer;
use portcullis_testing::{
    Checked, ManualClock, OverrideChange, Scenario, StoreSubject, SubjectFuture, SystemUnderTest, run,
};
use tokio::time::Instant;

/// Keeps the paused clock of this process from moving by itself while a task waits for a server: that is what it does while a blocking
/// task runs.
fn hold_clock() -> Sender<()> {
    let (held, end) = channel();
    tokio::task::spawn_blocking(move || end.recv());
    held
}

/// A denial, and for how long it is remembered.
struct Denied {
    checks: Checks,
    at: Timestamp,
    valid: u64,
    /// Whether the server denies it for longer.
    lasts: bool,
}

/// A store with a memory, and one without it on the same server.
struct Remembering {
    store: RedisStore,
    subject: StoreSubject,
    plain: RedisStore,
    clock: ManualClock,
    now: Timestamp,
    /// The last call, if it was denied.
    denied: Option<Denied>,
    /// When a key was corrected last, on the clock of this process: what is denied at this instant is not remembered.
    corrected: Instant,
    counts: Counts,
}

/// The denials that were remembered, those in the last microsecond for which they were, those with older figures, and those that the
/// server was asked about again after a second.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    remembered: u64,
    last_moments: u64,
    older: u64,
    asked_again: u64,
}

impl Remembering {
    async fn connect(server: &RedisServer) -> Self {
        let clock = ManualClock::default();
        let builder = || {
            let builder = RedisStore::builder(server.url()).deadline(Duration::from_secs(3_600));
            builder.connect_wait(Duration::from_secs(3_600)).scenario_clock(clock.clone())
        };
        // A scenario has no memory unless it is asked for.
        let store = builder().denial_memory(4_096).connect().await.unwrap();
        let plain = builder().connect().await.unwrap();
        let subject = StoreSubject::new(std::sync::Arc::new(store.clone()), clock.clone());
        let (now, denied, counts) = (Timestamp::EPOCH, None, Counts::default());
        Self { store, subject, plain, clock, now, denied, corrected: Instant::now(), counts }
    }

    /// Moves both clocks. If the time of the scenario goes back, nothing is remembered any more.
    async fn move_to(&mut self, now: Timestamp) {
        let passed = now.saturating_since(self.now);
        let passed = if now < self.now { FORGOTTEN } else { passed.min(FORGOTTEN) };
        if passed > Duration::ZERO {
            tokio::time::advance(passed).await;
        }
        self.clock.set(now);
        self.now = now;
    }

    /// Repeats the last call, if it was denied, at instants before `now`: at once, later, and in the last microsecond in which it is
    /// remembered. Nothing has happened in between.
    async fn repeat_denied(&mut self, now: Timestamp) {
        let Some(Denied { checks, at, valid, lasts }) = self.denied.take() else { return };
        for passed in [0, valid / 3, valid - 1] {
            let again = at.saturating_add(Duration::from_micros(passed));
            if again > now || (again == now && passed > 0) {
                break;
            }
            self.move_to(again).await;
            let outcome = self.store.check(checks.clone()).await.unwrap();
            // A check that learns of the end of a grant forgets what was denied at this instant, which passes on any other clock.
            if !outcome.is_remembered() && checks.iter().any(|check| check.policy.reads_overrides()) {
                break;
            }
            let what = format!("{checks:?} at {again:?}, {passed} us after it was denied");
            assert!(outcome.is_remembered(), "{what}: {outcome:?}");
            let _ = self.assert_same(&checks, outcome.decision(), false).await;
            self.counts.last_moments += u64::from(passed + 1 == valid);
            self.ask_for_more(&checks).await;
        }
        let end = at.saturating_add(Duration::from_micros(valid));
        if lasts && end < now {
            self.move_to(end).await;
            let outcome = self.store.check(checks.clone()).await.unwrap();
            assert!(!outcome.is_remembered() && !outcome.is_allowed(), "{checks:?} at {end:?}: {outcome:?}");
            self.counts.asked_again += 1;
        }
    }

    /// A higher cost is denied as well, with a wait that may be too short.
    async fn ask_for_more(&mut self, checks: &Checks) {
        let [Check { policy, key, cost: cost @ 1.. }] = checks.iter().as_slice() else { return };
        let more = Checks::one(policy.clone(), *key, cost.saturating_add(1));
        let outcome = self.store.check(more.clone()).await.unwrap();
        assert!(outcome.is_remembered(), "{more:?}: {outcome:?}");
        let _ = self.assert_same(&more, outcome.decision(), true).await;
    }

    /// Compares with what the store without a memory answers. It denies as well, so that nothing is charged. If other costs were charged
    /// since the denial, or if the cost is higher, the figures may be older.
    async fn assert_same(&mut self, checks: &Checks, remembered: &Decision, may_be_older: bool) -> Outcome {
        let outcome = self.plain.check(checks.clone()).await.unwrap();
        assert!(
            !outcome.is_allowed(),
            "{checks:?} is denied by {remembered:?}, and admitted without a memory"
        );
        let same = |decision: &&Decision| decision.policy() == remembered.policy();
        let same = outcome.decisions().iter().find(same).unwrap();
        if remembered != same {
            let older = may_be_older && is_older(remembered, same);
            assert!(older, "{checks:?}: {remembered:?} is remembered, and {same:?} without a memory");
            self.counts.older += 1;
        }
        self.counts.remembered += 1;
        outcome
    }

    /// Prepares a call that changes a key.
    async fn correct_at(&mut self, now: Timestamp) {
        self.repeat_denied(now).await;
        self.move_to(now).await;
        self.corrected = Instant::now();
    }

    async fn check_at(&mut self, now: Timestamp, checks: Checks) -> Result<Checked, StoreError> {
        self.repeat_denied(now).await;
        self.move_to(now).await;
        let outcome = self.store.check(checks.clone()).await?;
        if !outcome.is_remembered() {
            let is_remembered = Instant::now() > self.corrected;
            self.denied = denied(&checks, outcome.decisions(), now).filter(|_| is_remembered);
            return Ok(outcome.into());
        }
        // The corpus states the decisive decision of all policies, which a remembered denial does not have.
        Ok(self.assert_same(&checks, outcome.decision(), true).await.into())
    }
}

/// Whether the figures may be those of an earlier instant, since when others have charged.
fn is_older(remembered: &Decision, now: &Decision) -> bool {
    let identity = |it: &Decision| (it.at(), it.limit(), it.is_allowed(), it.is_blocked());
    identity(remembered) == identity(now)
        && remembered.remaining() >= now.remaining()
        && remembered.reset_after() <= now.reset_after()
        && remembered.retry() <= now.retry()
}

/// The denial that the store remembers; `None` if it remembers none.
fn denied(checks: &Checks, decisions: &[Decision], at: Timestamp) -> Option<Denied> {
    let micros = |wait: Duration| u64::try_from(wait.as_micros()).unwrap();
    let valid = |(check, decision): (&Check, &Decision)| {
        let retry = match decision.retry()? {
            Retry::After(wait) => micros(wait),
            Retry::Never => u64::MAX,
            Retry::Unknown => return None,
        };
        let next = Some(micros(decision.next_after())).filter(|next| *next > 0).unwrap_or(u64::MAX);
        (check.cost > 0 || decision.is_blocked()).then(|| retry.min(next))
    };
    let valid = checks.iter().zip(decisions).filter_map(valid).max()?;
    let (valid, lasts) = (valid.min(LONGEST), valid > LONGEST);
    // A reply takes no time here.
    (valid > 0).then(|| Denied { checks: checks.clone(), at, valid, lasts })
}

impl SystemUnderTest for Remembering {
    fn check(&mut self, now: Timestamp, checks: Checks) -> SubjectFuture<'_, Checked> {
        Box::pin(self.check_at(now, checks))
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> SubjectFuture<'_, Decision> {
        Box::pin(async move {
            self.correct_at(now).await;
            self.subject.refund(now, receipt).await
        })
    }

    fn settle(&mut self, now: Timestamp, receipt: Receipt, cost: u64) -> SubjectFuture<'_, Settlement> {
        Box::pin(async move {
            self.correct_at(now).await;
            self.subject.settle(now, receipt, cost).await
        })
    }

    fn renew(&mut self, now: Timestamp, renewal: Renewal) -> SubjectFuture<'_, Renewed> {
        Box::pin(async move {
            self.correct_at(now).await;
            self.subject.renew(now, renewal).await
        })
    }

    fn reset<'a>(&'a mut self, now: Timestamp, policy: &'a Policy, key: Key) -> SubjectFuture<'a, ()> {
        Box::pin(async move {
            self.correct_at(now).await;
            self.subject.reset(now, policy, key).await
        })
    }

    fn change_override<'a>(
        &'a mut self,
        now: Timestamp,
        policy: &'a Policy,
        key: Key,
        change: OverrideChange,
    ) -> SubjectFuture<'a, Option<Block>> {
        Box::pin(async move {
            self.correct_at(now).await;
            self.subject.change_override(now, policy, key, change).await
        })
    }

    fn keeps_overrides(&self) -> bool {
        true
    }
}

fn corpora() -> Vec<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    let folders = [data.clone(), data.join("overrides")];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

#[tokio::test(start_paused = true)]
async fn remembered_denials_are_those_of_the_corpora() {
    let _held = hold_clock();
    let server = RedisServer::start().unwrap();
    let mut subject = Remembering::connect(&server).await;
    let files = corpora();
    assert_eq!(files.len(), 10);
    for file in files {
        let corpus = Scenario::read(&file).unwrap();
        let report = run(corpus.cases(), &mut subject).await;
        assert!(report.is_success() && report.skipped().is_empty(), "{report}");
    }
    let Counts { remembered, last_moments, asked_again, .. } = subject.counts;
    println!("{:?}", subject.counts);
    assert!(remembered > 200 && last_moments > 20 && asked_again > 20, "{:?}", subject.counts);
}

/// The longest time for which a denial is remembered, in microseconds, and a time after which it is not.
const LONGEST: u64 = 1_000_000;
const FORGOTTEN: Duration = Duration::from_secs(2);
