//! Three regions with a Redis each, on networks that delay and lose: together they stay within one limit, and budget follows demand.

use std::time::{Duration, Instant};

use portcullis::regions::{Region, Shares};
use portcullis::store::FixedWindow;
use portcullis::{FailureMode, Limiter, Policy, PolicySettings, Quota};
use portcullis_servers::{Fault, FaultProxy, RedisServer};

use crate::process::timing_lock;

/// A region that reaches home through a proxy.
struct DataCentre {
    limiter: Limiter,
    home: FaultProxy,
    /// The requests that it has admitted.
    admitted: u64,
    redis: RedisServer,
}

/// Three regions. The home store is on the server of the first.
struct World {
    regions: [DataCentre; 3],
}

/// Each region has a fifteenth of the limit, and home four fifths.
const MONTHLY: Policy =
    Policy::fixed_window("monthly", Quota::per(3_000, Duration::from_secs(30 * 24 * 3_600)))
        .on_store_failure(FailureMode::Closed);

impl World {
    /// A round trip to home takes this number of milliseconds.
    async fn start(delays: [u64; 3]) -> Self {
        let servers = [(); 3].map(|()| RedisServer::start().unwrap());
        let home = servers[0].port();
        let mut regions = Vec::new();
        for ((redis, delay), name) in servers.into_iter().zip(delays).zip(["eu", "us", "asia"]) {
            let proxy = FaultProxy::start(home).unwrap();
            proxy.set_fault(Fault::Delay(Duration::from_millis(delay)));
            let shares = Shares::equal(3).unwrap().set_aside(20).unwrap();
            let region = Region::new(name, format!("redis://127.0.0.1:{}", proxy.port()), shares)
                .deadline(Duration::from_secs(5));
            let limiter = Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).region(region);
            let limiter = limiter.await.unwrap();
            regions.push(DataCentre { limiter, home: proxy, admitted: 0, redis });
        }
        let Ok(regions) = regions.try_into() else { unreachable!("there are three") };
        Self { regions }
    }

    fn admitted(&self) -> u64 {
        self.regions.iter().map(|region| region.admitted).sum()
    }

    /// Sends requests of one client to these regions until they have admitted this number together.
    async fn until(&mut self, policy: &Policy, regions: &[usize], units: u64) {
        let started = Instant::now();
        let before = self.admitted();
        while self.admitted() - before < units {
            let mut is_any_admitted = false;
            for region in regions {
                is_any_admitted |= self.regions[*region].request(policy).await;
            }
            if !is_any_admitted {
                // The others at work have the processor until a purchase is made.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let admitted = self.admitted() - before;
            assert!(started.elapsed() < Duration::from_secs(60), "{admitted} of {units} units admitted");
        }
    }
}

impl DataCentre {
    async fn request(&mut self, policy: &Policy) -> bool {
        let check = self.limiter.check(policy).by(|key| key.part("user", b"ada"));
        let is_admitted = check.await.is_ok();
        self.admitted += u64::from(is_admitted);
        is_admitted
    }

    /// Sends this number of requests.
    async fn requests(&mut self, policy: &Policy, requests: u64) {
        for _ in 0..requests {
            self.request(policy).await;
        }
    }

    fn figure(&self, name: &str) -> u64 {
        let mut found = None;
        self.limiter.store().figures(&mut |figure| {
            if figure.name == name {
                found = Some(figure.value);
            }
        });
        found.unwrap()
    }

