//! Commands through a server that cannot be carried out: each says why, and what to do.

use std::io::Write;

use super::serve::Server;
use super::server_mode::Served;
use super::{Place, failed, stderr};
use crate::certificates::Authority;

#[test]
fn who_may_not_or_cannot_is_told_so() {
    let served = Served::start();
    let url = &served.url;
    let ask = |token: Option<&str>, args: &[&str]| {
        let mut command = served.client.command(args);
        command.env("KEYMILL_SERVER", url).envs(token.map(|token| ("KEYMILL_TOKEN", token)));
        command.output().unwrap()
    };
    failed(&ask(None, &["space", "list"]), 1, "set KEYMILL_TOKEN");
    let unknown = keymill::access::secret_text::make().unwrap();
    let refused = ask(Some(&unknown), &["space", "list"]);
    failed(&refused, 1, "unknown, expired or revoked");
    assert!(!stderr(&refused).contains(unknown.as_str()), "{}", stderr(&refused));
    failed(&ask(Some("two words"), &["space", "list"]), 2, "km_");
    let reader = served.ok_here(&["token", "create", "reader", "--allow", "read:links"]);
    let reader = Some(reader.trim());
    // Unknown tokens have the list read again once a second, and one was just shown.
    let begin = std::time::Instant::now();
    let may = loop {
        let may = ask(reader, &["space", "show", "links"]);
        if may.status.success() || begin.elapsed().as_secs() > 20 {
            break may;
        }
    };
    assert!(may.status.success(), "{}", stderr(&may));
    failed(
        &ask(reader, &["space", "seal", "links", "--yes"]),
        1,
        "`admin` for the keyspace `links`",
    );
    failed(&ask(reader, &["take", "links"]), 1, "`take` for the keyspace `links`");
    // In a file, too, but not in both places.
    let file = served.client.path().join("token");
    std::fs::write(&file, format!("{}\n", served.token)).unwrap();
    let with_file = |also: Option<(&str, &str)>| {
        let mut command = served.client.command(&["--server", url, "space", "list"]);
        command.env("KEYMILL_TOKEN_FILE", &file).envs(also).output().unwrap()
    };
    assert!(with_file(None).status.success(), "{}", stderr(&with_file(None)));
    let both = with_file(Some(("KEYMILL_TOKEN", &served.token)));
    failed(&both, 2, "KEYMILL_TOKEN and KEYMILL_TOKEN_FILE both give the token");
    std::fs::write(&file, "\n").unwrap();
    failed(&with_file(None), 2, "token: the token is empty");
    // Arguments are readable for everybody on the machine.
    failed(&ask(None, &["space", "list", "--token", &served.token]), 2, "unexpected argument");
    for nobody in ["http://127.0.0.1:1", "unix:/nowhere/keymill.sock"] {
        let refused = served.client.run(&["--server", nobody, "take"]);
        failed(&refused, 3, nobody);
    }
    failed(&served.client.run(&["--server", "localhost:8080", "take"]), 2, "http://host:port");
}

#[test]
fn commands_that_need_the_store_itself_say_so() {
    let place = Place::new();
    let url = "http://127.0.0.1:1";
    for (args, says) in [
        (&["serve"][..], "leave out --server"),
        (&["config", "show"], "leave out --server"),
        (&["completions", "bash"], "leave out --server"),
        (&["man"], "leave out --server"),
        (&["token", "generate"], "`token create` works through a server"),
        (&["store", "migrate"], "the database itself"),
        (&["secret", "export", "-"], "never goes through a server"),
    ] {
        place.fails(&[&["--server", url], args].concat(), 2, says);
    }
    let with_variable = |args: &[&str], more: &[(&str, &str)]| {
        let mut command = place.command(args);
        command.env("KEYMILL_SERVER", url).envs(more.iter().copied()).output().unwrap()
    };
    for args in [&["secret", "export", "-"][..], &["store", "migrate"]] {
        failed(&with_variable(args, &[]), 2, "unset KEYMILL_SERVER");
    }
    for args in [&["completions", "bash"][..], &["config", "show"], &["token", "generate"]] {
        let output = with_variable(args, &[]);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    }
    // It must be clear which of the two is meant.
    for flags in [&["--store", "sqlite:x.db"][..], &["--data-dir", "x"], &["--new-store"]] {
        place.fails(&[&["--server", url, "take"], flags].concat(), 2, "contradict each other");
    }
    let store = [("KEYMILL_STORE", "sqlite:x.db")];
    failed(&with_variable(&["take"], &store), 2, "KEYMILL_SERVER and KEYMILL_STORE are both set");
    let flag = with_variable(&["take", "--store", "sqlite:x.db"], &[]);
    assert!(flag.status.success(), "a flag wins over a variable: {}", stderr(&flag));
    assert!(stderr(&flag).contains("not through KEYMILL_SERVER"), "{}", stderr(&flag));
    // These do not say which store is meant.
    for flag in ["--new-store", "--allow-unsafe-store"] {
        failed(&with_variable(&["take", flag], &[]), 2, "KEYMILL_SERVER names a server");
    }
    let shown = with_variable(&["config", "show"], &[("KEYMILL_TOKEN", "km_hidden")]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains(&format!("# Server: {url}, from the variable KEYMILL_SERVER.")),
        "{shown}"
    );
    assert!(shown.contains("# Token for the server: from the variable KEYMILL_TOKEN,"), "{shown}");
    assert!(!shown.contains("hidden"), "{shown}");
}

