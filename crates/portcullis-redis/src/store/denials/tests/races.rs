//! Denials and corrections at the same time.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use super::*;

/// A caller who was given units back is not denied by what was asked before.
#[test]
fn a_correction_that_is_answered_is_never_followed_by_an_older_denial() {
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    let users: Vec<_> = (0..4).map(|user| user.to_string()).collect();
    let is_over = AtomicBool::new(false);
    let mut found_any = 0;
    std::thread::scope(|threads| {
        for user in &users {
            let (memory, is_over) = (&memory, &is_over);
            threads.spawn(move || {
                let check = check(&HOURLY, user, 1);
                while !is_over.load(SeqCst) {
                    let asked = Instant::now();
                    std::thread::yield_now();
                    remember(memory, &check, asked);
                }
            });
        }
        for _ in 0..20_000 {
            for user in &users {
                let (id, before) = (Id::of(&HOURLY, key(user)), memory.now());
                memory.correct(&HOURLY, key(user)).answered();
                let hash = memory.hash(id);
                let found =
                    memory.shard(hash).and_then(|mut shard| shard.find(memory.sets, hash, id, before));
                if let Some(denial) = found {
                    found_any += 1;
                    assert!(denial.asked() > before, "asked {} us too early", before - denial.asked());
                }
            }
        }
        is_over.store(true, SeqCst);
    });
    println!("{found_any} denials were newer");
}
