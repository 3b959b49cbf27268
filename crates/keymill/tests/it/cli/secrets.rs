//! Secrets from variables, from files, and from the credentials that systemd passes on.

use std::fs;

use keymill::access::secret_text;
use serde_json::{Value, json};

use super::serve::Server;
use super::{Place, failed, stderr};
use crate::certificates::Authority;

const SECRET: &str = "hidden-hidden-hidden-hidden-hidden-hidden";
const STORE: &str = "sqlite:hidden.db";

/// A place with a file for each secret, as variables and credentials name them.
fn place() -> (Place, String) {
    let place = Place::new();
    let token = secret_text::make().unwrap().to_string();
    for (file, text) in [("secret", SECRET), ("store", STORE), ("admin-token", &token)] {
        // A file may end with a newline.
        fs::write(place.path().join(file), format!("{text}\n")).unwrap();
        fs::write(place.path().join(format!("keymill-{file}")), format!(" {text}\n")).unwrap();
    }
    (place, token)
}

#[track_caller]
fn run(place: &Place, args: &[&str], variables: &[(&str, &str)]) -> std::process::Output {
    let output = place.command(args).envs(variables.iter().copied()).output().unwrap();
    for said in [&output.stdout, &output.stderr] {
        let said = String::from_utf8_lossy(said);
        assert!(!said.contains(SECRET) && !said.contains("km_"), "{said}");
    }
    output
}

#[test]
fn every_secret_may_be_in_a_file_or_a_credential() {
    let by_file = [
        ("KEYMILL_SECRET_FILE", "secret"),
        ("KEYMILL_STORE_FILE", "store"),
        ("KEYMILL_ADMIN_TOKEN_FILE", "admin-token"),
    ];
    for variables in [&by_file[..], &[("CREDENTIALS_DIRECTORY", ".")]] {
        let (place, token) = place();
        // With a secret of its own, a store has to be asked for.
        let first = run(&place, &["space", "create", "default", "--new-store"], variables);
        assert!(first.status.success(), "{}", stderr(&first));
        assert!(place.path().join("hidden.db").exists(), "it is not the store of the file");
        // The secret counts: another one is not that of the keyspace.
        let other = "x".repeat(40);
        let wrong = run(&place, &["take"], &[("KEYMILL_STORE", STORE), ("KEYMILL_SECRET", &other)]);
        failed(&wrong, 1, "not the one that the keyspace `default`");
        let server = Server::start_with(place, &["--listen", "127.0.0.1:0"], variables);
        let bearer = format!("authorization: Bearer {token}\r\n");
        assert!(server.ask("GET", "/v1/tokens", &bearer).starts_with("HTTP/1.1 200"));
        assert!(server.ask("GET", "/get-key", &bearer).starts_with("HTTP/1.1 200"));
        assert!(server.ask("GET", "/get-key", "").starts_with("HTTP/1.1 401"));
    }
}

#[test]
fn the_same_secret_from_two_places_is_refused_and_a_flag_wins() {
    let (place, token) = place();
    let credentials = ("CREDENTIALS_DIRECTORY", ".");
    for (variable, value, credential, what) in [
        ("KEYMILL_SECRET", SECRET, "keymill-secret", "the secret"),
        ("KEYMILL_STORE", STORE, "keymill-store", "the store's URL"),
        ("KEYMILL_ADMIN_TOKEN", &token, "keymill-admin-token", "the token"),
    ] {
        let file = format!("{variable}_FILE");
        let name = credential.trim_start_matches("keymill-");
        let both = run(&place, &["config", "check"], &[(variable, value), (&file, name)]);
        failed(&both, 2, &format!("{variable} and {file} both give {what}; keep one of them"));
        for (variable, value) in [(variable, value), (file.as_str(), name)] {
            let both = run(&place, &["config", "check"], &[(variable, value), credentials]);
            let says = format!("{variable} and the credential `{credential}` both give {what}");
            failed(&both, 2, &says);
        }
    }
    // What stands in a higher place counts, as with every setting.
    fs::write(place.path().join("keymill.toml"), "store = \"sqlite:file.db\"\n").unwrap();
    let shown = |args: &[&str], variables: &[(&str, &str)]| {
        let output = run(&place, &[&["config", "show", "--json"], args].concat(), variables);
        assert!(output.status.success(), "{}", stderr(&output));
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
        shown["settings"]["store"].clone()
    };
    let by_file = [("KEYMILL_STORE_FILE", "store")];
    let variable = json!({"origin": "variable", "name": "KEYMILL_STORE_FILE"});
    assert_eq!(shown(&[], &by_file), variable);
    let flag = ["--store", "sqlite:flag.db"];
    assert_eq!(shown(&flag, &by_file)["value"], "sqlite:flag.db");
    assert_eq!(shown(&[], &[])["value"], "sqlite:file.db");
    let settings = "store = \"sqlite:file.db\"\nstore_file = \"store\"\n";
    fs::write(place.path().join("keymill.toml"), settings).unwrap();
    place.fails(&["config", "check"], 2, "`store` and `store_file` both give the store's URL");
}

