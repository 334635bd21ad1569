//! Options of commands that show values: which instances, converted how, how
//! wide and in which format.

use clap::Args;

use crate::Failure;
use crate::columns::WantedUnits;
use crate::formats::Format;
use crate::text::output_width;

/// Options of `report`, `follow` and `plot`.
#[derive(Debug, Args)]
pub(crate) struct DisplayOptions {
    /// Show only these instances, by name, number or a pattern such as "sd*"; may be repeated
    /// [default: all]
    #[arg(short = 'i', long = "instance", value_name = "NAME")]
    pub(crate) instances: Vec<String>,

    /// Also show the metrics of the agent and of pmcd, which are otherwise shown if they are named
    #[arg(long)]
    pub(crate) all: bool,

    /// Do not convert counters to rates
    #[arg(long)]
    pub(crate) no_rate: bool,

    /// Convert values to these units where the dimension is the same: "Mbyte", "Kbyte / sec",
    /// "count x 10^-2"; may be repeated
    #[arg(long, value_name = "UNITS")]
    units: Vec<String>,

    /// Width of tables and terminal plots [default: COLUMNS of the environment, that of the
    /// terminal, or 100]
    #[arg(long, value_name = "COLUMNS")]
    width: Option<usize>,
}

impl DisplayOptions {
    /// Returns the units to convert to.
    ///
    /// # Errors
    ///
    /// [`Failure::Usage`] for text that is not a unit.
    pub(crate) fn units(&self) -> Result<Vec<WantedUnits>, Failure> {
        self.units.iter().map(|text| WantedUnits::parse(text)).collect()
    }

    pub(crate) const fn has_units(&self) -> bool {
        !self.units.is_empty()
    }

    /// Returns the width of the output in columns.
    pub(crate) fn width(&self) -> usize {
        self.width.unwrap_or_else(output_width)
    }
}

/// Options of `report` and `summary`.
#[derive(Debug, Args)]
pub(crate) struct FormatOptions {
    /// Format of the output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Print JSON Lines; the same as --format jsonl
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl FormatOptions {
    pub(crate) const fn format(&self) -> Format {
        if self.json { Format::Jsonl } else { self.format }
    }
}
