//! Tokens at the command line, in the settings, and what a server makes of them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use keymill::access::secret_text;
use serde_json::{Value, json};

use super::serve::Server;
use super::{Place, failed};

/// Long enough for anything that is not stuck.
const PATIENCE: Duration = Duration::from_secs(30);
pub(super) const LOOPBACK: [&str; 2] = ["--listen", "127.0.0.1:0"];
pub(super) const EVERYWHERE: [&str; 3] = ["serve", "--listen", "0.0.0.0:0"];

#[test]
fn a_token_is_shown_once_and_only_its_hash_is_kept() {
    let place = Place::new();
    let text = create(&place, "shop", "take:links");
    assert!(text.starts_with("km_") && text.len() == 47, "{text}");
    let made = place.ok(&[
        "token",
        "create",
        "mall",
        "--allow",
        "take:links,coupons",
        "--allow",
        "read:shop-*",
        "--expires",
        "90d",
        "--rate",
        "5000/s",
        "--quota",
        "1000000/d",
        "--certificate",
        "mall.example",
        "--json",
    ]);
    let made: Value = serde_json::from_str(&made).unwrap();
    let second = made["token"].as_str().unwrap();
    assert!(secret_text::hash(second.as_bytes()).is_some() && second != text, "{made}");
    let mut expected = made.clone();
    expected.as_object_mut().unwrap().remove("token");
    assert_eq!(made["allow"], json!(["take:links", "take:coupons", "read:shop-*"]));
    let numbers = (&made["rate"], &made["quota"], &made["certificate"], &made["created_by"]);
    assert_eq!(
        numbers,
        (&json!(5_000), &json!(1_000_000), &json!("mall.example"), &json!("command line"))
    );
    let [ends, made_at]: [jiff::Timestamp; 2] =
        ["expires_at", "created_at"].map(|it| made[it].as_str().unwrap().parse().unwrap());
    let lasts = ends.duration_since(made_at).as_hours();
    assert!((90 * 24 - 1..=90 * 24).contains(&lasts), "{made}");
    let listed: Value = serde_json::from_str(&place.ok(&["token", "list", "--json"])).unwrap();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mall", "shop"]);
    assert_eq!(listed[0], expected);
    let shown: Value =
        serde_json::from_str(&place.ok(&["token", "show", "mall", "--json"])).unwrap();
    assert_eq!(shown, expected);
    let list = place.ok(&["token", "list"]);
    let show = place.ok(&["token", "show", "mall"]);
    assert!(list.contains("take:links take:coupons read:shop-*"), "{list}");
    for line in ["rate         5000 keys a second", "quota        1000000 keys a day"] {
        assert!(show.contains(line), "{show}");
    }
    for kept in [list, show, listed.to_string(), everything_in(place.path())] {
        assert!(!kept.contains(&text) && !kept.contains(second), "{kept}");
    }
}

#[test]
fn a_rotated_token_has_a_new_text_and_the_old_one_ends_with_the_overlap() {
    let place = Place::new();
    let old = create(&place, "shop", "take:default");
    let server = Server::start_in(place, &LOOPBACK);
    let rotate = |overlap: &str| {
        let made = server.place.ok(&["token", "rotate", "shop", "--overlap", overlap, "--json"]);
        let made: Value = serde_json::from_str(&made).unwrap();
        assert_eq!((&made["name"], &made["allow"]), (&json!("shop"), &json!(["take:default"])));
        made["token"].as_str().unwrap().to_owned()
    };
    assert_eq!(take(&server, &old), 200);
    let new = rotate("1h");
    eventually("the new text is known", || take(&server, &new) == 200);
    assert_eq!(take(&server, &old), 200, "the old one lives on for a while");
    let newer = rotate("0s");
    eventually("the newer text is known", || take(&server, &newer) == 200);
    assert_eq!((take(&server, &old), take(&server, &new)), (401, 401));
    // What has expired would have a text that is refused.
    server.place.ok(&["token", "create", "brief", "--allow", "take:default", "--expires", "1s"]);
    std::thread::sleep(Duration::from_millis(1_100));
    server.place.fails(&["token", "rotate", "brief"], 2, "has expired");
}

