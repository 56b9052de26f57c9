//! Concurrent denials and corrections.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use super::*;

/// Sets a flag when it is dropped, so that the threads end if the test panics.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// After a refund, a client is not denied by a request from before it.
#[test]
fn denials_older_than_a_correction_are_not_remembered() {
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    let users: Vec<_> = (0..4).map(|user| user.to_string()).collect();
    let is_over = AtomicBool::new(false);
    let mut found_any = 0;
    std::thread::scope(|threads| {
        let _over = SetOnDrop(&is_over);
        for user in &users {
            let (memory, is_over) = (&memory, &is_over);
            threads.spawn(move || {
                let check = check(&HOURLY, user, 1);
                while !is_over.load(SeqCst) {
                    let sent = Instant::now();
                    std::thread::yield_now();
                    remember(memory, &check, sent);
                }
            });
        }
        for _ in 0..20_000 {
            for user in &users {
                let (id, before) = (Id::of(&HOURLY, key(user)), memory.now());
                memory.correct(&HOURLY, key(user)).answered();
                let hash = memory.hash(id);
                let found = memory.shard(hash).and_then(|shard| shard.find(memory.sets, hash, id, |_| true));
                if let Some(denial) = found {
                    found_any += 1;
                    assert!(denial.sent > before, "sent {} us too early", before - denial.sent);
                }
            }
        }
    });
    println!("{found_any} denials were newer");
}
