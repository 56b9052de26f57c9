//! Replays an access log through the layers of a rate limiter, as if they had been in front of the server.
//!
//! The [`LogReader`] reads lines in the order of time, and the [`Engine`] sends each through real layers, at its instant, with a
//! service that answers as the log says. So the code that decides is that of a server, and so are the [`Counts`].
//!
//! What a log does not have is not simulated: bodies, the matched route, how long a response took (requests in flight end at once), and
//! what a handler charges.

mod callers;
mod counts;
mod diff;
mod engine;
mod input;
mod line;
mod log;
mod report;
mod run;
mod series;
mod store;
mod suggest;
mod upstream;

pub use callers::Callers;
pub use counts::{Counts, RuleCounts};
pub use diff::{Changed, Diff, Difference};
pub use engine::{Engine, Options, Outcome};
pub use input::{Input, engine_of_rules};
pub use line::Line;
pub use log::{BadLine, Fields, FieldsError, Format, LogReader, Notes, Pattern, Plain, Skipped};
pub use run::Simulate;
pub use series::{Bucket, Peak, Series};
pub use suggest::{Abuser, Peaks, Suggestion, Target};
pub use upstream::Upstream;
