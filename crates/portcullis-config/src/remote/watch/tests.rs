//! Documents in memory, one look at a time.

mod hostile;
mod local_file;
mod refusals;

use std::sync::Mutex;

use portcullis_core::store::StoreFuture;
use portcullis_core::{Secret, StoreError, StoreErrorKind};
use portcullis_memory::{MemoryDocuments, MemoryStore};
use portcullis_tower::{Event, EventKind, Registry};

use super::*;
use crate::load::Loader;
use crate::remote::{Document, SigningKey, push};
use crate::rules::Rules;
use crate::source::Format;

/// A document in memory that can be out of reach, and counts its calls.
#[derive(Debug, Default)]
struct Store {
    documents: MemoryDocuments,
    is_out: Mutex<bool>,
    reads: Mutex<Vec<usize>>,
}

impl DocumentStore for Store {
    fn read(&self, name: &str, length: usize) -> StoreFuture<Vec<u8>> {
        self.reads.lock().unwrap().push(length);
        if *self.is_out.lock().unwrap() {
            return StoreFuture::ready(Err(StoreError::new(StoreErrorKind::Unavailable, "out")));
        }
        self.documents.read(name, length)
    }

    fn replace(&self, name: &str, expected: Vec<u8>, document: Vec<u8>) -> StoreFuture<bool> {
        self.documents.replace(name, expected, document)
    }
}

struct Setting {
    live: LiveRules,
    store: Arc<Store>,
    key: SigningKey,
    rejected: Arc<Mutex<Vec<String>>>,
}

const NAME: &str = "portcullis-rules";

impl Setting {
    fn new(settings: &str) -> Self {
        let key = SigningKey::from_seed([1; 32]);
        let text = format!(
            "[remote]\nverify_key = '{}'\n{settings}\n[policy.daily]\nstrategy = 'fixed_window'\nquota = '1/day'\nkey = 'global'\n",
            key.verifying_key()
        );
        let rules = Rules::load(&Loader::text("local", Format::Toml, text)).unwrap();
        let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
        let live = LiveRules::new(registry, rules).unwrap();
        let rejected = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&rejected);
        live.registry().observe(Arc::new(move |event: &Event<'_>| {
            if let EventKind::RulesRejected { findings, .. } = event.kind {
                list.lock().unwrap().push(findings.to_owned());
            }
        }));
        Self { live, store: Arc::default(), key, rejected }
    }

    fn follower(&self) -> Follower {
        Follower::new(&self.live, Arc::clone(&self.store) as Arc<dyn DocumentStore>)
    }

    async fn push(&self, text: &str) -> Document {
        push(&self.store, NAME, &self.key, text, 0).await.unwrap()
    }

    /// Puts bytes in place of the document, whatever it is.
    async fn overwrite(&self, bytes: Vec<u8>) {
        let now = self.store.documents.read(NAME, usize::MAX).await.unwrap();
        assert!(self.store.replace(NAME, now, bytes).await.unwrap());
    }

    fn limit(&self) -> u64 {
        self.live.current().get("daily").unwrap().policy().strategy().limit()
    }

    fn rejections(&self) -> usize {
        self.rejected.lock().unwrap().len()
    }
}

