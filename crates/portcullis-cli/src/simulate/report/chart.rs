//! Plots over time, as SVG.

use anyhow::anyhow;
use plotters::prelude::*;

use super::calendar;
use crate::simulate::series::{Bucket, Series};

/// A line of a plot.
pub(super) struct Curve<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a dyn Fn(&Bucket) -> u64,
}

/// Draws lines over the buckets of a series.
pub(super) fn draw(title: &str, series: &Series, curves: &[Curve<'_>]) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        plot(&root, title, series, curves).map_err(|error| anyhow!("cannot draw: {error}"))?;
        root.present().map_err(|error| anyhow!("cannot draw: {error}"))?;
    }
    Ok(svg)
}

fn plot<DB: DrawingBackend>(
    root: &DrawingArea<DB, plotters::coord::Shift>,
    title: &str,
    series: &Series,
    curves: &[Curve<'_>],
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>>
where
    DB::ErrorType: 'static,
{
    root.fill(&WHITE)?;
    let buckets = series.buckets();
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else { return Ok(()) };
    let highest = curves.iter().flat_map(|curve| buckets.iter().map(|bucket| (curve.value)(bucket))).max();
    let seconds = series.seconds();
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 18))
        .margin(10)
        .margin_right(40)
        .x_label_area_size(30)
        .y_label_area_size(70)
        .build_cartesian_2d(first.index..last.index + 1, 0..highest.unwrap_or(0).max(1))?;
    chart
        .configure_mesh()
        .x_labels(8)
        .x_label_formatter(&|index| calendar::label(index * seconds, seconds))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (curve, colour) in curves.iter().zip(COLOURS) {
        let points = points(buckets, curve.value);
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(printable(curve.name))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 15, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(200, 200, 200))
        .draw()?;
    Ok(())
}

/// The values as steps, with zeros where buckets are left out.
fn points(buckets: &[Bucket], value: &dyn Fn(&Bucket) -> u64) -> Vec<(u64, u64)> {
    let mut points = Vec::new();
    let mut next = None;
    for bucket in buckets {
        if let Some(next) = next
            && next != bucket.index
        {
            points.extend([(next, 0), (bucket.index, 0)]);
        }
        let value = value(bucket);
        points.extend([(bucket.index, value), (bucket.index + 1, value)]);
        next = Some(bucket.index + 1);
    }
    points
}

fn printable(name: &str) -> String {
    name.chars().filter(|character| !character.is_control()).take(60).collect()
}

const COLOURS: [RGBColor; 6] = [
    RGBColor(60, 130, 190),
    RGBColor(210, 105, 60),
    RGBColor(70, 150, 110),
    RGBColor(180, 90, 150),
    RGBColor(150, 130, 60),
    RGBColor(110, 110, 110),
];
const WIDTH: u32 = 900;
const HEIGHT: u32 = 320;
