//! The connection of one client, which waits for the answer and then reads it.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::event::PollFlags;

use super::{Answer, ClientLimits};
use crate::limits::NOBODY;

pub(super) const MAX_WRITE: usize = 64 << 10;

pub(super) struct Connection {
    pub stream: UnixStream,
    /// Uid of the process that connected, according to the kernel.
    pub user: u32,
    pub stage: Stage,
    /// End of a delay by a rate limit.
    pub delayed: Instant,
}

pub(super) enum Stage {
    Waiting,
    /// Reads the answer, until that time; `sent` bytes of it are sent.
    Reading {
        answer: Answer,
        sent: usize,
        until: Instant,
    },
    /// Has the answer, or is cut off.
    Ended,
}

impl Connection {
    pub(super) fn new(stream: UnixStream, now: Instant) -> Self {
        let peer = getsockopt(&stream.as_fd(), PeerCredentials);
        let user = peer.map_or(NOBODY, |peer| peer.uid());
        Self { stream, user, stage: Stage::Waiting, delayed: now }
    }

    /// Returns the events to wait for. A hangup of the client is always reported.
    pub(super) fn interest(&self, now: Instant) -> PollFlags {
        match self.stage {
            Stage::Reading { .. } if self.delayed <= now => PollFlags::OUT,
            Stage::Reading { .. } | Stage::Waiting | Stage::Ended => PollFlags::empty(),
        }
    }

    /// Returns the time at which the client is cut off.
    pub(super) fn until(&self) -> Option<Instant> {
        match self.stage {
            Stage::Reading { until, .. } => Some(until),
            Stage::Waiting | Stage::Ended => None,
        }
    }

    pub(super) fn send(&mut self, answer: Answer, limits: &ClientLimits, now: Instant) {
        let until = now + limits.time_for(answer.len() as u64);
        self.stage = Stage::Reading { answer, sent: 0, until };
    }

    /// Writes more of the answer, at most [`MAX_WRITE`] bytes. Returns true if the client may be
    /// able to take more.
    pub(super) fn write(&mut self) -> bool {
        let Stage::Reading { answer, sent, .. } = &mut self.stage else { return false };
        let rest = answer.get(*sent..).unwrap_or_default();
        match self.stream.write(rest.get(..MAX_WRITE).unwrap_or(rest)) {
            Err(error) if is_for_later(&error) => false,
            Err(_) => {
                self.stage = Stage::Ended;
                false
            }
            Ok(count) => {
                *sent += count;
                if *sent >= answer.len() {
                    self.stage = Stage::Ended;
                    return false;
                }
                true
            }
        }
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
