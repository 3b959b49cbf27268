//! The load test in the box, against true servers and against some that do wrong.

mod fake;

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use self::fake::{Fake, ok};
use super::serve::Server;
use super::{Place, failed, stderr};
use crate::certificates::Authority;

/// Long enough for anything that is not stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that listens in every way.
fn serve() -> Server {
    let place = Place::new();
    let listen = ["--listen", "127.0.0.1:0", "--listen", "unix:http.sock"];
    let redis = ["--redis-listen", "127.0.0.1:0", "--redis-listen", "unix:redis.sock"];
    Server::start_in(place, &[listen, redis].concat())
}

impl Server {
    fn http(&self) -> String {
        format!("http://{}", self.address)
    }

    fn redis(&self) -> String {
        let urls = self.greeting["redis_urls"].as_str().unwrap();
        urls.split(' ').find(|url| url.starts_with("redis")).unwrap().to_owned()
    }

    fn socket(&self, name: &str) -> String {
        format!("unix:{}", self.place.path().join(name).display())
    }
}

/// Runs a bench, and returns its report.
#[track_caller]
fn report(place: &Place, args: &[&str]) -> (Option<i32>, Value) {
    let output = place.run(&[&["bench", "--json"], args].concat());
    let json = serde_json::from_slice(&output.stdout);
    let json = json.unwrap_or_else(|_| panic!("{args:?} is no JSON: {}", stderr(&output)));
    (output.status.code(), json)
}

/// Runs a bench that must pass, and returns its report.
#[track_caller]
fn passes(place: &Place, args: &[&str]) -> Value {
    let (code, report) = report(place, args);
    assert_eq!(code, Some(0), "{args:?}: {report:#}");
    assert_eq!(report["passed"], true);
    report
}

#[test]
fn every_protocol_takes_exactly_the_keys_that_are_wanted() {
    let (server, place) = (serve(), Place::new());
    let [http, redis] = [server.http(), server.redis()];
    let [http_socket, redis_socket] = ["http.sock", "redis.sock"].map(|name| server.socket(name));
    let mut seen = BTreeSet::new();
    let cases: &[(&[&str], u64, u64)] = &[
        (&[&http, "--keys", "2000"], 2_000, 2_000),
        (&[&http_socket, "--keys", "500", "--connections", "3"], 500, 500),
        (&[&http, "--protocol", "http-batch", "--count", "300", "--keys", "2000"], 2_000, 7),
        // Answers of this length come piece by piece.
        (&[&http, "--protocol", "http-batch", "--count", "20000", "--keys", "50000"], 50_000, 3),
        #[cfg(feature = "grpc")]
        (&[&http, "--protocol", "grpc", "--keys", "300", "--connections", "4"], 300, 300),
        #[cfg(feature = "grpc")]
        (&[&http, "--protocol", "grpc", "--count", "50", "--keys", "220"], 220, 5),
        (&[&redis, "--keys", "2000"], 2_000, 2_000),
        (&[&redis, "--keys", "2000", "--pipeline", "7", "--connections", "2"], 2_000, 2_000),
        (&[&redis_socket, "--protocol", "redis", "--count", "9", "--keys", "1000"], 1_000, 112),
        (&[&redis, "--count", "20000", "--keys", "60000", "--connections", "1"], 60_000, 3),
    ];
    for (args, keys, requests) in cases {
        let args = [args, &["--keys-out", "keys.txt", "--failures", "0%"][..]].concat();
        let report = passes(&place, &args);
        let of_requests = |it: &str| report["requests"][it].as_u64().unwrap();
        let counted = ["attempted", "acknowledged", "failed"].map(of_requests);
        assert_eq!(counted, [*requests, *requests, 0], "{args:?}");
        let of_keys = |it: &str| report["keys"][it].as_u64().unwrap();
        let counted = ["received", "unique", "duplicated"].map(of_keys);
        assert_eq!(counted, [*keys, *keys, 0], "{args:?}");
        assert_eq!(report["ended_by"], "keys");
        let latency = &report["latency_ms"];
        assert!(
            latency["p50"].as_f64() > Some(0.0)
                && latency["p50"].as_f64() <= latency["max"].as_f64()
        );
        let written = fs::read_to_string(place.path().join("keys.txt")).unwrap();
        assert_eq!(written.lines().count() as u64, *keys, "{args:?}");
        for key in written.lines() {
            assert_eq!(key.len(), 7);
            assert!(seen.insert(key.to_owned()), "{key} came twice, with {args:?}");
        }
    }
}

