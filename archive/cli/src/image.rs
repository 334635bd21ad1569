//! Plots as SVG and PNG images.
//!
//! An image has a title and one or more panels, one below the other with the same
//! time axis; a panel has the lines of one unit and a legend. As in charts for a
//! terminal, missing values are gaps in a line. The same lines always yield the
//! same bytes: locale, time zone and fonts of the system are not used.

mod draw;
mod heat;
mod panel;
mod sheet;

use mmv_chart::{HeatCell, Line};
use pcp_types::Units;
use plotters::prelude::{BitMapBackend, IntoDrawingArea as _, SVGBackend};
use plotters::style::{FontStyle, register_font};

/// A subset of `DejaVu Sans`; the licence is in its directory.
const FONT: &[u8] = include_bytes!("image/font/DejaVuSans-subset.ttf");

/// The factor of oversampling, which smooths edges.
const OVERSAMPLING: u32 = 2;

/// The valid width and height in pixels.
const SIDES: std::ops::RangeInclusive<u32> = 100..=10_000;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ImageError {
    /// Too small to draw in, or too large for memory.
    #[error("image size {width}x{height}: each side must have 100 to 10000 pixels")]
    Size { width: u32, height: u32 },
    /// The font is damaged.
    #[error("cannot read the font for images")]
    Font,
    /// A drawing operation failed.
    #[error("cannot draw: {0}")]
    Draw(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The pixels cannot be compressed.
    #[error("cannot write PNG: {0}")]
    Png(#[from] png::EncodingError),
}

/// A time with a vertical line and the text beside it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mark {
    pub(crate) at: f64,
    pub(crate) label: String,
}

/// Lines with the same unit, on one axis.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Panel {
    /// The heading: the unit, and what else all lines share.
    pub unit: String,
    /// In the order of the legend.
    pub lines: Vec<Line>,
    /// The lines are quantiles of one histogram, which never cross.
    pub is_histogram: bool,
    /// The cells of a heat map, instead of lines.
    pub heat: Vec<HeatCell>,
    /// The units of the values of a heat map.
    pub heat_units: Units,
    /// The metrics that it shows.
    pub metrics: Vec<String>,
    pub marks: Vec<Mark>,
}

/// The contents and options of an image.
pub(crate) struct Image<'a> {
    title: &'a str,
    subtitle: &'a str,
    panels: &'a [Panel],
    size: (u32, u32),
    time_label: Box<dyn Fn(f64, f64) -> String + 'a>,
    note: &'a str,
}

impl<'a> Image<'a> {
    /// Creates an image of 1200 by 675 pixels, with times in seconds.
    pub(crate) fn new(title: &'a str, panels: &'a [Panel]) -> Self {
        let time_label = Box::new(|seconds, _step| format!("{seconds}s"));
        Self { title, subtitle: "", panels, size: (1200, 675), time_label, note: "" }
    }

    pub(crate) fn max_panels(width: u32, height: u32) -> usize {
        draw::max_panels(width, height)
    }

    /// Sets the line below the title.
    #[must_use]
    pub(crate) fn subtitle(mut self, subtitle: &'a str) -> Self {
        self.subtitle = subtitle;
        self
    }

    /// Sets width and height in pixels. Text scales with them.
    #[must_use]
    pub(crate) fn size(mut self, width: u32, height: u32) -> Self {
        self.size = (width, height);
        self
    }

    /// Sets the line below the panels.
    #[must_use]
    pub(crate) fn note(mut self, note: &'a str) -> Self {
        self.note = note;
        self
    }

    /// Sets the function that formats a time in seconds, given the seconds between ticks, which are
    /// at multiples of that.
    #[must_use]
    pub(crate) fn time_labels(mut self, label: impl Fn(f64, f64) -> String + 'a) -> Self {
        self.time_label = Box::new(label);
        self
    }

    /// Draws the image as SVG, with text elements.
    ///
    /// # Errors
    ///
    /// [`ImageError::Size`]; the others are bugs.
    pub(crate) fn svg(&self) -> Result<String, ImageError> {
        self.check()?;
        let mut text = String::new();
        let area = SVGBackend::with_string(&mut text, self.size).into_drawing_area();
        draw::draw(self, &area, 0.0)
            .and_then(|()| area.present())
            .map_err(|error| ImageError::Draw(Box::new(error)))?;
        drop(area);
        Ok(text)
    }

