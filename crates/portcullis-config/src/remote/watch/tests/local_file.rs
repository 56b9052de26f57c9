//! Local files that change while a document changes them.

use super::*;

/// A local file that can change.
struct LocalFile(std::path::PathBuf);

impl LocalFile {
    fn new(test: &str) -> Self {
        Self(std::env::temp_dir().join(format!("portcullis-remote-{}-{test}.toml", std::process::id())))
    }

    /// Writes a file that trusts the key, with more settings, and more behind its only policy.
    fn write(&self, key: &SigningKey, settings: &str) {
        self.write_with(key, settings, "");
    }

    fn write_with(&self, key: &SigningKey, settings: &str, more: &str) {
        let text = format!(
            "[remote]\nverify_key = '{}'\n{settings}\n[policy.daily]\nstrategy = 'fixed_window'\nquota = '1/day'\nkey = 'global'\n{more}\n",
            key.verifying_key()
        );
        std::fs::write(&self.0, text).unwrap();
    }

    fn setting(&self) -> Setting {
        let setting = Setting::new("");
        self.write(&setting.key, "");
        setting.live.swap(Rules::from_file(&self.0).unwrap()).unwrap();
        setting
    }
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn a_document_ends_with_the_trust_in_its_key() {
    let file = LocalFile::new("trust");
    for (another_key, settings) in [(true, ""), (false, "minimum_number = 2"), (false, "key = 'other'")] {
        let setting = file.setting();
        let mut follower = setting.follower();
        setting.push(&limit(7)).await;
        let _ = follower.look().await;
        assert_eq!(setting.limit(), 7);
        let key = if another_key { SigningKey::from_seed([2; 32]) } else { setting.key.clone() };
        file.write(&key, settings);
        setting.live.reload().unwrap();
        assert_eq!(setting.limit(), 1, "{settings}");
        let _ = follower.look().await;
        assert_eq!(setting.limit(), 1, "{settings}");
        // The former settings accept it again.
        file.write(&setting.key, "");
        setting.live.reload().unwrap();
        let _ = follower.look().await;
        assert_eq!(setting.limit(), 7, "{settings}");
    }
}

#[tokio::test]
async fn documents_of_another_name_or_key_are_numbered_anew() {
    let file = LocalFile::new("numbers");
    let setting = file.setting();
    let mut follower = setting.follower();
    push(&setting.store, NAME, &setting.key, &limit(7), 900).await.unwrap();
    let _ = follower.look().await;
    assert_eq!(setting.limit(), 7);
    file.write(&setting.key, "key = 'other'");
    setting.live.reload().unwrap();
    push(&setting.store, "other", &setting.key, &limit(8), 0).await.unwrap();
    let _ = follower.look().await;
    assert_eq!((setting.limit(), setting.rejections()), (8, 0));
}

/// A policy that is not in every file.
const WEEKLY: &str = "[policy.weekly]\nstrategy = 'fixed_window'\nquota = '1/w'\nkey = 'global'\n";

fn weekly(limit: u64) -> String {
    format!(r#"{{"policy":{{"weekly":{{"limit":{limit}}}}}}}"#)
}

#[tokio::test]
async fn a_file_that_allows_less_discards_the_document() {
    let file = LocalFile::new("allow");
    let setting = file.setting();
    let mut follower = setting.follower();
    setting.push(&limit(7)).await;
    let _ = follower.look().await;
    assert_eq!((setting.limit(), setting.live.generation()), (7, 3));

    file.write(&setting.key, "allow = ['mode']");
    for generation in 4..6 {
        assert_eq!(setting.live.reload().unwrap(), generation);
        for _ in 0..2 {
            let _ = follower.look().await;
        }
        assert!(setting.live.has_refused());
        // One event, however often it is judged again.
        assert_eq!((setting.limit(), setting.live.generation(), setting.rejections()), (1, generation, 1));
    }
    let event = setting.rejected.lock().unwrap()[0].clone();
    assert!(event.contains("do not fit the local file, whose values apply"), "{event}");
    assert!(event.contains("(document 1)") && event.contains("may not change `limit`"), "{event}");

    // A document that fits applies, and the former one is not restored by a file that allows more again.
    setting.push(r#"{"policy":{"daily":{"mode":"shadow"}}}"#).await;
    let _ = follower.look().await;
    assert!(!setting.live.has_refused());
    file.write(&setting.key, "");
    setting.live.reload().unwrap();
    let _ = follower.look().await;
    assert_eq!((setting.limit(), setting.live.generation(), setting.rejections()), (1, 7, 1));
    assert_eq!(setting.live.current().get("daily").unwrap().mode(), portcullis_tower::Mode::Shadow);
}

#[tokio::test]
async fn a_discarded_document_that_fits_again_applies_again() {
    let file = LocalFile::new("again");
    let setting = file.setting();
    let mut follower = setting.follower();
    setting.push(&limit(7)).await;
    let _ = follower.look().await;
    for rejections in 1..3 {
        file.write(&setting.key, "allow = []");
        setting.live.reload().unwrap();
        assert_eq!((setting.limit(), setting.rejections()), (1, rejections));
        let _ = follower.look().await;
        file.write(&setting.key, "");
        setting.live.reload().unwrap();
        assert_eq!((setting.limit(), setting.rejections()), (7, rejections));
        let _ = follower.look().await;
    }
    assert_eq!((setting.limit(), setting.rejections(), setting.live.generation()), (7, 2, 7));
}

#[tokio::test]
async fn a_file_without_the_policy_discards_the_document() {
    let file = LocalFile::new("removed");
    let setting = file.setting();
    let mut follower = setting.follower();
    file.write_with(&setting.key, "", WEEKLY);
    setting.live.reload().unwrap();
    setting.push(r#"{"policy":{"weekly":{"limit":5},"daily":{"limit":7}}}"#).await;
    let _ = follower.look().await;
    assert_eq!(setting.limit(), 7);
    file.write(&setting.key, "");
    setting.live.reload().unwrap();
    let _ = follower.look().await;
    assert_eq!((setting.limit(), setting.rejections()), (1, 1));
}

#[tokio::test]
async fn a_file_with_an_error_keeps_the_rules_and_is_reported_alone() {
    let file = LocalFile::new("error");
    let setting = file.setting();
    let mut follower = setting.follower();
    setting.push(&limit(7)).await;
    let _ = follower.look().await;
    // Neither does the document fit it.
    file.write_with(&setting.key, "allow = []", "[policy.more]\nstrategy = 'gcra'\n");
    setting.live.reload().unwrap_err();
    assert_eq!((setting.limit(), setting.rejections()), (7, 1));
    let event = setting.rejected.lock().unwrap()[0].clone();
    assert!(event.contains("policy.more") && !event.contains("may not change"), "{event}");
    // A document that arrives meanwhile waits for the file, and says why.
    setting.push(&limit(8)).await;
    let _ = follower.look().await;
    assert_eq!(setting.limit(), 7);
    assert!(setting.rejected.lock().unwrap()[1].contains("the local file cannot be used"));
    file.write(&setting.key, "");
    setting.live.reload().unwrap();
    let _ = follower.look().await;
    assert_eq!((setting.limit(), setting.rejections()), (8, 2));
}

#[tokio::test]
async fn a_file_is_not_refused_for_a_mode_of_the_document() {
    let file = LocalFile::new("mode");
    let setting = file.setting();
    let mut follower = setting.follower();
    file.write_with(&setting.key, "", &WEEKLY.replace("'global'", "'peer'"));
    setting.live.reload().unwrap();
    setting.push(r#"{"policy":{"weekly":{"mode":"10%"}}}"#).await;
    let _ = follower.look().await;
    assert_eq!(setting.rejections(), 0, "{:?}", setting.rejected);
    // Clients choose this key, so that no share of them can be limited.
    let by_address = "[policy.address]\nstrategy = 'gcra'\nquota = '9/s'\nkey = 'peer'\n";
    let by_header = WEEKLY.replace("'global'", "{ header = 'x-key' }");
    file.write_with(&setting.key, "", &format!("{by_address}{by_header}"));
    setting.live.reload().unwrap();
    let _ = follower.look().await;
    assert_eq!(setting.live.current().get("weekly").unwrap().mode(), portcullis_tower::Mode::Enforce);
    assert_eq!(setting.rejections(), 1, "{:?}", setting.rejected);
}

#[tokio::test]
async fn a_refused_document_is_judged_again_at_once_by_a_changed_file() {
    let file = LocalFile::new("at-once");
    let setting = file.setting();
    file.write(&setting.key, "poll = '1h'");
    setting.live.reload().unwrap();
    setting.push(&weekly(7)).await;
    let _handle =
        RemoteWatch::start(&setting.live, Arc::clone(&setting.store) as Arc<dyn DocumentStore>).unwrap();
    until(|| setting.rejections() == 1).await;
    file.write_with(&setting.key, "poll = '1h'", WEEKLY);
    setting.live.reload().unwrap();
    until(|| setting.live.current().get("weekly").unwrap().policy().strategy().limit() == 7).await;
    assert_eq!(setting.rejections(), 1);
}

/// Waits for less than any interval.
async fn until(holds: impl Fn() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(std::time::Instant::now() < end, "not within 30 s");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
