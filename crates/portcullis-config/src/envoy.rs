//! Envoy's descriptor files: the configuration of <https://github.com/envoyproxy/ratelimit>, read as it is.
//!
//! [`Descriptors`] are the limits of one or several files. [`Descriptors::limit`] finds the limit of one descriptor,
//! [`Descriptors::request`] what applies to all descriptors of a request, and [`Limit::policy`] is the limit as a policy.
//!
//! ```
//! use portcullis::rules::envoy::{Descriptors, Unit};
//! use portcullis::{Policy, Quota};
//!
//! let descriptors = Descriptors::parse(&[("shop.yaml", "
//! domain: shop
//! descriptors:
//!   - key: remote_address
//!     rate_limit:
//!       unit: minute
//!       requests_per_unit: 60
//!     descriptors:
//!       - key: path
//!         value: /login*
//!         rate_limit:
//!           unit: hour
//!           requests_per_unit: 5
//! ")])?;
//! assert_eq!(descriptors.warnings().iter().len(), 0);
//!
//! let login = [("remote_address", "192.0.2.1"), ("path", "/login?as=ada")];
//! let found = descriptors.limit("shop", &login).ok_or("no limit")?;
//! assert_eq!(found.limit().requests_per_unit(), 5);
//! assert_eq!(found.limit().unit(), Some(Unit::Hour));
//! assert_eq!(found.full_key(), "shop.remote_address.path_/login*");
//! let policy = Policy::fixed_window("shop.remote_address.path_/login*", Quota::per_hour(5));
//! assert_eq!(found.limit().policy(), Ok(&policy));
//!
//! let mistake = Descriptors::parse(&[("shop.yaml", "domain: shop\ndescriptors:\n  - kay: user\n")]).unwrap_err();
//! assert!(mistake.to_string().starts_with("shop.yaml:3:5: error: descriptors[0].kay: unknown field `kay`"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Differences
//!
//! A file that Envoy's service refuses is refused here, and with these exceptions a file that it loads is loaded and matches the same
//! requests with the same limits:
//!
//! - A map that has a field twice is refused. Envoy's service takes the last one.
//! - Tags of types other than those of YAML 1.2, and files above a [bound](self#bounds), are refused.
//! - All mistakes of all files are reported at once, and there are [warnings](Descriptors::warnings) where a file loads and
//!   does not limit as its author probably expects.
//! - `metadata` are never lost. Envoy's service drops those of a limit whose key for metrics differs from its key in the file.
//! - The identities that limits count are unambiguous. In Envoy's service `a_b` with the value `c` counts as `a` with the value `b_c`.
//!
//! # Bounds
//!
//! [`MAX_FILES`], [`MAX_ENTRIES`], [`MAX_FOLDERS`], [`MAX_FILE_BYTES`], [`MAX_DEPTH`], [`MAX_DESCRIPTORS`] and [`MAX_WILDCARDS`] bound the files, and what a
//! request costs. A line is indented by at most 128 characters. A file that nests deeply and uses aliases for more than a few anchors is
//! refused as well, as an alias can multiply the depth. At most 500 findings are listed.

mod document;
mod fields;
mod files;
mod findings;
mod limit;
mod loader;
mod matching;
mod merge;
mod metadata;
mod names;
mod nesting;
mod node;
mod rate_limit;
mod request;
mod scalar;
mod table;
mod warnings;
mod wildcard;
mod yaml;

#[cfg(test)]
mod tests;

pub use files::Files;
pub use limit::{Limit, NoPolicy, Unit};
pub use loader::Loader;
pub use matching::Match;
pub use metadata::{Metadata, MetadataValue};
pub use request::{Applied, RequestLimits};

use std::path::Path;

use crate::diagnostic::Diagnostics;
use crate::kind;
use crate::load::open;
use crate::source::Format;
use table::Table;

/// The highest number of files of one load.
pub const MAX_FILES: usize = 1_000;

/// The highest number of entries of folders that are looked at.
pub const MAX_ENTRIES: usize = 10_000;

/// The highest number of folders inside each other.
pub const MAX_FOLDERS: usize = 16;

/// The highest number of bytes in a file, 1 MiB.
pub const MAX_FILE_BYTES: usize = crate::load::MAX_FILE;

/// The highest number of levels of descriptors.
pub const MAX_DEPTH: usize = 16;

/// The highest number of descriptors in all files.
pub const MAX_DESCRIPTORS: usize = 100_000;

