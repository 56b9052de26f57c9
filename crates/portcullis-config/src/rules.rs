//! Rules: what the policies of a file limit, and how.

mod charge_when;
mod check;
#[cfg(feature = "signed")]
mod document;
mod explain;
mod key;
mod matched;
mod matcher;
mod options;
mod overlap;
mod read;
mod rejections;
mod rule;
mod set;
mod tier;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::HeaderName;
use http::request::Parts;
use portcullis_core::Mistakes;
use portcullis_tower::matching::{PathReadings, RequestMatcher as _, folded_header};
use portcullis_tower::{ClientIp, LayerError, RateLimitLayer, Registry};

use crate::diagnostic::Diagnostics;
use crate::door::{Door, Need, needs};
use crate::fields::Findings;
use crate::load::{Loaded, Loader};

pub use matched::Match;
pub use rule::Rule;
pub use set::RuleSet;
pub use tier::Tier;

use matcher::{RequestView, host};
use options::LayerOptions;
use read::{Read, Reader};

/// The rules of a file, validated. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Rules(Arc<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    rules: Vec<Rule>,
    clients: ClientIp,
    /// Whether a layer that sheds load shares its places per client.
    shares_places: bool,
    warnings: Diagnostics,
    loader: Loader,
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    options: LayerOptions,
    /// The headers that are believed of named proxies.
    trusted: HashSet<HeaderName>,
    /// What not every door can do.
    needs: Vec<Need>,
    #[cfg(feature = "signed")]
    remote: Option<crate::overlay::RemoteSettings>,
    #[cfg(feature = "signed")]
    document: document::State,
}

impl Rules {
    /// The most rules of a load.
    pub const MAX: usize = 1_000;

