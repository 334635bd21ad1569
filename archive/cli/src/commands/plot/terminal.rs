//! A plot in the terminal: a chart for each line.

use mmv_chart::Chart;

use super::Caption;
use crate::image::Panel;

/// The height of each chart by the number of charts.
const HEIGHTS: [(usize, usize); 3] = [(1, 18), (2, 13), (4, 10)];
/// The height of each of more charts.
const MIN_HEIGHT: usize = 8;

/// All charts, one below the other.
pub(super) fn render(caption: &Caption, panels: &[Panel], width: usize) -> String {
    let mut out = format!("{}\n{}\n", caption.title, caption.subtitle);
    let count: usize = panels.iter().map(|panel| panel.lines.len()).sum();
    let height =
        HEIGHTS.iter().find(|(most, _)| count <= *most).map_or(MIN_HEIGHT, |(_, height)| *height);
    for panel in panels {
        for line in &panel.lines {
            let title = title(&line.label, &panel.unit);
            let chart = Chart::new(width, height)
                .title(&title)
                .from_zero(true)
                .time_labels(|seconds| caption.clock.label(seconds));
            out.push('\n');
            out.push_str(&chart.render(&line.points));
        }
    }
    out
}

/// The label of the line, unless the heading has it, and the heading of the panel.
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
