//! The reactions of a sender to each answer.

use std::time::{Duration, Instant};

use super::receiver::{Reaction, Receiver, Request};
use super::sender::{START, Sent, messages, printed, set, write_archive};

#[test]
fn all_samples_arrive_once_and_a_second_run_sends_nothing() {
    let sent = Sent::new(100, 500);
    let receiver = Receiver::start(|_, _| Reaction::Store);
    let output = sent.push(&receiver, &[]);
    assert!(output.status.success(), "{}", messages(&output));
    assert_eq!(printed(&output), "sent 50000 samples in 5 requests\n");
    let rows = receiver.stored();
    assert_eq!(rows.len(), 50_000);
    assert_eq!(set(rows.clone()).len(), 50_000);
    let (labels, time, value) = &rows[1];
    let expected = [("__name__", "mmv_shop_m0_total"), ("hostname", "web1.example.org")];
    let labels: Vec<(&str, &str)> = labels.iter().map(|(a, b)| (&**a, &**b)).collect();
    assert_eq!(labels, expected);
    assert_eq!((*time, f64::from_bits(*value)), ((START + 10) * 1_000, 1_000.0));
    let output = sent.push(&receiver, &[]);
    assert_eq!(printed(&output), "sent 0 samples in 0 requests\n");
    assert_eq!(receiver.stored().len(), 50_000);
    // What is new goes on from there, after a marker that the first archive ended.
    write_archive(&sent.archives().join("b"), 100, START + 5_000, 10);
    let output = sent.push(&receiver, &[]);
    assert!(output.status.success(), "{}", messages(&output));
    assert_eq!(printed(&output), "sent 1100 samples in 2 requests\n");
    let header = &receiver.requests()[0].header;
    for line in [
        "content-encoding: snappy",
        "content-type: application/x-protobuf",
        "x-prometheus-remote-write-version: 0.1.0",
    ] {
        assert!(header.contains(line), "{header}");
    }
}

#[test]
fn only_selected_metrics_are_sent() {
    let sent = Sent::new(100, 500);
    let receiver = Receiver::start(|_, _| Reaction::Store);
    let output = sent.push(&receiver, &["mmv.shop.m1", "mmv.shop.m9?"]);
    assert!(output.status.success(), "{}", messages(&output));
    assert_eq!(printed(&output), "sent 5500 samples in 1 requests\n");
}

#[test]
fn a_request_without_an_answer_goes_again_byte_for_byte() {
    for reaction in [
        Reaction::Answer(503, "", "not now"),
        Reaction::Answer(500, "", "broken"),
        Reaction::Answer(429, "Retry-After: 0", "slowly"),
        Reaction::Answer(429, "Retry-After: tomorrow", "slowly"),
        Reaction::Close,
        Reaction::StoreAndClose,
        Reaction::Hang,
        Reaction::Endless(503),
        Reaction::EndlessHeader,
    ] {
        let sent = Sent::new(100, 300);
        let of_script = reaction.clone();
        let receiver = Receiver::start(move |number, _| match number {
            1 | 3 => of_script.clone(),
            _ => Reaction::Store,
        });
        let output = sent.push(&receiver, &["--timeout", "1"]);
        assert!(output.status.success(), "{reaction:?}: {}", messages(&output));
        assert_eq!(set(receiver.stored()), sent.expected(), "{reaction:?}");
        let requests: Vec<Vec<u8>> =
            receiver.requests().into_iter().map(|request| request.body).collect();
        assert_eq!(requests.len(), 5, "{reaction:?}");
        assert!(requests[1] == requests[2] && requests[3] == requests[4], "{reaction:?}");
        let doubles = if matches!(reaction, Reaction::StoreAndClose) { 20_000 } else { 0 };
        assert_eq!(receiver.stored().len(), 30_000 + doubles, "{reaction:?}");
        assert!(messages(&output).contains("trying again"), "{}", messages(&output));
    }
}

#[test]
fn endless_answers_are_answers_and_cost_no_memory() {
    let sent = Sent::new(10, 10);
    let receiver = Receiver::start(|_, _| Reaction::Endless(404));
    let began = Instant::now();
    let output = sent.push(&receiver, &["--timeout", "30"]);
    assert_eq!(output.status.code(), Some(76), "{}", messages(&output));
    assert!(began.elapsed() < Duration::from_secs(20));
    assert!(output.stderr.len() < 2_000, "{}", messages(&output));
}

#[test]
fn a_receiver_that_asks_to_wait_is_waited_for() {
    let sent = Sent::new(10, 10);
    let receiver = Receiver::start(|number, _| match number {
        0 => Reaction::Answer(429, "Retry-After: 2", ""),
        _ => Reaction::Store,
    });
    let began = Instant::now();
    let output = sent.push(&receiver, &[]);
    assert!(output.status.success(), "{}", messages(&output));
    assert!(began.elapsed() >= Duration::from_secs(2));
}

