//! The signed document that changes the rules of a service.

use std::path::Path;
use std::sync::Arc;

use portcullis::redis::RedisStore;
use portcullis::rules::remote::{RemoteHandle, RemoteSettings, RemoteWatch};
use portcullis::rules::{Rules, RulesRequirement};
use portcullis::store::DocumentStore as _;
use portcullis::{LayerError, Limiter};

/// Follows the document until it is dropped, and refuses rules whose document cannot be followed.
pub(crate) struct FollowedDocument {
    _requirement: RulesRequirement,
    _watch: Option<RemoteHandle>,
}

/// Follows the document that `[remote]` in the rules of the limiter names, also after reloads. `None` without such rules.
///
/// # Errors
///
/// If the store cannot have the document.
pub(crate) fn follow(
    limiter: &Limiter,
    store: Option<RedisStore>,
    file: &Path,
) -> anyhow::Result<Option<FollowedDocument>> {
    let Ok(live) = limiter.rules() else { return Ok(None) };
    let (file, documents) = (file.display().to_string(), store.clone());
    let requirement = live.require(move |rules: &Rules| {
        match rules.remote().and_then(|settings| refusal(settings, documents.as_ref())) {
            Some(reason) => Err(LayerError::Unusable { reason: format!("{file}: {reason}") }),
            None => Ok(()),
        }
    })?;
    let watch = store.map(|store| RemoteWatch::start(live, Arc::new(store))).transpose()?;
    Ok(Some(FollowedDocument { _requirement: requirement, _watch: watch }))
}

/// Why the document cannot be followed.
fn refusal(settings: &RemoteSettings, store: Option<&RedisStore>) -> Option<String> {
    let Some(store) = store else { return Some(IN_MEMORY.to_owned()) };
    // Without a byte to read nothing is asked, and only a name that the store refuses is an error.
    match store.read(settings.key(), 0).into_ready() {
        Ok(Err(error)) => Some(format!("`key` in `[remote]`: {error}")),
        _ => None,
    }
}

const IN_MEMORY: &str = "`[remote]` follows a signed document in Redis, and the store is `memory`: give `--store redis://..`, or remove \
                         the table";
