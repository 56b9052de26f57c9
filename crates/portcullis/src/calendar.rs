//! Windows by calendar: a limit per month, billing period or week in a time zone.
//!
//! A window begins at midnight. Where daylight saving time skips midnight, it begins at the first instant after the gap; where midnight
//! comes twice, at the first. The time zone data is [bundled](time_zone_data_version).
//!
//! With the feature `serde`, files describe windows as [`windows`] reads them; with the feature `rules`, rules in files do so too:
//!
//! ```
//! # #[cfg(feature = "rules")]
//! # {
//! use portcullis::calendar::Calendar;
//! use portcullis::rules::{Format, Loader, Rules};
//!
//! let text = r#"
//!     [policy.api]
//!     strategy = "calendar_window"
//!     limit = 100_000
//!     windows = "months in Europe/Berlin"
//!     key = "client_ip"
//! "#;
//! let rules = Rules::load(&Loader::text("limits", Format::Toml, text))?;
//! let months = Calendar::monthly().in_zone("Europe/Berlin")?;
//! let api = portcullis::Policy::calendar_window("api", 100_000, months);
//! assert_eq!(rules.get("api").map(|rule| rule.policy()), Some(&api));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "serde")]
pub use portcullis_calendar::deserialize_policy;
pub use portcullis_calendar::{
    Calendar, CalendarError, Weekday, WindowTable, time_zone_data_version, windows,
};
