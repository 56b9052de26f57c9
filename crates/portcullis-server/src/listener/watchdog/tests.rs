use std::time::Duration;

use super::*;
use crate::listener::activity::InFlight;

const SECOND: Duration = Duration::from_secs(1);

fn options() -> ListenerOptions {
    ListenerOptions {
        header_timeout: 4 * SECOND,
        idle_timeout: 8 * SECOND,
        stall_timeout: 16 * SECOND,
        ..ListenerOptions::default()
    }
}

fn watchdog(version: Version) -> (Arc<Activity>, Watchdog) {
    let activity = Arc::new(Activity::default());
    activity.set_version(version);
    (activity.clone(), Watchdog::new(activity, false))
}

/// The number of the look, from 1, that has another answer than to keep the connection, and the answer.
fn first_step(watchdog: &mut Watchdog, mut before: impl FnMut()) -> Option<(u32, Step)> {
    (1..=40).find_map(|look| {
        before();
        let step = watchdog.look(SECOND, &options());
        (step != Step::Keep).then_some((look, step))
    })
}

#[test]
fn silent_connection_is_cut_at_the_header_timeout() {
    let (_activity, mut watchdog) = watchdog(Version::Unknown);
    assert_eq!(first_step(&mut watchdog, || {}), Some((4, Step::Cut("slow head"))));
}

#[test]
fn trickling_head_is_cut_at_the_header_timeout() {
    let (activity, mut watchdog) = watchdog(Version::Http1);
    let step = first_step(&mut watchdog, || activity.read_for_test());
    assert_eq!(step, Some((4, Step::Cut("slow head"))));
}

#[test]
fn connection_between_requests_has_the_idle_timeout() {
    for version in [Version::Http1, Version::Http2] {
        let (activity, mut watchdog) = watchdog(version);
        activity.read_for_test();
        drop(InFlight::begin(&activity));
        assert_eq!(watchdog.look(SECOND, &options()), Step::Keep);
        assert_eq!(first_step(&mut watchdog, || {}), Some((8, Step::Close)), "{version:?}");
        assert_eq!(first_step(&mut watchdog, || {}), Some((4, Step::Cut("slow to close"))), "{version:?}");
    }
}

#[test]
fn pings_of_http2_do_not_keep_an_idle_connection() {
    let (activity, mut watchdog) = watchdog(Version::Http2);
    drop(InFlight::begin(&activity));
    assert_eq!(watchdog.look(SECOND, &options()), Step::Keep);
    assert_eq!(first_step(&mut watchdog, || activity.read_for_test()), Some((8, Step::Close)));
}

#[test]
fn first_stream_has_the_header_timeout() {
    let (activity, mut watchdog) = watchdog(Version::Http2);
    assert_eq!(first_step(&mut watchdog, || activity.read_for_test()), Some((4, Step::Close)));
    assert_eq!(first_step(&mut watchdog, || {}), Some((4, Step::Cut("slow to close"))));
}

#[test]
fn requests_keep_a_connection() {
    let (activity, mut watchdog) = watchdog(Version::Http2);
    assert_eq!(first_step(&mut watchdog, || drop(InFlight::begin(&activity))), None);
}

#[test]
fn unread_response_has_the_stall_timeout() {
    for (taken, step) in
        [(0, Some((16, Step::Cut("stalled")))), (100, Some((16, Step::Cut("stalled")))), (120, None)]
    {
        let (activity, mut watchdog) = watchdog(Version::Http2);
        let request = InFlight::begin(&activity);
        assert_eq!(first_step(&mut watchdog, || {}), None, "the response has not come");
        let unsent = request.unsent();
        drop(request);
        let pings_and_takes = || {
            activity.read_for_test();
            unsent.has_written(taken);
        };
        assert_eq!(first_step(&mut watchdog, pings_and_takes), step, "{taken} bytes at a time");
    }
}

/// The clients of a proxy share its connection, and one of them takes nothing.
#[test]
fn unread_response_ends_no_proxy_connection() {
    for (version, step) in [(Version::Http2, None), (Version::Http1, Some((16, Step::Cut("stalled"))))] {
        let activity = Arc::new(Activity::default());
        activity.set_version(version);
        let mut watchdog = Watchdog::new(activity.clone(), true);
        let _unsent = InFlight::begin(&activity).unsent();
        assert_eq!(watchdog.look(SECOND, &options()), Step::Keep);
        assert_eq!(first_step(&mut watchdog, || {}), step, "{version:?}");
    }
}

#[test]
fn closing_waits_for_a_request_in_progress() {
    let (activity, mut watchdog) = watchdog(Version::Http2);
    watchdog.closes();
    let request = InFlight::begin(&activity);
    assert_eq!(first_step(&mut watchdog, || activity.read_for_test()), None);
    drop(request);
    assert_eq!(first_step(&mut watchdog, || {}), Some((4, Step::Cut("slow to close"))));
}
