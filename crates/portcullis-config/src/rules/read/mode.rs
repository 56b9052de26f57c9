//! `mode`: whether a policy is enforced.

use portcullis_tower::{Mode, ParseModeError, Percent};

use super::Reader;
use crate::fields::{Fields, decode, did_you_mean, quoted};
use crate::tree::{Node, Value};

impl Reader<'_> {
    pub(super) fn mode(&self, fields: &mut Fields<'_>) -> Option<Mode> {
        let node = fields.node("mode")?;
        let path = fields.path("mode");
        match &node.value {
            Value::Map(_) => {
                let mut share = Fields::of(node, path, self.findings)?;
                let inner = share.node("percent");
                let path = share.path("percent");
                share.required("percent", inner);
                share.finish();
                let inner = inner?;
                self.percent(decode(inner, &path, self.findings)?, inner, &path)
            }
            Value::String(text) => match text.parse() {
                Ok(mode) => Some(mode),
                Err(ParseModeError::Share(share)) => {
                    let message = format!("{share} is no share of the keys");
                    self.findings.error(path, node.span, message).help(SHARES);
                    None
                }
                Err(_) => {
                    let help = did_you_mean(text, ["off", "shadow", "enforce"]);
                    self.findings
                        .error(path, node.span, format!("unknown mode {}", quoted(text)))
                        .help(help.unwrap_or_else(|| FORMS.to_owned()));
                    None
                }
            },
            _ => {
                fields.expected("mode", node, "a mode").help(FORMS);
                None
            }
        }
    }

    /// In steps of a tenth of a percent.
    fn percent(&self, percent: f64, node: &Node, path: &str) -> Option<Mode> {
        let Ok(share) = Percent::try_from(percent) else {
            let message = format!("{percent} percent is no share of the keys");
            self.findings.error(path, node.span, message).help(SHARES);
            return None;
        };
        Some(Mode::Percent(share))
    }
}

const FORMS: &str = "write \"off\", \"shadow\", \"enforce\" or a share such as { percent = 10 }";
const SHARES: &str = "write 0 to 100, in steps of 0.1";
