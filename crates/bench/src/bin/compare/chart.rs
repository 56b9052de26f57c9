//! The trade-offs as a chart: one panel per trade-off, one bar per algorithm.

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::contenders::CONTENDERS;
use crate::edge::Burst;
use crate::errors::{Row, TRAFFIC};
use crate::redis_bytes::Bytes;
use crate::redis_cpu::Cost;
use crate::table::{digits, thousands};

/// One of the trade-offs: its title, the bars, how their values are shown, and a colour.
type Panel = (String, Vec<f64>, fn(f64) -> String, RGBColor);

/// Draws an SVG that is readable on light and dark pages.
pub(crate) fn draw(
    shares: &[Row],
    bursts: &[Burst],
    bytes: &[(&str, [Bytes; 4])],
    cpu: &[Cost],
) -> Result<String> {
    let plain: Vec<_> = CONTENDERS.iter().enumerate().filter(|(_, contender)| contender.plain).collect();
    let of = |value: &dyn Fn(usize) -> f64| plain.iter().map(|(index, _)| value(*index)).collect::<Vec<_>>();
    let baselines = cpu.len() - CONTENDERS.len();
    let wrong = |index: usize, traffic: usize| {
        let shares = shares[index].1[traffic];
        100.0 * shares.wrong() as f64 / shares.requests as f64
    };
    let errors = |traffic: usize| -> Panel {
        let title = format!("Decided otherwise than a log would, %, {}", TRAFFIC[traffic].0);
        (title, of(&|index| wrong(index, traffic)), digits, RGBColor(180, 90, 150))
    };
    let bytes_per_key = |use_of_limit: &str, situation: usize| -> Panel {
        let title = format!("Bytes per key in Redis, {use_of_limit} used");
        (title, of(&|index| bytes[index].1[situation].reported), thousands, RGBColor(70, 150, 110))
    };
    let panels: [Panel; 6] = [
        (
            "Let through an edge at once, × limit".to_owned(),
            of(&|index| bursts[index].at_once),
            digits,
            RGBColor(210, 105, 60),
        ),
        errors(STEADY),
        errors(BURSTY),
        (
            "Redis CPU per allowed decision, µs".to_owned(),
            of(&|index| cpu[baselines + index].allowed),
            digits,
            RGBColor(60, 130, 190),
        ),
        bytes_per_key("100 of 100", 1),
        bytes_per_key("1 000 of 1 000", 2),
    ];
    let names: Vec<_> = plain.iter().map(|(_, contender)| contender.name).collect();
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        for (area, panel) in root.split_evenly((3, 2)).iter().zip(&panels) {
            draw_panel(area, &names, panel).map_err(|error| anyhow!("cannot draw: {error}"))?;
        }
        root.present().map_err(|error| anyhow!("cannot draw: {error}"))?;
    }
    Ok(adaptive(&svg))
}

fn draw_panel<B: DrawingBackend>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    names: &[&str],
    (title, values, show, colour): &Panel,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let text = |size: i32, h: HPos| {
        TextStyle::from(("sans-serif", size)).color(&TEXT).pos(Pos::new(h, VPos::Center))
    };
    area.draw(&Text::new(title.clone(), (MARGIN, 18), text(14, HPos::Left)))?;
    let max = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let width = f64::from(i32::try_from(WIDTH / 2).unwrap_or(0) - BARS - NUMBERS);
    for (row, (name, value)) in (0..).zip(names.iter().zip(values)) {
        let middle = 46 + row * STEP;
        let end = BARS + (width * value / max).round() as i32;
        area.draw(&Text::new((*name).to_owned(), (BARS - 8, middle), text(12, HPos::Right)))?;
        let corners = [(BARS, middle - 8), (end.max(BARS + 1), middle + 8)];
        area.draw(&Rectangle::new(corners, colour.filled()))?;
        area.draw(&Text::new(show(*value), (end + 6, middle), text(12, HPos::Left)))?;
    }
    Ok(())
}
/// Sets the text colour by the reader's colour scheme; without one it stays grey.
fn adaptive(svg: &str) -> String {
    let style = "<style>text{fill:#24292f}@media(prefers-color-scheme:dark){text{fill:#d0d7de}}</style>";
    match svg.split_once(">\n") {
        Some((begin, rest)) => format!("{begin}>\n{style}\n{rest}"),
        None => svg.to_owned(),
    }
}

const WIDTH: u32 = 900;
const HEIGHT: u32 = 600;
const MARGIN: i32 = 10;
/// The left edge of the bars.
const BARS: i32 = 120;
/// The width of the number after the longest bar.
const NUMBERS: i32 = 60;
/// The distance between two bars.
const STEP: i32 = 25;
const TEXT: RGBColor = RGBColor(125, 130, 138);
/// Columns of [`TRAFFIC`].
const STEADY: usize = 1;
const BURSTY: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_follows_the_colour_scheme() {
        let svg = adaptive("<svg width=\"1\">\n<text/>\n</svg>");
        assert!(svg.starts_with("<svg width=\"1\">\n<style>text{"), "{svg}");
        assert!(svg.ends_with("</style>\n<text/>\n</svg>"), "{svg}");
    }
}
