//! One panel: axis, grid, lines, legend.

use mmv_chart::axis::{self, Scale};
use mmv_chart::{HeatAxes, Line, Point};
use pcp_types::scaled::scaled;
use plotters::prelude::{DrawingBackend, RGBColor};
use plotters::style::text_anchor::{HPos, VPos};

use super::Panel;
use super::sheet::{DrawResult, FAINT, GREY, INK, Sheet};

/// Colors that are distinct on white, most of them also for the color-blind.
const COLORS: [RGBColor; 12] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x8a, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xd1, 0x3b, 0x2a),
    RGBColor(0xc9, 0x5f, 0xa0),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x7a, 0x4f, 0xb0),
    RGBColor(0x8c, 0x5a, 0x3c),
    RGBColor(0xa8, 0xa8, 0x1c),
    RGBColor(0x17, 0xa8, 0xb8),
    RGBColor(0x2b, 0x3a, 0x8f),
    RGBColor(0x6b, 0x8e, 0x23),
];
/// The color of the sum of the lines that are not drawn.
const SUM: RGBColor = RGBColor(0x9a, 0xa0, 0xa6);
/// The color of the lines at which a program began.
const MARK: RGBColor = RGBColor(0xb0, 0x41, 0x3e);
const LEGEND_LINE: f64 = 1.45;
/// The width of the stroke before a name in the legend, with its margins.
const SWATCH: f64 = 2.6;
/// Lines of text per tick of the value axis.
pub(super) const PER_TICK: f64 = 1.3;
/// The size of axis labels.
pub(super) const SMALL: f64 = 0.95;

/// The rectangle of a panel in pixels, and its span of time.
pub(super) struct Frame {
    pub(super) left: i32,
    pub(super) right: i32,
    pub(super) top: i32,
    pub(super) bottom: i32,
    pub(super) span: (f64, f64),
}

impl Frame {
    pub(super) fn x(&self, time: f64) -> i32 {
        self.left + axis::position(time, self.span, (self.right - self.left + 1) as usize) as i32
    }

    fn y(&self, scale: &Scale, value: f64) -> i32 {
        self.top + scale.dot(value, (self.bottom - self.top + 1) as usize) as i32
    }

    fn scale<DB: DrawingBackend>(&self, sheet: &Sheet<'_, DB>, panel: &Panel) -> Scale {
        let rows = f64::from(self.bottom - self.top) / (sheet.em * PER_TICK);
        Scale::new(range(panel), rows as usize)
    }
}

/// Returns the range of all values and zero.
fn range(panel: &Panel) -> (f64, f64) {
    let points = panel.lines.iter().flat_map(Line::drawn);
    let values = points.filter_map(|(_, value)| value).filter(|value| value.is_finite());
    let (low, high) = axis::range(values).unwrap_or((0.0, 1.0));
    (low.min(0.0), high.max(0.0))
}

/// Returns the width of the legends; zero if there is only one line.
pub(super) fn legend_width<DB: DrawingBackend>(
    sheet: &Sheet<'_, DB>,
    panels: &[Panel],
    most: i32,
) -> DrawResult<DB, i32> {
    let labels = panels.iter().flat_map(|panel| &panel.lines).map(|line| line.label.as_str());
    let labels = labels.filter(|label| !label.is_empty());
    if panels.iter().all(|panel| panel.lines.len() < 2) && labels.clone().count() < 2 {
        return Ok(0);
    }
    let mut widest = 0;
    for label in labels {
        widest = widest.max(sheet.width(label, 1.0)?);
    }
    Ok((widest + sheet.ems(SWATCH + 1.2)).min(most))
}

pub(super) fn axis_width<DB: DrawingBackend>(
    sheet: &Sheet<'_, DB>,
    panels: &[Panel],
) -> DrawResult<DB, i32> {
    let mut widest = 0;
    for panel in panels {
        if let Some(axes) = HeatAxes::from_cells(&panel.heat) {
            for (value, _) in axes.ticks(40) {
                widest = widest.max(sheet.width(&scaled(value, panel.heat_units), SMALL)?);
            }
            continue;
        }
        // The width hardly depends on the number of ticks.
        for rows in [8, 24, 40] {
            for (_, text) in Scale::new(range(panel), rows).ticks() {
                widest = widest.max(sheet.width(&text, SMALL)?);
            }
        }
    }
    Ok(widest + sheet.ems(0.6))
}

