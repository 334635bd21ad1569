//! A panel with a heat map.

use mmv_chart::HeatAxes;
use pcp_types::Units;
use pcp_types::scaled::scaled;
use plotters::prelude::{DrawingBackend, RGBColor};
use plotters::style::text_anchor::{HPos, VPos};

use super::Panel;
use super::panel::{Frame, PER_TICK, SMALL, draw_unit_and_times};
use super::sheet::{DrawResult, FAINT, GREY, Sheet};

/// The color of little, of the middle and of the most.
const COLORS: [[f64; 3]; 3] = [[222.0, 235.0, 247.0], [66.0, 146.0, 198.0], [8.0, 36.0, 94.0]];
/// The height of a cell at least, in heights of text.
const CELL: f64 = 0.5;

/// The shares whose colors the scale shows.
const SCALE: [f64; 7] = [0.01, 0.1, 0.25, 0.4, 0.6, 0.8, 1.0];
/// The width of each of them, in heights of text.
const SWATCH: f64 = 0.7;

/// Draws a panel; `times` are the ticks of the time axis. Returns the end of the room for other text
/// above the panel.
pub(super) fn draw<DB: DrawingBackend>(
    sheet: &Sheet<'_, DB>,
    panel: &Panel,
    frame: &Frame,
    times: &[(i32, String)],
) -> DrawResult<DB, i32> {
    let Some(axes) = HeatAxes::from_cells(&panel.heat).map(|axes| axes.over(frame.span)) else {
        return Ok(frame.right);
    };
    draw_unit_and_times(sheet, panel, frame, times)?;
    let width = frame.right - frame.left;
    let height = frame.bottom - frame.top;
    for (value, _) in axes.ticks((f64::from(height) / (sheet.em * 2.0 * PER_TICK)) as usize) {
        let y = frame.bottom - (axes.height(value) * f64::from(height)).round() as i32;
        sheet.line(&[(frame.left, y), (frame.right, y)], FAINT, 0.07)?;
        let anchor = (frame.left - sheet.ems(0.5), y);
        let text = scaled(value, panel.heat_units);
        sheet.text(&text, anchor, SMALL, GREY, (HPos::Right, VPos::Center))?;
    }
    let rows = ((f64::from(height) / (sheet.em * CELL)) as usize).max(1);
    let intervals = panel.heat.iter().map(|cell| cell.time.1 - cell.time.0);
    let shortest = intervals.filter(|length| *length > 0.0).fold(f64::INFINITY, f64::min);
    let columns = ((frame.span.1 - frame.span.0) / shortest).round() as usize;
    let columns = columns.clamp(1, (width as usize / 2).max(1));
    let grid = axes.grid(&panel.heat, columns, rows);
    let edge = |begin: i32, length: i32, place: usize, of: usize| {
        begin + (f64::from(length) * place as f64 / of as f64).round() as i32
    };
    for (row, shares) in grid.shares.iter().enumerate() {
        let top = edge(frame.top, height, row, rows);
        let bottom = edge(frame.top, height, row + 1, rows);
        for (column, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            let left = edge(frame.left, width, column, columns);
            let right = edge(frame.left, width, column + 1, columns);
            sheet.fill([(left, top), (right, bottom)], color(*share))?;
        }
    }
    sheet.line(&[(frame.left, frame.bottom), (frame.right, frame.bottom)], GREY, 0.08)?;
    let interval = (frame.span.1 - frame.span.0) / columns as f64;
    draw_scale(sheet, frame, grid.largest, interval)
}

/// Draws the colors above a panel, with the counts that they stand for and the interval of time in
/// which these were counted. Returns the left end.
fn draw_scale<DB: DrawingBackend>(
    sheet: &Sheet<'_, DB>,
    frame: &Frame,
    largest: f64,
    interval: f64,
) -> DrawResult<DB, i32> {
    let counts = format!("1 to {}", scaled(largest.max(1.0).round(), Units::NONE));
    let text = format!("{counts} in {}", scaled(interval, Units::seconds()));
    let swatch = sheet.ems(SWATCH);
    let colors = swatch * SCALE.len() as i32;
    let left = frame.right - sheet.width(&text, SMALL)? - sheet.ems(0.5) - colors;
    if left < frame.left {
        return Ok(frame.right);
    }
    let base = frame.top - sheet.ems(0.5);
    for (place, share) in SCALE.into_iter().enumerate() {
        let x = left + swatch * place as i32;
        sheet.fill(
            [(x, base - sheet.ems(0.75)), (x + swatch, base - sheet.ems(0.1))],
            color(share),
        )?;
    }
    sheet.text(&text, (frame.right, base), SMALL, GREY, (HPos::Right, VPos::Bottom))?;
    Ok(left - sheet.ems(1.0))
}

/// Returns the color of a share of the largest count, by its square root, so that small shares are
/// visible.
fn color(share: f64) -> RGBColor {
    let [low, middle, high] = COLORS;
    let place = 2.0 * share.sqrt().clamp(0.0, 1.0);
    let (from, to, part) =
        if place < 1.0 { (low, middle, place) } else { (middle, high, place - 1.0) };
    let [red, green, blue] = [0, 1, 2].map(|n: usize| match (from.get(n), to.get(n)) {
        (Some(from), Some(to)) => (from + (to - from) * part).round() as u8,
        _ => 0,
    });
    RGBColor(red, green, blue)
}