#[test]
fn users_come_and_go_by_stages() {
    let (server, place) = (serve(), Place::new());
    let report = passes(&place, &[&server.http(), "--stages", "6:1s,6:1s,0:1s"]);
    assert_eq!((&report["load"], &report["users_max"]), (&"stages".into(), &6.into()));
    let seconds = report["seconds"].as_f64().unwrap();
    assert!((3.0..6.0).contains(&seconds), "{seconds}");
    let timeline = report["timeline"].as_array().unwrap();
    let users: Vec<u64> = timeline.iter().map(|it| it["users"].as_u64().unwrap()).collect();
    assert!(users.iter().all(|users| *users <= 6) && users.contains(&6), "{users:?}");
    assert!(report["requests"]["acknowledged"].as_u64() > Some(100), "{report:#}");
}

#[test]
fn requests_are_sent_at_a_fixed_rate() {
    let (server, place) = (serve(), Place::new());
    let args = ["--rate", "200/s", "--duration", "2s", "--connections", "8"];
    let report = passes(&place, &[&[&*server.http()], &args[..]].concat());
    let attempted = report["requests"]["attempted"].as_u64().unwrap();
    assert!((300..=410).contains(&attempted), "{attempted}");
    assert_eq!(report["latency_since"], "due");
}

/// A server that answers ten requests a second is asked for a hundred: who measured only from when a request could be
/// sent would find that each took 100 ms.
#[test]
fn at_a_fixed_rate_the_time_counts_from_when_a_request_was_due() {
    let fake = Fake::start(|number| {
        std::thread::sleep(Duration::from_millis(100));
        ok(&format!("key{number}"))
    });
    let (place, url) = (Place::new(), fake.url());
    let args = [&*url, "--rate", "100/s", "--duration", "2s", "--connections", "1"];
    let told = passes(&place, &args);
    assert!(told["latency_ms"]["max"].as_f64() > Some(1_000.0), "{told:#}");
    // What was due and never sent is not forgotten, or the server would seem to be as fast as it was asked to be.
    let of_requests = |it: &str| told["requests"][it].as_u64().unwrap();
    let [attempted, failed, unsent] = ["attempted", "failed", "unsent"].map(of_requests);
    assert!(unsent > 100 && failed == unsent && attempted > 180, "{told:#}");
    let (code, told) = report(&place, &[&args[..], &["--p50", "1h", "--failures", "50%"]].concat());
    let judged = told["thresholds"].as_array().unwrap();
    assert!(code == Some(1) && judged.iter().all(|it| it["passed"] == false), "{told:#}");
}

#[test]
fn a_server_that_stops_answering_is_no_success() {
    // The second half of the requests hangs for longer than the bench takes.
    let fake = Fake::start(|number| {
        if number >= 50 {
            std::thread::sleep(Duration::from_secs(2));
        }
        ok(&format!("key{number}"))
    });
    let args = ["--rate", "100/s", "--duration", "1s", "--timeout", "500ms", "--connections", "2"];
    let (code, told) =
        report(&Place::new(), &[&[&*fake.url()], &args[..], &["--p95", "200ms"]].concat());
    assert_eq!((code, &told["passed"]), (Some(1), &false.into()), "{told:#}");
    assert!(told["latency_ms"]["p95"].as_f64() < Some(200.0), "answers themselves were fast");
}

