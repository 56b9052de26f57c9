//! One key for all requests.

use std::borrow::Cow;

use http::request::Parts;
use portcullis_core::KeyWriter;

use super::{Identity, KeyError, KeyExtractor, KeyForms, NamedPart};

/// One key for all requests: a limit for the service as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Global;

impl KeyExtractor for Global {
    fn extract(&self, _: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        key.shared_part("global", b"");
        Ok(Identity::Found)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed("global")
    }

    fn forms(&self) -> KeyForms {
        KeyForms::of(*self)
    }
}

impl NamedPart for Global {
    fn name(&self) -> Cow<'_, str> {
        "global".into()
    }

    fn example(&self) -> Cow<'_, str> {
        "".into()
    }

    fn tags(&self) -> Vec<&str> {
        vec!["global"]
    }

    fn write(&self, value: &[u8], key: &mut KeyWriter<'_>) -> Result<(), KeyError> {
        if !value.is_empty() {
            return Err(KeyError::client("has no value"));
        }
        key.shared_part("global", b"");
        Ok(())
    }
}
