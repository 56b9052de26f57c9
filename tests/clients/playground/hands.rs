//! The page by touch, and the form of the toy by keyboard.

use serde_json::{Value, json};

use super::page::{go, open, player, set};
use crate::devtools::Browser;

/// A finger goes down at a point, and moves on in steps of pixels.
async fn touch(browser: &mut Browser, from: [f64; 2], steps: &[[f64; 2]]) {
    let event = |kind: &str, points: Value| json!({ "type": kind, "touchPoints": points });
    let at = |[x, y]: [f64; 2]| json!([{ "x": from[0] + x, "y": from[1] + y }]);
    browser.call("Input.dispatchTouchEvent", event("touchStart", at([0.0, 0.0]))).await;
    for step in steps {
        browser.call("Input.dispatchTouchEvent", event("touchMove", at(*step))).await;
    }
    browser.call("Input.dispatchTouchEvent", event("touchEnd", json!([]))).await;
}

#[tokio::test]
async fn finger_that_scrolls_seeks_nothing() {
    let (_server, mut browser) = open("touch", "").await;
    browser.call("Emulation.setTouchEmulationEnabled", json!({ "enabled": true })).await;
    go(&mut browser, "edge").await;
    let now = format!("{}.now", player("edge"));
    let place = "(({ left, top }) => [left + 300, top + 60])(document.querySelector('#edge canvas[role=img]').getBoundingClientRect())";
    let place: [f64; 2] = serde_json::from_value(browser.eval(place).await).unwrap();
    let at = |x: u32| format!("{}.lanes[0].chart.at({x})", player("edge"));
    let end = browser.eval(&now).await;

    touch(&mut browser, place, &[[1.0, -4.0], [2.0, -30.0], [40.0, -60.0]]).await;
    assert_eq!(browser.eval(&now).await, end, "a swipe up");
    go(&mut browser, "edge").await;
    touch(&mut browser, place, &[]).await;
    browser.wait_for(&format!("{now} === {}", at(300))).await;
    touch(&mut browser, place, &[[-3.0, 0.0], [-20.0, 1.0], [-150.0, 9.0]]).await;
    browser.wait_for(&format!("{now} === {}", at(150))).await;
    assert_eq!(browser.complaints, [""; 0]);
}

#[tokio::test]
async fn focus_stays_where_the_form_is_filled() {
    let (_server, mut browser) = open("focus", "").await;
    go(&mut browser, "toy").await;
    let scene = format!("{}.result && {0}.shown", player("toy"));
    let focus =
        |label: &str| format!("document.querySelector('#toy .form [aria-label=\"{label}\"]').focus()");
    let focused = "document.activeElement.ariaLabel";

    // A choice by the arrows adds nothing before the button is pressed.
    browser.eval(&focus("Add a lane of this kind")).await;
    browser.press("ArrowRight").await;
    assert_eq!(browser.eval(&format!("({scene}).lanes.length")).await, 3);
    browser.press("Tab").await;
    assert_eq!(browser.text(focused).await, "Add a lane");
    browser.press("Enter").await;
    browser.wait_for(&format!("({scene}).lanes.length === 4")).await;
    browser.wait_for(&format!("{focused} === 'Add a lane'")).await;

    // What is removed leaves the focus to what comes in its place.
    browser.eval(&focus("Remove ada")).await;
    browser.press("Enter").await;
    browser.wait_for(&format!("({scene}).clients.length === 1")).await;
    browser.wait_for("document.querySelector('#toy .form').contains(document.activeElement)").await;
    assert_eq!(browser.complaints, [""; 0]);
}

#[tokio::test]
async fn service_is_removed_with_its_workers() {
    let (_server, mut browser) = open("service", "").await;
    go(&mut browser, "toy").await;
    let lane = format!("{}.shown.lanes[0]", player("toy"));
    for (field, value, expected) in [
        ("service.workers", "5", json!({ "workers": 5 })),
        ("shed.limit", "2-9", json!({ "limit": [2, 9] })),
        ("shed.limit", "", Value::Null),
        ("service.workers", "", Value::Null),
    ] {
        set(&mut browser, &format!("lanes.0.{field}"), value).await;
        let name = field.split_once('.').unwrap().0;
        browser.wait_for(&format!("JSON.stringify({lane}.{name} ?? null) === '{expected}'")).await;
    }
    assert_eq!(browser.complaints, [""; 0]);
}
