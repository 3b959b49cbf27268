//! Tokens of the store and of the settings, as commands list them; and those that are made for the settings.

use std::fs;

use keymill::access::secret_text;
use serde_json::{Value, json};

use super::serve::Server;
use super::{Place, stderr};

#[test]
fn a_list_shows_limits_and_ends_and_the_tokens_of_the_settings() {
    let place = Place::new();
    let limits = ["--rate", "5000/s", "--quota", "1000000/d", "--expires", "2099-01-01"];
    place.ok(&[&["token", "create", "shop", "--allow", "take:links"], &limits[..]].concat());
    let hash = "ab".repeat(32);
    let section = format!(
        "[tokens.mall]\nsha256 = \"{hash}\"\nallow = [\"read:*\"]\nrate = 7\nexpires_at = \"2020-01-01T00:00:00Z\"\n"
    );
    fs::write(place.path().join("keymill.toml"), section).unwrap();
    let list = place.ok(&["token", "list"]);
    let row = |name: &str| {
        let row = list.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        row.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(row("NAME").contains("RATE QUOTA EXPIRES"), "{list}");
    assert!(row("shop").starts_with("shop take:links 5,000/s 1,000,000/d 2099-01-01T00:00:00Z"));
    assert_eq!(row("mall"), "mall read:* 7/s none 2020-01-01T00:00:00Z (expired) - settings");
    let listed: Value = serde_json::from_str(&place.ok(&["token", "list", "--json"])).unwrap();
    let of = |at: usize, name: &str| listed[at][name].clone();
    for (name, mall, shop) in [
        ("name", json!("mall"), json!("shop")),
        ("source", json!("settings"), json!("store")),
        ("expired", json!(true), json!(false)),
        ("rate", json!(7), json!(5_000)),
        ("quota", Value::Null, json!(1_000_000)),
        ("expires_at", json!("2020-01-01T00:00:00Z"), json!("2099-01-01T00:00:00Z")),
        ("created_by", json!("settings"), json!("command line")),
    ] {
        assert_eq!((of(0, name), of(1, name)), (mall, shop), "{name}");
    }
    assert_eq!(of(0, "created_at"), Value::Null);
    assert!(!listed.to_string().contains(&hash), "{listed}");
    let show = place.ok(&["token", "show", "mall"]);
    for line in ["expires      2020-01-01T00:00:00Z (expired)\n", "source       settings\n"] {
        assert!(show.contains(line), "`{line}` is not in\n{show}");
    }
    let show = place.ok(&["token", "show", "shop"]);
    assert!(show.contains("source       store\n"), "{show}");
    // Milliseconds are enough.
    let created = show.lines().find(|line| line.starts_with("created")).unwrap();
    let time = created.split_whitespace().nth(1).unwrap();
    assert_eq!(time.len(), "2026-11-16T05:45:19.355Z".len(), "{show}");
}

#[test]
fn an_old_text_that_is_still_valid_is_told_of() {
    let place = Place::new();
    place.ok(&["token", "create", "shop", "--allow", "take:links"]);
    let until = |place: &Place| {
        let json = place.ok(&["token", "show", "shop", "--json"]);
        serde_json::from_str::<Value>(&json).unwrap()["old_text_until"].clone()
    };
    assert_eq!(until(&place), Value::Null);
    assert!(!place.ok(&["token", "show", "shop"]).contains("old text"));
    place.ok(&["token", "rotate", "shop", "--overlap", "24h"]);
    assert!(until(&place).is_string());
    assert!(place.ok(&["token", "show", "shop"]).contains("old text     valid until 20"));
    assert!(place.ok(&["token", "list"]).contains("the old text of `shop` is valid until 20"));
    place.ok(&["token", "rotate", "shop", "--overlap", "0s"]);
    assert_eq!(until(&place), Value::Null, "it ends at once");
}

#[test]
fn a_token_of_the_settings_is_not_changed_in_the_store_and_that_is_said() {
    let place = Place::new();
    place.ok(&["take"]);
    let hash = "ab".repeat(32);
    let section = format!("[tokens.mall]\nsha256 = \"{hash}\"\nallow = [\"read:*\"]\n");
    fs::write(place.path().join("keymill.toml"), section).unwrap();
    for command in ["revoke", "rotate"] {
        place.fails(&["token", command, "mall"], 2, "the token `mall` is in the settings");
        place.fails(&["token", command, "mall"], 2, "change it in the settings");
        place.fails(&["token", command, "nope"], 1, "there is no token `nope`");
    }
}

#[test]
fn a_token_is_generated_without_a_store_and_can_be_pasted() {
    let place = Place::new();
    // Settings that cannot be used do not matter: they may lack this very token.
    fs::write(place.path().join("keymill.toml"), "tokens_file = \"gone.toml\"\n").unwrap();
    let allow = ["--allow", "take:default", "--rate", "5/s", "--expires", "2099-01-01"];
    let made = place.ok(&[&["token", "generate", "shop"], &allow[..]].concat());
    let bare = place.ok(&["token", "generate"]);
    let left = fs::read_dir(place.path()).unwrap().count();
    assert_eq!(left, 1, "it made something beside the settings file");
    let (text, section) = made.split_once("\n\n").unwrap();
    let hash = hex::encode(secret_text::hash(text.as_bytes()).unwrap());
    for line in [
        "[tokens.shop]\n",
        &format!("sha256 = \"{hash}\"\n"),
        "allow = [\"take:default\"]\n",
        "expires_at = \"2099-01-01T00:00:00Z\"\n",
        "rate = 5\n",
    ] {
        assert!(section.contains(line), "`{line}` is not in\n{section}");
    }
    let (other, section_of_bare) = bare.split_once("\n\n").unwrap();
    assert!(secret_text::hash(other.as_bytes()).is_some() && other != text, "{bare}");
    assert!(section_of_bare.starts_with("[tokens.NAME]\nsha256 = \""), "{bare}");
    for (args, says) in [
        (&["shop"][..], "--allow"),
        (&["..", "--allow", "take:a"], "cannot be the name of a token"),
        (&["shop", "--allow", "fly:a"], "`fly` is not a right"),
        (&["shop", "--allow", "take:a", "--expires", "2020-01-01"], "expire in the future"),
        (&["--rate", "5/s"], "name the token"),
    ] {
        place.fails(&[&["token", "generate"], args].concat(), 2, says);
    }
    fs::write(place.path().join("keymill.toml"), section).unwrap();
    let server = Server::start_in(place, &["--listen", "127.0.0.1:0"]);
    let answer = server.ask("GET", "/get-key", &format!("authorization: Bearer {text}\r\n"));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn a_token_expires_at_the_beginning_of_a_day_in_utc() {
    let place = Place::new();
    let create = |name: &str, expires: &str| {
        let args = ["token", "create", name, "--allow", "take:a", "--json", "--expires", expires];
        let output = place.run(&args);
        assert!(output.status.success(), "{}", stderr(&output));
        let made: Value = serde_json::from_slice(&output.stdout).unwrap();
        made["expires_at"].as_str().unwrap().to_owned()
    };
    assert_eq!(create("a", "2099-01-01"), "2099-01-01T00:00:00Z");
    assert_eq!(create("b", "2099-01-01T12:00:00Z"), "2099-01-01T12:00:00Z");
    let help = place.ok(&["token", "create", "--help"]);
    assert!(help.contains("2027-01-01 (midnight UTC)"), "{help}");
    let args = ["token", "create", "c", "--allow", "take:a", "--expires"];
    for wrong in ["2099-13-01", "2099-01", "01.01.2099", "2099-01-01T12:00:00"] {
        place.fails(&[&args[..], &[wrong]].concat(), 2, "a date such as 2027-01-01");
    }
}
