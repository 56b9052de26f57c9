//! What a program requires of the rules, now and after each change.

use std::fmt;
use std::sync::{Arc, Weak};

use portcullis_tower::LayerError;

use super::LiveRules;
use crate::diagnostic::Diagnostics;
use crate::door::Door;
use crate::rules::Rules;

type Condition = dyn Fn(&Rules) -> Result<(), LayerError> + Send + Sync;

/// A condition that rules have to meet for as long as this or a clone of it exists. Made by [`LiveRules::require`].
#[derive(Clone)]
#[must_use = "rules are no longer compared with the condition when this is dropped"]
pub struct RulesRequirement(
    #[expect(dead_code, reason = "kept, so that the condition exists")] Arc<Condition>,
);

impl LiveRules {
    /// Refuses rules that do not meet a condition, as long as the returned value exists: the current ones by this call, and others
    /// when they would replace the current ones, which then stay.
    ///
    /// The condition is called while no other change can be made, and must not change the rules itself.
    ///
    /// ```
    /// use portcullis::rules::{Diagnostics, Format, Loader, Rules};
    /// use portcullis::{LayerError, Limiter};
    ///
    /// fn daily(limit: u32) -> Result<Rules, Diagnostics> {
    ///     let text = format!("[policy.daily]\nstrategy = \"fixed_window\"\nquota = \"{limit}/day\"\nkey = \"global\"\n");
    ///     Rules::load(&Loader::text("limits.toml", Format::Toml, text))
    /// }
    ///
    /// let limiter = Limiter::memory().with_rules(daily(100)?)?;
    /// let live = limiter.rules()?;
    /// let small = live.require(|rules| match rules.iter().find(|rule| rule.policy().strategy().limit() > 500) {
    ///     Some(rule) => Err(LayerError::Unusable {
    ///         reason: format!("{}: the database serves 500 a day", rule.name()),
    ///     }),
    ///     None => Ok(()),
    /// })?;
    /// let refused = live.swap(daily(1_000)?).unwrap_err();
    /// assert_eq!(refused.to_string(), "the rules cannot be used here: daily: the database serves 500 a day");
    /// drop(small);
    /// assert_eq!(live.swap(daily(1_000)?), Ok(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The error of the condition for the current rules. Nothing is required then.
    pub fn require(
        &self,
        condition: impl Fn(&Rules) -> Result<(), LayerError> + Send + Sync + 'static,
    ) -> Result<RulesRequirement, LayerError> {
        let mut changes = self.0.changes();
        condition(&self.0.current.load().rules)?;
        let condition: Arc<Condition> = Arc::new(condition);
        changes.required.add(&condition);
        Ok(RulesRequirement(condition))
    }

    /// Refuses rules that a door cannot apply, as long as the returned value exists. See [`Rules::usable_by`].
    ///
    /// # Errors
    ///
    /// [`LayerError::Unusable`] with all that the door cannot do of the current rules. Nothing is required then.
    pub fn require_usable_by(&self, door: Door) -> Result<RulesRequirement, LayerError> {
        let unusable = |refused: Diagnostics| LayerError::Unusable { reason: refused.to_string() };
        self.require(move |rules| rules.usable_by(door).map_err(unusable))
    }
}

/// All conditions that are required.
#[derive(Default)]
pub(super) struct Requirements(Vec<Weak<Condition>>);

impl Requirements {
    fn add(&mut self, condition: &Arc<Condition>) {
        self.0.retain(|known| known.strong_count() > 0);
        self.0.push(Arc::downgrade(condition));
    }

    /// The error of the first condition that rules do not meet.
    pub(super) fn check(&self, rules: &Rules) -> Result<(), LayerError> {
        self.0.iter().filter_map(Weak::upgrade).try_for_each(|condition| condition(rules))
    }
}

impl fmt::Debug for RulesRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RulesRequirement")
    }
}
