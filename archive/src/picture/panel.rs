//! One panel: axis, grid, lines, legend.

use plotters::prelude::{DrawingBackend, RGBColor};
use plotters::style::text_anchor::{HPos, VPos};

use super::Panel;
use super::sheet::{Drawn, FAINT, GREY, INK, Sheet};
use crate::chart::axis::{self, Scale};
use crate::chart::{Line, Point};

/// Colours that stay apart on white, most of them for the colour-blind too.
const COLOURS: [RGBColor; 12] = [
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
/// The sum of the lines that are not drawn.
const REST: RGBColor = RGBColor(0x9a, 0xa0, 0xa6);
/// From one line of the legend to the next.
const LEGEND_LINE: f64 = 1.45;
/// The stroke before a name in the legend, and the blanks around it.
const SWATCH: f64 = 2.6;
/// Lines of text per tick of the values' axis.
const PER_TICK: f64 = 1.3;
/// The size of the axes' text.
const SMALL: f64 = 0.95;

/// Where the lines of a panel are drawn, in pixels, and from when to when.
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

/// All values and zero: a line far above an axis that begins elsewhere misleads.
fn range(panel: &Panel) -> (f64, f64) {
    let points = panel.lines.iter().flat_map(|line| &line.points);
    let values = points.filter_map(|&(_, value)| value).filter(|value| value.is_finite());
    let (low, high) = axis::range(values).unwrap_or((0.0, 1.0));
    (low.min(0.0), high.max(0.0))
}

/// What the legends take beside the panels; nothing where one line needs none.
pub(super) fn legend_width<DB: DrawingBackend>(
    sheet: &Sheet<'_, DB>,
    panels: &[Panel],
    most: i32,
) -> Drawn<DB, i32> {
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

/// What the texts of the values' axes take, all panels alike.
pub(super) fn axis_width<DB: DrawingBackend>(
    sheet: &Sheet<'_, DB>,
    panels: &[Panel],
) -> Drawn<DB, i32> {
    let mut widest = 0;
    for panel in panels {
        // Texts are as wide whatever the number of ticks, or nearly so.
        for rows in [8, 24, 40] {
            for (_, text) in Scale::new(range(panel), rows).ticks() {
                widest = widest.max(sheet.width(&text, SMALL)?);
            }
        }
    }
    Ok(widest + sheet.ems(0.6))
}

/// Draws a panel; `times` are the ticks of its axis of times.
pub(super) fn draw<DB: DrawingBackend>(
    sheet: &Sheet<'_, DB>,
    panel: &Panel,
    frame: &Frame,
    times: &[(i32, String)],
) -> Drawn<DB> {
    let scale = frame.scale(sheet, panel);
    let unit = sheet.cut(&panel.unit, SMALL, frame.right - frame.left)?;
    let above = (frame.left, frame.top - sheet.ems(0.5));
    sheet.text(&unit, above, SMALL, GREY, (HPos::Left, VPos::Bottom))?;
    for (x, _) in times {
        sheet.line(&[(*x, frame.top), (*x, frame.bottom)], FAINT, 0.07)?;
    }
    for (value, text) in scale.ticks() {
        let y = frame.y(&scale, value);
        sheet.line(&[(frame.left, y), (frame.right, y)], FAINT, 0.07)?;
        let beside = (frame.left - sheet.ems(0.5), y);
        sheet.text(&text, beside, SMALL, GREY, (HPos::Right, VPos::Center))?;
    }
    let zero = frame.y(&scale, 0.0);
    sheet.line(&[(frame.left, zero), (frame.right, zero)], GREY, 0.08)?;
    // The largest are drawn last, over the others.
    for (number, line) in panel.lines.iter().enumerate().rev() {
        for part in parts(&line.points) {
            let point = |&(time, value)| (frame.x(time), frame.y(&scale, value));
            let points: Vec<(i32, i32)> = part.iter().map(point).collect();
            sheet.line(&points, colour(line, number), 0.14)?;
        }
    }
    legend(sheet, panel, frame)
}

/// The unbroken parts of a line.
fn parts(points: &[Point]) -> Vec<Vec<(f64, f64)>> {
    let broken = points.split(|(_, value)| value.is_none_or(|value| !value.is_finite()));
    let part =
        |part: &[Point]| part.iter().filter_map(|&(time, value)| Some((time, value?))).collect();
    broken.filter(|part| !part.is_empty()).map(part).collect()
}

fn colour(line: &Line, number: usize) -> RGBColor {
    if line.is_sum {
        return REST;
    }
    COLOURS.get(number % COLOURS.len()).copied().unwrap_or(REST)
}

/// The names of the lines, as many as there is room for.
fn legend<DB: DrawingBackend>(sheet: &Sheet<'_, DB>, panel: &Panel, frame: &Frame) -> Drawn<DB> {
    let (width, _) = sheet.area.dim_in_pixel();
    let left = frame.right + sheet.ems(1.2);
    let room = width as i32 - sheet.ems(1.2) - left - sheet.ems(SWATCH - 0.6);
    if room < sheet.ems(2.0) {
        return Ok(());
    }
    let step = sheet.ems(LEGEND_LINE).max(1);
    let fitting = ((frame.bottom - frame.top) / step).max(1) as usize;
    let named = if panel.lines.len() > fitting { fitting - 1 } else { panel.lines.len() };
    let mut y = frame.top + step / 2;
    let lines = panel.lines.iter().take(named).enumerate();
    for (number, line) in lines.filter(|(_, line)| !line.label.is_empty()) {
        let swatch = [(left, y), (left + sheet.ems(1.4), y)];
        sheet.line(&swatch, colour(line, number), 0.25)?;
        let label = sheet.cut_middle(&line.label, 1.0, room)?;
        let beside = (left + sheet.ems(2.0), y);
        sheet.text(&label, beside, 1.0, INK, (HPos::Left, VPos::Center))?;
        y += step;
    }
    if named < panel.lines.len() {
        let more = format!("and {} more", panel.lines.len() - named);
        let beside = (left + sheet.ems(2.0), y);
        sheet.text(&sheet.cut(&more, 1.0, room)?, beside, 1.0, GREY, (HPos::Left, VPos::Center))?;
    }
    Ok(())
}
