//! `mmv-archive convert`: an archive anew, in version 3 or 2, with other names,
//! or compressed otherwise.

use clap::{Args, ValueEnum};
use pcp_types::Pmid;

use super::ArchiveArgument;
use super::extract::{OutputOptions, tell_nameless};
use super::failure::Failure;
use super::zone::ZoneOptions;
use crate::compress::compress_volumes;
use crate::extract::Extract;
use crate::scan::Selection;
use crate::{Compression, Source};

/// Options of `convert`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    archive: ArchiveArgument,

    #[command(flatten)]
    output: OutputOptions,

    /// Give a metric, or all metrics below a name, another name.
    #[arg(long, value_name = "OLD=NEW", value_parser = rename)]
    rename: Vec<(String, String)>,

    /// Give the metric of a name, as it is called now, another PMID. Labels of
    /// its cluster and domain go with it unless other metrics stay where it comes
    /// to, and are kept besides if any metric stays where it was.
    #[arg(long, value_name = "NAME=D.C.I", value_parser = renumber)]
    pmid: Vec<(String, Pmid)>,

    /// How the data volumes are compressed. Metadata and index never are.
    #[arg(long, value_enum, default_value_t = Wanted::None)]
    compress: Wanted,

    #[command(flatten)]
    zone: ZoneOptions,
}

/// Compressions, and none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Wanted {
    /// Slow to write and small.
    Xz,
    /// Fast. PCP before 6.3.2 cannot read it.
    Zstd,
    /// In between.
    Gzip,
    /// Slow to read.
    Bzip2,
    /// Plain files.
    None,
}

impl Wanted {
    const fn compression(self) -> Option<Compression> {
        match self {
            Self::Xz => Some(Compression::Xz),
            Self::Zstd => Some(Compression::Zstd),
            Self::Gzip => Some(Compression::Gzip),
            Self::Bzip2 => Some(Compression::Bzip2),
            Self::None => None,
        }
    }
}

impl Arguments {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let archives = self.archive.open()?;
        let source = Source::from(&archives);
        let zone = self.zone.zone(source.label())?;
        tell_nameless(source);
        let mut everything = Selection::new(source);
        everything.select("");
        let mut extract = Extract::new(everything).keep_volumes();
        for (old, new) in &self.rename {
            extract = extract.rename(old, new);
        }
        for (name, pmid) in &self.pmid {
            extract = extract.renumber(name, *pmid);
        }
        let staging = self.output.staging(&archives)?;
        let summary = self.output.write(&extract, &archives, &staging)?;
        if let Some(compression) = self.compress.compression() {
            compress_volumes(staging.hidden(), compression)?;
        }
        self.output.commit(staging, &summary, &zone)
    }
}

/// `OLD=NEW`.
fn rename(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => {
            Ok((old.to_owned(), new.to_owned()))
        }
        _ => Err("this is not OLD=NEW".to_owned()),
    }
}

/// `NAME=D.C.I`.
fn renumber(text: &str) -> Result<(String, Pmid), String> {
    let (name, pmid) = rename(text).map_err(|_| "this is not NAME=D.C.I".to_owned())?;
    let pmid = pmid.parse().map_err(|error| format!("{error}"))?;
    Ok((name, pmid))
}