#[test]
fn receiver_that_never_answers_is_given_up_without_loss() {
    let sent = Sent::new(10, 10);
    let receiver = Receiver::start(|number, _| match number {
        0..100 => Reaction::Answer(503, "", ""),
        _ => Reaction::Store,
    });
    let output = sent.push(&receiver, &["--retry-for", "1"]);
    assert_eq!(output.status.code(), Some(75), "{}", messages(&output));
    assert!(messages(&output).contains("gave up: 503"), "{}", messages(&output));
    let receiver = Receiver::start(|_, _| Reaction::Store);
    let other = sent.push(&receiver, &[]);
    assert_eq!(other.status.code(), Some(74), "the state is of another URL");
    assert!(messages(&other).contains("another --state"), "{}", messages(&other));
}

fn has(request: &Request, metric: &str) -> bool {
    request.rows().iter().any(|(labels, ..)| labels[0].1 == metric)
}

#[test]
fn of_a_refused_request_only_what_is_refused_alone_is_dropped() {
    let sent = Sent::new(100, 300);
    let receiver = Receiver::start(|_, request| {
        let bad = |(_, time, _): &(_, i64, _)| *time == (START + 50) * 1_000;
        let is_bad = has(request, "mmv_shop_m7_total")
            && request.rows().iter().any(|row| row.0[0].1 == "mmv_shop_m7_total" && bad(row));
        if is_bad { Reaction::Answer(400, "", "invalid sample\u{1b}[31m") } else { Reaction::Store }
    });
    let output = sent.push(&receiver, &[]);
    assert!(output.status.success(), "{}", messages(&output));
    assert!(printed(&output).starts_with("sent 29999 samples"), "{}", printed(&output));
    assert!(printed(&output).contains(", 1 refused"), "{}", printed(&output));
    let said = messages(&output);
    let expected = "web1: dropped mmv_shop_m7_total{hostname=\"web1.example.org\"} of \
                    2023-11-14T22:14:10Z: 400 invalid sample\\x1b[31m";
    assert!(said.contains(expected), "{said}");
    let stored: std::collections::HashSet<_> = receiver.stored().into_iter().collect();
    let missing = sent.expected().into_iter().filter(|row| !stored.contains(row));
    assert_eq!((missing.count(), receiver.stored().len()), (1, 29_999));
}

#[test]
fn refused_otlp_points_are_counted_and_not_repeated() {
    let sent = Sent::new(10, 10);
    // `partial_success`: `rejected_data_points` 3, `error_message` "no".
    let answer = "\n\u{6}\u{8}\u{3}\u{12}\u{2}no";
    let receiver = Receiver::start(move |_, _| Reaction::Answer(200, "", answer));
    let output = sent.push(&receiver, &["--protocol", "otlp"]);
    assert!(output.status.success(), "{}", messages(&output));
    assert_eq!(printed(&output).trim(), "sent 97 samples in 1 requests, 3 refused");
    assert!(messages(&output).contains("web1: the receiver refused 3 points: no"));
    let output = sent.push(&receiver, &["--protocol", "otlp"]);
    assert!(printed(&output).starts_with("sent 0 samples"), "{}", printed(&output));
}

#[test]
fn too_old_samples_are_held_until_the_receiver_takes_them() {
    for (status, text) in
        [(400, "out of bounds"), (500, "too old sample"), (400, "out of order sample")]
    {
        let sent = Sent::new(10, 2_000);
        let refuses = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let of_script = std::sync::Arc::clone(&refuses);
        let receiver = Receiver::start(move |number, _| {
            if number > 0 && of_script.load(std::sync::atomic::Ordering::Relaxed) {
                Reaction::Answer(status, "", text)
            } else {
                Reaction::Store
            }
        });
        let output = sent.push(&receiver, &[]);
        assert_eq!(output.status.code(), Some(75), "{}", messages(&output));
        let said = messages(&output);
        assert!(said.contains("out_of_order_time_window"), "{said}");
        assert!(said.contains("the archives of 1 of 1 hosts were not sent completely"), "{said}");
        assert_eq!(receiver.requests().len(), 2, "never tried for ever");
        refuses.store(false, std::sync::atomic::Ordering::Relaxed);
        let output = sent.push(&receiver, &[]);
        assert!(output.status.success(), "{}", messages(&output));
        assert_eq!(receiver.stored().len(), 20_000);
        assert_eq!(set(receiver.stored()), sent.expected());
    }
}

