//! Tests of the command `mmv-archive`, as one program: linking takes longer than most of them.

#[cfg(feature = "view")]
#[path = "../../tests/shared/incident.rs"]
mod incident;
#[cfg(feature = "view")]
#[path = "../../tests/shared/pictures.rs"]
mod pictures;
#[path = "../../tests/shared/programs.rs"]
mod programs;
#[cfg(feature = "view")]
#[path = "../../tests/shared/sides.rs"]
mod sides;
#[cfg(feature = "view")]
#[path = "../../tests/shared/view_server.rs"]
mod view_server;

mod bombs;
#[cfg(feature = "view")]
mod browser;
mod check_and_repair;
mod command;
mod compare;
mod completions;
mod contradictions;
mod contradictory_types;
mod current_directory;
mod defects;
mod dump_options;
mod events;
mod explain;
mod expressions_document;
mod first_answers;
mod follow;
mod histograms;
mod labelled_histograms;
mod labels;
mod lzw_refused;
mod mcp;
mod output_errors;
#[cfg(feature = "view")]
mod output_length;
mod output_schema;
mod plot;
mod program;
mod program_runs;
mod quantiles_and_sums;
mod rates;
mod reduce;
mod renamed_instances;
mod report_csv;
mod selection;
mod series;
mod several_archives;
mod shared_options;
mod snapshot;
mod special_files;
mod terminal_width;
mod unnamed_metrics;
mod unusual_archives;
#[cfg(feature = "view")]
mod view;
