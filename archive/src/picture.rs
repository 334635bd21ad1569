//! Plots as pictures: SVG and PNG.
//!
//! A picture has a title and one or more panels, one under the other over one
//! axis of times; a panel has lines of one unit and a legend beside it. As in
//! the charts for a terminal, missing values are gaps in a line, and nothing
//! here asks for a locale, a time zone or a font of the system: the same lines
//! always give the same bytes.
//!
//! ```
//! use mmv_archive::chart::Line;
//! use mmv_archive::picture::{Panel, Picture};
//!
//! let points = (0..60).map(|s| (f64::from(s), Some(f64::from(s * s)))).collect();
//! let lines = vec![Line { label: "web".to_owned(), points, is_sum: false }];
//! let panels = [Panel { unit: "count / sec".to_owned(), lines }];
//! let picture = Picture::new("requests", &panels);
//! assert!(picture.svg()?.starts_with("<svg"));
//! assert!(picture.png()?.starts_with(b"\x89PNG"));
//! # Ok::<(), mmv_archive::picture::PictureError>(())
//! ```

mod draw;
mod panel;
mod sheet;

use plotters::prelude::{BitMapBackend, IntoDrawingArea as _, SVGBackend};
use plotters::style::{FontStyle, register_font};

use crate::chart::Line;

/// `DejaVu Sans`, without the characters that a chart seldom needs; its licence
/// is beside it.
const FONT: &[u8] = include_bytes!("picture/font/DejaVuSans-subset.ttf");

/// Pixels are drawn so many times as large and averaged, which smooths edges.
const OVERSAMPLED: u32 = 2;

/// The sides of a picture may have so many pixels.
const SIDES: std::ops::RangeInclusive<u32> = 100..=10_000;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// Too small to draw in, or too large for memory.
    #[error("a picture of {width} by {height} pixels; each side takes 100 to 10000")]
    Size {
        /// Pixels across.
        width: u32,
        /// Pixels down.
        height: u32,
    },
    /// The font is damaged.
    #[error("the font of pictures cannot be read")]
    Font,
    /// The drawing failed.
    #[error("cannot draw: {0}")]
    Draw(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The pixels cannot be compressed.
    #[error("cannot write PNG: {0}")]
    Png(#[from] png::EncodingError),
}

/// Lines that share a unit, and so an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// The unit, written above the axis, and what else all lines share.
    pub unit: String,
    /// In the order of the legend.
    pub lines: Vec<Line>,
}

/// What is drawn, and how large.
pub struct Picture<'a> {
    title: &'a str,
    subtitle: &'a str,
    panels: &'a [Panel],
    size: (u32, u32),
    time_label: Box<dyn Fn(f64) -> String + 'a>,
}

impl std::fmt::Debug for Picture<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Picture")
            .field("title", &self.title)
            .field("subtitle", &self.subtitle)
            .field("panels", &self.panels)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl<'a> Picture<'a> {
    /// A picture of 1200 by 675 pixels, times in seconds.
    pub fn new(title: &'a str, panels: &'a [Panel]) -> Self {
        let time_label = Box::new(|seconds| format!("{seconds}s"));
        Self { title, subtitle: "", panels, size: (1200, 675), time_label }
    }

    /// A line below the title: the span of time, the host.
    #[must_use]
    pub fn subtitle(mut self, subtitle: &'a str) -> Self {
        self.subtitle = subtitle;
        self
    }

    /// Width and height in pixels. Text grows with the picture.
    #[must_use]
    pub fn size(mut self, width: u32, height: u32) -> Self {
        self.size = (width, height);
        self
    }

    /// How a time is written below the axis, given its seconds. Ticks are at
    /// round times of the clock that counts these seconds.
    #[must_use]
    pub fn time_labels(mut self, label: impl Fn(f64) -> String + 'a) -> Self {
        self.time_label = Box::new(label);
        self
    }

    /// The picture as SVG, with text as text.
    ///
    /// # Errors
    ///
    /// [`PictureError::Size`]; the others should not happen.
    pub fn svg(&self) -> Result<String, PictureError> {
        self.check()?;
        let mut text = String::new();
        let area = SVGBackend::with_string(&mut text, self.size).into_drawing_area();
        draw::draw(self, &area, 0.0)
            .and_then(|()| area.present())
            .map_err(|error| PictureError::Draw(Box::new(error)))?;
        drop(area);
        Ok(text)
    }

    /// The picture as PNG, 8 bits of red, green and blue.
    ///
    /// # Errors
    ///
    /// As [`svg`](Self::svg).
    pub fn png(&self) -> Result<Vec<u8>, PictureError> {
        self.check()?;
        let (width, height) = self.size;
        let large = (width * OVERSAMPLED, height * OVERSAMPLED);
        let mut pixels = vec![0; large.0 as usize * large.1 as usize * 3];
        let area = BitMapBackend::with_buffer(&mut pixels, large).into_drawing_area();
        draw::draw(self, &area, 0.2)
            .and_then(|()| area.present())
            .map_err(|error| PictureError::Draw(Box::new(error)))?;
        drop(area);
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&averaged(&pixels, width as usize))?;
        writer.finish()?;
        Ok(file)
    }

    fn check(&self) -> Result<(), PictureError> {
        let (width, height) = self.size;
        if !SIDES.contains(&width) || !SIDES.contains(&height) {
            return Err(PictureError::Size { width, height });
        }
        register_font("sans-serif", FontStyle::Normal, FONT).map_err(|_| PictureError::Font)
    }
}

