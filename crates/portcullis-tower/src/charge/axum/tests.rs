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

/// The throttle is a static of the process, so no other test of this crate may log this line.
#[test]
fn a_missing_charge_is_logged_once_a_minute() {
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
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(logged.lines().count(), 1, "{logged}");
    assert!(logged.contains("ERROR") && logged.trim_end().ends_with("requests=1"), "{logged}");
    assert!(logged.contains("add `.with_charge()` to its layer, put a layer around the route"), "{logged}");
}
