//! The layout of an image: title, panels, time axis.

use mmv_chart::axis;
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, DrawingBackend, WHITE};
use plotters::style::text_anchor::{HPos, VPos};

use super::panel::{self, Frame};
use super::sheet::{DrawResult, GREY, INK, Sheet};
use super::{Image, Panel, heat};

/// The size of the title, in heights of plain text.
const TITLE: f64 = 1.35;
/// The height of the title and the line below it.
const HEAD: f64 = 4.2;
/// The least height of text in pixels that can be read.
const MIN_TEXT_SIZE: f64 = 11.5;
/// The height of the times below the last panel.
const FOOT: f64 = 2.0;
/// The height of the line below them.
const NOTE: f64 = 1.6;
/// The least height of a panel whose lines can be read, with its heading.
const MIN_PANEL: f64 = 7.5;

/// Returns the number of panels that can be read in an image of this size.
pub(super) fn max_panels(width: u32, height: u32) -> usize {
    let em = text_size(width, height).max(MIN_TEXT_SIZE);
    let panels = (f64::from(height) / em - HEAD - FOOT - NOTE) / MIN_PANEL;
    (panels as usize).max(1)
}

fn text_size(width: u32, height: u32) -> f64 {
    (f64::from(width) / 80.0).min(f64::from(height) / 42.0)
}

/// Draws an image that fills an area; `sink` as in [`Sheet`].
pub(super) fn draw<DB: DrawingBackend>(
    image: &Image<'_>,
    area: &DrawingArea<DB, Shift>,
    sink: f64,
) -> DrawResult<DB> {
    area.fill(&WHITE)?;
    let (width, height) = area.dim_in_pixel();
    let by_size = text_size(width, height);
    // Smaller letters cannot be read, if there is room for larger ones.
    let scale = f64::from(width) / f64::from(image.size.0.max(1));
    let room = f64::from(height) / (7 + 5 * image.panels.len()) as f64;
    let em = by_size.max((MIN_TEXT_SIZE * scale).min(room).min(f64::from(width) / 26.0));
    let sheet = Sheet { area, em, sink };
    let width = width as i32;
    let height = height as i32;
    let margin = sheet.ems(1.2);
    let room = width - 2 * margin;
    let title = sheet.cut(image.title, TITLE, room)?;
    sheet.text(&title, (margin, sheet.ems(0.9)), TITLE, INK, (HPos::Left, VPos::Top))?;
    let subtitle = sheet.cut(image.subtitle, 1.0, room)?;
    sheet.text(&subtitle, (margin, sheet.ems(2.6)), 1.0, GREY, (HPos::Left, VPos::Top))?;
    let Some(last) = image.panels.len().checked_sub(1) else { return Ok(()) };
    let legend = panel::legend_width(&sheet, image.panels, width / 3)?;
    let axis = panel::axis_width(&sheet, image.panels)?;
    let top = sheet.ems(HEAD);
    let foot = if image.note.is_empty() { FOOT } else { FOOT + NOTE };
    let each = (height - top - sheet.ems(foot)) / image.panels.len() as i32;
    let note = sheet.cut(image.note, 0.95, room)?;
    let below = (margin, height - sheet.ems(0.5));
    sheet.text(&note, below, 0.95, GREY, (HPos::Left, VPos::Bottom))?;
    for (number, panel) in image.panels.iter().enumerate() {
        let top = top + each * number as i32;
        let frame = Frame {
            left: margin + axis,
            right: width - margin - legend,
            top: top + sheet.ems(1.7),
            bottom: top + each - sheet.ems(0.6),
            span: span(image.panels),
        };
        if frame.right <= frame.left || frame.bottom <= frame.top {
            continue;
        }
        let times = times(&sheet, image, &frame)?;
        let free_until = if panel.heat.is_empty() {
            panel::draw(&sheet, panel, &frame, &times)?;
            frame.right
        } else {
            heat::draw(&sheet, panel, &frame, &times)?
        };
        panel::draw_marks(&sheet, panel, &frame, free_until)?;
        if number == last {
            for (x, text) in &times {
                let point = (*x, frame.bottom + sheet.ems(0.5));
                sheet.text(text, point, 0.95, GREY, (HPos::Center, VPos::Top))?;
            }
        }
    }
    Ok(())
}

fn span(panels: &[Panel]) -> (f64, f64) {
    let lines = panels.iter().flat_map(|panel| &panel.lines);
    let times = lines.flat_map(|line| line.points.iter().map(|&(time, _)| time));
    let cells = panels.iter().flat_map(|panel| &panel.heat);
    let times = times.chain(cells.flat_map(|cell| [cell.time.0, cell.time.1]));
    axis::range(times.filter(|time| time.is_finite())).unwrap_or((0.0, 0.0))
}

/// Returns the ticks of the time axis and their labels, which do not overlap.
fn times<DB: DrawingBackend>(
    sheet: &Sheet<'_, DB>,
    image: &Image<'_>,
    frame: &Frame,
) -> DrawResult<DB, Vec<(i32, String)>> {
    let (begin, end) = frame.span;
    let step = axis::time_step(end - begin, |step: f64| {
        let width = |time| sheet.width(&(image.time_label)(time, step), 0.95);
        let widest = width(begin)?.max(width(end)?);
        let fitting = f64::from(frame.right - frame.left) / f64::from(widest + sheet.ems(3.0));
        Ok(fitting.max(1.0))
    })?;
    let mut ticks = Vec::new();
    let mut free = 0;
    for time in axis::round_times(frame.span, step).take(100) {
        let text = (image.time_label)(time, step);
        let x = frame.x(time);
        let half = sheet.width(&text, 0.95)? / 2;
        if x - half >= free {
            free = x + half + sheet.ems(1.0);
            ticks.push((x, text));
        }
    }
    Ok(ticks)
}
