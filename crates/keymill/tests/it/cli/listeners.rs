//! Where a server listens, as the command line and the settings say it, and the certificates it uses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use rcgen::SanType;
use rustls::version::{TLS12, TLS13};

use super::serve::Server;
use super::{Place, failed};
use crate::certificates::{Authority, Pair, shake_hands};

const HEALTHZ: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

/// The status line of a health check, over whatever this is.
fn health(mut stream: impl Read + Write) -> String {
    stream.write_all(HEALTHZ.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn listeners_are_a_repeated_flag_a_variable_with_commas_or_a_list_in_the_file() {
    let place = Place::new();
    let flags = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--listen",
        "unix:a.sock",
        "--admin-listen",
        "unix:b.sock",
    ];
    let mut serve = place.command(&flags);
    let mut server = serve.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let greeting: Vec<String> =
        lines.map_while(Result::ok).take_while(|line| !line.contains("curl ")).collect();
    let greeting = greeting.join("\n");
    let answers = ["a.sock", "b.sock"]
        .map(|name| health(UnixStream::connect(place.path().join(name)).unwrap()));
    server.kill().unwrap();
    server.wait().unwrap();
    for line in [
        "  listening  http://127.0.0.1:",
        "\n  listening  unix:a.sock",
        "\n  admin      unix:b.sock",
    ] {
        assert!(greeting.contains(line), "`{line}` is not in\n{greeting}");
    }
    assert_eq!(answers, ["HTTP/1.1 200 OK"; 2]);
    let shown = |place: &Place| {
        let mut command = place.command(&["config", "show"]);
        command.env("KEYMILL_LISTEN", "127.0.0.1:1, unix:c.sock");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let text = shown(&place);
    assert!(text.contains("listen = [\"127.0.0.1:1\", \"unix:c.sock\"]"), "{text}");
    let settings = "listen = [\"127.0.0.1:2\", \"[::1]:2\"]\n";
    std::fs::write(place.path().join("keymill.toml"), settings).unwrap();
    let text = place.ok(&["config", "show"]);
    assert!(text.contains("listen = [\"127.0.0.1:2\", \"[::1]:2\"]"), "{text}");
}

#[test]
fn a_socket_outlives_a_kill_and_not_a_stop_and_is_never_taken_from_another() {
    let path = |server: &Server| server.place.path().join("keymill.sock");
    let listen = ["--listen", "unix:keymill.sock"];
    let mut killed = Server::start_in(Place::new(), &listen);
    let refused = killed.place.run(&["serve", "--listen", "unix:keymill.sock"]);
    failed(&refused, 1, "cannot listen on unix:keymill.sock");
    failed(&refused, 1, "another process answers on this socket; stop it, or choose another path");
    killed.signal("KILL");
    assert!(!killed.ended().0.success());
    assert!(path(&killed).exists());
    let place = std::mem::replace(&mut killed.place, Place::new());
    let mut server = Server::start_in(place, &listen);
    assert_eq!(health(UnixStream::connect(path(&server)).unwrap()), "HTTP/1.1 200 OK");
    server.signal("TERM");
    assert!(server.ended().0.success());
    assert!(!path(&server).exists());
}

#[test]
fn a_server_that_cannot_start_leaves_no_socket() {
    let place = Place::new();
    let flags = ["serve", "--listen", "unix:keymill.sock", "--require-existing"];
    assert_eq!(place.run(&flags).status.code(), Some(1));
    assert!(!place.path().join("keymill.sock").exists());
}

#[test]
fn the_admin_listener_is_named_where_it_cannot_be_used() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let says = format!("cannot listen on {address}; choose another address with --admin-listen");
    place.fails(&["serve", "--listen", "127.0.0.1:0", "--admin-listen", &address], 1, &says);
    place.fails(&["serve", "--admin-listen", "nowhere"], 2, "--admin-listen: cannot listen on");
}

#[test]
fn files_that_cannot_be_used_are_refused_at_the_start() {
    let (place, authority) = (Place::new(), Authority::new());
    authority.server().write(place.path());
    std::fs::write(place.path().join("other.key"), authority.server().key).unwrap();
    for (settings, says) in [
        ("tls_certificate = \"tls.pem\"", "tls_certificate is set, but tls_key is not; set both"),
        (
            "tls_certificate = \"tls.pem\"\ntls_key = \"other.key\"",
            "the key in other.key does not belong to the certificate in tls.pem",
        ),
        (
            "tls_certificate = \"gone\"\ntls_key = \"tls.key\"",
            "tls_certificate: gone: No such file",
        ),
        (
            "tls_certificate = \"tls.key\"\ntls_key = \"tls.key\"",
            "tls_certificate: tls.key: it holds no certificate in PEM format",
        ),
        (
            "tls_certificate = \"tls.pem\"\ntls_key = \"tls.pem\"",
            "tls_key: tls.pem: it holds no private key in PEM format",
        ),
        (
            "tls_certificate = \"tls.pem\"\ntls_key = \"tls.key\"\ntls_client_ca = \"tls.key\"",
            "tls_client_ca: tls.key: it holds no certificate in PEM format",
        ),
    ] {
        std::fs::write(place.path().join("keymill.toml"), settings).unwrap();
        place.fails(&["serve", "--listen", "127.0.0.1:0"], 1, says);
        place.fails(&["config", "check"], 1, says);
    }
    // Commands that do not serve need not be able to read a key.
    place.ok(&["take"]);
}

/// Starts a server with this pair, and an authority for clients.
fn secured(pair: &Pair, client_ca: &str) -> Server {
    let place = Place::new();
    pair.write(place.path());
    std::fs::write(place.path().join("clients.pem"), client_ca).unwrap();
    let settings = "tls_certificate = \"tls.pem\"\ntls_key = \"tls.key\"\ntls_client_ca = \"clients.pem\"\n\
                    [log]\nlevel = \"trace\"\n";
    std::fs::write(place.path().join("keymill.toml"), settings).unwrap();
    Server::start_in(place, &["--listen", "127.0.0.1:0"])
}

/// Asks for health over TLS; an error where no hands are shaken.
fn health_over_tls(
    server: &Server,
    authority: &Authority,
    pair: Option<&Pair>,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let connector = authority.connector(pair, &[&TLS12, &TLS13], "http/1.1");
        let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let mut stream = shake_hands(&connector, stream).await?;
        stream.write_all(HEALTHZ.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        Ok(())
    })
}