fn limit(limit: u64) -> String {
    format!(r#"{{"policy":{{"daily":{{"limit":{limit}}}}}}}"#)
}

#[tokio::test]
async fn a_document_is_applied_once_and_read_after_a_change_only() {
    let setting = Setting::new("");
    let mut follower = setting.follower();
    assert_eq!(follower.look().await, Some(Duration::from_secs(5)));
    setting.push(&limit(7)).await;
    setting.store.reads.lock().unwrap().clear();
    for _ in 0..3 {
        let _ = follower.look().await;
        assert_eq!((setting.limit(), setting.live.generation()), (7, 2));
    }
    let header = crate::signed::HEADER;
    let whole = header + Document::MAX + 1;
    assert_eq!(*setting.store.reads.lock().unwrap(), [header, whole, header, header]);
    setting.push(&limit(8)).await;
    let _ = follower.look().await;
    assert_eq!((setting.limit(), setting.rejections()), (8, 0));
    // A reload of the local file keeps it.
    setting.live.reload().unwrap();
    let _ = follower.look().await;
    assert_eq!((setting.limit(), setting.live.generation()), (8, 4));
}

#[tokio::test]
async fn what_is_not_a_signed_document_is_refused_once() {
    let setting = Setting::new("");
    let mut follower = setting.follower();
    let good = setting.push(&limit(7)).await;
    let _ = follower.look().await;
    let bytes = Document::sign(&setting.key, NAME, 9, limit(9)).unwrap().to_bytes();
    let foreign = SigningKey::from_seed([2; 32]);
    let mut refused = vec![
        limit(9).into_bytes(),
        Document::sign(&foreign, NAME, 9, limit(9)).unwrap().to_bytes(),
        Document::sign(&setting.key, "other", 9, limit(9)).unwrap().to_bytes(),
        [bytes.as_slice(), b" "].concat(),
        [bytes.as_slice(), &[b' '; Document::MAX]].concat(),
    ];
    refused.extend((1..bytes.len()).step_by(7).map(|length| bytes[..length].to_vec()));
    for bytes in refused {
        let before = setting.rejections();
        setting.overwrite(bytes).await;
        for _ in 0..2 {
            let _ = follower.look().await;
        }
        assert!(setting.rejections() <= before + 1);
        assert_eq!((setting.limit(), setting.live.generation()), (7, 2));
    }
    assert!(setting.rejections() > 5);
    // A restored document is no change, also for an instance that has not read the one between.
    setting.overwrite(good.to_bytes()).await;
    for follower in [&mut follower, &mut setting.follower()] {
        let _ = follower.look().await;
        assert_eq!((setting.limit(), setting.live.generation()), (7, 2));
    }
}

#[tokio::test]
async fn the_number_never_goes_backwards() {
    let setting = Setting::new("minimum_number = 3");
    let mut follower = setting.follower();
    let sign = |number, units| Document::sign(&setting.key, NAME, number, limit(units)).unwrap().to_bytes();
    for (bytes, expected) in [
        (sign(2, 2), 1),
        (sign(3, 3), 3),
        (sign(5, 5), 5),
        (sign(4, 4), 5),
        // Another document of the same number.
        (sign(5, 6), 5),
        (sign(5, 5), 5),
        (sign(u64::MAX, 7), 7),
        (sign(5, 5), 7),
    ] {
        setting.overwrite(bytes).await;
        let _ = follower.look().await;
        assert_eq!(setting.limit(), expected);
    }
    assert!(setting.rejected.lock().unwrap()[0].contains("document 2 is stale: the lowest number"));
    // A restart does not know what was seen, but the local file does.
    let mut restarted = setting.follower();
    setting.overwrite(sign(2, 2)).await;
    let _ = restarted.look().await;
    assert_eq!(setting.limit(), 7);
}

#[tokio::test]
async fn a_document_that_changes_too_much_is_refused() {
    let setting = Setting::new("");
    let mut follower = setting.follower();
    for (change, finding) in [
        (r#"{"policy":{"daily":{"limit":9,"key":"peer"}}}"#, "may not change `key`"),
        (r#"{"policy":{"daily":{"limit":9},"other":{"limit":9}}}"#, "does not have"),
        (r#"{"policy":{"daily":{"limit":0,"burst":1}}}"#, "burst"),
        (r#"{"policy":{"daily":{"mode":"of"}}}"#, "mode"),
        ("{", "portcullis-rules (document 5)"),
    ] {
        setting.push(change).await;
        let _ = follower.look().await;
        let last = setting.rejected.lock().unwrap().last().cloned().unwrap_or_default();
        assert!(last.contains(finding), "{change}: {last}");
        assert_eq!((setting.limit(), setting.live.generation()), (1, 1));
    }
    assert_eq!(setting.rejections(), 5);
}

#[tokio::test]
async fn the_last_good_rules_stay_while_the_store_is_out() {
    let setting = Setting::new("");
    let mut follower = setting.follower();
    setting.push(&limit(7)).await;
    let _ = follower.look().await;
    *setting.store.is_out.lock().unwrap() = true;
    for _ in 0..3 {
        assert!(follower.look().await.is_some() && follower.is_out());
    }
    setting.push_while_out(&limit(8)).await;
    assert_eq!(setting.limit(), 7);
    *setting.store.is_out.lock().unwrap() = false;
    let _ = follower.look().await;
    assert_eq!((setting.limit(), follower.is_out(), setting.rejections()), (8, false, 0));
    // A document that was deleted is not the end of the rules.
    setting.overwrite(Vec::new()).await;
    let _ = follower.look().await;
    assert_eq!(setting.limit(), 8);
}

impl Setting {
    async fn push_while_out(&self, text: &str) {
        push(&self.store.documents, NAME, &self.key, text, 0).await.unwrap();
    }
}

#[tokio::test]
async fn the_follower_ends_with_the_rules() {
    let setting = Setting::new("");
    let mut follower = setting.follower();
    assert!(follower.look().await.is_some());
    drop(setting);
    assert_eq!(follower.look().await, None);
}

#[test]
fn intervals_differ_by_a_tenth_at_most() {
    let pause = Duration::from_secs(10);
    let all: Vec<_> = (0..100).map(|_| jitter(pause)).collect();
    let bounds = pause.mul_f64(0.9)..=pause.mul_f64(1.1);
    assert!(all.iter().all(|one| bounds.contains(one)) && all.iter().any(|one| *one != all[0]));
}

#[tokio::test]
async fn rules_that_are_replaced_by_hand_get_the_document_again() {
    let setting = Setting::new("");
    let mut follower = setting.follower();
    let local = setting.live.current();
    setting.push(&limit(7)).await;
    let _ = follower.look().await;
    assert_eq!(setting.limit(), 7);
    setting.live.swap(local).unwrap();
    assert_eq!(setting.limit(), 1);
    let _ = follower.look().await;
    assert_eq!(setting.limit(), 7);
}
