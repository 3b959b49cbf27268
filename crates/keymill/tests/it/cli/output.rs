//! Output that cannot be written: a reader that has gone, a disk that is full.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::{Place, failed, stderr};

/// A place with something to print for every command.
fn furnished() -> (Place, String) {
    let place = Place::new();
    let key = place.ok(&["take"]).trim_end().to_owned();
    place.ok(&["alias", "add", "default", "sale"]);
    place.ok(&["space", "create", "ids", "--kind", "snowflake"]);
    place.ok(&["space", "create", "urls", "--kind", "digest"]);
    place.ok(&["space", "create", "codes", "--kind", "pooled"]);
    place.ok(&["pool", "fill", "codes", "--count", "10"]);
    place.ok(&["take", "codes"]);
    (place, key)
}

fn commands(key: &str) -> Vec<Vec<&str>> {
    let ids = "space bounds ids --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z";
    let mut commands: Vec<Vec<&str>> = [
        "--help",
        "--version",
        "help space",
        "take --help",
        "completions bash",
        "man",
        "config show",
        "config show --default",
        "store check",
        "store check --json",
        "store identity",
        "secret export -",
        "space list",
        "space list --json",
        "space show default",
        "space show ids --json",
        "space create default",
        "space set default --audit batch",
        ids,
        "alias list default",
        "alias show default sale",
        "alias add default sale",
        "audit export codes",
        "audit export codes --format csv",
        "pool export codes",
        "digest urls input",
        "take",
        "take -n 50000",
        "take --json",
    ]
    .map(|command| command.split(' ').collect::<Vec<&str>>())
    .to_vec();
    commands.push(vec!["explain", "default", key]);
    commands
}

fn run_into(place: &Place, args: &[&str], stdout: impl Into<Stdio>) -> Output {
    place.command(args).stdout(stdout).output().unwrap()
}

fn full_disk() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let (place, key) = furnished();
    for args in commands(&key) {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = run_into(&place, &args, writer);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains("pipe"), "{args:?}: {said}");
    }
    // What the command found stays what it found.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let invalid = run_into(&place, &["explain", "default", "!"], writer);
    assert_eq!(invalid.status.code(), Some(1));
}

#[test]
fn a_full_disk_is_a_failure_and_says_so() {
    let (place, key) = furnished();
    for args in commands(&key) {
        let output = run_into(&place, &args, full_disk());
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", stderr(&output));
        failed(&output, 1, "cannot write to standard output: No space left on device");
    }
}

/// Half an export is of no use, so that a reader that has gone is a failure too.
#[test]
fn an_export_that_cannot_be_written_is_a_failure_and_can_be_repeated() {
    let place = Place::new();
    place.ok(&["space", "create", "t", "--kind", "sequential", "--length", "5"]);
    let export = ["space", "export", "t", "--seal", "--for", "00000000000000aa"];
    failed(&run_into(&place, &export, full_disk()), 1, "cannot write the export: no storage space");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    failed(&run_into(&place, &export, writer), 1, "cannot write the export: broken pipe");
    assert!(place.ok(&export).lines().count() > 1);
}

#[test]
fn a_server_whose_log_cannot_be_written_serves_and_stops_as_ever() {
    for format in ["text", "json"] {
        let place = Place::new();
        // Nobody can be told which port it has found, so it is given one.
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = place.command(&["serve", "--listen", &free.to_string()]);
        command.env("KEYMILL_LOG_FORMAT", format).env("KEYMILL_LOG_LEVEL", "debug");
        let server = command.stdout(full_disk()).stderr(full_disk()).spawn().unwrap();
        let mut server = Running(server);
        let begin = Instant::now();
        while !get_key(free).is_some_and(|answer| answer.starts_with("HTTP/1.1 200")) {
            assert_eq!(server.0.try_wait().unwrap(), None, "{format}: it has ended");
            assert!(begin.elapsed() < Duration::from_secs(30), "{format}: it does not serve");
            std::thread::sleep(Duration::from_millis(20));
        }
        for signal in ["HUP", "TERM"] {
            let kill = format!("kill -{signal} {}", server.0.id());
            assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        }
        assert_eq!(server.0.wait().unwrap().code(), Some(0), "{format}");
    }
}

/// A process that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get_key(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = b"GET /get-key HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn messages_that_cannot_be_written_change_nothing() {
    let place = Place::new();
    let code = |args: &[&str]| {
        let mut command = place.command(args);
        command.stdout(Stdio::null()).stderr(full_disk()).status().unwrap().code()
    };
    assert_eq!(code(&["take"]), Some(0), "it says that the keyspace was created");
    assert_eq!(code(&["space", "seal", "default", "--yes"]), Some(0));
    assert_eq!(code(&["take"]), Some(4));
    assert_eq!(code(&["space", "show", "nope"]), Some(1));
    assert_eq!(code(&["frobnicate"]), Some(2));
}
