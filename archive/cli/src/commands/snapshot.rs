//! `mmv-archive snapshot`: metrics over time as one file that a browser opens from disk.
//!
//! The file has the page, its data and no address of anything else. The data is described in
//! `page::payload`.

use std::path::PathBuf;

use clap::Args;
use pcp_archive::envelope::{Envelope, Grid, Options};
use pcp_archive::scan::{SelectedMetric, Selection};
use pcp_types::scaled::scaled;
use pcp_types::{Units, parse_size};

use crate::groups::{groups, max_series};
use crate::left_out::check_whole_set;
use crate::options::{GapOptions, SidesArgument};
use crate::page::header::{Header, events};
use crate::page::heat::{Histogram, Reading, maps, take_histograms};
use crate::page::movement::PageMovements;
use crate::page::payload::{Frame, Payload};
use crate::page::series::EnvelopeNames;
use crate::page::sides::{Side, Sides};
use crate::text::{shown_path, warn};
use crate::time::{SpanOptions, Window, Zone, ZoneOptions};
use crate::{Failure, output_file, page};

/// The most columns; a power of two, so that they can be halved.
const MAX_COLUMNS: u32 = 1 << 14;
/// The least columns that a small limit of the size leaves.
const MIN_COLUMNS: u32 = 16;
/// The most columns of all series together, 6 bytes each.
const MAX_CELLS: usize = 1 << 21;
/// The most columns that are read in one pass, unless a single metric has more: each takes 56
/// bytes until it is encoded.
const CELLS_AT_ONCE: usize = 5 << 15;

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  Write the last two hours of all metrics as one page, to send by mail:
    mmv-archive snapshot @ --last 2h -o incident.html
  Compare two days, with the second shifted over the first:
    mmv-archive snapshot monday=logs/mon tuesday=logs/tue --align start \\
        -o days.html
  Limit the page to the metrics of one program, and its size to 500 kB:
    mmv-archive snapshot @ mmv.shop --max-size 500kB -o shop.html";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct SnapshotCommand {
    #[command(flatten)]
    sides: SidesArgument,

    /// File to write, which a browser opens
    #[arg(short = 'o', long, value_name = "FILE.html")]
    output: PathBuf,

    /// Largest size of the file, as 500kB or 20MB: time is divided into fewer columns until it fits
    #[arg(long, value_name = "SIZE", default_value = "8MB", value_parser = parse_size)]
    max_size: u64,

    #[command(flatten)]
    gaps: GapOptions,

    #[command(flatten)]
    span: SpanOptions,

    #[command(flatten)]
    zone: ZoneOptions,
}

impl SnapshotCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let sides = Sides::open(&self.sides)?;
        sides.check_names()?;
        let zone = self.zone.zone(sides.label())?;
        let window = self.span.window(sides.start(), sides.end(), zone.time_zone())?;
        let (html, columns) = self.fitted(&sides, window, &zone)?;
        output_file::write(&self.output, html.as_bytes())
            .map_err(|error| Failure::Image(format!("{}: {error}", shown_path(&self.output))))?;
        self.say(window, &html, columns);
        sides.iter().try_for_each(|side| check_whole_set(&side.archives))
    }

    /// Returns the page in the most columns that the limit of the size allows, and how many these
    /// are at most and in it.
    fn fitted(
        &self,
        sides: &Sides,
        window: Window,
        zone: &Zone,
    ) -> Result<(String, [u32; 2]), Failure> {
        let mut selections = sides.selections();
        let mut histograms = Vec::new();
        for selection in &mut selections {
            histograms.push(take_histograms(selection)?);
        }
        let header = Header::new(sides, &selections, window, zone);
        let mut all_events = Vec::new();
        let mut heats = Vec::new();
        let mut movements = PageMovements::default();
        for (place, (side, histograms)) in sides.iter().zip(&histograms).enumerate() {
            all_events.extend(events(place, side, window, &|| true)?.unwrap_or_default());
            heats.extend(self.heats(place, side, histograms, window)?);
            movements.add(place, side, sides.selection(side), window)?;
        }
        let frame = Frame { header, events: all_events, heats, movements };
        let most = columns_for(&selections);
        let mut columns = most;
        loop {
            let mut payload = Payload::new(&frame, columns);
            for (place, (side, selection)) in sides.iter().zip(&selections).enumerate() {
                let own = side.own_window(window);
                let grid = Grid::new(own.start..=own.end, columns);
                self.add_values(place, side, selection, &grid, &mut payload)?;
            }
            if payload.is_empty() {
                let reason = "the metrics have no numbers in this window";
                return Err(Failure::NoData(reason.to_owned()));
            }
            let html = page::with_data(&payload.compressed()?);
            if html.len() as u64 <= self.max_size {
                return Ok((html, [most, columns]));
            }
            if columns <= MIN_COLUMNS {
                let least = html.len();
                return Err(Failure::Usage(format!(
                    "the page takes {least} bytes even with {columns} columns: choose fewer \
                     metrics or a larger --max-size"
                )));
            }
            // The size is about proportional to the columns.
            let excess = html.len() as u64 / self.max_size;
            columns = (columns >> excess.max(2).ilog2()).max(MIN_COLUMNS);
        }
    }

    fn heats(
        &self,
        place: usize,
        side: &Side,
        histograms: &[Histogram],
        window: Window,
    ) -> Result<Vec<page::heat::Heat>, Failure> {
        if histograms.is_empty() {
            return Ok(Vec::new());
        }
        let reading = Reading { gaps: self.gaps.gaps(), parts: 1, go_on: &|| true };
        Ok(maps(place, side, histograms, window, reading)?.unwrap_or_default())
    }

    /// Adds the values, counters as rates; and the counters as they are.
    fn add_values(
        &self,
        place: usize,
        side: &Side,
        selection: &Selection<'_>,
        grid: &Grid,
        payload: &mut Payload<'_>,
    ) -> Result<(), Failure> {
        let mut counters = selection.clone();
        counters.retain(SelectedMetric::has_rates);
        for (rates, selection) in [(true, selection), (false, &counters)] {
            let options = Options { rates, gaps: self.gaps.gaps() };
            for (number, group) in
                groups(selection, grid.columns(), CELLS_AT_ONCE).iter().enumerate()
            {
                let envelope = Envelope::read(group, grid.clone(), options)?;
                let of = EnvelopeNames::new(place, side, group, &envelope);
                payload.add(&envelope, &of)?;
                if rates && number == 0 {
                    payload.add_marks(&envelope, &of);
                }
            }
        }
        Ok(())
    }

    /// Tells the size and the resolution.
    fn say(&self, window: Window, html: &str, [most, columns]: [u32; 2]) {
        let seconds = window.end.seconds_since(window.start) / f64::from(columns);
        let path = self.output.display();
        let size = scaled(html.len() as f64, Units::bytes());
        let each = if seconds < 1.0 {
            format!("{:.3} ms", seconds * 1e3)
        } else {
            format!("{seconds:.3} s")
        };
        let why = if columns < most {
            format!("; --max-size allows no more, {most} would be possible")
        } else {
            String::new()
        };
        warn(&format_args!("{path}: {size}, {columns} columns of {each}{why}"));
    }
}

/// Returns the number of columns for which there is enough memory, by the number of instances.
fn columns_for(selections: &[Selection<'_>]) -> u32 {
    let series: usize = selections.iter().map(max_series).sum();
    let mut columns = MAX_COLUMNS;
    while columns > MIN_COLUMNS && columns as usize * series > MAX_CELLS {
        columns /= 2;
    }
    columns
}
