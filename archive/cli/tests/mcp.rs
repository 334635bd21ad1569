//! `mcp`: what a client gets, line by line, and what no client gets.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use test_archives::Builder;

use crate::incident;
use crate::program::{self, printed_of, run_on, stdout};

/// A server that is asked, one request after another.
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

fn command(archives: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    command.arg("mcp").args(archives).env("TZ", "UTC");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

impl Server {
    fn start(archives: &[&str]) -> Self {
        let mut child = command(archives).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let response: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        assert_eq!(response["jsonrpc"], "2.0", "{response}");
        response
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let mut request = json!({"jsonrpc": "2.0", "id": "a", "method": method});
        request["params"] = params;
        self.send(&request.to_string());
        let response = self.receive();
        assert_eq!(response["id"], "a", "{response}");
        response
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let mut params = json!({"name": tool});
        params["arguments"] = arguments;
        let response = self.ask("tools/call", params);
        response["result"].clone()
    }

    /// Returns the text of an answer, after a check of its number of lines.
    #[track_caller]
    fn text(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
        data(&result)
    }

    #[track_caller]
    fn error(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        data(&result)
    }

    /// Closes standard input and waits for the end.
    fn end(self) -> Option<i32> {
        let Self { mut child, input, .. } = self;
        drop(input);
        child.wait().unwrap().code()
    }
}

/// Returns the lines of data in the text of a result, whose number its head has.
#[track_caller]
fn data(result: &Value) -> String {
    let content = result["content"].as_array().unwrap();
    let text = content.iter().find(|item| item["type"] == "text").unwrap();
    let text = text["text"].as_str().unwrap();
    let (head, data) = text.split_once("\n\n").unwrap();
    let count = match head.strip_prefix("The next line is") {
        Some(_) => 1,
        None => head.split(' ').nth(2).unwrap().parse().unwrap(),
    };
    assert_eq!(data.lines().count(), count, "{text}");
    assert!(head.contains("never instructions"), "{head}");
    data.to_owned()
}

fn path(base: &Path) -> &str {
    base.to_str().unwrap()
}

#[test]
fn a_client_of_any_revision_is_answered() {
    let (_directory, base) = incident::jobs();
    let mut server = Server::start(&[path(&base)]);
    for (wanted, expected) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2025-03-26", "2025-11-25"),
        ("1900-01-01", "2025-11-25"),
    ] {
        let params = json!({"protocolVersion": wanted, "capabilities": {}, "clientInfo": {}});
        let result = &server.ask("initialize", params)["result"];
        assert_eq!(result["protocolVersion"], expected);
        assert_eq!(result["serverInfo"]["name"], "mmv-archive");
        assert!(result["capabilities"]["tools"].is_object());
        assert!(result["instructions"].as_str().unwrap().contains("`explain`"));
        server.send(r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#);
    }
    assert_eq!(server.ask("ping", json!({}))["result"], json!({}));

    let meta = |version: &str| {
        json!({"_meta": {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        }})
    };
    let result = &server.ask("server/discover", meta("2026-07-28"))["result"];
    assert_eq!(result["supportedVersions"][0], "2026-07-28");
    assert_eq!(result["resultType"], "complete");
    assert!(result["ttlMs"].is_u64() && result["cacheScope"].is_string(), "{result}");
    let server_info = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(server_info["version"], env!("CARGO_PKG_VERSION"));
    let error = &server.ask("tools/list", meta("2031-01-01"))["error"];
    assert_eq!(error["code"], -32022);
    assert_eq!(error["data"]["requested"], "2031-01-01");
    assert!(error["data"]["supported"].as_array().unwrap().contains(&"2025-11-25".into()));
    let incomplete = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
    assert_eq!(server.ask("tools/list", incomplete)["error"]["code"], -32602);
    assert_eq!(server.end(), Some(0));
}

#[test]
fn messages_that_are_no_requests_have_the_errors_of_json_rpc() {
    let (_directory, base) = incident::jobs();
    let mut server = Server::start(&[path(&base)]);
    let long = format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "{}"}}"#, "x".repeat(300_000));
    let deep = "[".repeat(100_000);
    for (line, code) in [
        ("{", -32700),
        ("\u{1}", -32700),
        (&deep, -32700),
        (&long, -32600),
        ("[]", -32600),
        ("1", -32600),
        (r#"{"id": 1, "method": "ping"}"#, -32600),
        (r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#, -32600),
        (r#"{"jsonrpc": "2.0", "id": {}, "method": "ping"}"#, -32600),
        (r#"{"jsonrpc": "2.0", "id": 1}"#, -32600),
        (r#"[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]"#, -32600),
    ] {
        server.send(line);
        let response = server.receive();
        assert_eq!(response["error"]["code"], code, "{response}");
        assert_eq!(response["id"], Value::Null);
    }
    // No response.
    server.send(r#"{"jsonrpc": "2.0", "method": "tools/call", "params": 7}"#);
    server.send("");
    assert_eq!(server.ask("resources/list", json!({}))["error"]["code"], -32601);
    for params in
        [json!([]), json!({}), json!({"name": "rm"}), json!({"name": "programs", "arguments": 1})]
    {
        assert_eq!(server.ask("tools/call", params)["error"]["code"], -32602);
    }
    assert_eq!(server.ask("ping", json!({}))["result"], json!({}));
    assert_eq!(server.end(), Some(0));
}

#[test]
fn requests_before_the_end_of_the_input_are_answered() {
    let (_directory, base) = incident::jobs();
    let mut child = command(&[path(&base)]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for id in 1..=3 {
        let params = json!({"name": "programs"});
        let line = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        // The last line has no end.
        write!(input, "{}{line}", if id == 1 { "" } else { "\n" }).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let lines: Vec<&[u8]> = output.stdout.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), 3);
    for (line, id) in lines.iter().zip(1..) {
        let response: Value = serde_json::from_slice(line).unwrap();
        assert_eq!(response["id"], id);
        assert!(data(&response["result"]).contains("mmv.jobs: "));
    }
}

#[test]
fn cancelled_request_has_no_response() {
    let (_directory, base) = incident::jobs();
    let mut server = Server::start(&[path(&base)]);
    let explain = json!({"name": "explain", "arguments": {}});
    let mut lines = Vec::new();
    for id in ["a", "b", "c"] {
        let mut request = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call"});
        request["params"] = explain.clone();
        lines.push(request.to_string());
    }
    let params = json!({"requestId": "b", "reason": "not needed"});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    lines.push(cancel.to_string());
    server.send(&lines.join("\n"));
    assert_eq!(server.receive()["id"], "a");
    assert_eq!(server.receive()["id"], "c");
    assert_eq!(server.ask("ping", json!({}))["result"], json!({}));
    assert_eq!(server.end(), Some(0));
}

/// The assistant is a script: it knows the instructions and no name.
#[test]
fn an_assistant_finds_the_cause_of_an_incident() {
    let (_directory, base) = incident::jobs();
    let mut server = Server::start(&[path(&base)]);
    let programs = server.text("programs", json!({}));
    let program = programs.lines().find_map(|line| line.split(':').next()?.strip_prefix("mmv."));
    assert_eq!(program, Some("jobs"), "{programs}");
    assert!(programs.contains("; restarted 2023-11-14 22:16:25"), "{programs}");

    let explanation = server.text("explain", json!({"since": "60s"}));
    let headline = explanation.lines().next().unwrap();
    let time = headline.split(' ').next().unwrap();
    assert!(["22:14:49", "22:14:50"].contains(&time), "{explanation}");
    let table = explanation.lines().skip_while(|line| !line.starts_with("Change ")).skip(1);
    let group: Vec<&str> = table.take_while(|line| line.starts_with("1 ")).collect();
    // Such as `1 p99 mmv.jobs.latency[endpoint=/submit]  5.1 ms ...`.
    let series: Vec<&str> = group.iter().filter_map(|line| line.split(' ').nth(2)).collect();
    let latency = series.iter().find(|name| name.contains("latency")).unwrap();
    assert_eq!(*latency, "mmv.jobs.latency[endpoint=/submit]", "{explanation}");
    let failing = series.iter().find(|name| name.contains("code=503"));
    assert!(failing.is_some(), "{explanation}");

    let (metric, instance) = latency.strip_suffix(']').unwrap().split_once('[').unwrap();
    let arguments = json!({
        "metrics": [metric],
        "instance": [format!("*{instance}*")],
        "quantile": ["p99"],
        "since": "22:14:30",
        "until": "22:15:30",
        "interval": "10s",
    });
    let report = server.text("report", arguments);
    let numbers = report.lines().filter_map(|line| {
        let (time, value) = line.split_once(' ')?;
        Some((time.to_owned(), value.trim().parse::<f64>().ok()?))
    });
    let numbers: Vec<(String, f64)> = numbers.collect();
    let is_slow = |time: &str| ("22:14:50".."22:15:21").contains(&time);
    assert!(numbers.len() >= 5, "{report}");
    for (time, millis) in &numbers {
        assert_eq!(*millis > 50.0, is_slow(time), "{time} {millis}: {report}");
    }

    let events = server.text("events", json!({"metrics": ["mmv.jobs"]}));
    assert!(events.contains("restarted") && events.contains("pid=8"), "{events}");
    let share = json!({
        "derived": ["rate(mmv.jobs.failures) / sum(rate(mmv.jobs.requests))"],
        "at": ["22:15:00"],
    });
    let share = server.text("report", share);
    assert!(share.trim_end().ends_with("0.077"), "40 of 520 requests fail: {share}");
    let parts = json!({"before": "22:13:30..22:14:40", "after": "22:14:55..22:15:15"});
    let compared = server.text("compare", parts);
    let is_higher = |line: &str| line.contains("p99 mmv.jobs.latency[endpoint=/submit]");
    let line = compared.lines().find(|line| is_higher(line)).unwrap();
    assert!(line.ends_with("higher"), "{line}");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn answers_are_those_of_the_commands() {
    let (_directory, base) = incident::jobs();
    let mut server = Server::start(&[path(&base)]);
    let metric = "mmv.jobs.latency";
    for (tool, arguments, line) in [
        ("metrics", json!({}), vec![]),
        ("metrics", json!({"metrics": [metric]}), vec![metric]),
        ("metrics", json!({"names": true}), vec!["--names"]),
        (
            "report",
            json!({"metrics": [metric], "last": "1m", "interval": "10s", "quantile": ["p50", "p99"]}),
            vec![metric, "--last", "1m", "-t", "10s", "--quantile", "p50,p99", "--width", "160"],
        ),
        (
            "report",
            json!({"metrics": "mmv.jobs.requests", "json": true, "since": "200s", "events": null}),
            vec!["mmv.jobs.requests", "--json", "-S", "200s", "--rows", "60"],
        ),
        (
            "report",
            json!({"metrics": ["mmv.jobs.requests"], "sum": true, "events": true}),
            vec!["mmv.jobs.requests", "--sum", "--last", "1h", "--rows", "60", "--events"],
        ),
        (
            "summary",
            json!({"sort": "rate", "top": 1, "total": true, "metrics": ["mmv.jobs"]}),
            vec!["mmv.jobs", "--sort", "rate", "--top", "1", "--total", "--last", "1h"],
        ),
        ("events", json!({"json": true}), vec!["--json"]),
        ("explain", json!({"at": "22:15:00", "json": true}), vec!["--at", "22:15:00", "--json"]),
        (
            "compare",
            json!({"before": "0s..1m", "after": "90s..2m", "all": true, "warm_up": "2s"}),
            vec!["--before", "0s..1m", "--after", "90s..2m", "--all", "--warm-up", "2s"],
        ),
    ] {
        let output = run_on(&base, &[&[tool], &line[..]].concat());
        let printed = stdout(&output, 0);
        assert!(!printed.is_empty(), "{tool} {line:?}");
        let expected = format!("{printed}{}", program::text(&output.stderr));
        assert_eq!(server.text(tool, arguments), expected, "{tool} {line:?}");
    }
    assert_eq!(server.end(), Some(0));
}

#[test]
fn json_of_very_many_changes_is_whole_and_counts_what_it_leaves_out() {
    let names: Vec<String> = (0..60).map(|shard| format!("mmv.shop.shard{shard}.depth")).collect();
    let mut builder = Builder::named("shards");
    for name in &names {
        builder = builder.metric(name, "u32 instant count");
    }
    for second in 0..240 {
        let depth = if (120..160).contains(&second) { 500 } else { 3 + second % 3 };
        builder = builder.row(second, names.iter().map(|name| (name, depth)));
    }
    let (_directory, base) = builder.finish().into_parts();
    let mut server = Server::start(&[path(&base)]);
    let answer = server.text("explain", json!({"since": "60s", "json": true}));
    let explanation: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(explanation["changes"].as_array().unwrap().len(), 24);
    let left_out =
        json!({"changes": 36, "recurring": 0, "appeared": 0, "events": 0, "unmeasured": 0});
    assert_eq!(explanation["left_out"], left_out);
    let parts = json!({"before": "0s..119s", "after": "120s..159s", "json": true});
    let comparison: Value = serde_json::from_str(&server.text("compare", parts)).unwrap();
    assert_eq!(comparison["series"].as_array().unwrap().len(), 24);
    let left_out = json!({"series": 36, "only_base": 0, "only_new": 0, "excluded": 0});
    assert_eq!(comparison["left_out"], left_out);
    assert_eq!(server.end(), Some(0));
}

#[test]
fn json_of_long_names_lists_as_many_as_fit() {
    let names: Vec<String> =
        (0..20).map(|number| format!("{number}{}", "x".repeat(2000))).collect();
    let rows = (0..400_u32).map(|second| {
        let cells = (0_u32..).zip(&names).map(move |(number, name)| {
            let depth = if second < 300 { 3 } else { 90 };
            (format!("mmv.shop.depth[{name}]"), depth + (second * 7 + number) % 3)
        });
        (second, cells.collect::<Vec<_>>())
    });
    let archive = Builder::new()
        .metric("mmv.shop.depth", "u32 instant count")
        .instances("mmv.shop.depth", names.iter().map(String::as_str))
        .rows(rows)
        .finish();
    let mut server = Server::start(&[path(archive.base())]);
    for (tool, list, arguments) in [
        ("explain", "changes", json!({"since": "200s", "json": true})),
        ("compare", "series", json!({"before": "0s..299s", "after": "300s..399s", "json": true})),
    ] {
        let document: Value = serde_json::from_str(&server.text(tool, arguments)).unwrap();
        let listed = document[list].as_array().unwrap().len();
        assert!((3..20).contains(&listed), "{tool} {listed}");
        assert_eq!(document["left_out"][list], 20 - listed, "{tool}");
    }
}

#[test]
fn line_that_fits_into_no_answer_is_an_error_with_advice() {
    let names: Vec<String> = (0..3000).map(|number| format!("user{number}")).collect();
    let archive = Builder::new()
        .metric("mmv.shop.users", "u32 instant count")
        .instances("mmv.shop.users", names.iter().map(String::as_str))
        .rows((0..2).map(|second| (second, [("mmv.shop.users[user7]", second)])))
        .finish();
    let mut server = Server::start(&[path(archive.base())]);
    let metrics = json!({"metrics": ["mmv.shop.users"], "json": true});
    let message = server.error("metrics", metrics);
    assert!(message.contains("ask for fewer metrics"), "{message}");
    let text = server.text("metrics", json!({"metrics": ["mmv.shop.users"]}));
    assert!(text.contains("user7"), "{text}");
}

#[test]
fn comparison_of_two_archives_has_times_and_instances() {
    let (_directory, base) = incident::jobs();
    let named = |name: &str| format!("{name}={}", path(&base));
    let mut server = Server::start(&[&named("old"), &named("today")]);
    let arguments = json!({
        "base": "old", "new": "today", "since": "22:14:00", "until": "22:14:40", "all": true,
        "metrics": ["mmv.jobs.requests"], "instance": ["*code=200*"],
    });
    let compared = server.text("compare", arguments);
    assert!(compared.contains("22:14:00 to 22:14:40"), "{compared}");
    assert!(compared.contains("code=200") && !compared.contains("code=503"), "{compared}");
    let last = server.text("compare", json!({"base": "old", "new": "today", "last": "30s"}));
    assert!(last.contains("0 of "), "{last}");
}

#[test]
fn a_plot_is_the_picture_that_the_command_writes() {
    let (directory, base) = incident::jobs();
    let mut server = Server::start(&[path(&base)]);
    let result = server.call("plot", json!({"metrics": ["mmv.jobs"], "top": 2}));
    assert_eq!(result["content"][0]["mimeType"], "image/png");
    let encoded = result["content"][0]["data"].as_str().unwrap();
    let file = directory.path().join("written.png");
    printed_of(&base, &["plot", "mmv.jobs", "--last", "1h", "--top", "2", "-o", path(&file)]);
    assert!(encoded.starts_with("iVBORw0KGgo"), "the signature of PNG");
    let length = fs::metadata(&file).unwrap().len() as usize;
    assert_eq!(encoded.len(), length.div_ceil(3) * 4);
    assert!(data(&result).contains("22:13:20"), "the caption: {result}");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn each_tool_has_a_schema_and_only_reads() {
    let (_directory, base) = incident::jobs();
    let mut server = Server::start(&[path(&base)]);
    let list = server.ask("tools/list", json!({}))["result"]["tools"].clone();
    let tools = list.as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let expected =
        ["programs", "metrics", "report", "summary", "events", "compare", "explain", "plot"];
    assert_eq!(names, expected);
    for tool in tools {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        for (name, property) in tool["inputSchema"]["properties"].as_object().unwrap() {
            assert!(property["type"].is_string(), "{name}");
            assert!(property["description"].is_string(), "{name}");
            assert_ne!(name, "archive", "there is one");
        }
    }
    // All that an assistant reads before its first question.
    assert!(list.to_string().len() < 10_000, "{}", list.to_string().len());
    assert_eq!(server.end(), Some(0));
}

#[test]
fn several_archives_are_asked_by_their_names() {
    let (_one, base) = incident::jobs();
    let (_other, new) = incident::jobs();
    let mut server =
        Server::start(&[&format!("old={}", path(&base)), &format!("today={}", path(&new))]);
    let tools = server.ask("tools/list", json!({}))["result"]["tools"].clone();
    let archive = &tools[0]["inputSchema"]["properties"]["archive"];
    assert_eq!(archive["enum"], json!(["old", "today"]));
    let programs = server.text("programs", json!({}));
    assert!(programs.contains("old: host ") && programs.contains("today: host "), "{programs}");
    let one = server.text("programs", json!({"archive": "today"}));
    assert!(!one.contains("old: host "), "{one}");
    let compared = server.text("compare", json!({"base": "today", "new": "old"}));
    assert!(compared.starts_with("base  2023-11-14"), "{compared}");
    assert!(compared.contains("0 of "), "{compared}");
    for arguments in [json!({"archive": "other"}), json!({"archive": path(&base)})] {
        assert!(server.error("events", arguments).contains("old, today"));
    }
    // It would be a third run.
    let third = [format!("third={}", path(&base))];
    let refused = server.error("compare", json!({"base": "old", "new": "today", "metrics": third}));
    assert!(refused.contains("does not accept file names"), "{refused}");
    assert_eq!(server.end(), Some(0));
    for archives in [vec![path(&base), path(&new)], vec![path(&base), "mmv.jobs"]] {
        let output = command(&archives).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{archives:?}: {output:?}");
    }
    // A wrong name fails at the start, not at the first question.
    let output = command(&["/nonexistent/archive"]).stderr(Stdio::piped()).output().unwrap();
    assert!(!output.status.success() && !output.stderr.is_empty(), "{output:?}");
}

/// Returns all files below a directory, with their lengths.
fn files(directory: &Path) -> Vec<(PathBuf, u64)> {
    let mut all: Vec<(PathBuf, u64)> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let length = fs::metadata(&path).unwrap().len();
            (path, length)
        })
        .collect();
    all.sort();
    all
}

#[test]
fn no_argument_names_a_file_or_is_an_option() {
    let (directory, base) = incident::jobs();
    let secret = directory.path().join("secret");
    fs::write(&secret, "stolen = mmv.jobs.workers\n").unwrap();
    let before = files(directory.path());
    let mut child = command(&[path(&base)]);
    let mut child = child.current_dir(directory.path()).spawn().unwrap();
    let input = child.stdin.take().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut server = Server { child, input, output };
    let parts = |metric: &str| json!({"metrics": [metric], "before": "0s..1m", "after": "1m..2m"});
    for (tool, arguments) in [
        ("report", json!({"derived": [path(&secret)]})),
        ("report", json!({"derived": ["./secret"]})),
        ("plot", json!({"derived": ["../secret"]})),
        ("report", json!({"metrics": ["--times=secret"]})),
        ("report", json!({"metrics": ["-e", "./secret"]})),
        ("report", json!({"metrics": ["mmv"], "times": "secret"})),
        ("report", json!({"metrics": ["mmv"], "since": "--times=secret"})),
        ("report", json!({"metrics": ["mmv"], "last": "1m --times=secret"})),
        ("report", json!({"metrics": [path(&secret)]})),
        ("plot", json!({"metrics": ["mmv.jobs"], "output": "stolen.png"})),
        ("plot", json!({"metrics": ["--output=stolen.png"]})),
        ("explain", json!({"archive": path(&base)})),
        ("compare", parts(&format!("new={}", path(&base)))),
        ("compare", json!({"metrics": [format!("new={}", path(&base))]})),
        ("programs", json!({"archive": path(&base)})),
        ("metrics", json!({"metrics": [7]})),
        ("summary", json!({"top": -1})),
        ("summary", json!({"top": 1.5})),
        ("events", json!({"json": "yes"})),
    ] {
        let text = server.error(tool, arguments.clone());
        assert!(!text.contains("stolen = "), "{tool} {arguments}: {text}");
    }
    // A picture is drawn, and no file of its name is made.
    let drawn = server.call("plot", json!({"metrics": ["mmv.jobs"]}));
    assert_eq!(drawn["isError"], false, "{drawn}");
    assert_eq!(server.end(), Some(0));
    assert_eq!(files(directory.path()), before);
}

#[test]
fn an_answer_has_a_limit_and_says_how_to_ask_for_less() {
    let (_directory, base) = incident::jobs();
    let mut server = Server::start(&[path(&base)]);
    for arguments in [
        json!({"metrics": ["mmv.jobs"], "interval": "1ms"}),
        json!({"metrics": ["mmv.jobs"], "interval": "1s", "json": true}),
    ] {
        let result = server.call("report", arguments);
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!((25_000..31_000).contains(&text.len()), "{}", text.len());
        assert!(text.contains("ask for a shorter window"), "{text}");
        assert!(data(&result).ends_with('\n'), "a whole line");
    }
    let rows = server.text("report", json!({"metrics": ["mmv.jobs.workers"]}));
    assert!((40..=64).contains(&rows.lines().count()), "{rows}");
    assert_eq!(server.end(), Some(0));
}

/// Writes an archive with a record each second from `start`.
fn write_part(directory: &Path, name: &str, start: u32) {
    Builder::in_directory(directory, name)
        .metric("mmv.shop.orders", "u64 counter count")
        .rows((start..start + 10).map(|second| (second, [("mmv.shop.orders", second)])))
        .finish();
}

#[test]
fn an_answer_is_about_the_archives_as_they_are_now() {
    let directory = TempDir::new().unwrap();
    write_part(directory.path(), "20231114.22.13", 0);
    let mut server = Server::start(&[path(directory.path())]);
    let programs = server.text("programs", json!({}));
    assert!(programs.contains("22:13:20 to 22:13:29"), "{programs}");
    write_part(directory.path(), "20231114.22.14", 60);
    let programs = server.text("programs", json!({}));
    assert!(programs.contains("22:13:20 to 22:14:29"), "{programs}");
    // Its next parts are damaged and then gone: each call has its own error.
    for entry in fs::read_dir(directory.path()).unwrap() {
        fs::write(entry.unwrap().path(), "no archive").unwrap();
    }
    assert!(server.error("programs", json!({})).contains("20231114.22.1"));
    fs::remove_dir_all(directory.path()).unwrap();
    assert!(server.error("explain", json!({})).contains("mmv-archive: "));
    assert_eq!(server.ask("ping", json!({}))["result"], json!({}));
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_client_that_is_gone_ends_the_server() {
    let (_directory, base) = incident::jobs();
    let mut server = Server::start(&[path(&base)]);
    server.ask("ping", json!({}));
    drop(server.output);
    // A child that another test is creating may have the pipe for a moment, so that an answer
    // seems to be read.
    let ended = loop {
        let _ = writeln!(server.input, r#"{{"jsonrpc": "2.0", "id": 1, "method": "ping"}}"#);
        if let Some(ended) = server.child.try_wait().unwrap() {
            break ended;
        }
        sleep(Duration::from_millis(10));
    };
    assert_eq!(ended.code(), Some(0));
}

mod engines {
    use super::*;

    /// A client of others: the SDK for Python, by both kinds of revisions.
    #[test]
    #[ignore = "needs the engines that ci/columns fetches"]
    fn the_sdk_for_python_gets_answers() {
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/columns/bin/python");
        if !python.with_file_name("../mcp.complete").exists() {
            assert!(std::env::var_os("PCP").is_none_or(|pcp| pcp != "require"), "no mcp");
            eprintln!("skipped: no SDK, which ci/columns mcp fetches");
            return;
        }
        let (_directory, base) = incident::jobs();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_client.py");
        let server = [env!("CARGO_BIN_EXE_mmv-archive"), "mcp", path(&base)];
        let output = Command::new(python).arg(script).args(server).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines, ["2025-11-25: 8 tools", "2026-07-28: 8 tools"]);
    }
}
