//! One client: its request comes, it waits, it is sent the answer.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::event::PollFlags;

use super::{Answer, Answers, Limits, Part};
use crate::limits::NOBODY;

/// How much is written at once.
pub(super) const AT_ONCE: usize = 64 << 10;

/// A client.
pub(super) struct Connection {
    pub stream: UnixStream,
    /// The uid of the process that connected, by the kernel.
    pub user: u32,
    pub stage: Stage,
    /// A limit on a rate delays it until then.
    pub delayed: Instant,
}

/// What a client does.
pub(super) enum Stage {
    /// It sends a request, until then.
    Asking(Vec<u8>, Instant),
    /// The request is complete.
    Waiting(Vec<u8>),
    /// It reads the answer, until then: the part that is sent, how much of it is, and the
    /// further ones.
    Reading { part: Option<Part>, sent: usize, answer: Answer, until: Instant },
    /// It has the answer, or is cut off.
    Ended,
}

impl Connection {
    /// A client that has just connected, of sockets with requests of this length at most.
    pub(super) fn new(stream: UnixStream, longest: usize, limits: &Limits, now: Instant) -> Self {
        let peer = getsockopt(&stream.as_fd(), PeerCredentials);
        let user = peer.map_or(NOBODY, |peer| peer.uid());
        let stage = if longest == 0 {
            Stage::Waiting(Vec::new())
        } else {
            Stage::Asking(Vec::new(), now + limits.request_time)
        };
        Self { stream, user, stage, delayed: now }
    }

    /// What to wait for. A hangup of the client is always reported.
    pub(super) fn interest(&self, now: Instant) -> PollFlags {
        match self.stage {
            Stage::Asking(..) => PollFlags::IN,
            Stage::Reading { .. } if self.delayed <= now => PollFlags::OUT,
            Stage::Reading { .. } | Stage::Waiting(_) | Stage::Ended => PollFlags::empty(),
        }
    }

    /// When the client is cut off.
    pub(super) fn until(&self) -> Option<Instant> {
        match self.stage {
            Stage::Asking(_, until) | Stage::Reading { until, .. } => Some(until),
            Stage::Waiting(_) | Stage::Ended => None,
        }
    }

    /// Reads more of the request, a line of `longest` bytes at most.
    pub(super) fn read(&mut self, longest: usize) {
        let Stage::Asking(line, _) = &mut self.stage else { return };
        let mut bytes = [0; 256];
        let room = longest.saturating_sub(line.len()).min(bytes.len());
        let bytes = bytes.get_mut(..room).unwrap_or_default();
        match self.stream.read(bytes) {
            Err(error) if is_for_later(&error) => {}
            Err(_) => self.stage = Stage::Ended,
            Ok(count) => {
                line.extend(bytes.iter().take(count));
                if count == 0 || line.len() >= longest || line.contains(&b'\n') {
                    self.stage = Stage::Waiting(std::mem::take(line));
                }
            }
        }
    }

    /// Begins to send the answer.
    pub(super) fn send(&mut self, answer: Answer, limits: &Limits, now: Instant) {
        let until = now + limits.time_for(answer.size);
        self.stage = Stage::Reading { part: None, sent: 0, answer, until };
    }

    /// Writes more of the answer, [`AT_ONCE`] bytes at most. Whether the client may take more
    /// now.
    pub(super) fn write(&mut self) -> bool {
        let Stage::Reading { part, sent, answer, .. } = &mut self.stage else { return false };
        if part.is_none() {
            *part = answer.parts.next();
        }
        let Some(bytes) = part.as_deref().map(AsRef::as_ref) else {
            self.stage = Stage::Ended;
            return false;
        };
        let rest = bytes.get(*sent..).unwrap_or_default();
        match self.stream.write(rest.get(..AT_ONCE).unwrap_or(rest)) {
            Err(error) if is_for_later(&error) => false,
            Err(_) => {
                self.stage = Stage::Ended;
                false
            }
            Ok(count) => {
                *sent += count;
                if *sent >= bytes.len() {
                    (*part, *sent) = (None, 0);
                }
                true
            }
        }
    }

    /// Ends it, because its user has too many. No time is lost on a client that cannot be told.
    pub(super) fn refuse(mut self, answers: &impl Answers) {
        if !matches!(self.stage, Stage::Reading { .. }) {
            let _ = self.stream.write(&answers.refusal());
        }
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