/// Draws a panel; `times` are the ticks of the time axis.
pub(super) fn draw<DB: DrawingBackend>(
    sheet: &Sheet<'_, DB>,
    panel: &Panel,
    frame: &Frame,
    times: &[(i32, String)],
) -> DrawResult<DB> {
    let scale = frame.scale(sheet, panel);
    draw_unit_and_times(sheet, panel, frame, times)?;
    for (value, text) in scale.ticks() {
        let y = frame.y(&scale, value);
        sheet.line(&[(frame.left, y), (frame.right, y)], FAINT, 0.07)?;
        let anchor = (frame.left - sheet.ems(0.5), y);
        sheet.text(&text, anchor, SMALL, GREY, (HPos::Right, VPos::Center))?;
    }
    let colors = colors(panel);
    let zero = frame.y(&scale, 0.0);
    sheet.line(&[(frame.left, zero), (frame.right, zero)], GREY, 0.08)?;
    // The largest lines are drawn last, above the others.
    for (line, color) in panel.lines.iter().zip(&colors).rev() {
        for part in spreads(line) {
            let edge = |value: fn(&(f64, f64)) -> f64| -> Vec<(i32, i32)> {
                let points = part.iter();
                points.map(|(time, both)| (frame.x(*time), frame.y(&scale, value(both)))).collect()
            };
            sheet.band(&edge(|both| both.1), &edge(|both| both.0), *color)?;
        }
    }
    for (line, color) in panel.lines.iter().zip(&colors).rev() {
        for part in parts(&line.points) {
            let points: Vec<(i32, i32)> =
                part.iter().map(|&(time, value)| (frame.x(time), frame.y(&scale, value))).collect();
            sheet.line(&points, *color, 0.14)?;
        }
    }
    legend(sheet, panel, frame, &colors)
}

/// Draws the unit above a panel, and a vertical line at each tick of the time axis.
pub(super) fn draw_unit_and_times<DB: DrawingBackend>(
    sheet: &Sheet<'_, DB>,
    panel: &Panel,
    frame: &Frame,
    times: &[(i32, String)],
) -> DrawResult<DB> {
    let unit = sheet.cut(&panel.unit, SMALL, frame.right - frame.left)?;
    let above = (frame.left, frame.top - sheet.ems(0.5));
    sheet.text(&unit, above, SMALL, GREY, (HPos::Left, VPos::Bottom))?;
    for (x, _) in times {
        sheet.line(&[(*x, frame.top), (*x, frame.bottom)], FAINT, 0.07)?;
    }
    Ok(())
}

/// Draws a vertical line at each mark within the span, and its text where that does not touch the
/// text before and ends before `free_until`. Marks beside each other share a text. The text of a
/// mark below the heading is after the heading.
pub(super) fn draw_marks<DB: DrawingBackend>(
    sheet: &Sheet<'_, DB>,
    panel: &Panel,
    frame: &Frame,
    free_until: i32,
) -> DrawResult<DB> {
    let (begin, end) = frame.span;
    let heading = frame.left + sheet.width(&panel.unit, SMALL)? + sheet.ems(1.0);
    let mut free = heading;
    let gap = sheet.ems(0.4);
    let mut shown: Vec<(i32, String)> = Vec::new();
    for mark in panel.marks.iter().filter(|mark| (begin..=end).contains(&mark.at)) {
        let x = frame.x(mark.at);
        sheet.line(&[(x, frame.top), (x, frame.bottom)], MARK, 0.07)?;
        match shown.last_mut().filter(|(before, _)| x - *before <= gap) {
            Some((_, label)) => *label = format!("{label}, {}", mark.label),
            None => shown.push((x, mark.label.clone())),
        }
    }
    let mut marks = shown.iter().peekable();
    while let Some((x, label)) = marks.next() {
        let x = *x;
        let width = sheet.width(label, SMALL)?;
        // On the other side of the line at the end of the panel.
        let beside = if x + gap + width <= free_until { x + gap } else { x - gap - width };
        let left = if x < heading { beside.max(heading) } else { beside };
        // A text that is not beside its line leaves the room to the next one, which is.
        let next =
            marks.peek().map(|(next, _)| *next).filter(|next| left > beside && *next >= free);
        if left >= free && left + width <= next.unwrap_or(free_until).min(free_until) {
            let above = frame.top - sheet.ems(0.5);
            sheet.text(label, (left, above), SMALL, MARK, (HPos::Left, VPos::Bottom))?;
            free = left + width + gap;
        }
    }
    Ok(())
}

