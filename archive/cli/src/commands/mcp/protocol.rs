//! Requests and responses: JSON-RPC 2.0 by the revisions of the Model Context Protocol.
//!
//! In: a line. Out: the response, if the line is a request. Revisions up to 2025-11-25 begin with
//! the request `initialize`; later ones name their version in each request, under `_meta`. Both
//! are answered at any time, since nothing depends on an earlier request.
//!
//! **Source**: <https://modelcontextprotocol.io/specification/2026-07-28> and
//! <https://modelcontextprotocol.io/specification/2025-11-25>.

use serde_json::{Map, Value, json};

use super::lines::MAX_LINE;
use super::{Archives, INSTRUCTIONS, answers, tools};

/// The revisions without a handshake, and those with one, each the newest first. That of 2025-03-26
/// alone has batches, and is not offered.
const STATELESS: [&str; 1] = ["2026-07-28"];
const WITH_HANDSHAKE: [&str; 3] = ["2025-11-25", "2025-06-18", "2024-11-05"];

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// Milliseconds for which the list of tools may be kept: it changes with the program alone.
const LIST_LIFETIME: u64 = 3_600_000;

/// An error of JSON-RPC: a request that no server could answer, or not this one.
#[derive(Debug)]
struct RpcError {
    code: i64,
    message: String,
    data: Option<Value>,
}

impl RpcError {
    const PARSE: i64 = -32_700;
    const INVALID_REQUEST: i64 = -32_600;
    const METHOD_NOT_FOUND: i64 = -32_601;
    const INVALID_PARAMS: i64 = -32_602;
    const UNSUPPORTED_VERSION: i64 = -32_022;

    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }
}

/// Answers a message; `None` for notifications, which have no response.
pub(super) fn respond(archives: &Archives, line: &[u8]) -> Option<Value> {
    let message: Value = match serde_json::from_slice(line) {
        Ok(message) => message,
        Err(error) => {
            let error = RpcError::new(RpcError::PARSE, format!("the line is not JSON: {error}"));
            return Some(failed(&Value::Null, error));
        }
    };
    let id = message.get("id").unwrap_or(&Value::Null);
    let method = message.get("method").and_then(Value::as_str);
    let is_request = message.get("jsonrpc").and_then(Value::as_str) == Some("2.0");
    match method {
        Some(_) if is_request && message.get("id").is_none() => None,
        Some(method) if is_request && (id.is_string() || id.is_number()) => {
            Some(match answer(archives, method, message.get("params")) {
                Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
                Err(error) => failed(id, error),
            })
        }
        _ => {
            let reason = "a message is one JSON object with \"jsonrpc\": \"2.0\", a method, and \
                          for a request an id that is a string or a number";
            Some(failed(&Value::Null, RpcError::new(RpcError::INVALID_REQUEST, reason)))
        }
    }
}

/// Returns the response to a line beyond the limit.
pub(super) fn too_long() -> Value {
    let reason = format!("the line is longer than {MAX_LINE} bytes");
    failed(&Value::Null, RpcError::new(RpcError::INVALID_REQUEST, reason))
}

fn failed(id: &Value, error: RpcError) -> Value {
    let mut body = json!({ "code": error.code, "message": error.message });
    if let Some(data) = error.data {
        body["data"] = data;
    }
    json!({ "jsonrpc": "2.0", "id": id, "error": body })
}

fn answer(archives: &Archives, method: &str, params: Option<&Value>) -> Result<Value, RpcError> {
    let none = Map::new();
    let params = match params {
        Some(Value::Object(params)) => params,
        Some(_) => return Err(RpcError::invalid_params("params is not an object")),
        None => &none,
    };
    let is_stateless = is_stateless(params)?;
    let (mut result, lifetime) = match method {
        "initialize" => (initialized(params)?, None),
        "server/discover" => (discovered(), Some(LIST_LIFETIME)),
        "ping" => (json!({}), None),
        "tools/list" => (json!({ "tools": tools::list(archives) }), Some(LIST_LIFETIME)),
        "tools/call" => {
            let called = answers::call(archives, params);
            (called.map_err(RpcError::invalid_params)?, None)
        }
        _ => {
            let reason = format!("no method {}", Value::from(method));
            return Err(RpcError::new(RpcError::METHOD_NOT_FOUND, reason));
        }
    };
    if is_stateless {
        result["resultType"] = "complete".into();
        result["_meta"] = json!({ SERVER_KEY: server_info() });
        if let Some(lifetime) = lifetime {
            result["ttlMs"] = lifetime.into();
            result["cacheScope"] = "private".into();
        }
    }
    Ok(result)
}

/// Returns whether a request is of a revision without a handshake.
///
/// # Errors
///
/// For a version that is not known, and for a request that lacks what such a revision requires.
fn is_stateless(params: &Map<String, Value>) -> Result<bool, RpcError> {
    let meta = params.get("_meta");
    let field = |key: &str| meta.and_then(|meta| meta.get(key));
    let Some(version) = field(VERSION_KEY) else { return Ok(false) };
    if !STATELESS.iter().any(|known| version == known) {
        let data = json!({ "supported": versions(), "requested": version });
        let reason = "the server does not have this version of the protocol";
        let error = RpcError::new(RpcError::UNSUPPORTED_VERSION, reason);
        return Err(RpcError { data: Some(data), ..error });
    }
    if !field(CAPABILITIES_KEY).is_some_and(Value::is_object) {
        let reason = format!("params._meta has no object {CAPABILITIES_KEY}");
        return Err(RpcError::invalid_params(reason));
    }
    Ok(true)
}

/// Answers the handshake with the version that is asked for, or the newest that has one.
fn initialized(params: &Map<String, Value>) -> Result<Value, RpcError> {
    let Some(wanted) = params.get("protocolVersion").and_then(Value::as_str) else {
        return Err(RpcError::invalid_params("params.protocolVersion is missing or not a string"));
    };
    let [newest, ..] = WITH_HANDSHAKE;
    let version = WITH_HANDSHAKE.into_iter().find(|known| *known == wanted).unwrap_or(newest);
    Ok(json!({
        "protocolVersion": version,
        "capabilities": { "tools": {} },
        "serverInfo": server_info(),
        "instructions": INSTRUCTIONS,
    }))
}

fn discovered() -> Value {
    json!({
        "supportedVersions": versions(),
        "capabilities": { "tools": {} },
        "instructions": INSTRUCTIONS,
    })
}

fn versions() -> Vec<&'static str> {
    [&STATELESS[..], &WITH_HANDSHAKE[..]].concat()
}

fn server_info() -> Value {
    json!({ "name": "mmv-archive", "version": env!("CARGO_PKG_VERSION") })
}
