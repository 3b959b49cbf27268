//! What systemd is told of a server that it has started.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use super::Place;
use super::serve::Server;

const LOOPBACK: [&str; 2] = ["--listen", "127.0.0.1:0"];

fn told(socket: &UnixDatagram) -> String {
    let mut message = [0; 256];
    let length = socket.recv(&mut message).unwrap();
    String::from_utf8(message[..length].to_vec()).unwrap()
}

/// A start, two reloads and a stop, as systemd sees them.
fn check(place: Place, socket: &UnixDatagram, name: &str) {
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    std::fs::write(place.path().join("keymill.toml"), "").unwrap();
    let mut server = Server::start_with(place, &LOOPBACK, &[("NOTIFY_SOCKET", name)]);
    assert_eq!(told(socket), "READY=1");
    assert!(server.ask("GET", "/get-key", "").starts_with("HTTP/1.1 200"));
    let mut last = 0;
    // Also where the settings cannot be read: the old ones stay, and the server is ready again.
    for settings in ["[limits]\ncount_max = 7\n", "nonsense"] {
        server.write_settings(settings);
        server.signal("HUP");
        let reloading = told(socket);
        let time = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap_or_default();
        let time: u64 = time.parse().unwrap_or_else(|_| panic!("{reloading}"));
        assert!(time > last, "{time} is not after {last}");
        last = time;
        assert_eq!(told(socket), "READY=1");
    }
    server.signal("TERM");
    assert_eq!(told(socket), "STOPPING=1");
    assert!(server.ended().0.success());
}

#[test]
fn systemd_is_told_by_a_socket_with_a_path() {
    let place = Place::new();
    let path = place.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    check(place, &socket, path.to_str().unwrap());
}

#[test]
fn systemd_is_told_by_a_socket_without_a_path() {
    let name = format!("keymill-notify-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let socket = UnixDatagram::bind_addr(&address).unwrap();
    check(Place::new(), &socket, &format!("@{name}"));
}

#[test]
fn a_socket_that_nobody_listens_on_ends_nothing() {
    let gone = "/nonexistent/notify";
    let mut server = Server::start_with(Place::new(), &LOOPBACK, &[("NOTIFY_SOCKET", gone)]);
    let warning = server.logged("systemd cannot be told");
    assert!(warning["fields"]["message"].as_str().unwrap().contains(gone), "{warning}");
    assert!(server.ask("GET", "/get-key", "").starts_with("HTTP/1.1 200"));
    server.signal("TERM");
    assert!(server.ended().0.success());
}
