//! Keys of inputs, from the command line.

use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use super::{Place, failed};

fn place() -> Place {
    let place = Place::new();
    place.ok(&["space", "create", "urls", "--kind", "digest", "--normalize", "url"]);
    place
}

fn digest(place: &Place, input: &[u8], more: &[&str]) -> Output {
    let mut command = place.command(&[&["digest", "urls", "-"], more].concat());
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn an_input_has_one_key_in_each_scope() {
    let place = place();
    let key = place.ok(&["digest", "urls", "https://example.com/a"]);
    assert_eq!(key.trim_end().len(), 7);
    assert_eq!(place.ok(&["digest", "urls", "HTTPS://EXAMPLE.com:443/a"]), key);
    let scoped = ["digest", "urls", "https://example.com/a", "--scope", "customer-7"];
    let other = place.ok(&scoped);
    assert_ne!(other, key);
    assert_eq!(place.ok(&scoped), other);
    let told = place.ok(&["digest", "urls", "https://example.com/a", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    let expected = json!({
        "space": "urls", "input": "https://example.com/a", "key": key.trim_end(), "made": false,
    });
    assert_eq!(told, expected);
}

#[test]
fn lines_get_their_keys_in_order() {
    let place = place();
    let inputs: Vec<String> =
        (0..2_500).map(|n| format!("https://example.com/{}", n % 2_000)).collect();
    let output = digest(&place, inputs.join("\r\n").as_bytes(), &[]);
    assert!(output.status.success());
    let keys = String::from_utf8(output.stdout).unwrap();
    let keys: Vec<&str> = keys.lines().collect();
    assert_eq!(keys.len(), 2_500);
    assert_eq!(keys[2_000..], keys[..500], "the same input, the same key");
    for line in [0, 999, 1_000, 2_499] {
        assert_eq!(place.ok(&["digest", "urls", &inputs[line]]).trim_end(), keys[line]);
    }
    let mut distinct = keys[..2_000].to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 2_000);
}

#[test]
fn a_refused_line_ends_the_command_behind_the_keys_before_it() {
    let place = place();
    let good = "https://example.com/1\nhttps://example.com/2\n";
    for (bad, says) in [
        (&b"no url\nhttps://example.com/3\n"[..], "line 3: the input is not a URL"),
        (&b"\n \nno url\n"[..], "line 5: the input is not a URL"),
        (&b"\xff\n"[..], "cannot read line 3"),
    ] {
        let output = digest(&place, &[good.as_bytes(), bad].concat(), &["--json"]);
        failed(&output, 1, says);
        let lines = String::from_utf8(output.stdout).unwrap();
        let inputs: Vec<Value> = lines
            .lines()
            .map(|it| serde_json::from_str::<Value>(it).unwrap()["input"].take())
            .collect();
        assert_eq!(inputs, ["https://example.com/1", "https://example.com/2"]);
    }
}

#[test]
fn blank_lines_are_skipped() {
    let place = place();
    let lines = b"\n\nhttps://example.com/1\r\n\r\n  \nhttps://example.com/2\n\n";
    let output = digest(&place, lines, &[]);
    assert!(output.status.success(), "{output:?}");
    let one = place.ok(&["digest", "urls", "https://example.com/1"]);
    let two = place.ok(&["digest", "urls", "https://example.com/2"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), one + &two);
}

#[test]
fn digests_and_takes_point_at_each_other() {
    let place = place();
    place.fails(&["take", "urls"], 1, "keymill digest urls");
    place.ok(&["take"]);
    place.fails(&["digest", "default", "x"], 1, "its kind is not `digest`");
    place.fails(&["digest", "nope", "x"], 1, "no keyspace `nope`");
    place.fails(&["digest", "urls"], 2, "<INPUT>");
}