#[test]
fn a_threshold_that_was_not_kept_to_is_an_error() {
    let (server, place) = (serve(), Place::new());
    let http = server.http();
    let (code, report) = report(
        &place,
        &[&http, "--keys", "500", "--p50", "1us", "--p99", "1h", "--failures", "0%"],
    );
    assert_eq!((code, &report["passed"]), (Some(1), &false.into()));
    let judged: Vec<_> = report["thresholds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["name"].as_str().unwrap(), it["passed"].as_bool().unwrap()))
        .collect();
    assert_eq!(judged, [("p50", false), ("p99", true), ("failures", true)]);
    let output = place.run(&["bench", &http, "--keys", "500", "--p50", "1us"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("allowed 0.00 ms: FAILED"), "{text}");
    assert!(text.contains("500 received, 500 unique, 0 duplicated"), "{text}");
}

#[test]
fn the_page_is_one_file_that_loads_nothing() {
    let (server, place) = (serve(), Place::new());
    // A file that cannot be written in the end takes nothing else with it.
    let full = place.run(&["bench", &server.http(), "--keys", "100", "--html", "/dev/full"]);
    failed(&full, 1, "cannot write to /dev/full");
    let told = String::from_utf8_lossy(&full.stdout).into_owned();
    assert!(told.contains("100 received, 100 unique"), "{told}");
    // A report stays until there is a new one.
    fs::write(place.path().join("report.html"), "the report of before").unwrap();
    place.fails(&["bench", &server.http(), "--space", "none", "--html", "report.html"], 1, "none");
    let before = fs::read_to_string(place.path().join("report.html")).unwrap();
    assert_eq!(before, "the report of before");
    passes(&place, &[&server.http(), "--duration", "2s", "--html", "report.html"]);
    let page = fs::read_to_string(place.path().join("report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for loading in ["src=", "href=", "url(", "@import", "fetch(", "import(", "<link", "<img"] {
        assert!(!page.contains(loading), "{loading}");
    }
    assert!(page.contains("default-src 'none'"), "the browser would refuse it, too");
    let (_, data) = page.split_once("const report = ").unwrap();
    let (data, _) = data.split_once(";\n").unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert!(data["timeline"].as_array().unwrap().len() >= 2, "{data:#}");
    assert_eq!(data["protocol"], "http");
}

#[test]
fn keys_that_come_twice_are_found() {
    // The thousandth request, and each after it, is answered with a key of before.
    let fake = Fake::start(|number| ok(&format!("k{:06}\n", number % 1_000)));
    let place = Place::new();
    let args = [&*fake.url(), "--keys", "1500", "--connections", "4"];
    let (code, report) = report(&place, &args);
    assert_eq!((code, &report["passed"]), (Some(1), &false.into()));
    let keys = &report["keys"];
    let counted = ["received", "unique", "duplicated"].map(|it| keys[it].as_u64().unwrap());
    assert_eq!(counted, [1_500, 1_000, 500]);
    let samples = keys["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 10);
    assert!(
        samples.iter().all(|it| it["times"] == 2 && it["key"].as_str().unwrap().starts_with('k'))
    );
    let output = place.run(&[&["bench"], &args[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("× 2"), "{output:?}");
}

#[test]
fn more_keys_than_fit_into_memory_are_checked() {
    let (server, place) = (serve(), Place::new());
    let args = ["--count", "50000", "--connections", "4", "--keys", "1500000", "--memory", "16MB"];
    let report = passes(&place, &[&[&*server.http()], &args[..], &["--temp-dir", "."]].concat());
    assert_eq!(report["keys"]["unique"], 1_500_000);
    let mut left: Vec<_> = fs::read_dir(place.path()).unwrap().flatten().collect();
    left.retain(|file| file.file_name() != "keymill");
    assert!(left.is_empty(), "files were left behind: {left:?}");
}

#[test]
fn keys_of_several_lengths_are_checked() {
    let place = Place::new();
    place.ok(&["space", "create", "tickets", "--kind", "sequential", "--length", "0"]);
    let server = Server::start_in(place, &["--listen", "127.0.0.1:0"]);
    let client = Place::new();
    let args = ["--space", "tickets", "--count", "70", "--keys", "12000"];
    let report = passes(&client, &[&[&*server.http()], &args[..]].concat());
    assert_eq!(report["keys"]["unique"], 12_000);
}

#[test]
fn what_is_no_answer_of_keymill_is_a_failure() {
    for (answer, code) in [
        (ok(r#"{"space":"default","keys":["a"]}"#), "bad_answer"),
        (ok("a\nb\n"), "bad_answer"),
        (ok(""), "bad_answer"),
        (Some("SSH-2.0-OpenSSH\r\n".to_owned()), "bad_answer"),
        (Some("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_owned()), "bad_answer"),
        (None, "connection_lost"),
    ] {
        let (told, place) = (format!("{answer:?}"), Place::new());
        let fake = Fake::start(move |_| answer.clone());
        let args = [&*fake.url(), "--duration", "500ms", "--connections", "2"];
        let (exit, report) = report(&place, &args);
        assert_eq!(exit, Some(3), "{told}: {report:#}");
        assert_eq!(report["failures"][0]["code"], code, "{told}: {report:#}");
        assert!(report["requests"]["failed"].as_u64() > Some(1), "{told}: it goes on");
        assert_eq!(report["requests"]["acknowledged"], 0);
    }
}

#[test]
fn a_request_without_an_answer_fails_after_its_time() {
    let fake = Fake::start(|number| {
        if number > 0 {
            std::thread::sleep(PATIENCE);
        }
        ok("key")
    });
    let args = ["--duration", "1s", "--connections", "2", "--timeout", "200ms"];
    let (code, report) =
        report(&Place::new(), &[&[&*fake.url()], &args[..], &["--failures", "50%"]].concat());
    assert_eq!((code, &report["requests"]["acknowledged"]), (Some(1), &1.into()));
    assert_eq!(report["failures"][0]["code"], "timeout");
}

#[test]
fn a_connection_that_breaks_is_opened_again() {
    let fake = Fake::start(|number| (number % 4 < 3).then(|| ok(&format!("key{number}")))?);
    let report = passes(&Place::new(), &[&fake.url(), "--keys", "30", "--connections", "1"]);
    assert_eq!(report["requests"]["acknowledged"], 30);
    assert_eq!(report["failures"][0]["code"], "connection_lost");
    assert_eq!(report["requests"]["failed"], 9, "every fourth of 39");
}

#[test]
fn several_servers_share_the_connections() {
    let fakes: [Fake; 3] =
        [0, 1, 2].map(|fake| Fake::start(move |number| ok(&format!("s{fake}n{number}"))));
    let urls = fakes.each_ref().map(Fake::url);
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    passes(&Place::new(), &[&urls[..], &["--keys", "3000", "--connections", "6"]].concat());
    let counts = fakes.each_ref().map(Fake::requests);
    assert_eq!(counts.iter().sum::<u64>(), 3_000);
    assert!(counts.iter().all(|count| *count > 300), "{counts:?}");
}

#[test]
fn ctrl_c_ends_the_load_and_the_report_still_comes() {
    let (fake, place) = (Fake::start(|number| ok(&format!("key{number}"))), Place::new());
    let mut command = place.command(&["bench", &fake.url(), "--duration", "1h", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    while fake.requests() < 100 {
        assert!(begin.elapsed() < PATIENCE, "it does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let output: Output = child.wait_with_output().unwrap();
    assert!(begin.elapsed() < PATIENCE);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["ended_by"], "signal");
    assert_eq!(report["keys"]["received"], fake.requests(), "no answer is left unread");
}

/// A server that accepts connections and says nothing, also not to `AUTH`.
#[test]
fn a_server_that_never_answers_a_token_holds_nobody_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let place = Place::new();
    let args = ["bench", &url, "--duration", "500ms", "--timeout", "200ms", "--connections", "2"];
    let mut command = place.command(&args);
    let begin = Instant::now();
    let token = place.ok(&["token", "generate"]);
    let output = command.env("KEYMILL_TOKEN", token.lines().next().unwrap()).output().unwrap();
    assert!(begin.elapsed() < PATIENCE);
    failed(&output, 3, "");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("timeout: no answer within 200ms"), "{told} {}", stderr(&output));
}

#[test]
fn a_key_twice_in_one_answer_is_found() {
    let fake = Fake::start(|number| ok(&format!("a{number}\nb{number}\na{number}\n")));
    let args = [&*fake.url(), "--protocol", "http-batch", "--count", "3", "--keys", "9"];
    let (code, report) = report(&Place::new(), &args);
    assert_eq!((code, &report["keys"]["duplicated"]), (Some(1), &3.into()), "{report:#}");
}

#[test]
fn a_first_request_that_is_refused_ends_it_with_the_reason() {
    let (server, place) = (serve(), Place::new());
    let [http, redis] = [server.http(), server.redis()];
    let mut asks = vec![vec![&*http], vec![&*redis], vec![&*http, "--count", "10"]];
    if cfg!(feature = "grpc") {
        asks.push(vec![&*http, "--protocol", "grpc"]);
    }
    for args in &asks {
        let args = [&["bench", "--space", "nothing"], &args[..]].concat();
        failed(&place.run(&args), 1, "there is no keyspace `nothing`");
    }
    let too_many = ["bench", &http, "--count", "100001"];
    failed(&place.run(&too_many), 2, "100000");
    let token = server.place.ok(&["token", "create", "bench", "--allow", "take:default"]);
    for args in &asks {
        // The server looks for a token that it does not know, and from then on everybody needs one.
        let with = |token: &str| {
            let mut command = place.command(&[&["bench", "--keys", "50"], &args[..]].concat());
            command.env("KEYMILL_TOKEN", token).output().unwrap()
        };
        let output = with(token.trim());
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        let unknown = keymill::access::secret_text::make().unwrap();
        let wrong = with(&unknown);
        failed(&wrong, 1, "token");
        assert!(!stderr(&wrong).contains(unknown.as_str()), "{}", stderr(&wrong));
        let without = place.run(&[&["bench"], &args[..]].concat());
        failed(&without, 1, "KEYMILL_TOKEN");
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_named_at_once() {
    let place = Place::new();
    for url in ["http://127.0.0.1:1", "redis://127.0.0.1:1", "unix:/nowhere/k.sock"] {
        let begin = Instant::now();
        failed(&place.run(&["bench", url, "--duration", "1h"]), 3, url);
        assert!(begin.elapsed() < PATIENCE, "{url}");
    }
}

#[test]
fn a_keyspace_that_ends_is_told() {
    let place = Place::new();
    let create = ["space", "create", "t", "--kind", "sequential", "--alphabet", "decimal"];
    place.ok(&[&create[..], &["--length", "1"]].concat());
    let server = Server::start_in(place, &["--listen", "127.0.0.1:0"]);
    let args = ["--space", "t", "--connections", "1", "--duration", "500ms", "--count", "4"];
    let (_, report) = report(&Place::new(), &[&[&*server.http()], &args[..]].concat());
    assert_eq!(report["keys"]["received"], 10);
    assert_eq!(
        (&report["requests"]["short"], &report["requests"]["acknowledged"]),
        (&1.into(), &3.into())
    );
    assert_eq!(report["failures"][0]["code"], "exhausted");
}

#[test]
fn servers_are_asked_over_tls() {
    let (authority, place, client) = (Authority::new(), Place::new(), Place::new());
    let pair = authority.server();
    for (file, text) in [("certificate.pem", &pair.certificate), ("key.pem", &pair.key)] {
        fs::write(place.path().join(file), text).unwrap();
    }
    fs::write(client.path().join("ca.pem"), authority.pem()).unwrap();
    let tls = ["--tls-certificate", "certificate.pem", "--tls-key", "key.pem"];
    let listen = ["--listen", "127.0.0.1:0", "--redis-listen", "127.0.0.1:0"];
    let server = Server::start_in(place, &[&tls[..], &listen].concat());
    let by_name = |url: String| url.replace("127.0.0.1", "localhost");
    let https = by_name(server.http().replace("http", "https"));
    let rediss = by_name(server.redis());
    let mut asks = vec![vec![&*https], vec![&*rediss, "--pipeline", "4"]];
    if cfg!(feature = "grpc") {
        asks.push(vec![&*https, "--protocol", "grpc"]);
    }
    for args in asks {
        let args = [&args[..], &["--server-ca", "ca.pem", "--keys", "300"]].concat();
        let report = passes(&client, &args);
        assert_eq!(report["keys"]["unique"], 300, "{args:?}");
    }
    let stranger = client.run(&["bench", &https]);
    assert!(stderr(&stranger).contains("certificate"), "{stranger:?}");
}

#[test]
fn wrong_usage_is_told_before_anything_is_sent() {
    let place = Place::new();
    let http = "http://127.0.0.1:1";
    for (args, says) in [
        (&[][..], "URL"),
        (&["localhost:8080"], "http://host:port"),
        (&[http, "--protocol", "redis"], "redis_listen"),
        (&["redis://a:1", "--protocol", "http"], "leave out --protocol"),
        (&[http, "--pipeline", "2"], "--pipeline"),
        (&[http, "--stages", "50"], "50:30s"),
        (&[http, "--stages", "5:1s", "--rate", "5/s"], "cannot be used with"),
        (&[http, "--stages", "5:1s", "--duration", "5s"], "cannot be used with"),
        (&[http, "--duration", "5"], "30s"),
        (&[http, "--rate", "fast"], "5000/s"),
        (&[http, "--failures", "1"], "1%"),
        (&[http, "--memory", "1MB"], "16MB"),
        (&[http, "--count", "0"], "1..="),
        (&[http, "--space", "No Space"], "No Space"),
        (&[http, "--server", http], "leave out --server"),
    ] {
        place.fails(&[&["bench"], args].concat(), 2, says);
    }
}
