//! Clients that others have written: redis-cli and redis-benchmark, where they are installed.

use std::collections::HashSet;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use super::client::command;
use super::frames::Process;
use crate::cli::Place;

#[test]
fn redis_cli_takes_keys() {
    let server = Process::start(&[]);
    server.place.ok(&["space", "create", "tickets", "--kind", "sequential", "--length", "0"]);
    let Some(ping) = run(&server, "redis-cli", &["PING"], "") else { return };
    assert_eq!(ping, "PONG\n");
    let cli = |args: &[&str]| run(&server, "redis-cli", args, "").unwrap();
    let mut keys = HashSet::new();
    for args in [
        &["SPOP", "default"][..],
        &["-3", "SPOP", "default"],
        &["SPOP", "default", "5"],
        &["-3", "SPOP", "default", "5"],
        &["-n", "3", "SPOP", "default"],
    ] {
        for line in cli(args).lines() {
            let key = line.rsplit(' ').next().unwrap().trim_matches('"');
            assert!(key.len() == 7 && keys.insert(key.to_owned()), "{args:?}: {line}");
        }
    }
    assert_eq!(keys.len(), 13);
    assert_eq!(
        (cli(&["INCR", "tickets"]), cli(&["INCR", "tickets"])),
        ("0\n".into(), "1\n".into())
    );
    assert!(cli(&["GET", "default"]).contains("This is keymill"));
    assert!(cli(&["INFO"]).contains("redis_version:"));
    // A batch, as lines.
    let batch =
        run(&server, "redis-cli", &[], "MULTI\nINCR tickets\nINCR tickets\nEXEC\n").unwrap();
    assert_eq!(batch, "OK\nQUEUED\nQUEUED\n2\n3\n");
    // And as many commands as the connection takes.
    let commands = command(&["SPOP", "default"]).repeat(20_000);
    let piped = String::from_utf8(commands).unwrap();
    let piped = run(&server, "redis-cli", &["--pipe"], &piped).unwrap();
    assert!(piped.contains("errors: 0, replies: 20000"), "{piped}");
}

#[test]
fn redis_cli_shows_its_token() {
    let place = Place::new();
    let token = place.ok(&["token", "create", "shop", "--allow", "take:*"]);
    let server = Process::start_in(place, &[]);
    let Some(refused) = run(&server, "redis-cli", &["SPOP", "default"], "") else { return };
    assert!(refused.contains("NOAUTH"), "{refused}");
    for args in [&[][..], &["-3"], &["--user", "shop"], &["-3", "--user", "default"]] {
        let mut cli = tool(&server, "redis-cli", &[args, &["SPOP", "default"]].concat());
        cli.env("REDISCLI_AUTH", token.trim());
        let output = cli.output().unwrap();
        let key = String::from_utf8(output.stdout).unwrap();
        let key = key.trim().rsplit(' ').next().unwrap().trim_matches('"');
        assert_eq!(key.len(), 7, "{args:?}: {key} {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn redis_benchmark_runs_to_its_end() {
    let server = Process::start(&[]);
    for args in [
        &["-n", "20000", "-c", "20", "-P", "32", "-q", "SPOP", "default"][..],
        &["-n", "5000", "-c", "20", "-q", "SPOP", "default"],
        &["-n", "5000", "-c", "20", "-q", "-t", "ping_mbulk,ping_inline"],
    ] {
        let Some(output) = run(&server, "redis-benchmark", args, "") else { return };
        assert!(output.contains("requests per second"), "{args:?}: {output}");
        assert!(!output.contains("WARNING") && !output.contains("Error"), "{args:?}: {output}");
    }
}

/// What a tool prints, on both ways, for this input; `None` where it is not installed.
fn run(server: &Process, name: &str, args: &[&str], input: &str) -> Option<String> {
    let mut command = tool(server, name, args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("{name} is not installed, so it is NOT TESTED");
            return None;
        }
        Err(error) => panic!("{name}: {error}"),
    };
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_owned());
    let writing = std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let Output { stdout, stderr, .. } = child.wait_with_output().unwrap();
    writing.join().unwrap();
    Some(String::from_utf8([stdout, stderr].concat()).unwrap())
}

fn tool(server: &Process, name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
    command.args(["-h", &host, "-p", &port]).args(args);
    command
}
