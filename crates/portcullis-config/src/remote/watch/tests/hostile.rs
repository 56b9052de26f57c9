//! What an attacker can do with the right to write the document, and with the key that signs it.

use super::*;

#[tokio::test]
async fn file_bounds_the_age_a_restart_accepts() {
    let (earlier, later) = (Setting::new(""), Setting::new("minimum_number = 2"));
    let old = earlier.push(&limit(7)).await.to_bytes();
    earlier.push(&limit(2)).await;
    for (setting, expected) in [(earlier, 7), (later, 1)] {
        // The process that has seen the later one.
        let mut seen = setting.follower();
        let _ = seen.look().await;
        setting.overwrite(old.clone()).await;
        let mut restarted = setting.follower();
        let _ = restarted.look().await;
        assert_eq!(setting.limit(), expected);
    }
}

#[tokio::test]
async fn reused_key_keeps_its_highest_number() {
    let setting = Setting::new("");
    let mut follower = setting.follower();
    let other = SigningKey::from_seed([2; 32]);
    let rules = |key: &SigningKey| {
        let file = format!(
            "[remote]\nverify_key = '{}'\n[policy.daily]\nstrategy = 'fixed_window'\nquota = '1/day'\nkey = 'global'\n",
            key.verifying_key()
        );
        Rules::load(&Loader::text("local", Format::Toml, file)).unwrap()
    };
    let old = setting.push(&limit(7)).await.to_bytes();
    setting.push(&limit(2)).await;
    let _ = follower.look().await;
    assert_eq!(setting.limit(), 2);
    // The key is rotated out, and what it has signed ends.
    setting.live.swap(rules(&other)).unwrap();
    let _ = follower.look().await;
    assert_eq!((setting.limit(), setting.rejections()), (1, 1));
    assert!(setting.rejected.lock().unwrap()[0].contains("not signed by the key that the local file trusts"));
    // And back.
    setting.live.swap(rules(&setting.key)).unwrap();
    setting.overwrite(old).await;
    let _ = follower.look().await;
    assert_eq!((setting.limit(), setting.rejections()), (1, 2));
    assert!(setting.rejected.lock().unwrap()[1].contains("document 1 is stale"));
}

#[tokio::test]
async fn deleted_document_keeps_rules_and_number() {
    let setting = Setting::new("");
    let mut follower = setting.follower();
    push(&setting.store, NAME, &setting.key, &limit(7), 5).await.unwrap();
    let _ = follower.look().await;
    setting.overwrite(Vec::new()).await;
    let _ = follower.look().await;
    assert_eq!((setting.limit(), setting.rejections()), (7, 0));
    // A push after that begins with 1, which is stale where 5 was seen.
    setting.push(&limit(8)).await;
    let _ = follower.look().await;
    assert_eq!((setting.limit(), setting.rejections()), (7, 1));
    push(&setting.store, NAME, &setting.key, &limit(9), 6).await.unwrap();
    let _ = follower.look().await;
    assert_eq!((setting.limit(), setting.rejections()), (9, 1));
    // A process that starts without the document has its local file.
    setting.overwrite(Vec::new()).await;
    let restarted = Setting { store: Arc::clone(&setting.store), ..Setting::new("") };
    let _ = restarted.follower().look().await;
    assert_eq!(restarted.limit(), 1);
}