#[test]
fn a_token_that_is_revoked_is_refused_within_a_heartbeat() {
    let place = Place::new();
    let text = create(&place, "shop", "take:default");
    let variables = [("KEYMILL_LIMITS_HEARTBEAT_SECONDS", "0.2")];
    let server = Server::start_with(place, &LOOPBACK, &variables);
    assert_eq!(take(&server, &text), 200);
    server.place.ok(&["token", "revoke", "shop"]);
    eventually("it is refused", || take(&server, &text) == 401);
    // A name may be used again; the old text is not.
    let second = create(&server.place, "shop", "take:default");
    eventually("the new one is known", || take(&server, &second) == 200);
    assert_eq!(take(&server, &text), 401);
}

#[test]
fn mistakes_are_told_before_anything_is_made() {
    let place = Place::new();
    create(&place, "taken", "take:links");
    let allow = ["--allow", "take:links"];
    let long = "x".repeat(65);
    for (args, says) in [
        (vec!["create", "shop"], "--allow"),
        (vec!["create"], "<NAME>"),
        (vec!["create", "shop", "--allow", "take"], "`take` does not say where"),
        (vec!["create", "shop", "--allow", "fly:links"], "`fly` is not a right"),
        (vec!["create", "shop", "--allow", "take:Links"], "`Links` is not a keyspace"),
        (vec!["create", "shop", "--allow", "take:a*b"], "`a*b` is not a keyspace"),
        (vec!["create", "Shop", allow[0], allow[1]], "`Shop` cannot be the name of a token"),
        (vec!["create", "a/b", allow[0], allow[1]], "`a/b` cannot be the name of a token"),
        (vec!["create", &long, allow[0], allow[1]], "1 to 64 characters"),
        (vec!["create", "anonymous", allow[0], allow[1]], "callers without one"),
        (vec!["create", ".", allow[0], allow[1]], "`.` cannot be the name of a token"),
        (vec!["create", "..", allow[0], allow[1]], "`..` cannot be the name of a token"),
        (vec!["create", "shop", allow[0], allow[1], "--expires", "soon"], "`soon` must be a time"),
        (vec!["create", "shop", allow[0], allow[1], "--expires", "0s"], "expire in the future"),
        (
            vec!["create", "shop", allow[0], allow[1], "--expires", "2020-01-01T00:00:00Z"],
            "expire in the future",
        ),
        (
            vec!["create", "shop", allow[0], allow[1], "--expires", "99999999d"],
            "`99999999d` is too far in the future",
        ),
        (vec!["create", "shop", allow[0], allow[1], "--rate", "0/s"], "at least 1"),
        (vec!["create", "shop", allow[0], allow[1], "--rate", "5/d"], "such as 5000/s"),
        (vec!["create", "shop", allow[0], allow[1], "--quota", "many"], "such as 5000/d"),
        (vec!["create", "shop", allow[0], allow[1], "--quota", "0"], "at least 1"),
        (vec!["rotate", "taken", "--overlap", "91d"], "0 to 90 days"),
        (vec!["rotate", "taken", "--overlap", "long"], "`long` must be a time such as"),
    ] {
        place.fails(&[&["token"], args.as_slice()].concat(), 2, says);
    }
    for (args, says) in [
        (["show", "nope"].as_slice(), "there is no token `nope`"),
        (&["rotate", "nope"], "there is no token `nope`"),
        (&["revoke", "nope"], "there is no token `nope`"),
        (&["create", "taken", "--allow", "take:links"], "the token `taken` already exists"),
    ] {
        place.fails(&[&["token"], args].concat(), 1, says);
    }
    let listed: Value = serde_json::from_str(&place.ok(&["token", "list", "--json"])).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    // Everybody on a machine can read its command lines.
    for command in [["take", "--token"], ["serve", "--token"], ["serve", "--admin-token"]] {
        place.fails(&[command[0], command[1], "km_x"], 2, "unexpected argument");
    }
}

