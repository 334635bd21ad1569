//! A plot in the terminal: a chart for each line, one for all quantiles of a histogram.

use mmv_chart::{Chart, Point};

use super::Caption;
use crate::image::Panel;

/// The height of each chart by the number of charts.
const HEIGHTS: [(usize, usize); 3] = [(1, 18), (2, 13), (4, 10)];
/// The height of each of more charts.
const MIN_HEIGHT: usize = 8;

/// Draws all charts, one below the other.
pub(super) fn render(caption: &Caption, panels: &[Panel], width: usize, colored: bool) -> String {
    let mut out = format!("{}\n{}\n", caption.title, caption.subtitle);
    let mut count = 0;
    for panel in panels {
        count += if panel.is_histogram { 1 } else { panel.lines.len() };
    }
    let height =
        HEIGHTS.iter().find(|(most, _)| count <= *most).map_or(MIN_HEIGHT, |(_, height)| *height);
    for panel in panels {
        let chart = Chart::new(width, height)
            .from_zero(true)
            .marks(&caption.marks)
            .time_labels(|seconds, step| caption.clock.label(seconds, step));
        out.push('\n');
        if !panel.heat.is_empty() {
            out.push_str(&chart.title(&panel.unit).render_heat(&panel.heat, colored));
        } else if panel.is_histogram {
            let labels: Vec<&str> = panel.lines.iter().map(|line| line.label.as_str()).collect();
            let title = format!("{}; from above {}", panel.unit, labels.join(", "));
            let lines: Vec<&[Point]> = panel.lines.iter().map(|line| &*line.points).collect();
            out.push_str(&chart.title(&title).render_all(&lines));
        } else {
            out.push_str(&separate(panel, caption, (width, height)));
        }
    }
    if !caption.marks.is_empty() {
        out.push_str("\u{25b2} a program began\n");
    }
    out
}

/// Draws a chart for each line.
fn separate(panel: &Panel, caption: &Caption, (width, height): (usize, usize)) -> String {
    let mut charts = Vec::new();
    for line in &panel.lines {
        let title = title(&line.label, &panel.unit);
        let chart = Chart::new(width, height)
            .title(&title)
            .from_zero(true)
            .marks(&caption.marks)
            .time_labels(|seconds, step| caption.clock.label(seconds, step));
        charts.push(chart.render(&line.drawn()));
    }
    charts.join("\n")
}

/// Returns the label of the line, unless the heading has it, and the heading of the panel.
fn title(label: &str, heading: &str) -> String {
    let name = heading.split(':').next().unwrap_or_default();
    match heading {
        "" => label.to_owned(),
        _ if name.ends_with(label) => heading.to_owned(),
        _ => format!("{label}: {heading}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_does_not_repeat_the_label() {
        assert_eq!(title("used", "mem.util.used: Kbyte"), "mem.util.used: Kbyte");
        assert_eq!(title("sda", "disk.dev.read: count / sec"), "sda: disk.dev.read: count / sec");
        assert_eq!(title("load", ""), "load");
    }
}
