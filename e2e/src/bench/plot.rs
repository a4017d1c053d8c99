//! A curve as a picture, both axes logarithmic.

use std::collections::BTreeSet;
use std::fmt::Display;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

const SIZE: (u32, u32) = (720, 440);
const FONT: &str = "sans-serif";
/// Okabe and Ito's colors, which can be told apart by nearly everybody.
const COLORS: [RGBColor; 3] = [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115)];

/// Lines through points.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) title: &'static str,
    pub(super) axis: &'static str,
    pub(super) points: Vec<Point>,
}

/// A point of a line; both values above 0.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) line: &'static str,
    pub(super) x: f64,
    pub(super) y: f64,
}

impl Plot {
    /// The picture, as SVG.
    pub(super) fn svg(&self) -> Result<String> {
        let mut svg = String::new();
        self.draw(&SVGBackend::with_string(&mut svg, SIZE).into_drawing_area())?;
        Ok(svg)
    }

    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Result<()> {
        area.fill(&WHITE).map_err(failed)?;
        let (from, to) = self.range(|point| point.x);
        let (least, most) = self.range(|point| point.y);
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, (FONT, 17))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d((from..to).log_scale(), (least.min(10.0)..most * 1.2).log_scale())
            .map_err(failed)?;
        let number = |value: &f64| format!("{value}");
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(self.axis).x_label_formatter(&number).y_label_formatter(&number);
        mesh.draw().map_err(failed)?;
        for (name, color) in self.lines().into_iter().zip(COLORS.into_iter().cycle()) {
            let points: Vec<_> = self.of(name).map(|point| (point.x, point.y)).collect();
            let dots = points.iter().map(|at| Circle::new(*at, 3, color.filled()));
            chart.draw_series(dots).map_err(failed)?;
            let line = LineSeries::new(points, color.stroke_width(2));
            let drawn = chart.draw_series(line).map_err(failed)?;
            drawn.label(name).legend(move |(x, y)| {
                Rectangle::new([(x, y - 4), (x + 12, y + 4)], color.filled())
            });
        }
        let mut legend = chart.configure_series_labels();
        legend.position(SeriesLabelPosition::UpperLeft).background_style(WHITE.mix(0.8));
        legend.label_font((FONT, 14)).draw().map_err(failed)?;
        area.present().map_err(failed)
    }

    /// The names of the lines, in the order of the points.
    fn lines(&self) -> Vec<&'static str> {
        let mut seen = BTreeSet::new();
        self.points.iter().map(|point| point.line).filter(|line| seen.insert(*line)).collect()
    }

    fn of(&self, line: &str) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(move |point| point.line == line)
    }

    /// The least and the greatest value.
    fn range(&self, of: impl Fn(&Point) -> f64) -> (f64, f64) {
        let values = self.points.iter().map(of);
        values
            .fold((f64::INFINITY, 1.0), |(least, most), value| (least.min(value), most.max(value)))
    }
}

fn failed(error: impl Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_and_the_axis_are_named() {
        let point = |line, x, y| Point { line, x, y };
        let points =
            vec![point("null", 1.0, 40.0), point("real", 1.0, 50.0), point("null", 1e6, 400.0)];
        let svg = Plot { title: "CPU", axis: "bytes", points }.svg().unwrap();
        for text in ["null", "real", "bytes", "CPU"] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg.matches("<circle").count(), 3);
    }
}
