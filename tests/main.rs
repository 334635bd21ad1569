//! Tests across the crates, with Performance Co-Pilot's own programs as the oracle.
//!
//! One binary, so that there is one link step. Each module tests one promise of the
//! project; [`harness`] is shared.
//!
//! | module | promise |
//! |---|---|
//! | **Writer** | |
//! | `pmdammv_serving` | pmcd with pmdammv serves our MMV files as registered |
//! | `capi` | C programs run on our library as on libpcp_mmv |
//! | `file_growth` | PCP and we read a growing file correctly at any moment, and the agent at each tick |
//! | `example_programs` | the programs in `examples/` count what they do |
//! | `metric_removal` | PCP and we read a file from which metrics are removed |
//! | `full_disk` | a full disk is an error of registration, never a signal |
//! | **Agent** | |
//! | `demo` | `mmv-agent demo` shows a program, the agent and a report |
//! | `harvest` | the agent logs MMV files of any producer as pmdammv serves them |
//! | `configuration` | a configuration file has its documented effect, a wrong one is rejected |
//! | `instance_numbers` | a name keeps its instance number over restarts and in all files |
//! | `cluster_conflicts` | files with the same PMIDs are separated or merged by the documented rule |
//! | `owners` | no user takes the names of another user's program |
//! | `malformed_files` | a malformed file is rejected or read in part, without harm to others |
//! | `lifecycle` | restart, growth, appearance and removal of programs; signals |
//! | `rotation` | archives follow each other, and PCP's programs join them |
//! | `failures` | a failure around the agent costs what `docs/operators.md` states, and no more |
//! | `flight_recorder` | archives of the last minutes in the runtime directory; `capture` |
//! | `self_monitoring` | the archive has the agent's own events and metrics |
//! | `status_command` | `mmv-agent status` reports the state of a running agent |
//! | `containers` | programs in containers are found, and labelled with container and pod |
//! | `user_directories` | without privileges, programs, agent and commands find the same directories |
//! | `record_command` | `mmv-agent record` logs a command while it runs |
//! | `pmproxy_discovery` | pmproxy finds the agent's archives and follows them |
//! | `soak` | one failure, repeated |
//! | `scheduling` | the sampler alone is scheduled in real time, where that is permitted |
//! | `long_run` | all failures at once; afterwards every logged value is a true one |
//! | `storm` | all attacks of other users at once; afterwards an honest program has lost nothing |
//! | **Archives** | |
//! | `archive_writer` | PCP reads back everything the library writes |
//! | `archive_copies` | copies by our writer are as sound as the originals |
//! | `archive_names` | names of any bytes are read and copied to the byte |
//! | `archive_commands` | `info`, `metrics`, `report` and `inspect` agree with PCP's programs |
//! | `contradictory_types` | `check` finds each wrong type that pmlogcheck finds |
//! | `hostile_texts` | no text of a file does anything to a terminal, a spreadsheet or an XML parser |
//! | `dump_command` | `dump` prints foreign archives as pmdumplog does |
//! | `summary_command` | `summary` agrees with pmlogsummary |
//! | `reduce_command` | PCP accepts reduced archives, and counters are where pmlogreduce has them |
//! | `multiple_archives` | several archives read, extract and convert as one timeline |
//! | `crash_repair` | an archive of a writer that died is sound after a repair |
//! | `interpolation_examples` | the worked examples of the paper on interpolation hold |
//! | `derived_metrics` | expressions have the values of PCP's derived metrics |
//! | `changing_programs` | every reader says what programs counted, also while they grow, restart and change |
//! | `questions` | the questions of the README have right answers |
//! | `quantiles` | a recorded histogram reads back as quantiles |
//! | **Workspace** | |
//! | `documentation` | README and tutorial work as a newcomer follows them; all commands and configurations in the documentation are valid |
//! | `compliance` | PCP's programs read our archives as our own command does |
//! | `producers` | instrumented programs in C, Perl and Python, used by other tests |
//! | `manual_pages` | examples of the help are valid; manual pages, units and installation are complete |
//! | `packages` | packages install, upgrade and purge; their bytes are reproducible |
//! | `dependencies` | licenses and sources of dependencies are those in `deny.toml`; no crate is compiled twice |
//! | `public_api` | the public interface of the libraries is the committed text |
//! | `structure` | modules depend on each other in one direction |
//!
//! A test that needs a program or a permission this machine lacks prints
//! `skipped: ...` on standard error and passes; with `PCP=require` in the
//! environment it fails instead.

mod archive_commands;
mod archive_copies;
mod archive_names;
mod archive_writer;
mod capi;
mod changing_programs;
mod cluster_conflicts;
mod compliance;
mod configuration;
mod containers;
mod contradictory_types;
mod convert_rules;
mod crash_repair;
mod demo;
mod dependencies;
mod derived_metrics;
mod documentation;
mod dump_command;
mod example_programs;
mod explain_command;
mod failures;
mod file_growth;
mod flight_recorder;
mod full_disk;
mod harness;
mod harvest;
mod hostile_texts;
mod incident;
mod instance_numbers;
mod interpolation_examples;
mod lifecycle;
mod loader;
mod long_run;
mod malformed_files;
mod manual_pages;
mod metric_removal;
mod multiple_archives;
mod owners;
mod packages;
mod pmdammv_serving;
mod pmproxy_discovery;
mod producers;
mod programs_without_prefix;
mod public_api;

mod quantiles;
mod questions;
mod record_command;
mod reduce_command;
mod rotation;
mod scheduling;
mod self_monitoring;
mod soak;
mod status_command;
mod storm;
mod structure;
mod summary_command;
mod user_directories;
