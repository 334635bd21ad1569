//! Why a command got no answer at the socket of an agent.

use std::io;
use std::time::Duration;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    /// There is no socket, or nobody listens there any more.
    #[error(
        "no agent answers: {0}; start one with \"mmv-agent run\", or name the directory of its \
         archives with --archive-dir"
    )]
    NoAgent(#[source] io::Error),
    /// An agent has the socket, and is stopped or overloaded.
    #[error("there is an agent, but it did not answer within {} seconds", .0.as_secs())]
    Late(Duration),
    /// An agent has ended the connection.
    #[error(
        "there is an agent, but it closed the connection without an answer: this user has too \
         many connections to it, or it is overloaded"
    )]
    Closed,
    /// The system refuses it, or the answer is invalid.
    #[error("the agent cannot be asked: {0}")]
    Failed(#[source] io::Error),
}

impl Unanswered {
    /// What an error means for a client that has waited for this long.
    pub(crate) fn of(error: io::Error, patience: Duration) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Self::NoAgent(error),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Late(patience),
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(error),
        }
    }
}
