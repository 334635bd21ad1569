//! Requests in their order, without those that the client cancels while they wait.
//!
//! A thread reads ahead of the answers, so that a cancellation is seen before the turn of its
//! request. A request that is being answered reads no further, and its response is dropped, as the
//! protocol requires: a client takes none for what it has cancelled.
//!
//! **Source**: <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation>.

use std::io::{self, BufRead};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::Value;

use super::lines::{Line, Lines};
use crate::cancellation::CancelFlag;

/// Limit on the messages that are read ahead.
const MAX_WAITING: usize = 8;

const CANCELLED: &str = "notifications/cancelled";

/// A message that is to be answered.
#[derive(Debug)]
pub(super) enum Message {
    Text { line: Vec<u8>, id: Option<Value>, is_cancelled: CancelFlag },
    TooLong,
}

/// The messages that a thread reads.
#[derive(Debug)]
pub(super) struct Requests {
    messages: Receiver<io::Result<Message>>,
    open: OpenRequests,
}

/// The requests without a response.
#[derive(Debug, Clone, Default)]
struct OpenRequests(Arc<Mutex<Vec<OpenRequest>>>);

#[derive(Debug)]
struct OpenRequest {
    id: Value,
    is_cancelled: CancelFlag,
}

impl Requests {
    /// Begins to read.
    ///
    /// # Errors
    ///
    /// If there can be no more threads.
    pub(super) fn read(input: impl BufRead + Send + 'static) -> io::Result<Self> {
        let (sender, messages) = sync_channel(MAX_WAITING);
        let open = OpenRequests::default();
        let reader_open = open.clone();
        thread::Builder::new()
            .name("requests".to_owned())
            .spawn(move || read_messages(input, &reader_open, &sender))?;
        Ok(Self { messages, open })
    }

    /// Returns the next message; `None` at the end of the input.
    ///
    /// # Errors
    ///
    /// Those of the input.
    pub(super) fn next(&self) -> io::Result<Option<Message>> {
        while let Ok(message) = self.messages.recv() {
            match message? {
                Message::Text { id: Some(id), .. } if self.open.is_cancelled(&id) => {
                    self.open.close(&id);
                }
                message => return Ok(Some(message)),
            }
        }
        Ok(None)
    }

    /// Notes that a request has its response, and returns whether the client has cancelled it.
    pub(super) fn close(&self, id: &Value) -> bool {
        self.open.close(id)
    }
}

impl OpenRequests {
    fn requests(&self) -> MutexGuard<'_, Vec<OpenRequest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, id: Value) -> CancelFlag {
        let is_cancelled = CancelFlag::default();
        self.requests().push(OpenRequest { id, is_cancelled: Arc::clone(&is_cancelled) });
        is_cancelled
    }

    fn cancel(&self, id: &Value) {
        if let Some(open) = self.requests().iter().find(|open| open.id == *id) {
            open.is_cancelled.store(true, Ordering::Relaxed);
        }
    }

    fn is_cancelled(&self, id: &Value) -> bool {
        let is_it =
            |open: &OpenRequest| open.id == *id && open.is_cancelled.load(Ordering::Relaxed);
        self.requests().iter().any(is_it)
    }

    fn close(&self, id: &Value) -> bool {
        let mut requests = self.requests();
        let Some(place) = requests.iter().position(|open| open.id == *id) else { return false };
        requests.remove(place).is_cancelled.load(Ordering::Relaxed)
    }
}

/// Sends messages until the input or the receiver ends.
fn read_messages(
    input: impl BufRead,
    open: &OpenRequests,
    sender: &SyncSender<io::Result<Message>>,
) {
    let mut lines = Lines::new(input);
    loop {
        let message = match lines.next() {
            Ok(Some(Line::Text(line))) => match read_message(line, open) {
                Some(message) => Ok(message),
                None => continue,
            },
            Ok(Some(Line::TooLong)) => Ok(Message::TooLong),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        let is_last = message.is_err();
        if sender.send(message).is_err() || is_last {
            return;
        }
    }
}

/// Returns the message of a line, unless it cancels another.
fn read_message(line: &[u8], open: &OpenRequests) -> Option<Message> {
    let message: Value = serde_json::from_slice(line).unwrap_or_default();
    let id = message.get("id").cloned();
    let method = message.get("method").and_then(Value::as_str);
    if method == Some(CANCELLED) && id.is_none() {
        if let Some(cancelled) = message.pointer("/params/requestId") {
            open.cancel(cancelled);
        }
        return None;
    }
    let is_cancelled = id.clone().map(|id| open.open(id)).unwrap_or_default();
    Some(Message::Text { line: line.to_owned(), id, is_cancelled })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_all(messages: &[Value]) -> Requests {
        let lines: Vec<String> = messages.iter().map(Value::to_string).collect();
        let input = lines.join("\n");
        let (sender, messages) = sync_channel(MAX_WAITING);
        let open = OpenRequests::default();
        read_messages(input.as_bytes(), &open, &sender);
        Requests { messages, open }
    }

    fn cancel(id: &Value) -> Value {
        json!({"jsonrpc": "2.0", "method": CANCELLED, "params": {"requestId": id}})
    }

    #[test]
    fn cancelled_requests_have_no_turn_and_later_ones_of_their_id_have() {
        let request = |id: Value| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        let [first, second] = [json!("a"), json!(7)];
        let requests = read_all(&[
            cancel(&first),
            request(first.clone()),
            request(second.clone()),
            cancel(&second),
            cancel(&json!("unknown")),
            request(json!("c")),
        ]);
        let mut turns = Vec::new();
        while let Some(Message::Text { id: Some(id), .. }) = requests.next().unwrap() {
            assert!(!requests.close(&id), "{id}");
            turns.push(id);
        }
        assert_eq!(turns, [first, json!("c")]);
        assert!(requests.open.requests().is_empty());
    }

    #[test]
    fn request_that_is_cancelled_while_it_runs_is_known_to_be() {
        let requests = read_all(&[json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})]);
        let Some(Message::Text { is_cancelled, .. }) = requests.next().unwrap() else {
            panic!("no request");
        };
        assert!(!is_cancelled.load(Ordering::Relaxed));
        requests.open.cancel(&json!(1));
        assert!(is_cancelled.load(Ordering::Relaxed));
        assert!(requests.close(&json!(1)));
        assert!(!requests.close(&json!(1)));
    }
}
