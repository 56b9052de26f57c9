//! Three regions with one limit of 600 requests per minute. Each decides by itself, and takes more of the limit from home while it has the
//! demand. Everything is in one process and in memory here; `Limiter::redis(..).region(..)` is the same over Redis.

use std::time::Duration;

use anyhow::Context as _;
use portcullis::regions::{RegionalStore, Shares};
use portcullis::store::MemoryStore;
use portcullis::{Limiter, Policy, Quota, Secret};
use tokio::time::sleep;

static POLICY: Policy = Policy::token_bucket("requests", Quota::per_minute(600).burst(600));
const REGIONS: [&str; 3] = ["eu", "us", "asia"];

/// The requests of one step in each region: first most are in one region, then in another.
const DEMAND: [[u32; 3]; 8] =
    [[60, 5, 5], [60, 5, 5], [60, 5, 5], [60, 5, 5], [5, 60, 5], [5, 60, 5], [5, 60, 5], [5, 60, 5]];
const STEP: Duration = Duration::from_millis(250);

fn regions() -> anyhow::Result<Vec<Limiter>> {
    let home = std::sync::Arc::new(MemoryStore::new());
    let secret: Secret = "2026:8f4e3d2c1b0a99887766554433221100".parse()?;
    let limiter = |name: &&str| {
        let shares = Shares::equal(3)?.set_aside(30)?;
        let store = RegionalStore::builder(MemoryStore::new(), home.clone(), shares).name(*name).build()?;
        Ok(Limiter::new(store, secret.clone()))
    };
    REGIONS.iter().map(limiter).collect()
}

/// Makes this number of requests in the time of a step. Returns how many were admitted.
async fn admitted(limiter: Limiter, requests: u32) -> u64 {
    let mut admitted = 0;
    for _ in 0..requests {
        let check = limiter.check(&POLICY).by(|key| key.part("account", b"ada"));
        admitted += u64::from(check.await.is_ok());
        sleep(STEP / requests).await;
    }
    admitted
}

/// Meets the demand step by step. Returns what was admitted in each region.
async fn run(limiters: &[Limiter]) -> anyhow::Result<[u64; 3]> {
    let mut sums = [0; 3];
    for demand in DEMAND {
        let steps = limiters
            .iter()
            .zip(demand)
            .map(|(limiter, requests)| tokio::spawn(admitted(limiter.clone(), requests)));
        let mut now = [0; 3];
        for (index, step) in steps.collect::<Vec<_>>().into_iter().enumerate() {
            now[index] = step.await?;
            sums[index] += now[index];
        }
        println!(
            "{demand:>4?} wanted   {now:>4?} admitted   {sums:>4?} so far, {} in all",
            sums.iter().sum::<u64>()
        );
    }
    Ok(sums)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let limiters = regions().context("three regions can share the limit")?;
    println!("600 requests per minute for {REGIONS:?} together; 60 are set aside for each\n");
    run(&limiters).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_budget_follows_the_demand_within_the_limit() {
        let sums = run(&regions().unwrap()).await.unwrap();
        assert!(sums[0] > 60 && sums[1] > 60, "more than what is set aside: {sums:?}");
        assert!(sums.iter().sum::<u64>() <= 600 + 10 * 30, "the burst, and half a minute at most");
    }
}
