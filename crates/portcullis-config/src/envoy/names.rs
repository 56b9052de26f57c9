//! The names of policies, which are shorter than the keys of limits may be.

use std::collections::{HashMap, HashSet};

use portcullis_core::{PolicyName, Secret};

/// The name of a limit whose name is not known yet.
pub(super) const UNNAMED: PolicyName = PolicyName::literal("envoy");

/// The number of characters of a shortened key in front of its hash.
const KEPT: usize = PolicyName::MAX_LEN - 1 - 16;

/// A name for each limit, by its key and the parts of its key. All names differ, and they do not depend on the order of the limits
/// unless hashes collide.
pub(super) fn assign(keys: &[&str], paths: &[Vec<String>]) -> Vec<PolicyName> {
    let mut occurrences = HashMap::new();
    for key in keys {
        *occurrences.entry(*key).or_insert(0_usize) += 1;
    }
    let as_it_is = |key: &str| {
        let name = PolicyName::new(key).ok()?;
        (occurrences.get(key) == Some(&1)).then_some(name)
    };
    let mut used: HashSet<String> =
        keys.iter().filter_map(|key| as_it_is(key)).map(|name| name.as_str().to_owned()).collect();
    keys.iter()
        .zip(paths)
        .map(|(key, path)| as_it_is(key).unwrap_or_else(|| shortened(key, path, &mut used)))
        .collect()
}

fn shortened(key: &str, path: &[String], used: &mut HashSet<String>) -> PolicyName {
    let printable = |letter: char| if matches!(letter, ' '..='~') { letter } else { '?' };
    let start: String = key.chars().take(KEPT).map(printable).collect();
    let mut attempt = 0_u64;
    loop {
        let name = format!("{start}~{:016x}", hash(path, attempt));
        if used.insert(name.clone())
            && let Ok(name) = PolicyName::new(&name)
        {
            return name;
        }
        attempt += 1;
    }
}

/// A hash of the parts of a key, the same in every process.
fn hash(path: &[String], attempt: u64) -> u64 {
    // A key is hashed in steps, as one of them has to stay below the highest number of bytes of a key.
    let mut state = attempt.to_le_bytes();
    for part in path {
        let chunks = part.as_bytes().chunks(1_024).map(|chunk| ("bytes", chunk));
        for (tag, bytes) in chunks.chain([("part", &b""[..])]) {
            let mut hasher = Secret::published().hasher();
            hasher.writer().part("state", &state);
            hasher.writer().part(tag, bytes);
            // At most 1 KiB was written, so there is a key.
            if let Ok(key) = hasher.finish() {
                state.copy_from_slice(&key.fingerprint().to_le_bytes()[..8]);
            }
        }
    }
    u64::from_le_bytes(state)
}