#[test]
fn a_name_is_a_token_of_the_settings_or_of_the_store_and_not_of_both() {
    let place = Place::new();
    create(&place, "shop", "take:links");
    fs::write(place.path().join("keymill.toml"), section("shop", &new_text())).unwrap();
    let serve = [&["serve"], LOOPBACK.as_slice()].concat();
    place.fails(&serve, 1, "the token `shop` is in the settings and in the store");
    place.fails(&serve, 1, "keymill token revoke shop");
    place.ok(&["token", "revoke", "shop"]);
    place.fails(
        &["token", "create", "shop", "--allow", "take:links"],
        2,
        "the settings have a token `shop`; choose another name",
    );
    fs::write(place.path().join("tokens.toml"), section("shop", &new_text())).unwrap();
    let twice = place.command(&serve).env("KEYMILL_TOKENS_FILE", "tokens.toml").output().unwrap();
    failed(&twice, 1, "the token `shop` is set twice");
}

#[test]
fn tokens_come_from_variables_files_and_credentials() {
    let text = new_text();
    let sha256 = section("shop", &text);
    for (variable, value, file, content) in [
        ("KEYMILL_ADMIN_TOKEN", text.as_str(), "unused", String::new()),
        ("KEYMILL_ADMIN_TOKEN_FILE", "token", "token", format!("{text}\n")),
        ("CREDENTIALS_DIRECTORY", ".", "keymill-admin-token", format!(" {text} \n")),
        ("KEYMILL_TOKENS_FILE", "tokens.toml", "tokens.toml", sha256.clone()),
        ("KEYMILL_LOG_LEVEL", "info", "keymill.toml", sha256.clone()),
        // What the settings call it, in upper case.
        ("KEYMILL_LOG_LEVEL", "info", "keymill.toml", upper_case(&sha256)),
    ] {
        let place = Place::new();
        fs::write(place.path().join(file), content).unwrap();
        // Settings alone are enough to listen everywhere.
        let server = Server::start_with(place, &EVERYWHERE[1..], &[(variable, value)]);
        let answers = [take(&server, &text), take(&server, ""), take(&server, &new_text())];
        assert_eq!(answers, [200, 401, 401], "{variable}={value} {file}");
    }
}

#[test]
fn wrong_tokens_in_the_settings_are_refused_and_not_repeated() {
    let place = Place::new();
    let planted = "km_PLANTED";
    for (file, content, says) in [
        ("tokens.toml", format!("[tokens.shop]\nsha256 = {planted}\n"), "line 2 is not valid"),
        ("tokens.toml", format!("[tokens]\nshop = \"{planted}\"\n"), "line 2 is not valid"),
        ("tokens.toml", format!("{planted}\n"), "line 1 is not valid"),
        (
            "tokens.toml",
            format!("[tokens.shop]\nsha256 = \"{planted}\"\nallow = [\"take:a\"]\n"),
            "sha256 must be the SHA-256 of the token, as 64 hexadecimal digits",
        ),
        ("tokens.toml", section("Shop", &new_text()), "`Shop` cannot be the name of a token"),
        ("tokens.toml", section("anonymous", &new_text()), "callers without one"),
        ("tokens.toml", section("'..'", &new_text()), "`..` cannot be the name of a token"),
        ("tokens.toml", section("shop", &new_text()) + "rate = 0\n", "must be at least 1"),
        ("tokens.toml", section("shop", &new_text()) + "quota = 0\n", "must be at least 1"),
        ("tokens.toml", section("shop", &new_text()).replace("take:", "fly:"), "`fly` is not a"),
        ("other.toml", String::new(), "cannot read the tokens in tokens.toml"),
    ] {
        let _ = fs::remove_file(place.path().join("tokens.toml"));
        fs::write(place.path().join(file), content).unwrap();
        let mut serve = place.command(&[&["serve"], LOOPBACK.as_slice()].concat());
        let output = serve.env("KEYMILL_TOKENS_FILE", "tokens.toml").output().unwrap();
        failed(&output, 1, says);
        assert!(!String::from_utf8_lossy(&output.stderr).contains(planted), "{output:?}");
    }
    for (variable, value, says) in [
        ("KEYMILL_ADMIN_TOKEN", planted, "KEYMILL_ADMIN_TOKEN is not a token"),
        ("KEYMILL_ADMIN_TOKEN", "", "KEYMILL_ADMIN_TOKEN is not a token"),
        ("KEYMILL_ADMIN_TOKEN_FILE", "other.toml", "other.toml is not a token"),
        ("KEYMILL_ADMIN_TOKEN_FILE", "gone", "cannot read the token in gone"),
        ("KEYMILL_ANONYMOUS_ALLOW", "take", "`take` does not say where"),
        ("KEYMILL_ALLOWED_HOSTS", "keys.example:443", "write it without scheme and port"),
        ("KEYMILL_ALLOWED_HOSTS", "https://keys.example", "write it without scheme and port"),
        ("KEYMILL_ALLOWED_ORIGINS", "shop.example", "is not an origin such as"),
        ("KEYMILL_ALLOWED_ORIGINS", "https://shop.example/", "is not an origin such as"),
    ] {
        let mut serve = place.command(&[&["serve"], LOOPBACK.as_slice()].concat());
        let output = serve.env(variable, value).output().unwrap();
        failed(&output, 1, says);
        assert!(!String::from_utf8_lossy(&output.stderr).contains(planted), "{output:?}");
    }
}

