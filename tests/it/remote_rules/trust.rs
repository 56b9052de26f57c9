//! The local file is the authority.

use std::fs;
use std::path::PathBuf;

use super::*;

/// A local file that changes.
struct LocalFile {
    path: PathBuf,
    key: SigningKey,
}

impl LocalFile {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("remote-rules-{}-{name}.toml", std::process::id()));
        let file = Self { path, key: SigningKey::from_seed([3; 32]) };
        file.write("");
        file
    }

    fn write(&self, settings: &str) {
        fs::write(&self.path, file(&self.key, &format!("poll = \"20ms\"\n{settings}"), WINDOW)).unwrap();
    }
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The findings of the documents that were refused.
fn refusals(limiter: &Limiter) -> Arc<Mutex<Vec<String>>> {
    let list = Arc::<Mutex<Vec<String>>>::default();
    let refused = Arc::clone(&list);
    limiter.rules().unwrap().registry().observe(Arc::new(move |event: &Event<'_>| {
        if let EventKind::RulesRejected { findings, .. } = event.kind {
            refused.lock().unwrap().push(findings.to_owned());
        }
    }));
    list
}

/// Waits for the next refusal, and returns it.
async fn refusal(refusals: &Mutex<Vec<String>>, number: usize) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let (count, last) = {
            let list = refusals.lock().unwrap();
            (list.len(), list.last().cloned())
        };
        assert!(count <= number, "{last:?}");
        if count == number {
            return last.unwrap_or_default();
        }
        assert!(Instant::now() < end, "no refusal {number} after a minute");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_changes_what_the_local_file_allows() {
    let (redis, file) = (RedisServer::start().unwrap(), LocalFile::new("allow"));
    let instance = Instance::with(redis.url(), &Loader::file(&file.path)).await;
    let (store, live) = (pusher(&redis).await, instance.limiter.rules().unwrap());
    let refused = refusals(&instance.limiter);

    // Limits, bursts and modes, and nothing else.
    for (number, (change, finding)) in (1..).zip([
        (r#"{"policy":{"search":{"limit":50,"key":"peer"}}}"#, "may not change `key`"),
        (r#"{"policy":{"search":{"quota":"50/day"}}}"#, "may not change `period`"),
        (r#"{"policy":{"search":{"on_store_failure":"open"}}}"#, "may not change `on_store_failure`"),
        (r#"{"policy":{"other":{"limit":50}}}"#, "a policy that the local file does not have"),
        (r#"{"remote":{"allow":["key"]}}"#, "change policies and nothing else"),
        (r#"{"include":["/etc/passwd"]}"#, "change policies and nothing else"),
        (r#"{"policy":{"search":{"limit":"${LIMIT:-50}"}}}"#, "expected a number"),
    ]) {
        push(&store, NAME, &file.key, change, 0).await.unwrap();
        let findings = refusal(&refused, number).await;
        assert!(findings.contains(finding), "{findings}");
        assert_eq!((instance.limit(), live.generation()), (5, 1));
    }

    // A file that allows more is used at once, without another push.
    push(&store, NAME, &file.key, r#"{"policy":{"search":{"quota":"50/day"}}}"#, 0).await.unwrap();
    let findings = refusal(&refused, 8).await;
    assert!(findings.contains("may not change `period`"), "{findings}");
    file.write("allow = [\"limit\", \"period\"]");
    assert_eq!(live.reload().unwrap(), 2);
    instance.generation(3).await;
    assert_eq!(instance.limit(), 50);

    // One that allows less discards the document, and is never refused for it.
    file.write("allow = [\"mode\"]");
    assert_eq!(live.reload().unwrap(), 4);
    assert_eq!(instance.limit(), 5);
    let findings = refusal(&refused, 9).await;
    assert!(findings.contains("do not fit the local file, whose values apply"), "{findings}");
    assert_eq!(instance.send().await, (200, Some(4)));

    // Until a document that fits arrives.
    push(&store, NAME, &file.key, r#"{"policy":{"search":{"mode":"off"}}}"#, 0).await.unwrap();
    instance.generation(5).await;
    assert_eq!(refused.lock().unwrap().len(), 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn minimum_number_keeps_old_documents_away_after_a_restart() {
    let (redis, file) = (RedisServer::start().unwrap(), LocalFile::new("replay"));
    let store = pusher(&redis).await;
    let old = push(&store, NAME, &file.key, &limit(1_000), 0).await.unwrap().to_bytes();
    let new = push(&store, NAME, &file.key, &limit(6), 0).await.unwrap().to_bytes();
    let running = Instance::with(redis.url(), &Loader::file(&file.path)).await;
    running.generation(2).await;
    let refused = refusals(&running.limiter);
    assert!(store.replace(NAME, new, old).await.unwrap());
    assert!(refusal(&refused, 1).await.contains("document 1 is stale"));
    assert_eq!(running.limit(), 6);

    let restarted = Instance::with(redis.url(), &Loader::file(&file.path)).await;
    restarted.generation(2).await;
    assert_eq!(restarted.limit(), 1_000);

    // It discards the document where that applies, and keeps it away from where it does not.
    file.write("minimum_number = 2");
    assert_eq!(restarted.limiter.rules().unwrap().reload().unwrap(), 3);
    assert_eq!(restarted.limit(), 5);
    let rules = Rules::from_file(&file.path).unwrap();
    let limiter = Limiter::redis(redis.url())
        .deadline(Duration::from_secs(5))
        .await
        .unwrap()
        .with_rules(rules)
        .unwrap();
    let (refused, live) = (refusals(&limiter), limiter.rules().unwrap());
    let _remote = RemoteWatch::start(live, Arc::new(store)).unwrap();
    let findings = refusal(&refused, 1).await;
    assert!(findings.contains("document 1 is stale: the lowest number that is accepted is 2"), "{findings}");
    assert_eq!(live.generation(), 1);
}
