//! Policies as people read them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::Policy;

impl Policy {
    /// What is set beside the algorithm and the failure mode, each in some words.
    // For the description of a limit, which has more.
    #[doc(hidden)]
    pub fn settings_texts(&self) -> Vec<String> {
        let settings = self.settings();
        let wait = settings.max_wait.map(|wait| format!("waits for at most {wait:?}"));
        let lease = settings.max_lease.map(|units| format!("leases of up to {units} units"));
        let debt = settings.max_debt.map(|units| format!("debts of up to {units} units"));
        let quotas =
            settings.caller_quotas.map(|(least, most)| format!("callers have from {least} to {most}"));
        let overrides = settings.allow_overrides.then(|| String::from("grants and blocks apply"));
        [wait, lease, debt, quotas, overrides].into_iter().flatten().collect()
    }
}

impl fmt::Display for Policy {
    /// Prints the whole policy: `search: token_bucket 10/s burst 20, waits for at most 1s, if the store fails: closed`.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use portcullis::{FailureMode, Policy, Quota};
    ///
    /// let search = Policy::gcra("search", Quota::per_second(10)).on_store_failure(FailureMode::Closed);
    /// let text = "search: gcra 10/s, waits for at most 1s, if the store fails: closed";
    /// assert_eq!(search.wait_at_most(Duration::from_secs(1)).to_string(), text);
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.strategy)?;
        self.settings_texts().iter().try_for_each(|text| write!(f, ", {text}"))?;
        write!(f, ", if the store fails: {}", self.failure_mode())
    }
}

impl fmt::Debug for Policy {
    /// Prints its text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({self})")
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString as _;
    use core::time::Duration;

    use crate::{FailureMode, Policy, Quota};

    #[test]
    fn text_has_each_setting() {
        let quota = Quota::per_day(100);
        let plain = Policy::fixed_window("plain", quota);
        assert_eq!(plain.to_string(), "plain: fixed_window 100/d, if the store fails: local, whole limit");
        assert_eq!(format!("{plain:?}"), format!("Policy({plain})"));
        let all = Policy::fixed_window("all", quota)
            .wait_at_most(Duration::from_secs(1))
            .allow_debt(5)
            .caller_quotas(Quota::per_day(10), Quota::per_day(1_000))
            .allow_overrides()
            .on_store_failure(FailureMode::Closed);
        let text = "all: fixed_window 100/d, waits for at most 1s, debts of up to 5 units, callers have from 10/d to 1000/d, \
                    grants and blocks apply, if the store fails: closed";
        assert_eq!(all.to_string(), text);
        let leased = Policy::gcra("leased", Quota::per_second(10).burst(10)).lease(5);
        assert!(leased.to_string().contains(", leases of up to 5 units, "), "{leased}");
    }
}
