//! Proxies whose rules a signed document in Redis changes.

use crate::fleet::Fleet;

use super::*;

#[test]
fn proxy_follows_document_and_logs_refusals() {
    let fleet = Fleet::start("proxy-document");
    let rules = fleet.folder.write("limits.toml", &format!("{}{RULES}", fleet.table));
    let (upstream, log, store) = (upstream(), fleet.folder.path("log"), fleet.store());
    let arguments = [&*rules, "--upstream", &upstream, "--store", &store, "--store-deadline", "5s"];
    let arguments = [&arguments[..], &["--status", "127.0.0.1:0"]].concat();
    let mut proxy = Proxy::start_with_log(&arguments, File::create(&log).unwrap());
    let wait_until = |what: &str, condition: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !condition() {
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "not {what}: {}",
                fs::read_to_string(&log).unwrap()
            );
            thread::sleep(Duration::from_millis(20));
        }
    };
    wait_until("ready", &|| proxy.page("/readyz").starts_with("HTTP/1.1 200 "));
    let admits = || proxy.get("").starts_with("HTTP/1.1 200 ");
    assert!(admits() && !admits(), "the limit of the file is 1");
    fleet.push("rules.key", 1, 2);
    wait_until("admitted by the document", &admits);
    assert!(!admits());

    fleet.push("other.key", 2, 1_000);
    wait_until("refused", &|| proxy.page("/readyz").contains("\"rules_refused\":true"));
    assert!(!admits());
    let lines = fs::read_to_string(&log).unwrap();
    let refusals: Vec<_> = lines.lines().filter(|line| line.contains(" ERROR ")).collect();
    assert!(
        refusals.len() == 1
            && refusals[0].contains("portcullis-rules")
            && refusals[0].contains("is not signed by the key"),
        "{lines}"
    );

    #[cfg(unix)]
    {
        proxy.signal("TERM");
        assert_eq!(proxy.process.wait().unwrap().code(), Some(0));
    }
}
