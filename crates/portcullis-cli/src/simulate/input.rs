//! The arguments that are common to the commands, and the loop over the log.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use http::header::{HOST, REFERER, USER_AGENT};
use http::{HeaderName, HeaderValue};
use indicatif::{ProgressBar, ProgressStyle};
use portcullis_config::{LiveRules, Rules, RulesService};
use portcullis_tower::{LayerError, Registry};

use super::engine::{Engine, Options};
use super::line::Line;
use super::log::{Fields, Format, LogReader, Notes, Plain, Skipped};
use super::upstream::Upstream;

/// Which log is read, and how.
#[derive(Debug, Args)]
pub struct Input {
    /// The access log, in plain text or compressed by gzip or zstd; `-` is the standard input.
    #[arg(long, value_name = "FILE")]
    log: PathBuf,

    /// The format of the log: `combined`, `json`, `w3c`, `envoy`, `istio`, `haproxy`, `alb`, `elb`, or the text of nginx's `log_format`,
    /// such as `'$remote_addr [$time_local] "$request" $status'`. By default it is found by the first line that can be read.
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,

    /// Fields of JSON lines, such as `time=ts,client=ip,method=verb,path=url,status=code,host=vhost,header:x-api-key=key`. The
    /// field of a nested object has a dot in its name: `request.uri`. Fields that are not named here are found under their usual names.
    #[arg(long, value_name = "PAIRS", default_value = "", hide_default_value = true)]
    fields: Fields,

    /// The header that is shown as the caller, in place of the client's address.
    #[arg(long, value_name = "HEADER")]
    caller: Option<HeaderName>,

    /// The host of requests whose line has none.
    #[arg(long, value_name = "HOST")]
    host: Option<HeaderValue>,

    /// How many callers are shown.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(super) top: usize,
}

/// How long a log took, and what was wrong with it.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) notes: Notes,
    /// The headers that no line has, each with the field of the rules that reads it.
    absent: Vec<(String, HeaderName)>,
    pub(super) elapsed: Duration,
}

impl Input {
    pub(super) fn options(&self, kept_checks: usize) -> Options {
        let (caller, host) = (self.caller.clone(), self.host.clone());
        Options { caller, host, kept_checks, ..Options::default() }
    }

    /// Hands over each line, with a bar on standard error if that is a terminal. `headers` are those that the rules read.
    pub(super) fn read(
        &self,
        headers: Vec<(String, HeaderName)>,
        mut handle: impl FnMut(&Line),
    ) -> anyhow::Result<Reading> {
        let mut absent = headers;
        absent.retain(|(_, header)| self.host.is_none() || header != HOST);
        let name = || self.log.display().to_string();
        let (input, length): (Box<dyn BufRead>, _) = if self.log == Path::new("-") {
            (Box::new(io::stdin().lock()), None)
        } else {
            let file = File::open(&self.log).with_context(name)?;
            let length = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|data| data.len());
            (Box::new(BufReader::with_capacity(BUFFER, file)), length)
        };
        let bar = progress(length);
        let input = Plain::new(input).with_context(name)?;
        let position = input.position();
        let mut reader = LogReader::new(input).format(self.format.clone()).fields(self.fields.clone());
        let start = Instant::now();
        let mut until_update = LINES_PER_UPDATE;
        loop {
            let lines = reader.notes().physical;
            let Some(line) = reader.next().with_context(|| format!("{}, after line {lines}", name()))? else {
                break;
            };
            absent.retain(|(_, header)| line.headers().all(|(name, _)| name != header));
            handle(line);
            until_update -= 1;
            if until_update == 0 {
                until_update = LINES_PER_UPDATE;
                bar.set_position(position.get());
            }
        }
        bar.finish_and_clear();
        let reading = Reading { notes: reader.notes().clone(), absent, elapsed: start.elapsed() };
        let Notes { lines, bad, .. } = reading.notes;
        if lines > 0 && bad == lines {
            reading.print();
            bail!("{}: none of its {lines} lines can be read: --format and --fields say how", name());
        }
        Ok(reading)
    }
}