#[test]
fn names_in_a_clients_certificate_arrive_and_a_certificate_of_others_is_refused() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let server = secured(&authority.server(), &clients.pem());
    assert!(server.greeting["url"].as_str().unwrap().starts_with("https://"));
    let names = vec![
        SanType::DnsName("Shop.internal".try_into().unwrap()),
        SanType::URI("spiffe://example/shop".try_into().unwrap()),
        SanType::Rfc822Name("shop@example.com".try_into().unwrap()),
        SanType::IpAddress([192, 0, 2, 1].into()),
    ];
    health_over_tls(&server, &authority, Some(&clients.client(names.clone()))).unwrap();
    let shown = server.logged("a client has shown a certificate");
    let expected = r#"["shop.internal", "spiffe://example/shop", "shop@example.com"]"#;
    assert_eq!(shown["fields"]["names"], expected);
    health_over_tls(&server, &authority, None).expect("none is required");
    let of_others = authority.client(names);
    health_over_tls(&server, &authority, Some(&of_others)).unwrap_err();
}

#[test]
fn new_files_are_used_at_a_hangup_and_by_themselves_and_keys_are_never_logged() {
    let authority = Authority::new();
    let mut pairs = vec![authority.server()];
    let mut server = secured(&pairs[0], &authority.pem());
    // Nothing but the files has changed.
    pairs.push(authority.server());
    pairs[1].write(server.place.path());
    server.signal("HUP");
    server.logged("the TLS certificate was reloaded");
    server.logged("the settings were reloaded");
    health_over_tls(&server, &authority, None).unwrap();
    // Without a signal, it takes a few seconds.
    pairs.push(authority.server());
    pairs[2].write(server.place.path());
    server.logged("the TLS certificate was reloaded");
    // A key that does not belong to its certificate changes nothing, and is said once.
    pairs.push(authority.server());
    std::fs::write(server.place.path().join("tls.key"), &pairs[3].key).unwrap();
    let line = server.logged("the TLS certificate was not reloaded; the old one stays in use");
    assert!(line["fields"]["message"].as_str().unwrap().contains("does not belong"), "{line}");
    health_over_tls(&server, &authority, None).unwrap();
    std::thread::sleep(Duration::from_secs(5));
    // Not even a client that speaks no TLS makes the log tell of a key.
    let _ = TcpStream::connect(server.address).unwrap().write_all(HEALTHZ.as_bytes());
    server.signal("TERM");
    let (status, log) = server.ended();
    assert!(status.success());
    let log = log.join("\n");
    assert!(!log.contains("was not reloaded"), "it is said once: {log}");
    for key in pairs.iter().flat_map(|pair| pair.key.lines()).filter(|line| !line.contains('-')) {
        assert!(!log.contains(key), "{log}");
    }
}
