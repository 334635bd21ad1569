//! `mmv-archive view`: metrics over time in a browser, read from the archives as it asks.
//!
//! The page is that of a snapshot. A server on the loopback interface feeds it:
//!
//! | module | contents |
//! |---|---|
//! | `archives` | the archives as they are now, opened again when they have grown |
//! | `background` | pyramids of large archives |
//! | `question` | what a page asks for, checked |
//! | `answers` | what it gets; all that reads archives |
//! | `server` | who may ask, by the HTTP of `mmv-http` |

mod answers;
mod archives;
mod background;
mod beyond;
mod question;
mod server;

use std::sync::Arc;

use clap::Args;

use crate::Failure;
use crate::options::{GapOptions, SidesArgument};
use crate::page::header::seconds;
use crate::page::sides::Sides;
use crate::text::Output;
use crate::time::{SpanOptions, ZoneOptions};
use archives::Archives;
use server::Server;

/// The end of the help.
const EXAMPLES: &str = "\
Examples:
  See all metrics, and follow them as they are logged:
    mmv-archive view @
  What else happened at 18:05? Begin with the minutes around it:
    mmv-archive view @ -S 18:00 -T 18:10
  Compare two hosts:
    mmv-archive view web1=/srv/web1 web2=/srv/web2 mmv.shop
  Put the metrics of programs next to those of the kernel:
    mmv-archive view app=@ kernel=/var/log/pcp/pmlogger/web1
  Use a port that \"ssh -L 8080:127.0.0.1:8080\" forwards:
    mmv-archive view @ --port 8080";

#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ViewCommand {
    #[command(flatten)]
    sides: SidesArgument,

    /// Port of 127.0.0.1 [default: any that is free]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,

    #[command(flatten)]
    gaps: GapOptions,

    #[command(flatten)]
    span: SpanOptions,

    #[command(flatten)]
    zone: ZoneOptions,
}

impl ViewCommand {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let sides = Sides::open(&self.sides)?;
        sides.check_names()?;
        let zone = self.zone.zone(sides.label())?;
        let shown = if self.span.is_given() {
            Some(self.span.window(sides.start(), sides.end(), zone.time_zone())?)
        } else {
            None
        };
        let archives = Archives::new(sides, zone, self.gaps.gaps())?.opening_with(shown);
        let port = self.port;
        let failed = |error| Failure::Input(format!("127.0.0.1:{port}: {error}"));
        let server = Server::new(port, Arc::new(archives)).map_err(failed)?;
        let view = shown.map_or_else(String::new, |window| {
            format!("#from={:.6}&to={:.6}", seconds(window.start), seconds(window.end))
        });
        let mut out = Output::new();
        out.text.extend_from_slice(format!("{}{view}\n", server.address()).as_bytes());
        out.finish()?;
        server.run().map_err(failed)
    }
}