    /// Waits until the figure has this value.
    async fn wait_for(&self, name: &str, value: u64) {
        let started = Instant::now();
        while self.figure(name) != value {
            assert!(started.elapsed() < Duration::from_secs(60), "{name} is {}", self.figure(name));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_regions_admit_one_limit() {
    let _lock = timing_lock().await;
    let mut world = World::start([60, 120, 200]).await;
    // The demand is three times the limit, and more.
    world.until(&MONTHLY, &[0, 1, 2], 2_900).await;
    for region in &mut world.regions {
        region.requests(&MONTHLY, 2_000).await;
    }
    assert!((2_900..=3_000).contains(&world.admitted()), "{} of 3000 units admitted", world.admitted());
    let bought: u64 = world.regions.iter().map(|region| region.figure("units_bought")).sum();
    assert!(bought <= 2_400, "{bought} units bought of 2400");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_region_with_all_of_the_demand_gets_the_share_of_home() {
    let _lock = timing_lock().await;
    let mut world = World::start([60, 120, 200]).await;
    world.until(&MONTHLY, &[1], 2_550).await;
    world.regions[1].requests(&MONTHLY, 3_000).await;
    // The fixed shares of the other two stay theirs.
    assert!(world.admitted() <= 2_600, "{} of 2600 units admitted", world.admitted());
    world.until(&MONTHLY, &[0], 200).await;
    world.until(&MONTHLY, &[2], 200).await;
    world.regions[0].requests(&MONTHLY, 200).await;
    assert!(world.admitted() <= 3_000, "{} of 3000 units admitted", world.admitted());
}

#[tokio::test(flavor = "multi_thread")]
async fn budget_follows_a_demand_that_moves() {
    let _lock = timing_lock().await;
    let mut world = World::start([60, 120, 200]).await;
    let api = Policy::token_bucket("api", Quota::per_second(150)).on_store_failure(FailureMode::Closed);
    let started = Instant::now();
    for region in [1, 2, 0] {
        let (begun, before) = (Instant::now(), world.regions[region].admitted);
        // Until the region has twice what its fixed share, 10 units and 10 per second, admits in this time.
        loop {
            world.until(&api, &[region], 20).await;
            let fixed = 10 + 10 * begun.elapsed().as_millis() / 1_000;
            if u128::from(world.regions[region].admitted - before) > 2 * fixed {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "region {region} is left with its share");
        }
    }
    // One purchase of each process may be on its way when the period begins.
    let bound = 150 + 150 * started.elapsed().as_millis().div_ceil(1_000) + 3 * 10;
    assert!(u128::from(world.admitted()) <= bound, "{} units admitted of {bound}", world.admitted());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_region_has_its_share_and_comes_back() {
    let _lock = timing_lock().await;
    let mut world = World::start([60, 120, 200]).await;
    for fault in [Fault::Refuse, Fault::Discard, Fault::CutReply] {
        let name = format!("in_a_cut_of_{fault:?}").to_lowercase();
        let window = FixedWindow::new(Quota::per(3_000, Duration::from_secs(30 * 24 * 3_600)));
        let policy = Policy::try_new(&name, window, PolicySettings::default())
            .unwrap()
            .on_store_failure(FailureMode::Closed);
        let before = world.admitted();
        let failed = world.regions[2].figure("purchases_failed");
        world.regions[2].home.set_fault(fault);
        world.until(&policy, &[2], 200).await;
        world.regions[2].requests(&policy, 500).await;
        assert_eq!(world.admitted() - before, 200, "the fixed share in a cut by {fault:?}");
        world.regions[2].wait_for("home_unreachable", 1).await;
        // The others go on, also with what the cut region cannot buy.
        world.until(&policy, &[0, 1], 1_000).await;
        world.regions[2].home.close_connections();
        world.regions[2].home.set_fault(Fault::Delay(Duration::from_millis(200)));
        world.until(&policy, &[2], 400).await;
        world.until(&policy, &[0, 1, 2], 1_000).await;
        for region in &mut world.regions {
            region.requests(&policy, 1_500).await;
        }
        let admitted = world.admitted() - before;
        // Where only the reply is cut, home has charged what was bought meanwhile: up to the share of the region each time.
        let lost = match fault {
            Fault::CutReply => 200 * (world.regions[2].figure("purchases_failed") - failed),
            _ => 0,
        };
        println!("{admitted} units admitted after {fault:?}, up to {lost} lost");
        assert!(admitted <= 3_000 && admitted + lost >= 2_600, "{admitted} of 3000 units after {fault:?}");
        assert_eq!(world.regions[2].figure("home_unreachable"), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_make_no_call_to_home() {
    let _lock = timing_lock().await;
    let mut world = World::start([60, 120, 200]).await;
    // Below the threshold of purchases nothing is called.
    world.until(&MONTHLY, &[1], 90).await;
    assert_eq!((world.regions[1].figure("purchases"), world.regions[1].figure("purchase_keys")), (0, 1));
    world.until(&MONTHLY, &[1], 1_000).await;
    let purchases = world.regions[1].figure("purchases");
    println!("{purchases} calls for 1090 units");
    assert!((5..=60).contains(&purchases), "{purchases} calls for 1090 units");
    world.regions[1].wait_for("purchases_pending", 0).await;
    assert_eq!(world.regions[1].figure("units_credited"), world.regions[1].figure("units_bought"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_own_redis_a_region_keeps_to_its_share() {
    let _lock = timing_lock().await;
    let mut world = World::start([60, 120, 200]).await;
    // The default: each process decides by itself.
    let policy = Policy::fixed_window("local", Quota::per(3_000, Duration::from_secs(30 * 24 * 3_600)));
    world.regions[1].redis.kill().unwrap();
    world.regions[1].requests(&policy, 500).await;
    assert_eq!(world.admitted(), 200);
    assert_eq!(world.regions[1].figure("purchases"), 0);
}
