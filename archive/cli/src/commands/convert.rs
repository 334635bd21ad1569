//! `mmv-archive convert`: an archive in another version, changed by rules, or compressed.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Args, ValueEnum};
use pcp_archive::compress::compress_volumes;
use pcp_archive::extract::Extract;
use pcp_archive::internal::member_files;
use pcp_archive::rewrite::Rules;
use pcp_archive::scan::Selection;
use pcp_archive::{ArchiveSet, Compression, Error, Pmid, Source};

use crate::Failure;
use crate::left_out::check_whole_set;
use crate::options::{ArchiveArgument, OutputOptions, total_size, warn_of_unnameable};
use crate::selection::warn_of_unnamed;
use crate::text::shown_path;
use crate::time::ZoneOptions;

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  Make a copy for programs of PCP before version 6:
    mmv-archive convert @ -o for-pcp5 --archive-version 2
  Compress with xz, for readers that have PCP before 6.3.2:
    mmv-archive convert @ -o small --compress xz
  Rename a branch of metrics:
    mmv-archive convert @ -o renamed --rename mmv.shop=mmv.store
  Change names, PMIDs, types, units, instances and labels as rules say:
    mmv-archive convert @ -o changed --rules shop.conf";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ConvertCommand {
    #[command(flatten)]
    archive: ArchiveArgument,

    #[command(flatten)]
    output: OutputOptions,

    /// Change metadata and values by the rules in a file, in the language of pmlogrewrite(1); of a
    /// directory, all files but those whose names begin with a dot, in the order of their names.
    /// May be repeated
    #[arg(long, value_name = "FILE")]
    rules: Vec<PathBuf>,

    /// Rename a metric, or a branch of the name space; may be repeated
    #[arg(long, value_name = "OLD=NEW", value_parser = rename)]
    rename: Vec<(String, String)>,

    /// Change the PMID of a metric, given by its old name; may be repeated. Labels of its cluster
    /// and domain move with it unless other metrics have them at the new place, and are copied if
    /// other metrics remain at the old one
    #[arg(long, value_name = "NAME=D.C.I", value_parser = renumber)]
    pmid: Vec<(String, Pmid)>,

    /// Compression of the data volumes; metadata and index are never compressed. If nothing else
    /// changes records are copied without being read
    #[arg(long, value_enum, default_value_t = Compress::None)]
    compress: Compress,

    #[command(flatten)]
    zone: ZoneOptions,
}

/// Compression of the data volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Compress {
    /// Slow to write, smallest files
    Xz,
    /// Fast; needs PCP 6.3.2 or later
    Zstd,
    /// Moderate speed and size
    Gzip,
    /// Slow to read
    Bzip2,
    /// No compression
    None,
}

impl Compress {
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

impl ConvertCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let archives = self.archive.open_without_contradictions()?;
        let source = Source::from(&archives);
        let zone = self.zone.zone(source.label())?;
        warn_of_unnamed(source);
        let mut everything = Selection::new(source);
        everything.select("");
        let rules = self.all_rules()?;
        let changes = !rules.is_empty();
        let extract = Extract::new(everything).keep_volumes().rules(rules);
        let is_whole = warn_of_unnameable(&extract.unnameable()?);
        if is_whole
            && !changes
            && self.has_other_compression(&archives)
            && let Some((staging, summary)) =
                self.output.copy(&archives, self.compress.compression())?
        {
            self.output.commit(staging, &summary, &zone)?;
            return check_whole_set(&archives);
        }
        let staging = self.output.staging(&archives)?;
        let mut summary = self.output.write(&extract, &archives, &staging)?;
        if let Some(compression) = self.compress.compression() {
            compress_volumes(staging.hidden(), compression)?;
            summary.bytes = total_size(member_files(staging.hidden())?);
        }
        self.output.commit(staging, &summary, &zone)?;
        check_whole_set(&archives)?;
        if is_whole { Ok(()) } else { Err(Failure::Lost) }
    }

    /// Returns the rules of files and options, those of options last.
    fn all_rules(&self) -> Result<Rules, Failure> {
        let mut rules = Rules::default();
        for path in &self.rules {
            for file in rules_files(path)? {
                let text = fs::read(&file).map_err(read_error(&file))?;
                let text = String::from_utf8(text).map_err(|error| {
                    let at = error.utf8_error().valid_up_to();
                    let file = shown_path(&file);
                    Failure::Usage(format!(
                        "{file}: byte {at} is not valid UTF-8; files of rules are UTF-8"
                    ))
                })?;
                rules.parse(&file.to_string_lossy(), &text).map_err(Error::from)?;
            }
        }
        for (old, new) in &self.rename {
            rules.rename(old, new);
        }
        for (name, pmid) in &self.pmid {
            rules.renumber(name, *pmid);
        }
        Ok(rules)
    }

    /// Returns whether the compression of volumes changes.
    fn has_other_compression(&self, archives: &ArchiveSet) -> bool {
        let mut volumes = archives
            .archives()
            .iter()
            .flat_map(|archive| archive.volumes().filter_map(|number| archive.volume_path(number)));
        let compression = self.compress.compression();
        volumes.any(|volume| Compression::from_path(volume) != compression)
    }
}

/// Returns the files of rules that a path stands for.
fn rules_files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(read_error(path))? {
        let entry = entry.map_err(read_error(path))?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn read_error(file: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io { file: file.to_owned(), operation: "read", source }
}

/// Parses `OLD=NEW`.
fn rename(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => {
            Ok((old.to_owned(), new.to_owned()))
        }
        _ => Err("not OLD=NEW".to_owned()),
    }
}

/// Parses `NAME=D.C.I`.
fn renumber(text: &str) -> Result<(String, Pmid), String> {
    let (name, pmid) = rename(text).map_err(|_| "not NAME=D.C.I".to_owned())?;
    let pmid = pmid.parse().map_err(|error| format!("{error}"))?;
    Ok((name, pmid))
}