/// Returns the parts of a line without gaps.
fn parts(points: &[Point]) -> Vec<Vec<(f64, f64)>> {
    let broken = points.split(|(_, value)| value.is_none_or(|value| !value.is_finite()));
    let part =
        |part: &[Point]| part.iter().filter_map(|&(time, value)| Some((time, value?))).collect();
    broken.filter(|part| !part.is_empty()).map(part).collect()
}

/// Returns minimum and maximum by time, for each part of a line without gaps; none for lines
/// without spreads.
fn spreads(line: &Line) -> Vec<Vec<(f64, (f64, f64))>> {
    if line.spreads.iter().all(Option::is_none) {
        return Vec::new();
    }
    let all = line.points.iter().zip(&line.spreads).map(|(&(time, value), spread)| {
        let value = value.filter(|value| value.is_finite())?;
        Some((time, spread.unwrap_or((value, value))))
    });
    let all: Vec<_> = all.collect();
    let parts = all.split(Option::is_none).filter(|part| !part.is_empty());
    parts.map(|part| part.iter().flatten().copied().collect()).collect()
}

/// Returns the color of each line. That of an instance follows from its name, as in the page,
/// whatever its rank in this picture is, and no color is used again before all others are; quantiles
/// have theirs by their order. A sum is grey unless there are several.
fn colors(panel: &Panel) -> Vec<RGBColor> {
    let lines = &panel.lines;
    let mut colors: Vec<RGBColor> = COLORS.into_iter().cycle().take(lines.len()).collect();
    let has_one_sum = lines.iter().filter(|line| line.is_sum).count() == 1;
    let mut named: Vec<(&str, &Line, &mut RGBColor)> = Vec::new();
    for (line, color) in lines.iter().zip(&mut colors) {
        if line.is_sum && has_one_sum {
            *color = SUM;
        } else if !panel.is_histogram && !line.label.is_empty() {
            named.push((instance_of(&line.label), line, color));
        }
    }
    named.sort_by_key(|(instance, line, _)| (*instance, line.label.as_str()));
    let mut unused: Vec<(usize, RGBColor)> = Vec::new();
    for (instance, _, color) in named {
        if unused.is_empty() {
            unused = COLORS.into_iter().enumerate().collect();
        }
        let wanted = hash(instance) % COLORS.len();
        // The wanted one, or the next that is not used yet.
        let next = unused.iter().position(|(place, _)| *place >= wanted).unwrap_or(0);
        *color = unused.remove(next).1;
    }
    colors
}

/// Returns the instance in a label, such as `500` in `requests [500]`, else the label.
fn instance_of(label: &str) -> &str {
    let instance = label.strip_suffix(']').and_then(|label| label.split_once('['));
    instance.map_or(label, |(_, instance)| instance)
}

/// Returns the 32-bit FNV-1a hash of a text, whose upper half is folded into the lower.
fn hash(text: &str) -> usize {
    let hash = text
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash ^ (hash >> 15)) as usize
}

/// Draws the names of the lines, as many as there is room for.
fn legend<DB: DrawingBackend>(
    sheet: &Sheet<'_, DB>,
    panel: &Panel,
    frame: &Frame,
    colors: &[RGBColor],
) -> DrawResult<DB> {
    let (width, _) = sheet.area.dim_in_pixel();
    let left = frame.right + sheet.ems(1.2);
    let room = width as i32 - sheet.ems(1.2) - left - sheet.ems(SWATCH - 0.6);
    if room < sheet.ems(0.6) {
        return Ok(());
    }
    let step = sheet.ems(LEGEND_LINE).max(1);
    let fitting = ((frame.bottom - frame.top) / step).max(1) as usize;
    let named = if panel.lines.len() > fitting { fitting - 1 } else { panel.lines.len() };
    let mut y = frame.top + step / 2;
    let lines = panel.lines.iter().zip(colors).take(named);
    for (line, color) in lines.filter(|(line, _)| !line.label.is_empty()) {
        let swatch = [(left, y), (left + sheet.ems(1.4), y)];
        sheet.line(&swatch, *color, 0.25)?;
        let label = sheet.cut_middle(&line.label, 1.0, room)?;
        let anchor = (left + sheet.ems(2.0), y);
        sheet.text(&label, anchor, 1.0, INK, (HPos::Left, VPos::Center))?;
        y += step;
    }
    if named < panel.lines.len() {
        let more = format!("and {} more", panel.lines.len() - named);
        let anchor = (left + sheet.ems(2.0), y);
        sheet.text(&sheet.cut(&more, 1.0, room)?, anchor, 1.0, GREY, (HPos::Left, VPos::Center))?;
    }
    Ok(())
}
