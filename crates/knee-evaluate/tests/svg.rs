//! The picture of a report: well-formed XML with a mark for each value, on the right side of the threshold's line.

use knee_evaluate::quinn_proto::congestion::NewRenoConfig;
use knee_evaluate::{Deployed, Judged, Report, quinn};
use roxmltree::{Document, Node};
use std::sync::Arc;

fn figures(report: &Report) -> Vec<&Judged> {
    report.criteria.iter().flat_map(|found| &found.figures).collect()
}

fn number(node: &Node, attribute: &str) -> f64 {
    node.attribute(attribute).unwrap().parse().unwrap()
}

fn of_class<'a>(drawn: &'a Document, class: &'a str) -> Vec<Node<'a, 'a>> {
    drawn.descendants().filter(|node| node.attribute("class") == Some(class)).collect()
}

/// Each value has a mark, on the side of the threshold's line on which the value is of the threshold; each threshold
/// has a line.
#[test]
fn marks_and_lines_are_where_values_and_thresholds_are() {
    let evaluation = quinn(|| Arc::new(NewRenoConfig::default())).named("a <b> & \"c\"").only("wired").seeds(1);
    let report = evaluation.against([Deployed::Cubic, Deployed::Reno]).run().unwrap();
    let svg = report.svg();
    let drawn = Document::parse(&svg).unwrap();
    assert!(drawn.descendants().any(|node| node.text() == Some("a <b> & \"c\"")), "{svg}");

    let view: Vec<f64> =
        drawn.root_element().attribute("viewBox").unwrap().split(' ').map(|n| n.parse().unwrap()).collect();
    let (marks, lines) = (of_class(&drawn, "x"), of_class(&drawn, "threshold"));
    // The first mark is the legend's.
    let (mut marks, mut lines) = (marks[1..].iter(), lines.iter());
    let mut sides = [0, 0];
    for figure in figures(&report) {
        let line = figure.threshold.map(|threshold| (threshold, number(lines.next().unwrap(), "x1")));
        for value in figure.values.iter().flatten() {
            let mark = marks.next().unwrap();
            let at = number(mark, "cx");
            assert!((view[0]..view[0] + view[2]).contains(&at) && number(mark, "cy") < view[3], "{mark:?}");
            if let Some((threshold, line)) = line {
                // Positions have a tenth of a pixel.
                assert!((at - line) * (value - threshold) >= 0.0 || (at - line).abs() <= 0.1, "{}", figure.key);
                sides[usize::from(*value > threshold)] += 1;
            }
        }
    }
    assert!(marks.next().is_none() && lines.next().is_none());
    assert!(sides.iter().all(|side| *side > 0), "{sides:?}");
    let others =
        figures(&report).iter().flat_map(|figure| &figure.deployed).flat_map(|(_, values)| values).flatten().count();
    assert_eq!(of_class(&drawn, "deployed").len(), others + 2);
}