impl Reading {
    /// Prints what was wrong with the log, and the rate, on standard error.
    pub(super) fn print(&self) {
        let Notes { lines, bad, late, ref examples, .. } = self.notes;
        if lines > bad && !self.absent.is_empty() {
            eprintln!("portcullis: {}", absent_text(&self.absent));
        }
        if bad > 0 {
            eprintln!("portcullis: {bad} of {lines} lines were skipped; the first of them:");
            for example in examples {
                print_skipped(example);
            }
        }
        if late > 0 {
            eprintln!(
                "portcullis: {late} lines are late by more than 10 s, and count at the time of the line before them"
            );
        }
        let seconds = self.elapsed.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "shown without digits")]
        let rate = lines as f64 / seconds.max(1e-9);
        eprintln!("{lines} lines in {seconds:.2} s: {rate:.0} lines/s");
    }
}

/// Prints the line, with a mark below its column.
fn print_skipped(skipped: &Skipped) {
    let Skipped { line, column, reason, excerpt, indent, advice, .. } = skipped;
    eprintln!("  line {line}, column {column}: {reason}");
    eprintln!("    {excerpt}\n    {:indent$}^", "");
    if let Some(advice) = advice {
        eprintln!("    {advice}");
    }
}

/// The headers that rules read, each with its field.
pub(super) fn headers_of<'r>(rules: impl IntoIterator<Item = &'r Rules>) -> Vec<(String, HeaderName)> {
    let all = rules.into_iter().flat_map(Rules::headers_read);
    let mut headers: Vec<_> = all.map(|(field, name)| (field.to_owned(), name.clone())).collect();
    headers.sort_by(|one, other| one.0.cmp(&other.0));
    headers.dedup();
    headers
}

fn absent_text(absent: &[(String, HeaderName)]) -> String {
    let named = absent.iter().take(MAX_NAMED).map(|(field, name)| format!("{name} ({field})"));
    let mut text = named.collect::<Vec<_>>().join(", ");
    if let more @ 1.. = absent.len().saturating_sub(MAX_NAMED) {
        let _ = write!(text, ", and {more} more");
    }
    let clients = if absent.iter().any(|(field, _)| field.starts_with("client_ip.")) {
        "; for client_ip the address of a line is the client then, which is right where the log has the clients' own addresses"
    } else {
        ""
    };
    format!(
        "no line of the log has a header that the rules read: {text}. What depends on it is decided as without it{clients}; log it, and name \
         its field with --fields header:NAME=FIELD"
    )
}

/// Builds a limiter of rules.
///
/// # Errors
///
/// If the rules cannot be layers.
pub fn engine_of_rules(rules: Rules, mut options: Options) -> anyhow::Result<Engine<RulesService<Upstream>>> {
    // No layer reads these unless a rule does, and most logs have them.
    options.unread = vec![REFERER, USER_AGENT];
    options.unread.retain(|header| {
        // `_` counts as `-`.
        let is_read =
            rules.headers_read().any(|(_, read)| read.as_str().replace('_', "-") == header.as_str());
        !is_read && options.caller.as_ref() != Some(header)
    });
    let rules = rules.for_simulation();
    let layer =
        |registry: &Arc<Registry>| Ok::<_, LayerError>(LiveRules::new(Arc::clone(registry), rules)?.layer());
    Engine::new(options, layer).map_err(|error| anyhow!(error))
}

fn progress(length: Option<u64>) -> ProgressBar {
    let (bar, template) = match length {
        Some(length) => (ProgressBar::new(length), "{bar:40} {percent} % {bytes_per_sec} {eta}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} {bytes_per_sec}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

const BUFFER: usize = 1 << 20;
/// The most headers that a note names.
const MAX_NAMED: usize = 8;
const LINES_PER_UPDATE: u32 = 10_000;
