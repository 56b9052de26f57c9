//! Random timelines: the arithmetic is compared with the reference, and the tools must find planted errors.

use portcullis_core::algorithm::Snapshot;
use portcullis_core::store::Checks;
use portcullis_core::{Decision, Key, Policy, Receipt, Settlement, Timestamp};
use portcullis_testing::oracle::Reference;
use portcullis_testing::timeline::{Mix, Profile, agree, compare, explore, seed, steps};
use portcullis_testing::{Checked, Pure, SubjectFuture, SystemUnderTest};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

fn decides_like_the_reference(profile: Profile) {
    let runtime = runtime();
    let seed = seed();
    println!("seed {seed}");
    let profile = profile.without_clock_steps().without_quota_changes().steps(1_000);
    // A timeline has 320 steps on average.
    let timelines = u32::try_from(steps() / 200).unwrap();
    let mut done = 0;
    let mix = explore(profile, timelines, seed, |timeline| {
        if done >= steps() {
            return Ok(Mix::default());
        }
        let mut reference = Reference::new(timeline.models());
        let mix = runtime.block_on(compare(&mut Pure::new(), &mut reference, timeline))?;
        done += mix.steps;
        Ok(mix)
    });
    let mix = mix.unwrap();
    println!("{mix}");
    assert!(done >= steps(), "{mix}");
    mix.assert_corrections(done);
}

portcullis_testing::under_every_algorithm!(decides_like_the_reference);

mod with_everything {
    use super::*;

    fn timelines_are_balanced(profile: Profile) {
        let runtime = runtime();
        let (mut one, mut other) = (Pure::new(), Pure::new());
        agree(profile, 10_000, &mut one, &mut other, |comparison| runtime.block_on(comparison)).unwrap();
    }

    portcullis_testing::under_every_algorithm!(timelines_are_balanced);
}

fn mix(corrected: u64, several_runs: u64) -> Mix {
    let mut mix = Mix::default();
    (mix.corrected, mix.several_runs) = (corrected, several_runs);
    mix
}

#[test]
#[should_panic(expected = "too few corrections in 1000 steps")]
fn too_few_corrections_are_reported() {
    mix(33, 3).assert_corrections(1_000);
}

#[test]
#[should_panic(expected = "too few corrections in 1000 steps")]
fn too_few_corrections_of_several_runs_are_reported() {
    mix(34, 2).assert_corrections(1_000);
}

/// Returns a `next_after` of zero instead of one microsecond if the first policy of the check decides.
struct Early(Pure);

impl SystemUnderTest for Early {
    fn check(&mut self, now: Timestamp, checks: Checks) -> SubjectFuture<'_, Checked> {
        let policy = checks.iter().next().unwrap().policy.clone();
        Box::pin(async move {
            let mut checked = self.0.check(now, checks).await?;
            let decision = &checked.decision;
            if decision.next_after().as_micros() == 1 && *decision.policy() == *policy.name() {
                checked.decision = Decision::new(
                    &policy,
                    decision.at(),
                    Snapshot {
                        limit: decision.limit(),
                        remaining: decision.remaining(),
                        reset_after: decision.reset_after(),
                        next_after: std::time::Duration::ZERO,
                        retry: decision.retry(),
                        delay: decision.delay(),
                        is_blocked: decision.is_blocked(),
                    },
                );
            }
            Ok(checked)
        })
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> SubjectFuture<'_, Decision> {
        self.0.refund(now, receipt)
    }

    fn settle(&mut self, now: Timestamp, receipt: Receipt, cost: u64) -> SubjectFuture<'_, Settlement> {
        self.0.settle(now, receipt, cost)
    }

    fn reset<'a>(&'a mut self, now: Timestamp, policy: &'a Policy, key: Key) -> SubjectFuture<'a, ()> {
        self.0.reset(now, policy, key)
    }
}

#[test]
fn a_planted_error_is_found_and_shortened() {
    let runtime = runtime();
    let finding = explore(Profile::everything(), 20, 7, |timeline| {
        runtime.block_on(compare(&mut Early(Pure::new()), &mut Pure::new(), timeline))
    });
    let finding = finding.unwrap_err();
    let text = finding.to_string();
    assert_eq!(finding.seed(), 7);
    assert!(text.contains("PORTCULLIS_SEED=7") && text.contains("next_after: 0ns"), "{text}");
    let step: usize =
        text.split("step ").nth(1).and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap();
    assert!(step <= 5, "{text}");
}

#[test]
fn the_same_seed_makes_the_same_timelines() {
    let run = |seed| {
        let runtime = runtime();
        let mut seen = Vec::new();
        explore(Profile::everything().steps(200), 10, seed, |timeline| {
            seen.push(format!("{timeline:?}"));
            runtime.block_on(compare(&mut Pure::new(), &mut Pure::new(), timeline))
        })
        .unwrap();
        seen
    };
    let first = run(3);
    assert_eq!(first, run(3));
    assert_ne!(first, run(4));
}
