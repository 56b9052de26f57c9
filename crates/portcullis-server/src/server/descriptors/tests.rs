use std::convert::Infallible;
use std::fs;
use std::sync::Mutex;

use portcullis::Limiter;
use portcullis::event::Event;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;
use crate::NotReady;

/// No test waits for longer, and none takes nearly as long.
const BOUND: Duration = Duration::from_secs(20);

/// A folder that is followed, whose changes are looked for when the test says so.
struct Followed {
    folder: PathBuf,
    readiness: Readiness,
    look: mpsc::UnboundedSender<()>,
    looked: mpsc::UnboundedReceiver<()>,
    events: Arc<Mutex<Vec<String>>>,
    applied: Arc<Mutex<Vec<usize>>>,
}

impl Followed {
    fn start(name: &str, files: &[(&str, &str)]) -> Self {
        let folder = std::env::temp_dir().join(format!("portcullis-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in files {
            fs::write(folder.join(file), text).unwrap();
        }
        let events: Arc<Mutex<Vec<String>>> = Arc::default();
        let recorded = Arc::clone(&events);
        let limiter = Limiter::memory().observe(move |event: &Event<'_>| {
            recorded.lock().unwrap().push(match event.kind {
                EventKind::RulesReloaded { generation } => format!("reloaded {generation}"),
                EventKind::RulesRejected { generation, findings } => format!("kept {generation}: {findings}"),
                other => format!("{other:?}"),
            });
        });
        let readiness = Readiness::new(&limiter);
        let descriptors = DescriptorFiles::new(&folder);
        descriptors.load().unwrap();
        let applied: Arc<Mutex<Vec<usize>>> = Arc::default();
        let (look, wanted) = mpsc::unbounded_channel();
        let (done, looked) = mpsc::unbounded_channel();
        let wanted = Arc::new(tokio::sync::Mutex::new(wanted));
        let now = move || {
            let wanted = Arc::clone(&wanted);
            let _ = done.send(());
            async move {
                if wanted.lock().await.recv().await.is_none() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let limits = Arc::clone(&applied);
        let apply = move |descriptors: Descriptors| {
            limits.lock().unwrap().push(descriptors.limits().len());
            Ok::<_, Infallible>(())
        };
        tokio::spawn(descriptors.follow(readiness.clone(), 10 * BOUND, now, apply));
        Self { folder, readiness, look, looked, events, applied }
    }

    /// Looks for changes, and returns why the server is not ready, and whether changes are refused.
    async fn look(&mut self) -> (Vec<NotReady>, bool) {
        self.look.send(()).unwrap();
        timeout(BOUND, self.looked.recv()).await.unwrap();
        (self.readiness.reasons(), self.readiness.has_refused_rules())
    }

    fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

const SHOP: &str =
    "{domain: shop, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}]}";

#[tokio::test]
async fn emptied_folder_is_refused_once() {
    let mut followed = Followed::start("emptied", &[("shop", SHOP)]);
    timeout(BOUND, followed.looked.recv()).await.unwrap();
    assert_eq!(followed.look().await, (vec![], false));
    fs::rename(followed.folder.join("shop"), followed.folder.join(".shop")).unwrap();
    for _ in 0..2 {
        assert_eq!(followed.look().await, (vec![], true));
    }
    fs::write(followed.folder.join("shop"), "domain: [\n").unwrap();
    assert_eq!(followed.look().await, (vec![], true));
    assert_eq!(*followed.applied.lock().unwrap(), [0; 0]);
    fs::rename(followed.folder.join(".shop"), followed.folder.join("shop")).unwrap();
    assert_eq!(followed.look().await, (vec![], false));
    let events = followed.events();
    assert_eq!(events.len(), 3, "{events:?}");
    assert!(
        events[0].starts_with("kept 1: ") && events[0].ends_with("has no descriptor files any more"),
        "{events:?}"
    );
    assert!(events[1].starts_with("kept 1: ") && events[1].contains("not valid YAML"), "{events:?}");
    assert_eq!(events[2], "reloaded 2");
    assert_eq!(*followed.applied.lock().unwrap(), [1]);
}

#[tokio::test]
async fn empty_folder_is_ready_when_it_has_files() {
    let mut followed = Followed::start("empty", &[]);
    assert_eq!(followed.readiness.reasons(), [NotReady::NoRules]);
    timeout(BOUND, followed.looked.recv()).await.unwrap();
    fs::write(followed.folder.join(".hidden"), "no descriptors").unwrap();
    assert_eq!(followed.look().await, (vec![NotReady::NoRules], false));
    fs::write(followed.folder.join("shop"), "domain: [\n").unwrap();
    assert_eq!(followed.look().await, (vec![NotReady::NoRules], true));
    fs::remove_file(followed.folder.join("shop")).unwrap();
    assert_eq!(followed.look().await, (vec![NotReady::NoRules], false));
    fs::write(followed.folder.join("shop"), SHOP).unwrap();
    assert_eq!(followed.look().await, (vec![], false));
}
