//! The numbers of documents, which never go backwards.

use crate::overlay::RemoteSettings;
use crate::signed::DocumentError;

/// The highest numbers that were seen: one for each name and key that has signed documents, so that a key that is used again does not
/// begin anew. It keeps at most 16 signers.
#[derive(Debug, Default)]
pub(super) struct Numbers(Vec<Highest>);

/// The signed document with the highest number of one signer.
#[derive(Debug)]
struct Highest {
    name: String,
    verify_key: String,
    number: u64,
    header: Vec<u8>,
}

impl Numbers {
    /// Accepts a signed document with this number and header, unless one with a higher number was seen, or another one with the same.
    pub(super) fn accept(
        &mut self,
        settings: &RemoteSettings,
        number: u64,
        header: &[u8],
    ) -> Result<(), DocumentError> {
        let at = self.0.iter().position(|seen| settings.is_of_same_signer(&seen.name, &seen.verify_key));
        let (is_newer, lowest) = match at.map(|at| &self.0[at]) {
            Some(seen) if seen.header == header => (true, seen.number),
            // Above the highest number there is none.
            Some(seen) => (number > seen.number, seen.number.saturating_add(1)),
            None => (true, 0),
        };
        if !is_newer || number < settings.minimum_number {
            return Err(DocumentError::Stale { number, lowest: lowest.max(settings.minimum_number) });
        }
        let (name, verify_key) = (settings.key.clone(), settings.verify_key.clone());
        let seen = Highest { name, verify_key, number, header: header.to_vec() };
        if let Some(at) = at {
            self.0[at] = seen;
        } else {
            if self.0.len() == MAX_SIGNERS {
                self.0.remove(0);
            }
            self.0.push(seen);
        }
        Ok(())
    }
}

const MAX_SIGNERS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Loader, Rules};

    fn settings(name: &str) -> RemoteSettings {
        let key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        let file = format!("[remote]\nverify_key = '{key}'\nkey = '{name}'\n");
        Rules::load(&Loader::text("local", Format::Toml, file)).unwrap().remote().unwrap().clone()
    }

    #[test]
    fn each_signer_has_numbers_of_its_own_up_to_a_bound() {
        let mut numbers = Numbers::default();
        let first = settings("first");
        assert_eq!(numbers.accept(&first, 9, b"nine"), Ok(()));
        for other in 1..MAX_SIGNERS {
            assert_eq!(numbers.accept(&settings(&other.to_string()), 1, b"one"), Ok(()));
        }
        let stale = Err(DocumentError::Stale { number: 8, lowest: 10 });
        assert_eq!(numbers.accept(&first, 8, b"eight"), stale);
        assert_eq!(numbers.accept(&first, 9, b"nine"), Ok(()));
        assert_eq!(numbers.0.len(), MAX_SIGNERS);
        assert_eq!(numbers.accept(&settings("one more"), 1, b"one"), Ok(()));
        assert_eq!(numbers.0.len(), MAX_SIGNERS);
        assert_eq!(numbers.accept(&first, 8, b"eight"), Ok(()), "the oldest is forgotten");
    }

    #[test]
    fn highest_number_is_the_last_one() {
        let (mut numbers, settings) = (Numbers::default(), settings("rules"));
        assert_eq!(numbers.accept(&settings, u64::MAX, b"last"), Ok(()));
        assert_eq!(numbers.accept(&settings, u64::MAX, b"last"), Ok(()));
        for number in [0, u64::MAX - 1, u64::MAX] {
            assert!(numbers.accept(&settings, number, b"other").is_err());
        }
    }
}