    /// Reads a file with its includes.
    ///
    /// # Errors
    ///
    /// All mistakes, each with its place.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Diagnostics> {
        Self::load(&Loader::file(path.as_ref()))
    }

    /// Reads what a loader names.
    ///
    /// # Errors
    ///
    /// All mistakes, each with its place.
    pub fn load(loader: &Loader) -> Result<Self, Diagnostics> {
        let files = loader.read();
        #[cfg(feature = "signed")]
        if let Some(whole) = loader.overlaid(&files) {
            return Self::load_overlaid(loader, files, whole);
        }
        Self::build(loader, files)
    }

    fn build(loader: &Loader, read: Loaded) -> Result<Self, Diagnostics> {
        let findings = Findings::new(read.findings);
        let mut reader = Reader {
            findings: &findings,
            sources: &read.sources,
            hooks: &loader.hooks,
            clients: ClientIp::peer(),
            shares_places: false,
            trusted: RefCell::default(),
        };
        let Read { rules, options, layer } = reader.documents(&read.documents);
        let (clients, shares_places) = (reader.clients, reader.shares_places);
        let trusted = reader.trusted.into_inner();
        // A part that is not known matches every request, so that these would find too many.
        if !findings.has_errors() {
            check::no_policies(&rules, &read.documents, &findings);
            overlap::check(&rules, &findings);
        }
        check::unverified_keys(&rules, &findings);
        check::written_conditions(&rules, &findings);
        check::layer_options(&options, layer, &findings);
        let needs = needs(&read.documents);
        for refusal in loader.hooks.doors.iter().flat_map(|door| door.refused(&needs)) {
            // Two doors may refuse one value, and a name that no program has registered is refused already.
            if !refusal.span.is_some_and(|span| findings.has_error_at(span)) {
                findings.add(refusal);
            }
        }
        let has_errors = findings.has_errors();
        let warnings = Diagnostics::new(read.sources, findings.into_list());
        if has_errors {
            return Err(warnings);
        }
        let (files, folders) = (read.files, read.folders);
        Ok(Self(Arc::new(Inner {
            rules,
            clients,
            shares_places,
            warnings,
            loader: loader.clone(),
            files,
            folders,
            options,
            trusted,
            needs,
            #[cfg(feature = "signed")]
            remote: read.remote,
            #[cfg(feature = "signed")]
            document: document::State::None,
        })))
    }

    /// What works, and probably not as its author expects.
    pub fn warnings(&self) -> &Diagnostics {
        &self.0.warnings
    }

    /// Checks that a door can do all that the rules say.
    ///
    /// # Errors
    ///
    /// All that it cannot do, each with its place, beside the warnings.
    ///
    /// # Examples
    ///
    /// ```
    /// use portcullis::rules::{Door, Format, Loader, Rules};
    ///
    /// let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, r#"
    ///     [policy.exports]
    ///     strategy = "in_flight"
    ///     limit = 4
    ///     key = "client_ip"
    /// "#))?;
    /// assert!(rules.usable_by(Door::Proxy).is_ok());
    /// let refused = rules.usable_by(Door::Check).unwrap_err();
    /// assert!(refused.to_string().contains("policy.exports.strategy: "));
    /// # Ok::<(), portcullis::rules::Diagnostics>(())
    /// ```
    pub fn usable_by(&self, door: Door) -> Result<(), Diagnostics> {
        let refused: Vec<_> = door.refused(&self.0.needs).collect();
        if refused.is_empty() { Ok(()) } else { Err(self.0.warnings.with(&refused)) }
    }

    /// Whether the rules were read from the same text as others.
    pub(crate) fn has_text_of(&self, other: &Self) -> bool {
        let texts = |rules: &Self| -> Vec<_> {
            let sources = rules.0.warnings.sources().iter();
            sources.map(|source| (source.name.clone(), source.text.clone())).collect()
        };
        texts(self) == texts(other)
    }

    /// Where the rules come from.
    pub fn loader(&self) -> &Loader {
        &self.0.loader
    }

    /// What the key `"client_ip"` means: the table `[client_ip]`, or what the program has [set](Loader::client_ip).
    pub fn client_ip(&self) -> &ClientIp {
        &self.0.clients
    }

    /// Whether a layer that sheds load [shares its places](crate::LiveRules::clients) per client: there is a table `[client_ip]`, or the program
    /// has set its clients, and the table has no `share_places = false`.
    pub fn shares_places(&self) -> bool {
        self.0.shares_places
    }

    /// The files that were read.
    pub fn files(&self) -> &[PathBuf] {
        &self.0.files
    }

    /// The folders in which patterns of `include` looked for files.
    pub fn folders(&self) -> &[PathBuf] {
        &self.0.folders
    }

    /// The header by which a request asks for the generation of the rules, and which shows it in the response.
    pub fn show_generation(&self) -> Option<&HeaderName> {
        self.0.options.show_generation.as_ref()
    }

    /// Returns rules that decide as these do, and write nothing for those who are not there in a simulation: neither headers for clients,
    /// nor charges for handlers.
    ///
    /// ```
    /// use portcullis::rules::{Format, Loader, Rules};
    ///
    /// let text = "[layer]\nshow_generation = \"x-rules\"\n\n[policy.p]\nstrategy = \"gcra\"\nquota = \"1/s\"\nkey = \"client_ip\"\n";
    /// let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, text))?;
    /// assert_eq!(rules.show_generation().unwrap(), "x-rules");
    /// assert_eq!(rules.for_simulation().show_generation(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn for_simulation(mut self) -> Self {
        Arc::make_mut(&mut self.0).options.only_decide();
        self
    }

    /// The headers of a request by which the rules decide, each with the field that reads it, such as `policy.search.key.header`.
    pub fn headers_read(&self) -> impl Iterator<Item = (&str, &HeaderName)> {
        self.0.needs.iter().filter_map(Need::read_header)
    }

    /// The headers that are believed of the [named proxies](ClientIp::named_proxies) of [`client_ip`](Self::client_ip), and of no other peer.
    pub fn trusted_headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.0.trusted.iter()
    }

    /// Whether such a header has this name, or one that servers take for it: `_` counts as `-`.
    pub fn is_trusted_header(&self, name: &HeaderName) -> bool {
        self.trusted_headers().any(|trusted| folded_header(trusted).eq(folded_header(name)))
    }

    /// The rules, in the order of the files.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.0.rules.iter()
    }

    /// The rule of this name.
    pub fn get(&self, name: &str) -> Option<&Rule> {
        self.iter().find(|rule| rule.name().as_str() == name)
    }

    /// The rule of this name, with the limit on requests in flight that is in its table. `None` if there is none.
    pub fn named(&self, name: &str) -> Option<RuleSet> {
        let set: RuleSet = self
            .iter()
            .enumerate()
            .filter(|(_, rule)| rule.table() == name)
            .map(|(index, _)| index)
            .collect();
        (!set.is_empty()).then_some(set)
    }

    /// The rules that apply to a request.
    pub fn matching(&self, parts: &Parts) -> RuleSet {
        self.matching_readings(&PathReadings::of(parts))
    }

    pub(crate) fn matching_readings(&self, readings: &PathReadings<'_>) -> RuleSet {
        let (request, rules) = (RequestView::of(readings), self.iter().enumerate());
        rules.filter(|(_, rule)| rule.matcher.matches(&request)).map(|(index, _)| index).collect()
    }

    /// Whether these rules, which match a request, would match it if it had one host and its path one reading. Clients can make up many
    /// other sets, by several hosts, or paths that are read in several ways.
    ///
    /// No reading alone meets a rule that all of them do not.
    pub(crate) fn is_regular(&self, readings: &PathReadings<'_>, set: &RuleSet) -> bool {
        let rules = || set.iter().filter_map(|index| self.0.rules.get(index));
        let has_all = |reading: RequestView<'_, '_>| rules().all(|rule| rule.matcher.matches(&reading));
        host::is_one(readings.parts()) && RequestView::each(readings).any(has_all)
    }

    /// A layer with these rules in one decision, in the order of the files, and with the options of `[layer]`. `None` if the set
    /// is empty.
    ///
    /// # Errors
    ///
    /// If the limiter has another policy of one of the names, or its store refuses a policy.
    pub fn layer(
        &self,
        registry: &Arc<Registry>,
        rules: &RuleSet,
    ) -> Result<Option<RateLimitLayer>, Mistakes<LayerError>> {
        let chosen = || rules.iter().filter_map(|index| self.0.rules.get(index));
        if rules.is_empty() {
            return Ok(None);
        }
        let limits = chosen().map(|rule| rule.limit.clone());
        let layer = self.0.options.apply(RateLimitLayer::try_new(Arc::clone(registry), limits)?);
        Ok(Some(rejections::add(layer, chosen)))
    }

    /// Whether `deny` of `[layer]` lists a request, or might: it has to be denied then whatever rules match.
    pub(crate) fn denies(&self, request: &PathReadings<'_>) -> bool {
        self.0.options.deny.matches_with(request) != Ok(false)
    }

    /// A layer that rejects what `deny` of `[layer]` lists, and limits nothing.
    #[expect(clippy::missing_panics_doc, reason = "a layer without limits is refused nowhere")]
    pub fn denials(&self, registry: &Arc<Registry>) -> RateLimitLayer {
        let layer = RateLimitLayer::try_new(Arc::clone(registry), []);
        self.0.options.deny_in(layer.expect("a layer without limits is refused nowhere"))
    }

    /// For each rule whether it applies to a request, or else the first condition that does not hold.
    pub fn explain(&self, parts: &Parts) -> Vec<Match<'_>> {
        let readings = PathReadings::of(parts);
        let request = RequestView::of(&readings);
        let explain = |rule| {
            let mismatch = Rule::mismatch(rule, &request);
            let except = rule.except.first(parts).filter(|_| mismatch.is_none());
            let exempted_by = except.map(|at| format!("policy.{}.except[{at}]", rule.table()));
            Match { rule, mismatch, exempted_by, tier: rule.tiers.as_ref().map(|tiers| tiers.explain(parts)) }
        };
        self.iter().map(explain).collect()
    }

    /// What the lists of `[layer]` make of a request, whatever rules match it: such as `exempt by layer.except[0]`. `None` if they do not concern
    /// it.
    pub fn explain_lists(&self, parts: &Parts) -> Option<String> {
        let LayerOptions { deny, only, except, .. } = &self.0.options;
        if let Some(at) = explain::first(deny, parts) {
            return Some(format!("denied by layer.deny[{at}]"));
        }
        if !only.is_empty() && only.matches(parts) == Ok(false) {
            return Some("exempt, because layer.only lists other requests".to_owned());
        }
        explain::first(except, parts).map(|at| format!("exempt by layer.except[{at}]"))
    }
}
