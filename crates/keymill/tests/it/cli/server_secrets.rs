//! Working through a server: what is never sent to one, never repeated, and never taken for an answer of keymill.

use std::io::Write;

use super::{Place, failed, stderr};

#[test]
fn what_is_not_a_token_is_not_sent() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let place = Place::new();
    let file = place.path().join("secret");
    for wrong in
        ["NotBeShown".repeat(6), "km_thisIsNotATokenButItMustNotBeShownToAnybody0".to_owned()]
    {
        std::fs::write(&file, &wrong).unwrap();
        let mut command = place.command(&["--server", &url, "take"]);
        let refused = command.env("KEYMILL_TOKEN_FILE", &file).output().unwrap();
        failed(&refused, 2, "this is not a token, so it is not sent");
        assert!(!stderr(&refused).contains("NotBeShown"), "{}", stderr(&refused));
    }
    let asked = listener.accept().unwrap_err();
    assert_eq!(asked.kind(), std::io::ErrorKind::WouldBlock, "the server was asked");
    let token = keymill::access::secret_text::make().unwrap();
    let mixed = format!("{url},https://127.0.0.1:1");
    let mut command = place.command(&["--server", &mixed, "take"]);
    failed(
        &command.env("KEYMILL_TOKEN", token.as_str()).output().unwrap(),
        2,
        "use https:// for all",
    );
}

#[test]
fn a_secret_in_the_url_of_a_server_is_not_repeated() {
    let place = Place::new();
    for url in [
        "https://u:S3cret@127.0.0.1:1",
        "http://u:S3/cret@127.0.0.1:1",
        "https://127.0.0.1:1?token=S3cret",
        "km_S3cret",
    ] {
        for args in [&["take"][..], &["config", "show"], &["health"]] {
            let mut command = place.command(args);
            let output = command.env("KEYMILL_SERVER", url).output().unwrap();
            let said = format!("{}{}", stderr(&output), String::from_utf8_lossy(&output.stdout));
            assert!(!said.contains("S3") && !said.contains("cret@"), "{url}: {said}");
        }
        let refused = place.command(&["take"]).env("KEYMILL_SERVER", url).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{url}: {}", stderr(&refused));
    }
}

/// A server that answers everything with nothing, as one does that is not keymill.
#[test]
fn an_empty_answer_is_not_taken_for_a_keyspace_that_is_used_up() {
    for (label, body) in
        [("text/plain", ""), ("text/plain", "hello"), ("text/html", "<html>\n</html>\n")]
    {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let other = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4_096];
            let _ = std::io::Read::read(&mut stream, &mut request).unwrap();
            let len = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {label}\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n"
            );
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        });
        let output = Place::new().run(&["--server", &url, "take"]);
        other.join().unwrap();
        failed(&output, 1, "is it keymill?");
        assert!(output.stdout.is_empty() && !stderr(&output).contains("used up"), "{output:?}");
    }
}
