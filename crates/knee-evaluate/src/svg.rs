//! The report as a picture: for each figure its values by seed beside those of the deployed algorithms, and the
//! threshold.

use crate::report::{Judged, Report};
use crate::verdict::Verdict;
use std::fmt::Write;

/// Columns, px: labels, the strips with the values, the words beside them.
const LABELS: f64 = 430.0;
const STRIP: f64 = 360.0;
const WORDS: f64 = 250.0;
const MARGIN: f64 = 16.0;
/// Heights, px.
const HEAD: f64 = 62.0;
const TITLE: f64 = 34.0;
const ROW: f64 = 40.0;
/// Height of an algorithm's lane within a strip.
const LANE: f64 = 7.0;
/// The algorithm under evaluation, then the deployed ones: colours that the colour-blind tell apart (Okabe and Ito).
const COLOURS: [&str; 4] = ["#d55e00", "#0072b2", "#009e73", "#7f7f7f"];

/// The range of values of a strip, from its left edge to its right.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// From zero, or the least value below it, to the greatest one.
    fn over(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values.fold((0.0f64, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        Self { low, high: if high > low { high } else { low + 1.0 } }
    }

    fn x(&self, value: f64) -> f64 {
        LABELS + STRIP * (value - self.low) / (self.high - self.low)
    }
}

impl Report {
    /// The report as a picture (SVG) that needs nothing else: for each figure a strip with its value for each seed,
    /// those of the deployed algorithms below, and a line at the threshold, whose better side is shaded.
    pub fn svg(&self) -> String {
        let rows: usize = self.criteria.iter().map(|found| found.figures.len()).sum();
        let width = LABELS + STRIP + WORDS + 2.0 * MARGIN;
        let height = HEAD + TITLE * self.criteria.len() as f64 + ROW * rows as f64 + MARGIN;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{} 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n<rect x=\"{}\" width=\"{width}\" height=\"{height}\" \
             fill=\"white\"/>\n",
            -MARGIN, -MARGIN
        );
        self.draw_head(&mut svg);
        let mut y = HEAD;
        for found in &self.criteria {
            let verdict = found.verdict();
            let title = format!("{} ({})", found.title, found.section);
            text(&mut svg, 0.0, y + 21.0, "font-weight=\"bold\" font-size=\"15\"", &title);
            let x = LABELS + STRIP + 14.0;
            text(&mut svg, x, y + 21.0, &format!("font-weight=\"bold\" fill=\"{}\"", colour(verdict)), verdict.text());
            y += TITLE;
            for judged in &found.figures {
                draw(&mut svg, judged, y);
                y += ROW;
            }
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// The name, and which marks are whose.
    fn draw_head(&self, svg: &mut String) {
        let name = format!("{} by the criteria of {}", self.name, self.document);
        text(svg, 0.0, 26.0, "font-weight=\"bold\" font-size=\"17\"", &name);
        let names = std::iter::once(self.name.as_str()).chain(self.against.iter().map(|who| who.name()));
        let mut x = 6.0;
        for (i, name) in names.enumerate() {
            mark(svg, i, x, 46.0);
            text(svg, x + 9.0, 50.0, "", name);
            // Letters are about 7 px wide.
            x += 40.0 + 7.0 * name.chars().count() as f64;
        }
    }
}

/// A figure: its label, its strip and its verdict.
fn draw(svg: &mut String, judged: &Judged, y: f64) {
    text(svg, 0.0, y + 13.0, "", &judged.title());
    text(svg, 0.0, y + 28.0, "font-size=\"11\" fill=\"#555\"", &judged.about);
    let lanes: Vec<&[Option<f64>]> = std::iter::once(judged.values.as_slice())
        .chain(judged.deployed.iter().map(|(_, values)| &values[..]))
        .collect();
    let all = lanes.iter().flat_map(|lane| lane.iter().flatten()).copied().chain(judged.threshold);
    let axis = Axis::over(all.filter(|value| value.is_finite()));
    let strip = LANE * lanes.len() as f64;
    let _ = writeln!(svg, "<rect x=\"{LABELS}\" y=\"{y}\" width=\"{STRIP}\" height=\"{strip}\" fill=\"#f2f2f2\"/>");
    if let Some(threshold) = judged.threshold.filter(|threshold| threshold.is_finite()) {
        let at = axis.x(threshold);
        let (from, width) = if judged.less { (LABELS, at - LABELS) } else { (at, LABELS + STRIP - at) };
        let _ = writeln!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{strip}\" fill=\"#dcebdc\"/>\n\
             <line class=\"threshold\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{}\" y2=\"{}\" stroke=\"#333\" \
             stroke-width=\"1.5\"/>",
            y - 2.0,
            y + strip + 2.0
        );
    }
    for (i, lane) in lanes.iter().enumerate() {
        for value in lane.iter().flatten().filter(|value| value.is_finite()) {
            mark(svg, i, axis.x(*value), y + LANE * (i as f64 + 0.5));
        }
    }
    let x = LABELS + STRIP + 14.0;
    let fill = format!("fill=\"{}\"", colour(judged.verdict));
    if judged.reason.is_some() {
        text(svg, x, y + 13.0, &fill, judged.verdict.text());
        return;
    }
    text(svg, x, y + 13.0, &fill, &judged.mean_shown());
    text(svg, x, y + 28.0, "font-size=\"11\" fill=\"#555\"", &format!("expected {}", judged.bound_shown()));
}

/// A mark of the algorithm under evaluation (0) or of a deployed one.
fn mark(svg: &mut String, who: usize, x: f64, y: f64) {
    let colour = COLOURS[who.min(COLOURS.len() - 1)];
    let _ = if who == 0 {
        writeln!(svg, "<circle class=\"x\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>")
    } else {
        let (left, top) = (x - 2.5, y - 2.5);
        writeln!(
            svg,
            "<rect class=\"deployed\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"5\" height=\"5\" fill=\"{colour}\"/>"
        )
    };
}

/// Text with its baseline at `y`.
fn text(svg: &mut String, x: f64, y: f64, attributes: &str, content: &str) {
    let content = content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{content}</text>");
}

const fn colour(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passes => "#1a7f37",
        Verdict::MustBeLookedAt => "#9a6700",
        Verdict::WorseThanEveryDeployed | Verdict::DoesNotRun => "#b42318",
    }
}
