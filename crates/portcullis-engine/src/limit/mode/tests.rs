use portcullis_core::{Gcra, PolicySettings, Quota, Secret};

use super::*;

fn policy(name: &str) -> Policy {
    Policy::try_new(name, Gcra::new(Quota::per_second(1)), PolicySettings::default()).unwrap()
}

fn keys() -> impl Iterator<Item = Key> {
    (0..10_000_u32).map(|user| {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("user", &user.to_be_bytes());
        hasher.finish().unwrap()
    })
}

#[test]
fn a_share_has_its_part_of_ten_thousand_keys() {
    for name in ["search", "login", "daily"] {
        let policy = policy(name);
        for permille in [0, 1, 5, 50, 100, 333, 500, 900, 999, 1_000] {
            let share = Percent::permille(permille);
            let count = keys().filter(|key| share.includes(&policy, *key)).count();
            // Five standard deviations of a binomial distribution.
            let expected = f64::from(permille) * 10.0;
            let bound = 5.0 * (expected * (1.0 - expected / 10_000.0)).sqrt();
            let difference = (f64::from(u32::try_from(count).unwrap()) - expected).abs();
            assert!(difference <= bound, "{name}: {share} has {count}");
        }
    }
}

#[test]
fn a_key_stays_in_a_share_that_grows() {
    let policy = policy("search");
    for key in keys().step_by(10) {
        let included = (0..=1_000).map(|permille| Percent::permille(permille).includes(&policy, key));
        let included: Vec<_> = included.collect();
        assert!(included.is_sorted() && !included[0] && included[1_000]);
    }
}

#[test]
fn policies_choose_their_keys_independently() {
    let names = ["a", "b", "search", "login", "tenant 1", "tenant 2", "tenant 3"];
    for (index, one) in names.iter().enumerate() {
        for other in &names[..index] {
            let (one, other) = (policy(one), policy(other));
            let half = Percent::new(50);
            let both = keys().filter(|key| half.includes(&one, *key) && half.includes(&other, *key)).count();
            // Five standard deviations around a quarter.
            assert!((2_283..2_717).contains(&both), "{one:?} and {other:?}: {both}");
        }
    }
}

#[test]
fn parts_behind_the_first_do_not_matter() {
    let policy = policy("search");
    let key = |user: u32, route: &str| {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("user", &user.to_be_bytes());
        hasher.writer().shared_part("route", route.as_bytes());
        hasher.finish().unwrap()
    };
    let share = Percent::new(50);
    for user in 0..100 {
        let included = ["/a", "/b", "/c"].map(|route| share.includes(&policy, key(user, route)));
        assert!(included == [true; 3] || included == [false; 3]);
    }
}

#[test]
fn numbers_out_of_range_are_errors() {
    assert_eq!(Percent::try_from(100.0), Ok(Percent::ALL));
    assert_eq!(Percent::try_from(0.0), Ok(Percent::ZERO));
    assert_eq!(Percent::try_from(0.3), Ok(Percent::permille(3)));
    assert_eq!(Percent::new(7), Percent::permille(70));
    let error = |percent: f64| Percent::try_from(percent).unwrap_err().to_string();
    assert_eq!(error(101.0), "101 percent is more than all keys: use 0 to 100");
    for percent in [0.25, -0.1, f64::NAN, f64::NEG_INFINITY] {
        assert_eq!(
            error(percent),
            format!("{percent} percent is no share of the keys: use 0 to 100, in steps of 0.1")
        );
    }
}

#[test]
#[should_panic(expected = "0 to 100 percent")]
fn a_literal_above_all_keys_panics() {
    let _ = Percent::new(101);
}

#[test]
fn a_key_stays_in_a_share_when_only_the_window_changes() {
    let windows =
        [Quota::per_minute(5), Quota::per_hour(9)].map(|quota| Policy::fixed_window("daily", quota));
    let share = Percent::new(30);
    for key in keys().step_by(10) {
        let [before, after] = windows.each_ref().map(|policy| share.includes(policy, key));
        assert_eq!(before, after);
    }
}

#[test]
fn mode_is_read_as_it_is_written() {
    let share = |permille| Mode::Percent(Percent::permille(permille));
    let shadow = |permille| Mode::ShadowPercent(Percent::permille(permille));
    for mode in [Mode::Off, Mode::Shadow, Mode::Enforce, share(0), share(5), share(100), share(1_000)] {
        assert_eq!(mode.to_string().parse(), Ok(mode));
    }
    assert_eq!("10%".parse(), Ok(share(100)));
    for (text, permille) in [("shadow 0%", 0), ("shadow 12.5 %", 125), ("shadow 100%", 1_000)] {
        assert_eq!(text.parse(), Ok(shadow(permille)), "{text}");
        assert_eq!(shadow(permille).to_string().parse(), Ok(shadow(permille)), "{text}");
    }
    for wrong in [
        "",
        "%",
        "on",
        "Shadow",
        "10",
        "10.05%",
        "100.1%",
        "-1%",
        "1e1%",
        ".5%",
        "5.%",
        "\u{0661}%",
        "99999999%",
        "shadow 101%",
        "shadow10%",
        "shadow %",
        "enforce 10%",
    ] {
        assert!(wrong.parse::<Mode>().is_err(), "{wrong}");
    }
}