/// Each square of pixels becomes one, `width` to a line.
fn averaged(pixels: &[u8], width: usize) -> Vec<u8> {
    let side = OVERSAMPLED as usize;
    let mut small = Vec::with_capacity(pixels.len() / (side * side));
    for lines in pixels.chunks_exact(width * side * 3 * side) {
        for x in 0..width {
            for colour in 0..3 {
                let line = lines.chunks_exact(width * side * 3);
                let of_line = line
                    .flat_map(|line| line.iter().skip(x * side * 3 + colour).step_by(3).take(side));
                let sum: u32 = of_line.map(|&byte| u32::from(byte)).sum();
                small.push((sum / (OVERSAMPLED * OVERSAMPLED)) as u8);
            }
        }
    }
    small
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(lines: usize) -> Panel {
        let line = |n: usize| Line {
            label: format!("instance <{n}>"),
            points: (0..50)
                .map(|t| (f64::from(t), (t != 20).then_some(n as f64 + f64::from(t).sin())))
                .collect(),
            is_sum: false,
        };
        Panel { unit: "Kbyte / sec".to_owned(), lines: (0..lines).map(line).collect() }
    }

    #[test]
    fn a_picture_says_what_it_shows() {
        let panels = [panel(3)];
        let picture = Picture::new("disk.dev.read_bytes", &panels).subtitle("host a");
        let svg = picture.svg().unwrap();
        for text in ["disk.dev.read_bytes", "host a", "Kbyte / sec", "instance &lt;2&gt;", "40s"] {
            assert!(svg.contains(text), "{text}");
        }
    }

    #[test]
    fn a_gap_breaks_a_line() {
        let svg = Picture::new("x", &[panel(1)]).svg().unwrap();
        assert_eq!(svg.matches("stroke=\"#0072B2\"").count(), 2, "{svg}");
    }

    #[test]
    fn pictures_of_nothing_and_of_too_much_are_drawn() {
        for panels in [vec![], vec![panel(0)], vec![panel(200)], vec![panel(2); 30]] {
            let picture = Picture::new("x", &panels).size(300, 200);
            assert!(picture.svg().unwrap().ends_with("</svg>\n"));
            assert!(picture.png().unwrap().len() > 100);
        }
    }

    #[test]
    fn extreme_numbers_do_not_break_the_drawing() {
        for values in
            [[f64::MAX, f64::MIN], [5e-324, 0.0], [1e300, 1e300], [f64::NAN, f64::INFINITY]]
        {
            let points = vec![(0.0, Some(values[0])), (1e12, Some(values[1]))];
            let line = Line { label: "x".to_owned(), points, is_sum: false };
            let panels = [Panel { unit: String::new(), lines: vec![line] }];
            assert!(Picture::new("x", &panels).svg().is_ok(), "{values:?}");
        }
    }

    #[test]
    fn a_size_without_room_is_refused() {
        for (width, height) in [(0, 0), (99, 500), (500, 10_001)] {
            let picture = Picture::new("x", &[]).size(width, height).svg();
            assert!(matches!(picture, Err(PictureError::Size { .. })), "{width} {height}");
        }
    }

    #[test]
    fn averaging_takes_the_mean_of_each_square() {
        let line = |a: u8, b: u8| [a, 0, 9, b, 4, 9];
        assert_eq!(averaged(&[line(10, 20), line(30, 40)].concat(), 1), [25, 2, 9]);
    }
}
