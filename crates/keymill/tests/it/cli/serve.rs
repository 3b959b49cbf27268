//! A running server: its log, and what signals do to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Place, stderr};

/// Long enough for anything that is not stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a proxy says of the client 203.0.113.7, in version 2 of the PROXY protocol.
const CLIENT: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xcb\0\x71\x07\x7f\0\0\x01\x12\x67\0\x50";

/// A server of the settings in `keymill.toml`, with a log of JSON.
pub(super) struct Server {
    pub(super) place: Place,
    pub(super) child: Child,
    pub(super) address: SocketAddr,
    pub(super) greeting: Value,
    log: Arc<Mutex<Vec<String>>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    fn start(settings: &str) -> Server {
        let place = Place::new();
        std::fs::write(place.path().join("keymill.toml"), settings).unwrap();
        Server::start_in(place, &["--listen", "127.0.0.1:0"])
    }

    /// With these flags.
    pub(super) fn start_in(place: Place, flags: &[&str]) -> Server {
        Server::start_with(place, flags, &[])
    }

    /// With these variables, too.
    pub(super) fn start_with(place: Place, flags: &[&str], variables: &[(&str, &str)]) -> Server {
        let mut command = place.command(&[&["serve"], flags].concat());
        command.env("KEYMILL_LOG_FORMAT", "json").envs(variables.iter().copied());
        command.stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let (lines, written) = (BufReader::new(child.stderr.take().unwrap()).lines(), log.clone());
        let reader = std::thread::spawn(move || {
            lines.for_each(|line| written.lock().unwrap().push(line.unwrap()));
        });
        let address = SocketAddr::from(([0, 0, 0, 0], 0));
        let (greeting, reader) = (Value::Null, Some(reader));
        let mut server = Server { place, child, address, greeting, log, reader };
        server.greeting = server.logged("listening")["fields"].clone();
        let url = server.greeting["url"].as_str().unwrap();
        // A Unix socket has no address.
        if let Some((_, address)) = url.split_once("://") {
            server.address = address.parse().unwrap();
        }
        server
    }

    pub(super) fn write_settings(&self, settings: &str) {
        std::fs::write(self.place.path().join("keymill.toml"), settings).unwrap();
    }

