//! Imports and fills, as somebody at a terminal or a script sees them.

use std::process::Command;

use super::{Place, stderr};

/// A place with a keyspace of decimals.
fn place() -> Place {
    let place = Place::new();
    let space = ["space", "create", "old", "--kind", "sequential", "--alphabet", "decimal"];
    place.ok(&[&space[..], &["--length", "5"]].concat());
    place
}

#[test]
fn blank_lines_and_a_byte_order_mark_are_skipped_whatever_ends_them() {
    let place = place();
    std::fs::write(place.path().join("used.txt"), "\u{feff}00001\r\n\r\n  \n\t\r\n00002\n\n")
        .unwrap();
    let output = place.run(&["space", "import-used", "old", "used.txt"]);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("2 keys imported, 0 already there, 0 refused"), "{said}");
}

/// Some lines are refused when they are read, and others when the store was asked: much later.
#[test]
fn refused_lines_are_reported_in_their_order_by_number() {
    let place = place();
    let mut lines = b"x!\n\n\xff\n".to_vec();
    // More than is read at once.
    for number in 0..20_000 {
        lines.extend(format!("{number:05}\n").into_bytes());
    }
    lines.extend(b"00007\n\n");
    lines.extend([b'9'; 300]);
    std::fs::write(place.path().join("used.txt"), lines).unwrap();
    let output = place.run(&["space", "import-used", "old", "used.txt"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let reported: Vec<&str> = said.lines().filter(|line| line.starts_with("line ")).collect();
    assert_eq!(reported.len(), 4, "{said}");
    for (line, says) in reported.iter().zip([
        "line 1: ",
        "line 3: not UTF-8 text",
        "line 20004: repeats line 11",
        "line 20006: longer than 200 bytes",
    ]) {
        assert!(line.starts_with(says), "{said}");
    }
    assert!(said.contains("20,000 keys imported, 0 already there, 4 refused"), "{said}");
}

#[test]
fn control_characters_of_refused_lines_are_escaped() {
    let place = Place::new();
    place.ok(&["space", "create", "codes", "--kind", "pooled"]);
    std::fs::write(place.path().join("codes.txt"), "a\u{1b}[31mb\n\u{7}\n").unwrap();
    let said = stderr(&place.run(&["pool", "import", "codes", "codes.txt"]));
    assert!(said.contains("line 1: `\\u{1b}` at position 2 is not in the alphabet"), "{said:?}");
    assert!(!said.contains(['\u{1b}', '\u{7}']), "{said:?}");
}

#[test]
fn refused_lines_that_are_not_listed_are_counted() {
    let place = place();
    std::fs::write(place.path().join("used.txt"), "x!\n".repeat(1_500)).unwrap();
    let output = place.run(&["space", "import-used", "old", "used.txt"]);
    let said = stderr(&output);
    assert_eq!(said.lines().filter(|line| line.starts_with("line ")).count(), 1_000);
    assert!(said.contains("and 500 more lines, which are not listed"), "{said}");
}

#[test]
fn a_progress_bar_is_sane_from_its_first_frame_on_and_only_on_a_terminal() {
    let place = place();
    place.ok(&["space", "create", "pool", "--kind", "pooled"]);
    let keys: String = (0..20_000).map(|number| format!("{number:05}\n")).collect();
    std::fs::write(place.path().join("used.txt"), keys).unwrap();
    let fill = ["pool", "fill", "pool", "--count", "100000"];
    let piped = stderr(&place.run(&fill));
    assert!(!piped.contains(" of 100,000") && piped.lines().count() == 1, "{piped}");
    let Some(filled) = on_a_terminal(&place, "pool fill pool --count 100000") else { return };
    assert!(filled.contains(" of 100,000 keys"), "{filled}");
    assert!(!filled.contains(" of 0 keys"), "{filled}");
    let imported = on_a_terminal(&place, "space import-used old used.txt").unwrap();
    assert!(imported.contains(" of 117.19 KiB, 0 imported"), "{imported}");
    assert!(!imported.contains(", ,"), "{imported}");
}

/// What a terminal is sent by a command; `None` where there is none to be had, which is said aloud.
fn on_a_terminal(place: &Place, args: &str) -> Option<String> {
    let line = format!("{} {args}", env!("CARGO_BIN_EXE_keymill"));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(place.path()).env("TERM", "xterm");
    script.env("XDG_DATA_HOME", place.path()).env("SHELL", "/bin/sh");
    match script.output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            eprintln!("\n*** NOT TESTED: `script` cannot be run here: {error} ***\n");
            None
        }
    }
}
