//! The manual.

use super::Place;

#[test]
fn the_manual_page_is_printed() {
    let place = Place::new();
    // Settings are not read for it: a package is built where there are none, or wrong ones.
    let output = place.command(&["man"]).env("KEYMILL_NONSENSE", "x").output().unwrap();
    assert!(output.status.success());
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains(".TH keymill 1"), "{page}");
    for part in [".SH NAME", ".SH SYNOPSIS", "Exit codes:", "Take keys"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

#[test]
fn there_is_a_page_for_every_command() {
    let place = Place::new();
    place.ok(&["man", "--dir", "share/man1"]);
    let folder = place.path().join("share/man1");
    for page in ["keymill", "keymill-take", "keymill-space-create", "keymill-store-check"] {
        let text = std::fs::read_to_string(folder.join(format!("{page}.1"))).unwrap();
        assert!(text.contains(".SH NAME"), "{text}");
    }
    std::fs::write(place.path().join("file"), "").unwrap();
    place.fails(&["man", "--dir", "file/below"], 1, "cannot write the manual to file/below");
}
