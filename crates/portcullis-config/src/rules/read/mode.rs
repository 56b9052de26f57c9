//! `mode`: whether a policy is enforced.

use portcullis_tower::{Mode, ParseModeError, Percent};

use super::Reader;
use crate::fields::{Fields, did_you_mean, quoted};
use crate::tables::MODES;
use crate::tree::Value;

impl Reader<'_> {
    pub(super) fn mode(&self, fields: &Fields<'_>) -> Option<Mode> {
        let node = fields.node("mode")?;
        let path = fields.path("mode");
        match &node.value {
            Value::Map(_) => {
                let share = fields.table("mode")?;
                Self::percent(share.read("percent")?, &share)
            }
            Value::String(text) => match text.parse() {
                Ok(mode) => Some(mode),
                Err(ParseModeError::Share(share)) => {
                    let message = format!("{share} is no share of the keys");
                    self.findings.error(path, node.span, message).help(SHARES);
                    None
                }
                Err(_) => {
                    let help = did_you_mean(text, MODES);
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
    fn percent(percent: f64, share: &Fields<'_>) -> Option<Mode> {
        let Ok(allowed) = Percent::try_from(percent) else {
            let message = format!("{percent} percent is no share of the keys");
            share.error("percent", message).help(SHARES);
            return None;
        };
        Some(Mode::Percent(allowed))
    }
}

const FORMS: &str = "write \"off\", \"shadow\", \"enforce\" or a share such as { percent = 10 }";
const SHARES: &str = "write 0 to 100, in steps of 0.1";