/// The highest number of wildcards at one level: the values of a request are compared with each of them.
pub const MAX_WILDCARDS: usize = 1_000;

/// The limits of Envoy's descriptor files.
#[derive(Debug)]
pub struct Descriptors {
    table: Table,
    files: usize,
    warnings: Diagnostics,
}

impl Descriptors {
    /// Reads texts, each with the name of its file. A domain may be in one file only, as in Envoy's service by default; see
    /// [`Loader::merge_domains`].
    ///
    /// # Errors
    ///
    /// If a file is not valid or exceeds a [bound](self#bounds), with all mistakes of all files, and the warnings.
    pub fn parse(files: &[(&str, &str)]) -> Result<Self, Diagnostics> {
        Loader::new().parse(files)
    }

    /// Like [`parse`](Descriptors::parse), for files.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, is not valid or exceeds a [bound](self#bounds), with all mistakes of all files, and the warnings.
    pub fn from_files<P: AsRef<Path>>(paths: &[P]) -> Result<Self, Diagnostics> {
        Loader::new().load_files(paths)
    }

    /// Whether a file has descriptors, whatever its name is and whether they are valid: fields `domain` or `descriptors` at its top, which
    /// [rules](crate::Rules) do not have. False if it cannot be read.
    pub fn is_file(path: &Path) -> bool {
        if Format::of_path(path) == Some(Format::Toml) {
            return false;
        }
        let text = open::read(path).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        text.is_some_and(|text| {
            let names = crate::yaml::top_level(text.strip_prefix('\u{feff}').unwrap_or(&text));
            names.iter().any(|name| kind::is_field_of_envoy(name))
        })
    }

    /// Where the files load, and do not limit as their author probably expects: for example a descriptor that never limits, or
    /// a wildcard that takes the place of another.
    pub fn warnings(&self) -> &Diagnostics {
        &self.warnings
    }

    /// Whether there is a domain with this name.
    pub fn has_domain(&self, domain: &str) -> bool {
        self.table.domains.contains_key(domain)
    }

    /// The number of files.
    pub const fn files(&self) -> usize {
        self.files
    }

    /// The names of the domains, in no order.
    pub fn domains(&self) -> impl ExactSizeIterator<Item = &str> {
        self.table.domains.keys().map(|name| &**name)
    }

    /// All limits, in the order of the files.
    pub fn limits(&self) -> &[Limit] {
        &self.table.limits
    }

    /// The limit of a descriptor: the keys and values that a client sends, one for each level of the file.
    ///
    /// At each level a descriptor with this key and value is tried first, then those with wildcards in the order of the files, then the one
    /// with this key and no value. `None` if there is none, or if it has no limit: the request is admitted.
    pub fn limit<'a>(&'a self, domain: &'a str, descriptor: &'a [(&'a str, &'a str)]) -> Option<Match<'a>> {
        matching::find(&self.table, domain, descriptor)
    }

    /// What applies to each descriptor of a request, with `replaces` applied.
    ///
    /// ```
    /// use portcullis::rules::envoy::{Applied, Descriptors};
    ///
    /// let descriptors = Descriptors::parse(&[("shop.yaml", "
    /// domain: shop
    /// descriptors:
    ///   - key: user
    ///     rate_limit: { unit: second, requests_per_unit: 5, name: each_user }
    ///   - key: plan
    ///     value: premium
    ///     rate_limit: { unit: second, requests_per_unit: 50, replaces: [{ name: each_user }] }
    /// ")])?;
    /// let request = descriptors.request("shop", &[&[("user", "ada")], &[("plan", "premium")]]);
    /// assert!(matches!(request.as_slice(), [Applied::Replaced(_), Applied::Limit(_)]));
    /// # Ok::<(), portcullis::rules::Diagnostics>(())
    /// ```
    pub fn request<'a>(
        &'a self,
        domain: &'a str,
        descriptors: &'a [&'a [(&'a str, &'a str)]],
    ) -> RequestLimits<'a> {
        RequestLimits::new(descriptors.iter().map(|descriptor| self.limit(domain, descriptor)))
    }
}

/// The start of a text, for messages.
fn excerpt(text: &str) -> String {
    const MAX: usize = 60;
    let visible = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
    let mut start: String = text.chars().take(MAX).map(visible).collect();
    if text.chars().nth(MAX).is_some() {
        start.push_str("...");
    }
    start
}