#[test]
fn config_show_says_where_each_secret_comes_from_and_nothing_of_it() {
    let (place, _) = place();
    let shown = |variables: &[(&str, &str)]| {
        let output = run(&place, &["config", "show"], variables);
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let by_file = shown(&[
        ("KEYMILL_SECRET_FILE", "secret"),
        ("KEYMILL_STORE_FILE", "store"),
        ("KEYMILL_ADMIN_TOKEN_FILE", "admin-token"),
    ]);
    for line in [
        "# Secret: from the variable KEYMILL_SECRET_FILE, not shown.\n",
        "# Store: from the variable KEYMILL_STORE_FILE, not shown.\n",
        "# Admin token: from the variable KEYMILL_ADMIN_TOKEN_FILE, not shown.\n",
    ] {
        assert!(by_file.contains(line), "`{line}` is not in\n{by_file}");
    }
    assert!(!by_file.contains("hidden"), "{by_file}");
    // It can still be used as settings.
    fs::write(place.path().join("again.toml"), &by_file).unwrap();
    place.ok(&["config", "show", "--config", "again.toml"]);
    let credentials = shown(&[("CREDENTIALS_DIRECTORY", ".")]);
    for name in ["keymill-secret", "keymill-store", "keymill-admin-token"] {
        let words = format!(": from the credential {name}, not shown.\n");
        assert!(credentials.contains(&words), "`{words}` is not in\n{credentials}");
    }
    fs::write(place.path().join("keymill.toml"), "secret_file = \"secret\"\n").unwrap();
    assert!(shown(&[]).contains("# Secret: from `secret_file`, not shown.\n"));
}

#[test]
fn what_a_file_holds_is_not_repeated_by_an_error() {
    let place = Place::new();
    fs::write(place.path().join("wrong"), "hunter2\n").unwrap();
    for (variable, says) in [
        ("KEYMILL_SECRET_FILE", "wrong: "),
        ("KEYMILL_STORE_FILE", "wrong does not hold the URL of a store"),
        ("KEYMILL_ADMIN_TOKEN_FILE", "wrong is not a token"),
    ] {
        let with = |file: &str| place.command(&["take"]).env(variable, file).output().unwrap();
        let wrong = with("wrong");
        failed(&wrong, 1, says);
        assert!(!stderr(&wrong).contains("hunter2"), "{}", stderr(&wrong));
        failed(&with("gone"), 1, " in gone: No such file");
    }
}

#[test]
fn the_key_of_a_certificate_may_be_a_credential() {
    let place = Place::new();
    Authority::new().server().write(place.path());
    fs::rename(place.path().join("tls.key"), place.path().join("keymill-tls-key")).unwrap();
    let credentials = ("CREDENTIALS_DIRECTORY", ".");
    fs::write(place.path().join("keymill.toml"), "tls_certificate = \"tls.pem\"\n").unwrap();
    place.fails(&["config", "check"], 1, "tls_key is not");
    let checked = run(&place, &["config", "check"], &[credentials]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    let shown = run(&place, &["config", "show"], &[credentials]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    let line = shown.lines().find(|line| line.starts_with("tls_key = ")).unwrap();
    assert!(line.ends_with(" # credential keymill-tls-key"), "{line}");
    let server = Server::start_with(place, &["--listen", "127.0.0.1:0"], &[credentials]);
    assert!(server.greeting["url"].as_str().unwrap().starts_with("https://"));
}
