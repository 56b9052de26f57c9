//! How often a refused document is read, and how often it is reported.

use tokio::time::{Instant, advance};

use super::*;
use crate::signed::HEADER;

const WHOLE: usize = HEADER + Document::MAX + 1;

#[tokio::test(start_paused = true)]
async fn a_refused_document_is_judged_again_within_a_minute() {
    for poll in ["10ms", "5s", "20s", "54s", "1h"] {
        let setting = Setting::new(&format!("poll = '{poll}'"));
        let mut follower = setting.follower();
        let good = Document::sign(&setting.key, NAME, 3, limit(3)).unwrap().to_bytes();
        setting.overwrite(good[..good.len() - 1].to_vec()).await;
        let _ = follower.look().await;
        let mut judged = Instant::now();
        let (mut looks, mut times) = (0, 0);
        while times < 3 {
            setting.store.reads.lock().unwrap().clear();
            let pause = follower.look().await.unwrap();
            looks += 1;
            if setting.store.reads.lock().unwrap().contains(&WHOLE) {
                judged = Instant::now();
                times += 1;
            }
            // The longest that `jitter` makes of it.
            advance(pause.mul_f64(1.1)).await;
            assert!(judged.elapsed() <= Duration::from_secs(60), "{poll}: {:?}", judged.elapsed());
        }
        assert!(looks < 20_000, "{poll}: {looks}");
        assert_eq!((setting.limit(), setting.rejections()), (1, 1), "{poll}");
        // The rest of the document is written, so that its header stays.
        setting.overwrite(good).await;
        let end = Instant::now() + Duration::from_secs(60);
        while setting.limit() != 3 {
            assert!(Instant::now() <= end, "{poll}");
            let pause = follower.look().await.unwrap();
            advance(pause.mul_f64(1.1)).await;
        }
        assert_eq!((setting.rejections(), setting.live.generation()), (1, 2), "{poll}");
    }
}

#[tokio::test]
async fn each_refusal_is_reported_once() {
    let setting = Setting::new("");
    let mut follower = setting.follower();
    let good = setting.push(&limit(7)).await.to_bytes();
    let _ = follower.look().await;
    let other = SigningKey::from_seed([2; 32]);
    let refused = [
        Document::sign(&other, NAME, 9, limit(9)).unwrap().to_bytes(),
        Document::sign(&setting.key, "other", 9, limit(9)).unwrap().to_bytes(),
        limit(9).into_bytes(),
    ];
    for _ in 0..5 {
        for bytes in refused.iter().chain([&good]) {
            setting.overwrite(bytes.clone()).await;
            let _ = follower.look().await;
        }
        setting.live.reload().unwrap();
    }
    assert_eq!(setting.rejections(), refused.len());
    assert_eq!((setting.limit(), setting.live.generation()), (7, 7));
    // After another document has applied, they are news again.
    setting.push(&limit(8)).await;
    let _ = follower.look().await;
    setting.overwrite(refused[0].clone()).await;
    let _ = follower.look().await;
    assert_eq!((setting.limit(), setting.rejections()), (8, refused.len() + 1));
}

#[tokio::test]
async fn only_a_document_that_applies_makes_a_generation() {
    let setting = Setting::new("");
    let mut follower = setting.follower();
    let sign = |number, text: &str| Document::sign(&setting.key, NAME, number, text).unwrap().to_bytes();
    for (what, bytes, generation) in [
        ("a push", sign(1, &limit(7)), 2),
        ("a refusal", sign(2, &limit(1_000_000_000_000_000)), 2),
        ("a restore", sign(1, &limit(7)), 2),
        ("the next push", sign(3, &limit(8)), 3),
        ("the same", sign(3, &limit(8)), 3),
        ("a deletion", Vec::new(), 3),
        ("the same again", sign(3, &limit(8)), 3),
        ("another of the same number", sign(3, &limit(9)), 3),
        ("the same after it", sign(3, &limit(8)), 3),
        ("the same values under the next number", sign(4, &limit(8)), 4),
    ] {
        setting.overwrite(bytes).await;
        for _ in 0..2 {
            let _ = follower.look().await;
            assert_eq!(setting.live.generation(), generation, "{what}");
        }
    }
    assert_eq!(setting.limit(), 8);
}

#[tokio::test]
async fn refusal_is_shown_until_it_is_mended() {
    let setting = Setting::new("");
    let mut follower = setting.follower();
    let good = setting.push(&limit(7)).await.to_bytes();
    let _ = follower.look().await;
    assert!(!setting.live.has_refused());
    let foreign = Document::sign(&SigningKey::from_seed([2; 32]), NAME, 9, limit(9)).unwrap().to_bytes();
    let mended =
        [good.clone(), Vec::new(), Document::sign(&setting.key, NAME, 2, limit(8)).unwrap().to_bytes()];
    for (times, mended) in (1..).zip(mended) {
        setting.overwrite(foreign.clone()).await;
        let _ = follower.look().await;
        // A reload of files that are as good as before does not mend the document.
        setting.live.reload().unwrap();
        let _ = follower.look().await;
        assert!(setting.live.has_refused(), "{times}");
        setting.overwrite(mended).await;
        let _ = follower.look().await;
        assert!(!setting.live.has_refused(), "{times}");
    }
    assert_eq!(setting.rejections(), 1);
}

#[tokio::test]
async fn store_that_is_out_is_asked_again_soon() {
    for (poll, soon) in [("1h", 5), ("2s", 2)] {
        let setting = Setting::new(&format!("poll = '{poll}'"));
        let mut follower = setting.follower();
        *setting.store.is_out.lock().unwrap() = true;
        assert_eq!(follower.look().await, Some(Duration::from_secs(soon)), "{poll}");
    }
}
