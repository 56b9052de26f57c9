//! What a rule needs beyond the head of a request.

use portcullis_core::Strategy;

use super::rule::{QuotaSource, Rule};

impl Rule {
    /// Returns the fields of the rule that need more than the head of a request as it came: its response, its end, or what the program
    /// and its router put into its extensions. Empty for most rules.
    ///
    /// A server that is only asked whether a request may pass, as by a proxy, cannot apply a rule that has such fields. They are
    /// `"strategy"` or `"in_flight"` of a limit on requests in flight, `"charge_when"`, `"reserve"`, `"refund_unanswered"`, `"key"` with a
    /// route or an extension, and `"tiers"` without a header.
    ///
    /// ```
    /// use portcullis_config::{Format, Loader, Rules};
    ///
    /// let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, r#"
    ///     [policy.search]
    ///     strategy = "gcra"
    ///     quota = "10/s"
    ///     key = "client_ip"
    ///
    ///     [policy.exports]
    ///     strategy = "in_flight"
    ///     limit = 4
    ///     key = "client_ip"
    /// "#))?;
    /// let fields: Vec<_> = rules.iter().map(|rule| rule.fields_beyond_head()).collect();
    /// assert_eq!(fields, [vec![], vec!["strategy"]]);
    /// # Ok::<(), portcullis_config::Diagnostics>(())
    /// ```
    pub fn fields_beyond_head(&self) -> Vec<&'static str> {
        let is_in_flight = matches!(self.policy.strategy(), Strategy::InFlight(_));
        let is_alone = self.table == self.name().as_str();
        let fields = [
            ("strategy", is_in_flight && is_alone),
            ("in_flight", is_in_flight && !is_alone),
            ("charge_when", self.options.charge_when.is_some()),
            ("reserve", self.options.reserve.is_some()),
            ("refund_unanswered", self.options.refund_unanswered),
            ("key", self.key.reads_extensions()),
            ("tiers", matches!(self.options.quota, Some(QuotaSource::Extension(_)))),
        ];
        fields.into_iter().filter(|(_, is_there)| *is_there).map(|(field, _)| field).collect()
    }
}
