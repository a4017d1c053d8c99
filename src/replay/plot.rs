//! A report as a picture: how each policy does as the load grows, or the fleet.
//!
//! Six panels, a line for each policy, with a bar from the least to the greatest of the runs at every point.

use std::collections::BTreeSet;
use std::fmt::Display;

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::replay::{Figures, Report, Row};

const SIZE: (u32, u32) = (1_260, 800);

const LEGEND_HEIGHT: u32 = 40;

const FONT: &str = "sans-serif";

/// About that of a letter of the legend.
const LETTER_WIDTH: i32 = 9;

/// Okabe and Ito's colors, which can be told apart by nearly everybody; more policies begin again.
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

const PANELS: [Panel; 6] = [
    Panel { title: "TTFT p50 (s)", figure: |figures| figures.ttft_ms.p50 / 1_000.0 },
    Panel { title: "TTFT p90 (s)", figure: |figures| figures.ttft_ms.p90 / 1_000.0 },
    Panel { title: "TTFT p99 (s)", figure: |figures| figures.ttft_ms.p99 / 1_000.0 },
    Panel { title: "prompt tokens that hit (%)", figure: |figures| figures.hit_ratio * 100.0 },
    Panel { title: "requests that hit (%)", figure: |figures| figures.request_hit_ratio * 100.0 },
    Panel { title: "most placed on a pod / mean", figure: |figures| figures.max_over_mean },
];

/// Why no picture could be drawn.
#[derive(Debug, thiserror::Error)]
#[error("cannot draw: {0}")]
pub struct PlotError(String);

/// One figure over what changes between rows.
struct Panel {
    title: &'static str,
    figure: fn(&Figures) -> f64,
}

/// What changes between rows.
struct Axis {
    name: &'static str,
    of: fn(&Row) -> f64,
    from: f64,
    to: f64,
}

impl Report {
    /// The picture, as SVG: over the number of pods where rows differ in it, else over the load.
    ///
    /// # Errors
    /// When there is nothing to draw.
    pub fn svg(&self) -> Result<String, PlotError> {
        let mut svg = String::new();
        self.draw(&SVGBackend::with_string(&mut svg, SIZE).into_drawing_area())?;
        Ok(svg)
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), PlotError> {
        area.fill(&WHITE).map_err(failed)?;
        let (legend, panels) = area.split_vertically(LEGEND_HEIGHT);
        let policies: Vec<_> =
            self.policies().into_iter().zip(COLORS.into_iter().cycle()).collect();
        draw_legend(&policies, &legend)?;
        let axis = Axis::of(self);
        for (panel, place) in PANELS.iter().zip(panels.split_evenly((2, 3))) {
            panel.draw((self, &policies), &axis, &place)?;
        }
        area.present().map_err(failed)
    }

    /// The policies, in the order of the rows.
    fn policies(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        let names = self.runs.iter().map(|row| row.policy.as_str());
        names.filter(|name| seen.insert(*name)).collect()
    }
}

impl Axis {
    fn of(report: &Report) -> Self {
        let pods: BTreeSet<_> = report.runs.iter().map(|row| row.pods).collect();
        let (name, of): (_, fn(&Row) -> f64) = if pods.len() > 1 {
            ("pods", |row| row.pods as f64)
        } else {
            ("load", |row| row.load.unwrap_or_default())
        };
        let values = report.runs.iter().map(of);
        let (least, greatest) = values
            .fold((f64::INFINITY, 0.0_f64), |(least, greatest), value| {
                (least.min(value), greatest.max(value))
            });
        let margin = ((greatest - least) * 0.05).max(0.05);
        Self { name, of, from: least - margin, to: greatest + margin }
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

impl Panel {
    fn draw(
        &self,
        (report, policies): (&Report, &[(&str, RGBColor)]),
        axis: &Axis,
        place: &Area<'_>,
    ) -> Result<(), PlotError> {
        let tops = report.runs.iter().map(|row| self.range(row).1);
        let top = tops.filter(|top| top.is_finite()).fold(0.0, f64::max);
        let top = if top > 0.0 { top * 1.08 } else { 1.0 };
        let mut chart = ChartBuilder::on(place)
            .caption(self.title, (FONT, 17))
            .margin(12)
            .x_label_area_size(34)
            .y_label_area_size(48)
            .build_cartesian_2d(axis.from..axis.to, 0.0..top)
            .map_err(failed)?;
        let mut mesh = chart.configure_mesh();
        let mesh = mesh.x_desc(axis.name).x_labels(6).y_labels(6).light_line_style(TRANSPARENT);
        mesh.draw().map_err(failed)?;
        for (policy, color) in policies {
            let rows: Vec<_> = report.runs.iter().filter(|row| row.policy == *policy).collect();
            self.draw_policy(&rows, axis, *color, &mut chart)?;
        }
        Ok(())
    }

    fn draw_policy(
        &self,
        rows: &[&Row],
        axis: &Axis,
        color: RGBColor,
        chart: &mut Chart<'_, '_>,
    ) -> Result<(), PlotError> {
        let drawn = rows.iter().filter(|row| (self.figure)(&row.figures).is_finite());
        let point = |row: &&Row| ((axis.of)(row), (self.figure)(&row.figures), self.range(row));
        let mut points: Vec<_> = drawn.map(point).collect();
        points.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
        let line = points.iter().map(|(x, y, _)| (*x, *y));
        let series = LineSeries::new(line, color.stroke_width(2)).point_size(3);
        chart.draw_series(series).map_err(failed)?;
        let bar = |(x, _, (low, high)): &(f64, f64, (f64, f64))| {
            PathElement::new([(*x, *low), (*x, *high)], color.stroke_width(1))
        };
        chart.draw_series(points.iter().map(bar)).map_err(failed)?;
        Ok(())
    }

    /// About where the runs lie.
    fn range(&self, row: &Row) -> (f64, f64) {
        let (mean, apart) = ((self.figure)(&row.figures), (self.figure)(&row.spread));
        ((mean - apart / 2.0).max(0.0), mean + apart / 2.0)
    }
}

/// The names of the policies beside their colors, in a row.
fn draw_legend(policies: &[(&str, RGBColor)], place: &Area<'_>) -> Result<(), PlotError> {
    let (mut x, y) = (60, 26);
    for (policy, color) in policies {
        let sample = PathElement::new([(x, y), (x + 24, y)], color.stroke_width(3));
        place.draw(&sample).map_err(failed)?;
        let name = Text::new((*policy).to_owned(), (x + 32, y - 8), (FONT, 16));
        place.draw(&name).map_err(failed)?;
        x += 60 + i32::try_from(policy.chars().count()).unwrap_or(0) * LETTER_WIDTH;
    }
    Ok(())
}

fn failed(error: impl Display) -> PlotError {
    PlotError(error.to_string())
}