/// The server sends two keys of a hundred, and is gone.
#[test]
fn keys_that_were_printed_before_a_server_died_are_counted() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let dying = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4_096];
        let _ = std::io::Read::read(&mut stream, &mut request).unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 800\r\n\r\n";
        stream.write_all(format!("{head}aaaaaaa\nbbbbbbb\nccc").as_bytes()).unwrap();
    });
    let output = Place::new().run(&["--server", &url, "take", "-n", "100"]);
    dying.join().unwrap();
    assert_eq!(output.stdout, b"aaaaaaa\nbbbbbbb\n");
    failed(&output, 3, "printed 2 of 100 keys, then failed");
}

#[test]
fn a_token_that_the_network_can_read_is_warned_of() {
    let says = "so the network can read it";
    for (url, is_told) in [
        // Addresses that nobody has.
        ("http://192.0.2.1:1", true),
        ("http://127.0.0.1:1", false),
        ("http://localhost:1", false),
        ("https://192.0.2.1:1", false),
    ] {
        let place = Place::new();
        let mut command = place.command(&["--server", url, "take"]);
        let token = keymill::access::secret_text::make().unwrap();
        let output = command.env("KEYMILL_TOKEN", token.as_str()).output().unwrap();
        assert_eq!(stderr(&output).matches(says).count(), usize::from(is_told), "{url}");
    }
}

#[test]
fn mistaken_urls_are_explained() {
    let (authority, place, client) = (Authority::new(), Place::new(), Place::new());
    authority.server().write(place.path());
    std::fs::write(client.path().join("ca.pem"), authority.pem()).unwrap();
    let flags = ["--listen", "127.0.0.1:0", "--tls-certificate", "tls.pem", "--tls-key", "tls.key"];
    let tls = Server::start_in(place, &flags);
    let plain = Server::start_in(Place::new(), &["--listen", "127.0.0.1:0"]);
    let (tls, plain) = (tls.address.port(), plain.address);
    for (url, says) in [
        (format!("http://localhost:{tls}"), "does it need https://?"),
        (format!("https://{plain}"), "does not speak TLS; use http://"),
        (format!("https://localhost:{tls}"), "with --server-ca FILE"),
        (format!("http://{plain}/docs"), "leave out `docs` in the server's URL"),
    ] {
        let ca = if says.contains("--server-ca") { &[][..] } else { &["--server-ca", "ca.pem"] };
        let output = client.run(&[&["--server", &url, "take"], ca].concat());
        assert!(!output.status.success(), "{url}");
        assert!(stderr(&output).contains(says), "{url}: {}", stderr(&output));
    }
    let two = client.run(&["--server", "http://127.0.0.1:1,http://127.0.0.1:2", "take"]);
    for down in ["http://127.0.0.1:1 cannot be reached", "http://127.0.0.1:2 cannot be reached"] {
        failed(&two, 3, down);
    }
    let missing = ["--server", "http://127.0.0.1:1", "--server-ca", "missing.pem", "take"];
    client.fails(&missing, 2, "missing.pem");
}

#[test]
fn a_server_is_trusted_by_its_authority() {
    let (authority, place, client) = (Authority::new(), Place::new(), Place::new());
    let pair = authority.server();
    for (file, text) in [("certificate.pem", &pair.certificate), ("key.pem", &pair.key)] {
        std::fs::write(place.path().join(file), text).unwrap();
    }
    std::fs::write(client.path().join("ca.pem"), authority.pem()).unwrap();
    let flags = ["--tls-certificate", "certificate.pem", "--tls-key", "key.pem"];
    let server = Server::start_in(place, &[&["--listen", "127.0.0.1:0"][..], &flags[..]].concat());
    let url = format!("https://localhost:{}", server.address.port());
    let trusting = ["--server", &url, "--server-ca", "ca.pem", "take"];
    assert_eq!(client.ok(&trusting).trim().len(), 7);
    let mut by_variable = client.command(&["take"]);
    by_variable.env("KEYMILL_SERVER", &url).env("KEYMILL_SERVER_CA", "ca.pem");
    let taken = by_variable.output().unwrap();
    assert!(taken.status.success(), "{}", stderr(&taken));
    let stranger = client.run(&["--server", &url, "take"]);
    assert!(
        !stranger.status.success() && stderr(&stranger).contains("certificate"),
        "{stranger:?}"
    );
    client.fails(&["--server", &url, "--server-ca", "missing.pem", "take"], 2, "missing.pem");
}
