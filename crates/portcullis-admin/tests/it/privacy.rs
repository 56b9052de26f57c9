//! Identities stay in the bodies of requests.

use std::io;
use std::sync::{Arc, Mutex, Once};

use portcullis_core::Secret;
use portcullis_memory::MemoryStore;
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{ADA, Limited, of, registry, with};

/// What this thread logs.
#[derive(Clone)]
pub(crate) struct Captured(
    Arc<Mutex<Vec<u8>>>,
    #[expect(dead_code, reason = "ends it")] Arc<tracing::subscriber::DefaultGuard>,
);

#[derive(Clone)]
struct Writer(Arc<Mutex<Vec<u8>>>);

impl Captured {
    pub(crate) fn start() -> Self {
        static GLOBAL_SUBSCRIBER: Once = Once::new();

        // Otherwise a line that another test logs first, without a subscriber, may be disabled for all of them.
        GLOBAL_SUBSCRIBER.call_once(|| {
            let subscriber =
                tracing_subscriber::fmt().with_writer(io::sink).with_max_level(tracing::Level::TRACE);
            tracing::subscriber::set_global_default(subscriber.finish()).unwrap();
        });
        let text: Arc<Mutex<Vec<u8>>> = Arc::default();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing::Level::TRACE);
        let subscriber = subscriber.with_writer(Writer(Arc::clone(&text))).finish();
        Self(text, Arc::new(tracing::subscriber::set_default(subscriber)))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// What was logged since the last call.
    pub(crate) fn take_all(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }

    /// The only line of a target since the last call.
    pub(crate) fn take_line(&self, target: &str) -> String {
        let text = self.take_all();
        let lines: Vec<_> = text.lines().filter(|line| line.contains(target)).collect();
        let [line] = lines.as_slice() else { panic!("no single line of {target}: {text}") };
        (*line).to_owned()
    }
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Writer {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

const READS: [&str; 4] = ["/v1/snapshot", "/v1/policies", "/v1/layers", "/v1/openapi.json"];

#[tokio::test]
async fn no_identity_is_in_answers_or_logs() {
    let captured = Captured::start();
    let limited = Limited::new();
    for _ in 0..5 {
        limited.request(ADA).await;
    }
    let day = json!({ "duration_seconds": 86_400 });
    let mistake = json!({ "policy": "search", "identity": { "fingerprint": ADA } });
    let misplaced = json!({ "policy": "search", "identity": { ADA: "" } });
    let wrong_type = json!({ "policy": "search", "identity": ADA });
    for (path, body) in [
        ("/v1/budget", of(ADA)),
        ("/v1/overrides", of(ADA)),
        ("/v1/reset", of(ADA)),
        ("/v1/grant", with(with(of(ADA), &day), &json!({ "quota": "9/w" }))),
        ("/v1/revoke", of(ADA)),
        ("/v1/block", with(of(ADA), &day)),
        ("/v1/block", with(of(ADA), &json!({ "duration_seconds": ADA }))),
        ("/v1/unblock", of(ADA)),
        ("/v1/reset", mistake),
        ("/v1/reset", misplaced),
        ("/v1/reset", wrong_type),
        ("/v1/reset", json!({ "policy": ADA, "identity": {} })),
        ("/v1/mode", json!({ "policy": "search", "mode": ADA })),
    ] {
        assert!(!limited.post(path, &body).await.text.contains(ADA), "{path} {body}");
    }
    for path in READS {
        let answer = limited.get(path).await;
        assert!(answer.status == 200 && !answer.text.contains(ADA), "{path}");
    }
    let log = captured.text();
    assert!(log.contains("portcullis::audit") && !log.contains(ADA), "{log}");
}

#[tokio::test]
async fn the_published_secret_withholds_fingerprints() {
    let captured = Captured::start();
    let limited = Limited::on(registry(MemoryStore::new(), Secret::published()));
    for _ in 0..5 {
        limited.request(ADA).await;
    }
    let key = {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("x-user", ADA.as_bytes());
        format!("{:032x}", hasher.finish().unwrap().fingerprint())
    };
    let mut texts: Vec<String> = Vec::new();
    for path in ["/v1/budget", "/v1/overrides", "/v1/reset", "/v1/unblock"] {
        let answer = limited.post(path, &of(ADA)).await;
        assert_eq!((answer.status, &answer.json()["fingerprint"]), (200, &json!(null)));
        texts.push(answer.text);
    }
    limited.request(ADA).await;
    let snapshot = limited.get("/v1/snapshot").await;
    for list in ["top", "recent"] {
        assert_eq!(snapshot.json()[list][0]["fingerprint"], json!(null), "{list}");
    }
    texts.extend([snapshot.text, captured.text()]);
    // Nor are there other numbers of that length.
    let has_digits = |text: &str| text.split(|c: char| !c.is_ascii_hexdigit()).any(|word| word.len() >= 32);
    assert!(texts.iter().all(|text| !text.contains(&key) && !has_digits(text)));
    assert!(captured.text().contains("fingerprint=\"withheld\""));
}