#[test]
fn what_is_too_old_is_dropped_on_request_and_counted() {
    let sent = Sent::new(10, 3_000);
    let limit = (START + 15_000) * 1_000;
    let receiver = Receiver::start(move |_, request| {
        if request.rows().iter().any(|(_, time, _)| *time < limit) {
            Reaction::Answer(400, "", "out of bounds")
        } else {
            Reaction::Store
        }
    });
    let output = sent.push(&receiver, &["--drop-too-old"]);
    assert!(output.status.success(), "{}", messages(&output));
    assert!(printed(&output).contains(", 15000 dropped as too old"), "{}", printed(&output));
    let expected: Vec<_> =
        sent.expected().into_iter().filter(|(_, time, _)| *time >= limit).collect();
    assert_eq!(set(receiver.stored()), expected);
    let said = messages(&output);
    assert!(said.contains("dropped 14") || said.contains("more samples"), "{said}");
}

#[test]
fn repeated_request_is_no_error_of_out_of_order_samples() {
    let sent = Sent::new(10, 3_000);
    let newest = std::sync::Mutex::new(std::collections::HashMap::new());
    // Prometheus without a window for samples that are out of order.
    let receiver = Receiver::start(move |number, request| {
        let mut newest = newest.lock().unwrap();
        if request
            .rows()
            .iter()
            .any(|(labels, time, _)| newest.get(labels).is_some_and(|last| time < last))
        {
            return Reaction::Answer(400, "", "out of order sample");
        }
        newest.extend(request.rows().into_iter().map(|(labels, time, _)| (labels, time)));
        if number == 1 { Reaction::StoreAndClose } else { Reaction::Store }
    });
    let output = sent.push(&receiver, &[]);
    assert!(output.status.success(), "{}", messages(&output));
    assert!(printed(&output).contains("10000 were there already"), "{}", printed(&output));
    assert_eq!(set(receiver.stored()), sent.expected());
}

#[test]
fn redirects_are_not_followed() {
    let sent = Sent::new(10, 10);
    let other = Receiver::start(|_, _| Reaction::Store);
    let location: &'static str = format!("Location: {}", other.url()).leak();
    for status in [301, 302, 303, 307, 308] {
        let receiver = Receiver::start(move |_, _| Reaction::Answer(status, location, ""));
        let _ = std::fs::remove_dir_all(sent.state());
        let output = sent.push(&receiver, &[]);
        assert_eq!(output.status.code(), Some(76), "{status}: {}", messages(&output));
        assert!(messages(&output).contains(&status.to_string()), "{}", messages(&output));
    }
    assert!(other.requests().is_empty());
}

#[test]
fn remote_write_2_0_requires_a_count_of_stored_samples() {
    let sent = Sent::new(10, 10);
    let receiver = Receiver::start(|_, _| Reaction::Answer(204, "", ""));
    let output = sent.push(&receiver, &["--protocol", "2.0"]);
    assert_eq!(output.status.code(), Some(76), "{}", messages(&output));
    assert!(messages(&output).contains("no count of stored samples"), "{}", messages(&output));
    let written = "X-Prometheus-Remote-Write-Samples-Written: 100";
    let receiver = Receiver::start(move |_, _| Reaction::Answer(204, written, ""));
    let _ = std::fs::remove_dir_all(sent.state());
    let output = sent.push(&receiver, &["--protocol", "2.0"]);
    assert!(output.status.success(), "{}", messages(&output));
    assert_eq!(printed(&output), "sent 100 samples in 1 requests\n");
    assert!(receiver.requests()[0].header.contains("io.prometheus.write.v2.request"));
}

#[test]
fn records_of_the_future_wait() {
    let sent = Sent::new(10, 10);
    let tomorrow = Timestamp::now() + 86_400;
    write_archive(&sent.archives().join("b"), 10, tomorrow, 10);
    let receiver = Receiver::start(|_, _| Reaction::Store);
    let output = sent.push(&receiver, &[]);
    assert_eq!(output.status.code(), Some(75), "{}", messages(&output));
    assert!(messages(&output).contains("later than this host's clock"), "{}", messages(&output));
    assert!(receiver.stored().iter().all(|(_, time, _)| *time < tomorrow * 1_000));
    assert_eq!(receiver.stored().len(), 110);
}

/// Seconds since 1970.
struct Timestamp;

impl Timestamp {
    fn now() -> i64 {
        let now = std::time::SystemTime::now();
        now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64
    }
}

#[test]
fn what_retention_deleted_is_counted_with_its_times() {
    let sent = Sent::new(10, 10);
    let receiver = Receiver::start(|_, _| Reaction::Store);
    assert!(sent.push(&receiver, &[]).status.success());
    for extension in ["0", "meta", "index"] {
        std::fs::remove_file(sent.archives().join("a").with_extension(extension)).unwrap();
    }
    write_archive(&sent.archives().join("c"), 10, START + 9_000, 10);
    let output = sent.push(&receiver, &[]);
    assert!(output.status.success(), "{}", messages(&output));
    let said = messages(&output);
    let expected = "web1: archives from 2023-11-14T22:14:50Z to 2023-11-15T00:43:20Z were deleted";
    assert!(said.contains(expected), "{said}");
    assert!(printed(&output).contains("1 gaps lost to retention"), "{}", printed(&output));
}

