use std::io::Write;
use std::sync::{Arc, Mutex};

use super::*;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What is said once a minute is said once in the process: no other test here may have it said.
#[test]
fn requests_that_nobody_has_counted_are_counted_and_seldom_told() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .without_time()
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        for _ in 0..50 {
            assert_eq!(MissingCharge.into_response().status(), StatusCode::INTERNAL_SERVER_ERROR);
        }
    });
    let said = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("ERROR") && said.trim_end().ends_with("requests=1"), "{said}");
}
