//! A plot in the terminal: a chart for each line, one for all quantiles of a histogram.

use mmv_chart::{Chart, Point};
use pcp_types::scaled::scaled;

use super::Caption;
use crate::image::Panel;
use crate::text::broken;

/// The height of each chart by the number of charts.
const HEIGHTS: [(usize, usize); 3] = [(1, 18), (2, 13), (4, 10)];
/// The height of each of more charts.
const MIN_HEIGHT: usize = 8;
/// The most starts of programs that are named below the charts.
const MAX_NAMED: usize = 4;

/// Lines of the title, the line below it, and those about marks and what is left out.
const HEAD: usize = 6;

pub(super) fn max_charts(height: usize) -> usize {
    (height.saturating_sub(HEAD) / (MIN_HEIGHT + 1)).max(1)
}

fn count_charts(panel: &Panel) -> usize {
    let is_one = panel.is_histogram || !panel.heat.is_empty();
    if is_one { 1 } else { panel.lines.len() }
}

/// Removes lines until as few charts are left as there is room for: the last ones of all panels, but
/// no panel's first. Returns what it has removed, in words.
pub(super) fn shorten(panels: &mut [Panel], room: usize) -> Vec<String> {
    let mut lines = vec![1; panels.len()];
    let mut free = room.saturating_sub(panels.len());
    loop {
        let before = free;
        for (panel, lines) in panels.iter().zip(&mut lines) {
            if free > 0 && *lines < count_charts(panel) {
                *lines += 1;
                free -= 1;
            }
        }
        if free == before {
            break;
        }
    }
    let mut removed = Vec::new();
    for (panel, lines) in panels.iter_mut().zip(lines) {
        let more = count_charts(panel) - lines;
        if more > 0 {
            panel.lines.truncate(lines);
            removed.push(format!("{more} more of {}", super::name_of(panel)));
        }
    }
    removed
}

/// Draws all charts, one below the other.
pub(super) fn render(
    caption: &Caption,
    panels: &[Panel],
    width: usize,
    lines: usize,
    colored: bool,
) -> String {
    let mut out = format!("{}\n{}\n", caption.title, caption.subtitle);
    let count: usize = panels.iter().map(count_charts).sum();
    let room = lines.saturating_sub(HEAD) / count.max(1);
    let height = HEIGHTS.iter().find(|(most, _)| count <= *most);
    let height = height.map_or(MIN_HEIGHT, |(_, height)| *height);
    let height = height.min(room.saturating_sub(1)).max(MIN_HEIGHT);
    for panel in panels {
        let marks: Vec<f64> = panel.marks.iter().map(|mark| mark.at).collect();
        let chart = Chart::new(width, height)
            .from_zero(true)
            .marks(&marks)
            .value_labels(|value| scaled(value, panel.heat_units))
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
            out.push_str(&separate(panel, caption, &marks, width, height));
        }
    }
    let marks = panels.iter().flat_map(|panel| &panel.marks);
    let mut named: Vec<String> =
        marks.map(|mark| format!("{} {}", caption.clock.exact(mark.at), mark.label)).collect();
    named.sort_unstable();
    named.dedup();
    if !named.is_empty() {
        let more = named.len().saturating_sub(MAX_NAMED);
        named.truncate(MAX_NAMED);
        let more = if more > 0 { format!(", {more} more") } else { String::new() };
        out.push_str(&cut(&format!("\u{25b2} {}{more}", named.join(", ")), width));
    }
    out.push_str(&wrapped(&caption.note, width));
    out
}

/// Returns a text in lines that are broken at blanks.
fn wrapped(text: &str, width: usize) -> String {
    broken(text, ' ', width).into_iter().map(|line| line + "\n").collect()
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return format!("{text}\n");
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}\u{2026}\n")
}

/// Draws a chart for each line.
fn separate(
    panel: &Panel,
    caption: &Caption,
    marks: &[f64],
    width: usize,
    height: usize,
) -> String {
    let mut charts = Vec::new();
    for line in &panel.lines {
        let title = title(&line.label, &panel.unit);
        let chart = Chart::new(width, height)
            .title(&title)
            .from_zero(true)
            .marks(marks)
            .time_labels(|seconds, step| caption.clock.label(seconds, step));
        charts.push(chart.render(&line.drawn()));
    }
    charts.join("\n")
}

/// Returns the heading of the panel with the label of the line, unless the heading has it: as an
/// instance of the metric that the heading names, or before the unit.
fn title(label: &str, heading: &str) -> String {
    match heading.split_once(": ") {
        _ if heading.is_empty() => label.to_owned(),
        Some((name, _)) if name.ends_with(label) => heading.to_owned(),
        None if heading.ends_with(label) => heading.to_owned(),
        Some((name, unit)) => format!("{name} [{label}]: {unit}"),
        None => format!("{label}: {heading}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_does_not_repeat_the_label() {
        assert_eq!(title("used", "mem.util.used: Kbyte"), "mem.util.used: Kbyte");
        assert_eq!(title("sda", "disk.dev.read: count / sec"), "disk.dev.read [sda]: count / sec");
        assert_eq!(title("read [sda]", "count / sec"), "read [sda]: count / sec");
        assert_eq!(title("load", ""), "load");
    }

    #[test]
    fn a_long_note_has_several_lines() {
        assert_eq!(wrapped("no room for a.b, a.c", 14), "no room for\na.b, a.c\n");
        assert_eq!(wrapped("", 14), "");
    }
}
