//! Tests across the crates, with Performance Co-Pilot's own programs as the
//! oracle.
//!
//! One binary, so that there is one link step. `harness` is what the tests share;
//! every other module is one promise of the project:
//!
//! | module | promise |
//! |---|---|
//! | `harvest` | files of other producers, and several of one of ours, are logged as pmdammv would serve them |
//! | `serving` | files of ours are served by pmcd with pmdammv as registered |
//! | `compliance` | PCP's programs read our archives as our own command does |
//! | `dumped` | `dump` prints of foreign archives what pmdumplog prints |
//! | `discovered` | pmproxy finds what the agent writes, and follows it |
//! | `copied` | archives copied by our writer are as good as before |
//! | `crashed` | what a writer that died left behind is as good after a repair |
//! | `capi` | C programs run on our library as on libpcp_mmv |
//! | `capture` | what an agent keeps in memory comes out as an archive |
//! | `malformed` | a bad file is treated by its verdict and harms nobody else |
//! | `growing` | a file that grows is read right by PCP and by us, at any moment |
//! | `failures` | what goes wrong around the agent costs what the table says, and no more |
//! | `full_disk` | a full disk is an error of registration, never a signal |
//! | `lifecycle` | restart, growth, appearing, vanishing, signals |
//! | `rotation` | one archive follows the other, and PCP's programs join them |
//! | `recorded` | a command is logged while it runs |
//! | `written` | whatever the library writes, PCP reads back |
//! | `paper` | the worked examples of the paper on interpolation come out |
//! | `sets` | several archives are one timeline, and extracts and conversions say the same |
//! | `status` | a running agent says what it does |
//! | `summaries` | summaries of the corpus are those of pmlogsummary |
//! | `clusters` | files that ask for the same PMIDs are kept apart, or merged, by the rule |
//! | `commands` | `info`, `metrics`, `report` and `inspect` say what PCP says |
//! | `configuration` | what a configuration file says is done, and a wrong one is refused |
//! | `expressions` | expressions of metrics have the numbers of PCP's derived metrics |
//! | `quantiles` | what a histogram recorded comes out as quantiles |
//! | `manual` | manual pages, unit and installation are whole |
//! | `told` | an agent tells of itself in its archive: events, and metrics of its own |
//! | `soak` | the same mishap again and again |
//! | `long_run` | all mishaps at once, and afterwards each value is a true one |
//! | `demo` | the one command of the README works |
//!
//! A test that needs what the machine lacks says `skipped: ...` on standard error
//! and passes; with `PCP=require` in the environment it fails instead.

mod capi;
mod capture;
mod clusters;
mod commands;
mod compliance;
mod configuration;
mod copied;
mod crashed;
mod demo;
mod discovered;
mod dumped;
mod expressions;
mod failures;
mod full_disk;
mod growing;
mod harness;
mod harvest;
mod lifecycle;
mod long_run;
mod malformed;
mod manual;
mod paper;
mod producers;
mod quantiles;
mod recorded;
mod rotation;
mod serving;
mod sets;
mod soak;
mod status;
mod summaries;
mod told;
mod written;
