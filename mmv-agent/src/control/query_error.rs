use std::io;
use std::time::Duration;

/// The reason why a command got no answer at the socket of an agent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QueryError {
    /// There is no socket, or no process listens there.
    #[error(
        "no agent answers: {0}; start one with \"mmv-agent run\", or name the directory of its \
         archives with --archive-dir"
    )]
    NoAgent(#[source] io::Error),
    /// An agent has the socket, and is stopped or overloaded.
    #[error("there is an agent, but it did not answer within {} seconds", .0.as_secs())]
    Late(Duration),
    /// An agent has closed the connection.
    #[error(
        "there is an agent, but it closed the connection without an answer: this user has too \
         many connections to it, or it is overloaded"
    )]
    Closed,
    /// A system call failed, or the answer is invalid.
    #[error("cannot query the agent: {0}")]
    Failed(#[source] io::Error),
}

impl QueryError {
    /// Interprets an error for a client that has waited for `timeout`.
    pub(crate) fn new(error: io::Error, timeout: Duration) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Self::NoAgent(error),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Late(timeout),
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(error),
        }
    }
}
