//! Text and lines on a drawing area, in heights of text.

use plotters::coord::Shift;
use plotters::prelude::{
    Circle, DrawingArea, DrawingAreaErrorKind, DrawingBackend, IntoFont as _, PathElement, Polygon,
    RGBColor, Rectangle, TextStyle,
};
use plotters::style::Color as _;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(super) type DrawResult<DB, T = ()> =
    Result<T, DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// Text of titles and labels.
pub(super) const INK: RGBColor = RGBColor(0x22, 0x26, 0x2b);
/// The color of the text of axes.
pub(super) const GREY: RGBColor = RGBColor(0x5c, 0x63, 0x6b);
/// Lines of the grid.
pub(super) const FAINT: RGBColor = RGBColor(0xe3, 0xe6, 0xe9);

/// The opacity of a band.
const LIGHT: f64 = 0.4;

/// A drawing area with the size of its text.
pub(super) struct Sheet<'a, DB: DrawingBackend> {
    pub(super) area: &'a DrawingArea<DB, Shift>,
    /// The height of plain text in pixels, the unit of all sizes.
    pub(super) em: f64,
    /// The downward shift of vertically centered text, in heights of text: the
    /// bitmap backend centers the box of the font with the room for accents, SVG
    /// the letters.
    pub(super) sink: f64,
}

impl<DB: DrawingBackend> Sheet<'_, DB> {
    /// Pixels of a number of heights of plain text.
    pub(super) fn ems(&self, count: f64) -> i32 {
        (self.em * count).round() as i32
    }

    fn style(&self, size: f64, color: RGBColor, anchor: (HPos, VPos)) -> TextStyle<'static> {
        let font = ("sans-serif", self.em * size).into_font();
        let style = TextStyle::from(font).pos(Pos::new(anchor.0, anchor.1));
        TextStyle { color: color.to_backend_color(), ..style }
    }

    /// Returns the width of a text in pixels.
    pub(super) fn width(&self, text: &str, size: f64) -> DrawResult<DB, i32> {
        if text.is_empty() {
            return Ok(0);
        }
        let style = self.style(size, INK, (HPos::Left, VPos::Top));
        Ok(self.area.estimate_text_size(text, &style)?.0 as i32)
    }

    /// Returns the text, truncated with an ellipsis to at most `room` pixels.
    pub(super) fn cut(&self, text: &str, size: f64, room: i32) -> DrawResult<DB, String> {
        if self.width(text, size)? <= room {
            return Ok(text.to_owned());
        }
        let mut kept = text.to_owned();
        while kept.pop().is_some() {
            let cut = format!("{kept}\u{2026}");
            if self.width(&cut, size)? <= room {
                return Ok(cut);
            }
        }
        Ok(String::new())
    }

    /// Cuts a text as [`cut`](Self::cut), but in the middle: names often differ at their ends.
    pub(super) fn cut_middle(&self, text: &str, size: f64, room: i32) -> DrawResult<DB, String> {
        if self.width(text, size)? <= room {
            return Ok(text.to_owned());
        }
        let letters: Vec<char> = text.chars().collect();
        for kept in (2..letters.len()).rev() {
            let head = kept.div_ceil(2);
            let tail = letters.len() - kept / 2;
            let head = letters.iter().take(head);
            let cut: String = head.chain(&['\u{2026}']).chain(letters.iter().skip(tail)).collect();
            if self.width(&cut, size)? <= room {
                return Ok(cut);
            }
        }
        Ok(String::new())
    }

    pub(super) fn text(
        &self,
        text: &str,
        point: (i32, i32),
        size: f64,
        color: RGBColor,
        anchor: (HPos, VPos),
    ) -> DrawResult<DB> {
        if text.is_empty() {
            return Ok(());
        }
        let sink = if matches!(anchor.1, VPos::Center) { self.ems(self.sink) } else { 0 };
        self.area.draw_text(text, &self.style(size, color, anchor), (point.0, point.1 + sink))
    }

    pub(super) fn fill(&self, corners: [(i32, i32); 2], color: RGBColor) -> DrawResult<DB> {
        self.area.draw(&Rectangle::new(corners, color.filled()))
    }

    /// Fills the area between two lines in a light color.
    pub(super) fn band(
        &self,
        above: &[(i32, i32)],
        below: &[(i32, i32)],
        color: RGBColor,
    ) -> DrawResult<DB> {
        let outline: Vec<(i32, i32)> = above.iter().chain(below.iter().rev()).copied().collect();
        self.area.draw(&Polygon::new(outline, color.mix(LIGHT).filled()))
    }

    /// Draws a line through points; a single point is a dot.
    pub(super) fn line(
        &self,
        points: &[(i32, i32)],
        color: RGBColor,
        width: f64,
    ) -> DrawResult<DB> {
        let stroke = self.ems(width).max(1) as u32;
        match points {
            [] => Ok(()),
            [point] => self.area.draw(&Circle::new(*point, stroke, color.filled())),
            _ => self.area.draw(&PathElement::new(points, color.stroke_width(stroke))),
        }
    }
}
