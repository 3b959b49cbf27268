//! What a hangup says of who may do what, and what it refuses.

use std::fs;

use keymill::access::secret_text;

use super::Place;
use super::serve::Server;
use crate::certificates::Authority;

const LOOPBACK: [&str; 2] = ["--listen", "127.0.0.1:0"];

/// A token in the settings.
fn section(name: &str, text: &str) -> String {
    let hash = hex::encode(secret_text::hash(text.as_bytes()).unwrap());
    format!("[tokens.{name}]\nsha256 = \"{hash}\"\nallow = [\"take:default\"]\n")
}

fn token() -> String {
    secret_text::make().unwrap().to_string()
}

fn status(server: &Server, token: &str) -> String {
    let answer = server.ask("GET", "/get-key", &format!("authorization: Bearer {token}\r\n"));
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// Reloads; what was changed, as the log has it.
fn reload(server: &Server) -> String {
    server.signal("HUP");
    let line = server.logged("the settings were reloaded");
    let fields = &line["fields"];
    let is_told = fields["message"].as_str().unwrap().ends_with("; nothing has changed");
    assert_eq!(is_told, fields["changed"].is_null(), "{line}");
    fields["changed"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_hangup_names_what_has_changed_of_tokens_limits_and_certificates_and_shows_nothing_of_it() {
    let (place, authority) = (Place::new(), Authority::new());
    let write = |place: &Place, file: &str, text: &str| {
        fs::write(place.path().join(file), text).unwrap();
    };
    let (admin, shop, mall) = (token(), token(), token());
    authority.server().write(place.path());
    let settings = |more: &str| {
        format!(
            "tls_certificate = \"tls.pem\"\ntls_key = \"tls.key\"\ntokens_file = \"tokens.toml\"\n{more}"
        )
    };
    write(&place, "keymill.toml", &settings(""));
    write(&place, "admin", &admin);
    write(&place, "tokens.toml", &section("mall", &mall));
    let server = Server::start_with(place, &LOOPBACK, &[("KEYMILL_ADMIN_TOKEN_FILE", "admin")]);
    assert_eq!(reload(&server), "", "nothing has changed");
    let other = token();
    write(&server.place, "admin", &other);
    assert_eq!(reload(&server), "admin token changed");
    write(&server.place, "tokens.toml", &section("mall", &mall).replace("take:", "read:"));
    assert_eq!(reload(&server), "token mall changed");
    let allow =
        "anonymous_allow = [\"take:default\"]\n[limits]\nanonymous_requests_per_second = 9\n";
    server.write_settings(&settings(&format!("{allow}{}", section("shop", &shop))));
    let changed = reload(&server);
    for name in ["anonymous_allow", "limits.anonymous_requests_per_second", "token shop added"] {
        assert!(changed.contains(name), "{name} is not in {changed}");
    }
    for secret in [&admin, &shop, &mall, &other] {
        let hash = hex::encode(secret_text::hash(secret.as_bytes()).unwrap());
        assert!(!changed.contains(secret.as_str()) && !changed.contains(&hash), "{changed}");
    }
}

/// The server also looks for new files by itself, and may be faster than the signal: then it has said so already.
#[test]
fn a_hangup_names_the_certificate_that_it_has_read() {
    let (place, authority) = (Place::new(), Authority::new());
    authority.server().write(place.path());
    let settings = "tls_certificate = \"tls.pem\"\ntls_key = \"tls.key\"\n";
    fs::write(place.path().join("keymill.toml"), settings).unwrap();
    let server = Server::start_in(place, &LOOPBACK);
    for _ in 0..10 {
        authority.server().write(server.place.path());
        if reload(&server) == "TLS certificate" {
            return;
        }
    }
    panic!("the certificate is never named");
}

#[test]
fn a_token_that_the_store_has_as_well_is_not_reloaded_and_named() {
    let place = Place::new();
    fs::write(place.path().join("keymill.toml"), "").unwrap();
    let on_record = place.ok(&["token", "create", "shop", "--allow", "take:default"]);
    let on_record = on_record.trim();
    let server = Server::start_in(place, &LOOPBACK);
    assert_eq!(status(&server, on_record), "200");
    let (of_settings, other) = (token(), token());
    let both = format!("{}{}", section("shop", &of_settings), section("mall", &other));
    server.write_settings(&format!("anonymous_allow = [\"take:default\"]\n{both}"));
    server.signal("HUP");
    let line = server.logged("the tokens were not reloaded");
    assert!(line["fields"]["message"].as_str().unwrap().contains("`shop`"), "{line}");
    let line = server.logged("the settings were reloaded");
    assert!(line["fields"]["changed"].is_null(), "nothing of it is in force: {line}");
    let answers = [on_record, &of_settings, &other].map(|token| status(&server, token));
    assert_eq!(answers, ["200", "401", "401"]);
    assert!(server.ask("GET", "/get-key", "").starts_with("HTTP/1.1 401"));
    // Once it has another name, all of it is.
    server.write_settings(&section("mall", &other));
    let changed = reload(&server);
    assert!(changed.contains("token mall added"), "{changed}");
    assert_eq!(status(&server, &other), "200");
}
