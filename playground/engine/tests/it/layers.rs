//! The Rust of each lane of each scene. `UPDATE_SNIPPETS=1 cargo test -p portcullis-playground` writes it.
pub(crate) mod edge_1 {
    use portcullis::ClientIp;
    use std::time::Duration;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::fixed_window("search", Quota::per(10, Duration::from_secs(10))).by(ClientIp::peer());
        Ok(limiter.layer(limit1))
    }
}
pub(crate) mod edge_2 {
    use portcullis::ClientIp;
    use std::time::Duration;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::sliding_log("search", Quota::per(10, Duration::from_secs(10))).by(ClientIp::peer());
        Ok(limiter.layer(limit1))
    }
}
pub(crate) mod estimate_1 {
    use portcullis::ClientIp;
    use std::time::Duration;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::sliding_window("search", Quota::per(100, Duration::from_secs(20))).by(ClientIp::peer());
        Ok(limiter.layer(limit1))
    }
}
pub(crate) mod memory_1 {
    use portcullis::ClientIp;
    use std::time::Duration;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::sliding_log("search", Quota::per(100, Duration::from_secs(10))).by(ClientIp::peer());
        Ok(limiter.layer(limit1))
    }
}
pub(crate) mod memory_2 {
    use portcullis::ClientIp;
    use std::time::Duration;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::sliding_window("search", Quota::per(100, Duration::from_secs(10))).by(ClientIp::peer());
        Ok(limiter.layer(limit1))
    }
}
pub(crate) mod memory_3 {
    use portcullis::ClientIp;
    use std::time::Duration;
    use portcullis::PolicySettings;
    use portcullis::Quota;
    use portcullis::store::SlidingWindow;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::try_new("search", SlidingWindow::with_slots(Quota::per(100, Duration::from_secs(10)), 10), PolicySettings::default())?.by(ClientIp::peer());
        Ok(limiter.layer(limit1))
    }
}
pub(crate) mod buckets_1 {
    use portcullis::ClientIp;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::token_bucket("search", Quota::per_second(1).burst(4)).by(ClientIp::peer());
        Ok(limiter.layer(limit1))
    }
}
pub(crate) mod buckets_2 {
    use portcullis::ClientIp;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::gcra("search", Quota::per_second(1)).by(ClientIp::peer());
        Ok(limiter.layer(limit1))
    }
}
pub(crate) mod buckets_3 {
    use portcullis::ClientIp;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::leaky_bucket("search", Quota::per_second(1).burst(4)).by(ClientIp::peer());
        Ok(limiter.layer(limit1))
    }
}
pub(crate) mod both_1 {
    use portcullis::headers::RateLimitHeaders;
    use portcullis::ClientIp;
    use std::time::Duration;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::fixed_window("second", Quota::per_second(2)).by(ClientIp::peer());
        let limit2 = Policy::sliding_log("long", Quota::per(10, Duration::from_secs(20))).by(ClientIp::peer());
        Ok(limiter.layer(limit1).and(limit2).headers(RateLimitHeaders::IETF))
    }
}
pub(crate) mod herd_1 {
    use portcullis::key::Global;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::token_bucket("search", Quota::per_second(10)).by(Global);
        Ok(limiter.layer(limit1))
    }
}
pub(crate) mod herd_2 {
    use portcullis::key::Global;
    use std::time::Duration;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::token_bucket("search", Quota::per_second(10)).by(Global);
        Ok(limiter.layer(limit1).spread_retries(Duration::from_secs(10)))
    }
}
pub(crate) mod instances_1 {
    use portcullis::ClientIp;
    use std::time::Duration;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::sliding_log("search", Quota::per(600, Duration::from_secs(4))).by(ClientIp::peer());
        Ok(limiter.layer(limit1))
    }
}
pub(crate) mod instances_2 {
    use portcullis::ClientIp;
    use std::time::Duration;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::sliding_log("search", Quota::per(600, Duration::from_secs(4))).by(ClientIp::peer());
        Ok(limiter.layer(limit1))
    }
}
pub(crate) mod instances_3 {
    use portcullis::ClientIp;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::token_bucket("search", Quota::per_second(150)).lease(20).by(ClientIp::peer());
        Ok(limiter.layer(limit1))
    }
}
pub(crate) mod outage_1 {
    use portcullis::ClientIp;
    use portcullis::FailureMode;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::token_bucket("search", Quota::per_second(4)).on_store_failure(FailureMode::local(2)).by(ClientIp::peer());
        Ok(limiter.layer(limit1))
    }
}
pub(crate) mod outage_2 {
    use portcullis::ClientIp;
    use portcullis::FailureMode;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::token_bucket("search", Quota::per_second(4)).on_store_failure(FailureMode::Open).by(ClientIp::peer());
        Ok(limiter.layer(limit1))
    }
}
pub(crate) mod outage_3 {
    use portcullis::ClientIp;
    use std::time::Duration;
    use portcullis::FailureMode;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::token_bucket("search", Quota::per_second(4)).on_store_failure(FailureMode::OpenFor(Duration::from_secs(3))).by(ClientIp::peer());
        Ok(limiter.layer(limit1))
    }
}
pub(crate) mod outage_4 {
    use portcullis::ClientIp;
    use portcullis::FailureMode;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::token_bucket("search", Quota::per_second(4)).on_store_failure(FailureMode::Closed).by(ClientIp::peer());
        Ok(limiter.layer(limit1))
    }
}
pub(crate) mod tokens_1 {
    use portcullis::headers::RateLimitHeaders;
    use portcullis::ClientIp;
    use std::time::Duration;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::token_bucket("tokens", Quota::per(2000, Duration::from_secs(10))).by(ClientIp::peer());
        Ok(limiter.layer(limit1).headers(RateLimitHeaders::BY_POLICY))
    }
}
pub(crate) mod tokens_2 {
    use portcullis::headers::RateLimitHeaders;
    use portcullis::ClientIp;
    use std::time::Duration;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::token_bucket("tokens", Quota::per(2000, Duration::from_secs(10))).by(ClientIp::peer());
        Ok(limiter.layer(limit1).headers(RateLimitHeaders::BY_POLICY))
    }
}
pub(crate) mod every_1 {
    use portcullis::headers::RateLimitHeaders;
    use portcullis::ClientIp;
    use portcullis::PolicySettings;
    use portcullis::Quota;
    use portcullis::{Refill, store::TokenBucket};
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::try_new("bucket", TokenBucket::new(Quota::per_second(3).burst(6)).map(|bucket| bucket.refilled(Refill::Interval)), PolicySettings::default())?.by(ClientIp::peer());
        Ok(limiter.layer(limit1).headers(RateLimitHeaders::IETF_DRAFT_6))
    }
}
pub(crate) mod every_2 {
    use portcullis::headers::RateLimitHeaders;
    use portcullis::ClientIp;
    use std::time::Duration;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::gcra("waits", Quota::per_second(2).burst(3)).wait_at_most(Duration::from_millis(750)).allow_debt(4).by(ClientIp::peer());
        Ok(limiter.layer(limit1).headers(RateLimitHeaders::IETF_DRAFT_6))
    }
}
pub(crate) mod every_3 {
    use portcullis::headers::RateLimitHeaders;
    use portcullis::ClientIp;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::leaky_bucket("queue", Quota::per_second(2).burst(3)).by(ClientIp::peer());
        Ok(limiter.layer(limit1).headers(RateLimitHeaders::IETF_DRAFT_6))
    }
}
pub(crate) mod every_4 {
    use portcullis::headers::RateLimitHeaders;
    use portcullis::ClientIp;
    use portcullis::Anchor;
    use std::time::Duration;
    use portcullis::store::FixedWindow;
    use portcullis::PolicySettings;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::try_new("own window", FixedWindow::new(Quota::per(5, Duration::from_millis(2500))).map(|window| window.anchored(Anchor::FirstRequest)), PolicySettings::default())?.by(ClientIp::peer());
        Ok(limiter.layer(limit1).headers(RateLimitHeaders::IETF_DRAFT_6))
    }
}
pub(crate) mod every_5 {
    use portcullis::headers::RateLimitHeaders;
    use portcullis::ClientIp;
    use portcullis::calendar::Calendar;
    use portcullis::store::CalendarWindow;
    use portcullis::PolicySettings;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::try_new("months", CalendarWindow::new(9, Calendar::monthly().in_zone("UTC")?), PolicySettings::default())?.by(ClientIp::peer());
        Ok(limiter.layer(limit1).headers(RateLimitHeaders::IETF_DRAFT_6))
    }
}
pub(crate) mod every_6 {
    use portcullis::headers::RateLimitHeaders;
    use portcullis::ClientIp;
    use std::time::Duration;
    use portcullis::FailureMode;
    use portcullis::PolicySettings;
    use portcullis::Quota;
    use portcullis::store::SlidingWindow;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::try_new("slots", SlidingWindow::with_slots(Quota::per(8, Duration::from_secs(3)), 3), PolicySettings::default())?.on_store_failure(FailureMode::OpenFor(Duration::from_secs(30))).by(ClientIp::peer());
        Ok(limiter.layer(limit1).headers(RateLimitHeaders::IETF_DRAFT_6))
    }
}
pub(crate) mod every_7 {
    use portcullis::headers::RateLimitHeaders;
    use portcullis::ClientIp;
    use std::time::Duration;
    use portcullis::FailureMode;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::sliding_log("log", Quota::per(7, Duration::from_millis(1500))).on_store_failure(FailureMode::Closed).by(ClientIp::peer());
        Ok(limiter.layer(limit1).headers(RateLimitHeaders::IETF_DRAFT_6))
    }
}
pub(crate) mod every_8 {
    use portcullis::headers::RateLimitHeaders;
    use portcullis::ClientIp;
    use std::time::Duration;
    use portcullis::store::InFlight;
    use portcullis::PolicySettings;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::try_new("running", InFlight::new(3).and_then(|limit| limit.with_lease(Duration::from_secs(10))), PolicySettings::default())?.by(ClientIp::peer());
        Ok(limiter.layer(limit1).headers(RateLimitHeaders::IETF_DRAFT_6))
    }
}
pub(crate) mod exports_1 {
    use portcullis::ClientIp;
    use portcullis::Anchor;
    use portcullis::store::FixedWindow;
    use portcullis::PolicySettings;
    use portcullis::Quota;
    use portcullis::Timestamp;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::token_bucket("free", Quota::UNLIMITED).by(ClientIp::peer());
        let limit2 = Policy::try_new("anchored", FixedWindow::new(Quota::per_second(50)).map(|window| window.anchored(Anchor::Instant(Timestamp::from_micros(250)))), PolicySettings::default())?.by(ClientIp::peer());
        let limit3 = Policy::gcra("own", Quota::per_second(50)).caller_quotas(Quota::per_second(1), Quota::per_second(99)).allow_overrides().by(ClientIp::peer());
        Ok(limiter.layer(limit1).and(limit2).and(limit3))
    }
}
pub(crate) mod exports_2 {
    use portcullis::ClientIp;
    use std::time::Duration;
    use portcullis::Quota;
    use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
    pub fn layer(limiter: &Limiter) -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
        let limit1 = Policy::sliding_log("a\\", Quota::per_second(5)).by(ClientIp::peer());
        Ok(limiter.layer(limit1).spread_retries(Duration::from_millis(1500)))
    }
}
pub(crate) const ALL: &[fn(&portcullis::Limiter) -> Result<portcullis::RateLimitLayer, Box<dyn std::error::Error>>] = &[
    edge_1::layer,
    edge_2::layer,
    estimate_1::layer,
    memory_1::layer,
    memory_2::layer,
    memory_3::layer,
    buckets_1::layer,
    buckets_2::layer,
    buckets_3::layer,
    both_1::layer,
    herd_1::layer,
    herd_2::layer,
    instances_1::layer,
    instances_2::layer,
    instances_3::layer,
    outage_1::layer,
    outage_2::layer,
    outage_3::layer,
    outage_4::layer,
    tokens_1::layer,
    tokens_2::layer,
    every_1::layer,
    every_2::layer,
    every_3::layer,
    every_4::layer,
    every_5::layer,
    every_6::layer,
    every_7::layer,
    every_8::layer,
    exports_1::layer,
    exports_2::layer,
];
