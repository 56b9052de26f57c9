//! Random timelines: the arithmetic against decisions by definition, and the tools against planted errors.

use portcullis_core::{Checks, Decision, Key, Policy, Receipt, Report, Settlement, Timestamp};
use portcullis_testing::oracle::Reference;
use portcullis_testing::timeline::{AlgorithmKind, Profile, compare, explore, seed};
use portcullis_testing::{Answer, Checked, Pure, Subject};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

fn against_the_reference(algorithm: AlgorithmKind) {
    let runtime = runtime();
    let profile = Profile::everything().only(algorithm).without_clock_steps().without_quota_changes();
    let mix = explore(profile.steps(1_000), 100, seed(), |timeline| {
        let mut reference = Reference::new(timeline.models());
        runtime.block_on(compare(&mut Pure::new(), &mut reference, timeline))
    });
    println!("{}", mix.unwrap());
}

#[test]
fn gcra_decides_as_defined() {
    against_the_reference(AlgorithmKind::Gcra);
}

#[test]
fn the_fixed_window_decides_as_defined() {
    against_the_reference(AlgorithmKind::FixedWindow);
}

#[test]
fn several_algorithms_together_decide_as_defined() {
    let runtime = runtime();
    let profile = Profile::everything().without_clock_steps().without_quota_changes().steps(1_000);
    let mix = explore(profile, 50, seed(), |timeline| {
        let mut reference = Reference::new(timeline.models());
        runtime.block_on(compare(&mut Pure::new(), &mut reference, timeline))
    });
    println!("{}", mix.unwrap());
}

#[test]
fn timelines_with_everything_are_balanced_too() {
    for algorithm in [AlgorithmKind::Gcra, AlgorithmKind::FixedWindow] {
        let runtime = runtime();
        let profile = Profile::everything().only(algorithm).steps(1_000);
        let mix = explore(profile, 50, seed(), |timeline| {
            runtime.block_on(compare(&mut Pure::new(), &mut Pure::new(), timeline))
        });
        println!("{}", mix.unwrap());
    }
}

/// Is a microsecond early, but only in what it says of what is left to wait at the end of a second.
struct Early(Pure);

impl Subject for Early {
    fn check(&mut self, now: Timestamp, checks: Checks) -> Answer<'_, Checked> {
        let policy = checks.iter().next().unwrap().policy.clone();
        Box::pin(async move {
            let mut checked = self.0.check(now, checks).await?;
            let decision = &checked.decision;
            if decision.next_after().as_micros() == 1 && *decision.policy() == *policy.name() {
                checked.decision = Decision::new(
                    &policy,
                    decision.at(),
                    Report {
                        limit: decision.limit(),
                        remaining: decision.remaining(),
                        reset_after: decision.reset_after(),
                        next_after: std::time::Duration::ZERO,
                        retry: decision.retry(),
                        delay: decision.delay(),
                    },
                );
            }
            Ok(checked)
        })
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> Answer<'_, Decision> {
        self.0.refund(now, receipt)
    }

    fn settle(&mut self, now: Timestamp, receipt: Receipt, cost: u32) -> Answer<'_, Settlement> {
        self.0.settle(now, receipt, cost)
    }

    fn reset<'a>(&'a mut self, now: Timestamp, policy: &'a Policy, key: Key) -> Answer<'a, ()> {
        self.0.reset(now, policy, key)
    }
}

#[test]
fn a_planted_error_is_found_and_made_short() {
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