#[tokio::test]
async fn ten_thousand_policies_are_one_refusal_of_a_bounded_length() {
    let setting = Setting::new("");
    let mut follower = setting.follower();
    let policies: Vec<_> = (0..10_000).map(|number| format!(r#""p{number}":{{"limit":1}}"#)).collect();
    setting.push(&format!(r#"{{"policy":{{{},"daily":{{"limit":7}}}}}}"#, policies.join(","))).await;
    let long = "p".repeat(200_000);
    setting.overwrite(setting.signed(2, &format!(r#"{{"policy":{{"{long}\n":{{"limit":1}}}}}}"#))).await;
    let _ = follower.look().await;
    setting.overwrite(setting.signed(3, &format!(r#"{{"policy":{{{}}}}}"#, policies.join(",")))).await;
    let _ = follower.look().await;
    let rejected = setting.rejected.lock().unwrap();
    assert_eq!((setting.limit(), rejected.len()), (1, 2));
    for findings in rejected.iter() {
        assert!(findings.contains("the local file does not have"), "{findings}");
        assert!(findings.len() < 40_000 && findings.lines().count() <= 100, "{}", findings.len());
    }
}

#[tokio::test]
async fn numbers_that_are_no_limits_are_refused() {
    let setting = Setting::new("allow = ['limit', 'burst', 'mode', 'quota']");
    let mut follower = setting.follower();
    let numbers = [
        "\"0\"",
        "1000000000000000",
        "-1",
        "1.5",
        "1e3",
        "1e400",
        "-1e400",
        "18446744073709551616",
        "340282366920938463463374607431768211456",
        "\"7\"",
        "null",
        "true",
        "[7]",
        "{}",
        "NaN",
        "0x7",
        "07",
        "+7",
        "7_000",
    ];
    for (number, value) in (1..).zip(numbers) {
        setting
            .overwrite(setting.signed(number, &format!(r#"{{"policy":{{"daily":{{"limit":{value}}}}}}}"#)))
            .await;
        let _ = follower.look().await;
        assert_eq!((setting.limit(), setting.live.generation()), (1, 1), "{value}");
        assert_eq!(setting.rejections() as u64, number, "{value}");
    }
    // The largest number is one, however it is refused or accepted.
    setting.push(r#"{"policy":{"daily":{"limit":18446744073709551615}}}"#).await;
    let _ = follower.look().await;
    assert!([1, u64::MAX].contains(&setting.limit()));
}

#[tokio::test]
async fn document_is_read_in_one_way_or_refused() {
    let setting = Setting::new("");
    let mut follower = setting.follower();
    let good = limit(9);
    let deep =
        format!(r#"{{"policy":{{"daily":{{"limit":{}9{}}}}}}}"#, "[".repeat(60_000), "]".repeat(60_000));
    let refused = [
        r#"{"policy":{"daily":{"limit":9,"limit":8}}}"#,
        r#"{"policy":{"daily":{"limit":9}},"policy":{}}"#,
        r#"{"policy":{"daily":{"limit":9},"daily":{}}}"#,
        r#"{"policy":{"daily":{"limit":9,"l\u0069mit":8}}}"#,
        &format!("{good}{good}"),
        &format!("{good} x"),
        &good.replace('}', ",}"),
        &good.replace('"', "'"),
        &format!("// a comment\n{good}"),
        &good.replace('9', "${LIMIT:-9}"),
        &good.replace('9', "\"${LIMIT:-9}\""),
        &deep,
        "[]",
        "policy = { daily = { limit = 9 } }",
    ];
    for (number, text) in (1..).zip(refused) {
        setting.overwrite(setting.signed(number, text)).await;
        let _ = follower.look().await;
        assert_eq!((setting.limit(), setting.rejections() as u64), (1, number), "{text:.80}");
    }
    // Space and escapes have one meaning.
    setting
        .overwrite(setting.signed(99, "\u{feff}\n{ \"policy\" : {\"daily\":{\"l\\u0069mit\": 9}}}\t"))
        .await;
    let _ = follower.look().await;
    assert_eq!(setting.limit(), 9);
    // A document without changes leaves the values of the file.
    for (number, text) in (100..).zip(["{}", "null", "", r#"{"policy":{}}"#]) {
        setting.overwrite(setting.signed(number, text)).await;
        let _ = follower.look().await;
        assert_eq!(setting.limit(), 1, "{text}");
        assert_eq!(setting.live.generation(), number - 97, "{text}");
    }
}

#[tokio::test]
async fn parsed_bytes_are_the_signed_bytes() {
    let setting = Setting::new("");
    let signed = setting.signed(1, &limit(7));
    let (header, text) = signed.split_at(crate::signed::HEADER);
    let upper = String::from_utf8(header.to_vec()).unwrap().replace(['a', 'b', 'c', 'd', 'e', 'f'], "A");
    for bytes in [
        [header, limit(8).as_bytes()].concat(),
        [header, b" ", text].concat(),
        [header, header, text].concat(),
        [text, header].concat(),
        [upper.as_bytes(), text].concat(),
    ] {
        setting.overwrite(bytes).await;
        // One that has not seen the header.
        let before = setting.rejections();
        let _ = setting.follower().look().await;
        assert_eq!((setting.limit(), setting.rejections()), (1, before + 1));
    }
}

impl Setting {
    fn signed(&self, number: u64, text: &str) -> Vec<u8> {
        Document::sign(&self.key, NAME, number, text).unwrap().to_bytes()
    }
}