#[test]
fn what_is_done_with_tokens_here_is_on_record() {
    let place = Place::new();
    create(&place, "shop", "take:links");
    place.ok(&["token", "rotate", "shop"]);
    place.ok(&["token", "revoke", "shop"]);
    place.fails(&["token", "revoke", "shop"], 1, "no token `shop`");
    let admin = create(&place, "admin", "admin:*");
    let server = Server::start_in(place, &LOOPBACK);
    let answer = server.ask("GET", "/v1/acts", &bearer(&admin));
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let page: Value = serde_json::from_str(body).unwrap();
    let acts = page["acts"].as_array().unwrap();
    let told: Vec<&str> = acts.iter().map(|act| act["what"].as_str().unwrap()).collect();
    let expected =
        ["token create shop", "token rotate shop", "token revoke shop", "token create admin"];
    assert_eq!(told, expected);
    assert!(acts.iter().all(|act| act["by"] == "command line" && act["from"] != ""), "{page}");
}

/// Makes a token at the command line; its text.
#[track_caller]
pub(super) fn create(place: &Place, name: &str, allow: &str) -> String {
    place.ok(&["token", "create", name, "--allow", allow]).trim().to_owned()
}

pub(super) fn new_text() -> String {
    secret_text::make().unwrap().to_string()
}

/// A token in the settings.
pub(super) fn section(name: &str, text: &str) -> String {
    let hash = hex::encode(secret_text::hash(text.as_bytes()).unwrap());
    format!("[tokens.{name}]\nsha256 = \"{hash}\"\nallow = [\"take:default\"]\n")
}

/// The same with the digits of the hash in upper case.
fn upper_case(section: &str) -> String {
    let hash = section.split('"').nth(1).unwrap();
    section.replace(hash, &hash.to_uppercase())
}

pub(super) fn bearer(token: &str) -> String {
    if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") }
}

/// The status of a take, without a token where that is empty.
#[track_caller]
pub(super) fn take(server: &Server, token: &str) -> u16 {
    let answer = server.ask("GET", "/get-key", &bearer(token));
    answer.split(' ').nth(1).unwrap_or_default().parse().unwrap_or_else(|_| panic!("{answer}"))
}

/// Stops a server in order; its place.
pub(super) fn stopped(mut server: Server) -> Place {
    server.signal("TERM");
    assert!(server.ended().0.success());
    std::mem::replace(&mut server.place, Place::new())
}

#[track_caller]
pub(super) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// All files in a folder, as text.
fn everything_in(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            all += &everything_in(&entry.path());
        } else {
            all += &String::from_utf8_lossy(&fs::read(entry.path()).unwrap());
        }
    }
    all
}