    /// Draws the image as PNG, with 8 bits per color.
    ///
    /// # Errors
    ///
    /// As [`svg`](Self::svg).
    pub(crate) fn png(&self) -> Result<Vec<u8>, ImageError> {
        self.check()?;
        let (width, height) = self.size;
        let large = (width * OVERSAMPLING, height * OVERSAMPLING);
        let mut pixels = vec![0; large.0 as usize * large.1 as usize * 3];
        let area = BitMapBackend::with_buffer(&mut pixels, large).into_drawing_area();
        draw::draw(self, &area, 0.2)
            .and_then(|()| area.present())
            .map_err(|error| ImageError::Draw(Box::new(error)))?;
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

    fn check(&self) -> Result<(), ImageError> {
        let (width, height) = self.size;
        if !SIDES.contains(&width) || !SIDES.contains(&height) {
            return Err(ImageError::Size { width, height });
        }
        register_font("sans-serif", FontStyle::Normal, FONT).map_err(|_| ImageError::Font)
    }
}

/// Averages each square of pixels, `width` of them in a line.
fn averaged(pixels: &[u8], width: usize) -> Vec<u8> {
    let side = OVERSAMPLING as usize;
    let mut small = Vec::with_capacity(pixels.len() / (side * side));
    for lines in pixels.chunks_exact(width * side * 3 * side) {
        for x in 0..width {
            for color in 0..3 {
                let line = lines.chunks_exact(width * side * 3);
                let of_line = line
                    .flat_map(|line| line.iter().skip(x * side * 3 + color).step_by(3).take(side));
                let sum: u32 = of_line.map(|&byte| u32::from(byte)).sum();
                small.push((sum / (OVERSAMPLING * OVERSAMPLING)) as u8);
            }
        }
    }
    small
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(lines: usize) -> Panel {
        let lines = (0..lines).map(|n| Line {
            label: format!("instance <{n}>"),
            points: (0..50)
                .map(|t| (f64::from(t), (t != 20).then_some(n as f64 + f64::from(t).sin())))
                .collect(),
            ..Line::default()
        });
        Panel { unit: "Kbyte / sec".to_owned(), lines: lines.collect(), ..Panel::default() }
    }

    #[test]
    fn an_image_has_all_its_texts() {
        let panels = [panel(3)];
        let image = Image::new("disk.dev.read_bytes", &panels).subtitle("host a");
        let svg = image.svg().unwrap();
        for text in ["disk.dev.read_bytes", "host a", "Kbyte / sec", "instance &lt;2&gt;", "40s"] {
            assert!(svg.contains(text), "{text}");
        }
    }

    #[test]
    fn a_gap_breaks_a_line() {
        let plain = Line { label: String::new(), ..panel(1).lines.remove(0) };
        let svg = Image::new("x", &[Panel { lines: vec![plain], ..panel(1) }]).svg().unwrap();
        assert_eq!(svg.matches("stroke=\"#0072B2\"").count(), 2, "{svg}");
    }

    /// Returns the color of the line after the name of an instance in the legend.
    fn color_of(svg: &str, name: &str) -> String {
        let (before, _) = svg.split_once(name).expect("the name");
        let stroke = before.rsplit("stroke=\"#").next().expect("a stroke");
        stroke.split('"').next().unwrap_or_default().to_owned()
    }

    #[test]
    fn an_instance_has_its_color_in_every_panel_and_at_every_rank() {
        let line = |label: &str| Line { label: label.to_owned(), ..panel(1).lines.remove(0) };
        let of = |labels: &[&str]| Panel {
            lines: labels.iter().map(|label| line(label)).collect(),
            ..Panel::default()
        };
        let svg = |panel: Panel| Image::new("x", &[panel]).svg().unwrap();
        let first = svg(of(&["/cart", "/mail", "/render"]));
        let second = svg(of(&["web.requests [/render]", "/mail"]));
        for name in ["/mail", "/render"] {
            assert_eq!(color_of(&first, name), color_of(&second, name), "{name}");
        }
        let different: std::collections::BTreeSet<String> =
            ["/cart", "/mail", "/render"].map(|name| color_of(&first, name)).into();
        assert_eq!(different.len(), 3, "{first}");
        let twelve: Vec<String> = (0..12).map(|n| format!("i{n:02}")).collect();
        let twelve: Vec<&str> = twelve.iter().map(String::as_str).collect();
        let svg = Image::new("x", &[of(&twelve)]).size(1200, 1200).svg().unwrap();
        let different: std::collections::BTreeSet<String> =
            twelve.iter().map(|name| color_of(&svg, name)).collect();
        assert_eq!(different.len(), 12, "{svg}");
    }

    #[test]
    fn text_of_a_small_image_can_be_read() {
        let sizes = |width, height| -> Vec<f64> {
            let panels = [panel(2)];
            let svg = Image::new("x", &panels).size(width, height).svg().unwrap();
            let sizes = svg.split("font-size=\"").skip(1);
            sizes.map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
        };
        // Of SVG, whose letters are smaller than their box by 1.24.
        assert!(sizes(500, 300).into_iter().all(|size| size >= 8.0), "{:?}", sizes(500, 300));
        assert!(sizes(100, 100).into_iter().all(|size| size < 12.0));
    }

    #[test]
    fn a_heat_map_has_a_rectangle_for_each_cell_that_is_not_empty() {
        let cell = |time: f64, value: f64, count| HeatCell {
            time: (time, time + 1.0),
            value: (value, 2.0 * value),
            count,
        };
        let heat = vec![cell(0.0, 8.0, 1.0), cell(5.0, 512.0, 9.0)];
        let unit = "latency: usec".to_owned();
        let panel = Panel { unit, is_histogram: true, heat, ..Panel::default() };
        let panels = [panel.clone(), Panel { heat: Vec::new(), ..panel }];
        let svg = Image::new("x", &panels).svg().unwrap();
        let filled = svg.matches("<rect").count();
        // The background as well; cells are a few lines high.
        assert!((3..60).contains(&filled), "{svg}");
        for text in ["latency: usec", "10", "100", "1 k", "1 to 9 in 1 s"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(Image::new("x", &panels).size(300, 200).png().is_ok());
    }

    #[test]
    fn a_mark_is_a_vertical_line_with_its_text() {
        let mark = |at| Mark { at, label: "shop restarted".to_owned() };
        let marked = Panel { marks: vec![mark(25.0), mark(500.0)], ..panel(1) };
        let svg = Image::new("x", &[marked, panel(1)]).svg().unwrap();
        let color = format!("stroke=\"{}\"", "#B0413E");
        assert_eq!(svg.matches(&color).count(), 1, "in its panel, if it is in the span");
        assert_eq!(svg.matches("shop restarted").count(), 1);
    }

    #[test]
    fn marks_beside_each_other_share_a_text() {
        let mark = |at, label: &str| Mark { at, label: label.to_owned() };
        let marks = vec![mark(0.0, "shop appeared"), mark(25.0, "a ended"), mark(25.01, "b ended")];
        let svg = Image::new("x", &[Panel { marks, ..panel(1) }]).svg().unwrap();
        for text in ["shop appeared", "a ended, b ended"] {
            assert_eq!(svg.matches(text).count(), 1, "{text}: {svg}");
        }
        let x = |text: &str| -> f64 {
            let (before, _) = svg.split_once(text).expect("the text");
            let (_, x) = before.rsplit_once(" x=\"").expect("its place");
            x.split('"').next().and_then(|x| x.parse().ok()).expect("a number")
        };
        assert!(x("shop appeared") > x("Kbyte / sec") + 60.0, "{svg}");
        // There is no room for both: the text beside its line is the one that is shown.
        let marks = vec![mark(0.0, "shop appeared"), mark(7.0, "shop restarted")];
        let svg = Image::new("x", &[Panel { marks, ..panel(1) }]).svg().unwrap();
        assert!(svg.contains("shop restarted") && !svg.contains("shop appeared"), "{svg}");
    }

    #[test]
    fn images_of_nothing_and_of_too_much_are_drawn() {
        for panels in [vec![], vec![panel(0)], vec![panel(200)], vec![panel(2); 30]] {
            let image = Image::new("x", &panels).size(300, 200);
            assert!(image.svg().unwrap().ends_with("</svg>\n"));
            assert!(image.png().unwrap().len() > 100);
        }
    }

    #[test]
    fn extreme_numbers_do_not_break_the_drawing() {
        for values in
            [[f64::MAX, f64::MIN], [5e-324, 0.0], [1e300, 1e300], [f64::NAN, f64::INFINITY]]
        {
            let points = vec![(0.0, Some(values[0])), (1e12, Some(values[1]))];
            let line = Line { label: "x".to_owned(), points, ..Line::default() };
            let panels = [Panel { lines: vec![line], ..Panel::default() }];
            assert!(Image::new("x", &panels).svg().is_ok(), "{values:?}");
        }
    }

    #[test]
    fn a_size_without_room_is_refused() {
        for (width, height) in [(0, 0), (99, 500), (500, 10_001)] {
            let image = Image::new("x", &[]).size(width, height).svg();
            assert!(matches!(image, Err(ImageError::Size { .. })), "{width} {height}");
        }
    }

    #[test]
    fn averaging_takes_the_mean_of_each_square() {
        let line = |a: u8, b: u8| [a, 0, 9, b, 4, 9];
        assert_eq!(averaged(&[line(10, 20), line(30, 40)].concat(), 1), [25, 2, 9]);
    }
}