#[test]
fn damage_costs_its_records_and_the_rest_is_sent() {
    let sent = Sent::new(10, 100);
    let volume = sent.archives().join("a.0");
    let mut bytes = std::fs::read(&volume).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 40].fill(0xff);
    std::fs::write(&volume, bytes).unwrap();
    write_archive(&sent.archives().join("b"), 10, START + 5_000, 100);
    let receiver = Receiver::start(|_, _| Reaction::Store);
    let output = sent.push(&receiver, &[]);
    assert_eq!(output.status.code(), Some(65), "{}", messages(&output));
    let stored = receiver.stored().len();
    assert!((1_900..2_040).contains(&stored), "{stored}");
    assert!(messages(&output).contains("a.0"), "{}", messages(&output));
}

#[test]
fn secrets_are_sent_from_files_and_never_shown() {
    let sent = Sent::new(10, 10);
    let file = sent.place.path().join("token");
    std::fs::write(&file, "s3cr3t\n").unwrap();
    let receiver = Receiver::start(|number, _| match number {
        0 => Reaction::Store,
        _ => Reaction::Answer(401, "", "no"),
    });
    let output = sent.push(&receiver, &["--bearer-token-file", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", messages(&output));
    assert!(receiver.requests()[0].header.contains("authorization: bearer s3cr3t"));
    for (url, options, status) in [
        ("http://user:s3cr3t@127.0.0.1:9/", &[][..], 2),
        ("http://127.0.0.1:9/", &["--bearer-token-file", "none"], 74),
        ("http://127.0.0.1:9/", &["--user", "me"], 2),
    ] {
        let _ = std::fs::remove_dir_all(sent.state());
        let output = sent.push_to(url, options);
        assert_eq!(output.status.code(), Some(status), "{url}: {}", messages(&output));
        assert!(status != 2 || !messages(&output).contains("s3cr3t@127"), "{}", messages(&output));
    }
}

#[test]
fn what_is_logged_later_is_followed_and_a_signal_ends_it() {
    let sent = Sent::new(10, 10);
    let receiver = Receiver::start(|_, _| Reaction::Store);
    let mut child = sent.start(&receiver.url(), &["--follow"]);
    let wait_for = |rows: usize| {
        let until = Instant::now() + Duration::from_secs(20);
        while receiver.stored().len() < rows {
            assert!(Instant::now() < until, "{} of {rows}", receiver.stored().len());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for(100);
    write_archive(&sent.archives().join("b"), 10, START + 1_000, 10);
    wait_for(210);
    let signalled =
        std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(signalled.unwrap().success());
    assert!(child.wait().unwrap().success());
    // The end was stored: nothing goes again.
    let output = sent.push(&receiver, &[]);
    assert_eq!(printed(&output), "sent 0 samples in 0 requests\n", "{}", messages(&output));
    assert_eq!(receiver.stored().len(), 210);
}

#[test]
fn a_killed_sender_sends_the_same_requests_again() {
    let sent = Sent::new(100, 2_000);
    let receiver = Receiver::start(|number, _| {
        std::thread::sleep(Duration::from_millis(5));
        if number % 7 == 3 { Reaction::StoreAndClose } else { Reaction::Store }
    });
    let kills = if std::env::var_os("MMV_LONG").is_some() { 100 } else { 20 };
    let mut killed = 0;
    for kill in 0..kills {
        let mut child = sent.start(&receiver.url(), &[]);
        std::thread::sleep(Duration::from_millis(40 + kill * 7 % 60));
        killed += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let output = sent.push(&receiver, &[]);
    assert!(output.status.success(), "{}", messages(&output));
    assert!(killed > 3, "{killed} kills");
    assert_eq!(set(receiver.stored()), sent.expected());
    // Each request that has a sample of another one is that one.
    let mut bodies: Vec<Vec<u8>> =
        receiver.requests().into_iter().map(|request| request.body).collect();
    bodies.sort();
    bodies.dedup();
    let samples: usize = bodies
        .iter()
        .map(|body| Request { header: String::new(), body: body.clone() }.rows().len())
        .sum();
    assert_eq!(samples, 200_000);
}

#[test]
fn histograms_that_a_protocol_does_not_have_are_refused_at_once() {
    let sent = Sent::new(1, 1);
    let receiver = Receiver::start(|_, _| Reaction::Store);
    let output = sent.push(&receiver, &["--histograms", "custom"]);
    assert_eq!(output.status.code(), Some(2), "{}", messages(&output));
    assert!(messages(&output).contains("use --protocol 2.0"), "{}", messages(&output));
    assert_eq!(receiver.requests().len(), 0);
}