    pub(super) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Waits for a line whose message contains this, and takes the log up to it.
    pub(super) fn logged(&self, message: &str) -> Value {
        let begin = Instant::now();
        loop {
            let mut log = self.log.lock().unwrap();
            let found = log.iter().position(|line| message_of(line).contains(message));
            if let Some(at) = found {
                return log.drain(..=at).next_back().map(|line| parse(&line)).unwrap();
            }
            assert!(begin.elapsed() < PATIENCE, "nobody says `{message}`: {log:#?}");
            drop(log);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asks for something; the answer as it came.
    pub(super) fn ask(&self, method: &str, path: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// A connection that was answered and stays open; `None` where it is refused. It begins with what a
    /// proxy says of its client.
    fn hold(&self, proxy: &[u8]) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream
            .write_all(&[proxy, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"].concat())
            .ok()?;
        let mut status = [0; "HTTP/1.1 200".len()];
        stream.read_exact(&mut status).ok()?;
        (&status == b"HTTP/1.1 200").then_some(stream)
    }

    /// Waits for the end, and returns what was logged since the last look.
    pub(super) fn ended(&mut self) -> (ExitStatus, Vec<String>) {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        self.reader.take().unwrap().join().unwrap();
        (status, std::mem::take(&mut *self.log.lock().unwrap()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON ({error}): {line}"))
}

#[track_caller]
fn message_of(line: &str) -> String {
    parse(line)["fields"]["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_json_log_is_json_from_the_greeting_to_the_last_line() {
    // Each line is parsed while it is looked for.
    let mut server = Server::start("");
    assert!(server.ask("GET", "/get-key", "").starts_with("HTTP/1.1 200"));
    server.signal("TERM");
    server.logged("stopping");
    let (status, rest) = server.ended();
    assert!(status.success(), "{status}");
    for line in &rest {
        assert!(parse(line)["level"].is_string(), "{line}");
    }
    assert_eq!(message_of(rest.last().unwrap()), "stopped");
}

#[test]
fn the_log_says_that_all_connections_are_in_use() {
    let server = Server::start("[limits]\nconnections_max = 1\n");
    let _held = server.hold(b"").unwrap();
    assert!(server.ask("GET", "/get-key", "").contains("\"too_many_connections\""));
    let line = server.logged("all connections are in use");
    assert_eq!((&line["level"], &line["fields"]["count"]), (&"WARN".into(), &1.into()));
}

#[test]
fn the_warning_of_a_failed_request_names_the_request() {
    let server = Server::start("");
    for file in ["keymill.db", "keymill.db-wal", "keymill.db-shm"] {
        let _ = std::fs::remove_file(server.place.path().join("keymill").join(file));
    }
    let answer = server.ask("PUT", "/v1/spaces/links", "x-request-id: failed-one\r\n");
    assert!(answer.contains("\"store_unavailable\"") && answer.contains("failed-one"), "{answer}");
    let line = server.logged("a request failed");
    let fields = &line["fields"];
    assert_eq!((&line["level"], &fields["request_id"]), (&"WARN".into(), &"failed-one".into()));
    assert_eq!(
        (&fields["code"], &fields["client"]),
        (&"store_unavailable".into(), &"127.0.0.1".into())
    );
    // What the answer does not tell.
    assert!(fields["message"].as_str().unwrap().contains("keymill.db"), "{line}");
    assert!(!answer.contains("keymill.db"), "{answer}");
}

#[test]
fn a_json_log_has_the_paths_of_requests_as_they_are() {
    let server = Server::start("[log]\nlevel = \"keymill=debug\"");
    assert!(server.ask("GET", "/get-key", "").starts_with("HTTP/1.1 200"));
    assert_eq!(server.logged("answered")["fields"]["path"], "/get-key");
}

#[test]
fn errors_of_a_server_with_a_json_log_are_json() {
    let place = Place::new();
    for (settings, says) in [
        ("listen = \"nowhere\"\n[log]\nformat = \"json\"", "127.0.0.1:8080"),
        ("[log]\nformat = \"json\"\n[limits]\nwait_seconds = 0", "limits.wait_seconds"),
        ("trusted_proxies = [\"proxy\"]\n[log]\nformat = \"json\"", "`proxy`"),
    ] {
        std::fs::write(place.path().join("keymill.toml"), settings).unwrap();
        let output = place.run(&["serve"]);
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        let messages: Vec<String> = said.lines().map(message_of).collect();
        assert!(messages.iter().any(|message| message.contains(says)), "{said}");
    }
}

#[test]
fn a_hangup_reloads_what_can_be_reloaded_and_names_the_rest() {
    let before = "[limits]\ncount_max = 5\n[spaces.links]\nlength = 7\n";
    let mut server = Server::start(before);
    let take = |server: &Server, count: u32| {
        server.ask("POST", &format!("/v1/spaces/links/keys?count={count}"), "")
    };
    assert!(take(&server, 5).starts_with("HTTP/1.1 200"));
    std::fs::write(server.place.path().join("words.txt"), "sale\n").unwrap();
    server.write_settings(
        "default_space = \"links\"\n[limits]\ncount_max = 2\nthreads = 3\n[log]\nlevel = \"debug\"\n\
         [aliases]\nlength_max = 4\n[blocklist]\nfile = \"words.txt\"\n[spaces.links]\nlength = 7\n\
         lease_size_min = 7\n[spaces.more]\nlength = 9\n",
    );
    server.signal("HUP");
    let reloaded = server.logged("the settings were reloaded");
    let changed = reloaded["fields"]["changed"].as_str().unwrap();
    let names = ["aliases.length_max", "blocklist.file", "limits.count_max", "log.level"];
    for name in names.iter().chain(&["spaces.links.lease_size_min", "spaces.more.length"]) {
        assert!(changed.contains(name), "{name} is not in {changed}");
    }
    for setting in ["default_space", "limits.threads"] {
        assert!(!changed.contains(setting), "{changed}");
        server.logged(&format!("needs a restart: {setting}"));
    }
    assert!(take(&server, 3).contains("\"bad_count\""));
    assert!(take(&server, 2).starts_with("HTTP/1.1 200"));
    let put = |alias: &str| server.ask("PUT", &format!("/v1/spaces/links/aliases/{alias}"), "");
    assert!(put("abcde").contains("1 to 4 characters"));
    assert!(put("sale").contains("blocklist"), "of the new file");
    assert!(server.ask("GET", "/v1/spaces/links", "").contains("\"lease_size_min\":7"));
    assert!(server.ask("GET", "/v1/spaces/more", "").starts_with("HTTP/1.1 200"));
    server.logged("answered");
    // What cannot be used changes nothing, and neither does a file that is gone.
    for broken in ["[limits]\ncount_max = 0\n", "nonsense", "[blocklist]\nfile = \"gone.txt\"\n"] {
        server.write_settings(broken);
        server.signal("HUP");
        server.logged("the settings were not reloaded");
        assert!(take(&server, 3).contains("\"bad_count\""), "{broken}");
    }
    std::fs::remove_file(server.place.path().join("keymill.toml")).unwrap();
    server.signal("HUP");
    server.logged("the settings were not reloaded");
    assert!(take(&server, 2).starts_with("HTTP/1.1 200"));
    server.signal("TERM");
    assert!(server.ended().0.success());
}

#[test]
fn a_hangup_changes_the_limits_of_bodies_and_of_the_connections_of_an_address() {
    let settings = |limits: &str| format!("trusted_proxies = [\"127.0.0.1\"]\n[limits]\n{limits}");
    let server = Server::start(&settings("body_max_bytes = 100\n"));
    let put = |len: usize| {
        let body = format!("{{{}}}", " ".repeat(len - 2));
        server.ask(
            "PUT",
            "/v1/spaces/links",
            &format!("content-type: application/json\r\ncontent-length: {len}\r\n\r\n{body}"),
        )
    };
    // Refused before the body is read, which is therefore not sent.
    let refuses = |len: usize| {
        let length = format!("content-length: {len}\r\n");
        let answer = server.ask("PUT", "/v1/spaces/links", &length);
        assert!(answer.contains("\"body_too_large\""), "{answer}");
    };
    assert!(put(100).starts_with("HTTP/1.1 201"));
    refuses(101);
    server.write_settings(&settings("body_max_bytes = 50\nconnections_per_address_max = 1\n"));
    server.signal("HUP");
    let reloaded = server.logged("the settings were reloaded");
    let changed = reloaded["fields"]["changed"].as_str().unwrap();
    assert_eq!(changed, "limits.body_max_bytes, limits.connections_per_address_max");
    assert!(put(50).starts_with("HTTP/1.1 200"));
    refuses(51);
    // Connections from this machine are not counted, so that they are those of a client behind a proxy.
    let first = server.hold(CLIENT).unwrap();
    assert!(server.hold(CLIENT).is_none());
    server.logged("connections_per_address_max");
    server.write_settings(&settings("body_max_bytes = 50\nconnections_per_address_max = 3\n"));
    server.signal("HUP");
    server.logged("the settings were reloaded");
    let _three = [first, server.hold(CLIENT).unwrap(), server.hold(CLIENT).unwrap()];
    assert!(server.hold(CLIENT).is_none());
}

#[test]
fn the_log_tells_the_client_behind_trusted_proxies_and_nobody_elses_word() {
    let settings = |proxies: &str| {
        format!("trusted_proxies = [{proxies}]\n[log]\nlevel = \"keymill=debug,warn\"\n")
    };
    let server = Server::start(&settings("\"127.0.0.1\", \"10.0.0.0/8\""));
    let client = |id: &str| {
        let forwarded = "x-forwarded-for: 192.0.2.66, 203.0.113.7, 10.1.2.3\r\n";
        server.ask("GET", "/healthz", &format!("x-request-id: {id}\r\n{forwarded}"));
        let line = server.logged("answered");
        assert_eq!(line["fields"]["request_id"], id);
        line["fields"]["client"].as_str().unwrap().to_owned()
    };
    assert_eq!(client("one"), "203.0.113.7");
    server.write_settings(&settings(""));
    server.signal("HUP");
    server.logged("the settings were reloaded");
    assert_eq!(client("two"), "127.0.0.1");
}
