//! What systemd is told of a server that it has started with `Type=notify`: that it is ready, reloads its settings, or
//! stops.
//!
//! `serve` and `reload` call it. Without `NOTIFY_SOCKET` nothing is sent. A message that cannot be sent is logged, and
//! never ends the server.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How long systemd may take to read a message.
const TIME_MAX: Duration = Duration::from_secs(1);

/// What a server does from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It answers requests.
    Ready,
    /// It reads its settings again, and will be ready again.
    Reloading,
    /// It finishes requests and returns unused keys.
    Stopping,
}

/// Tells systemd, if it has asked for that.
pub(super) fn tell(phase: Phase) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
        return;
    };
    if let Err(error) = send(&socket, &message(phase)) {
        let socket = socket.to_string_lossy();
        tracing::warn!("systemd cannot be told that the server is {phase:?}: {socket}: {error}");
    }
}

fn message(phase: Phase) -> String {
    match phase {
        Phase::Ready => "READY=1".to_owned(),
        Phase::Reloading => {
            // By this time, systemd matches the message with the reload that it asked for.
            let now = clock_gettime(ClockId::Monotonic);
            let now = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
            format!("RELOADING=1\nMONOTONIC_USEC={now}")
        }
        Phase::Stopping => "STOPPING=1".to_owned(),
    }
}

fn send(socket: &OsStr, message: &str) -> io::Result<()> {
    let own = UnixDatagram::unbound()?;
    own.set_write_timeout(Some(TIME_MAX))?;
    own.send_to_addr(message.as_bytes(), &address(socket)?).map(drop)
}

/// The address that a name stands for: a path, or with an `@` one that no file stands for.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = name.as_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt;
        return SocketAddr::from_abstract_name(name);
    }
    if !name.as_bytes().starts_with(b"/") {
        let problem = "NOTIFY_SOCKET must be an absolute path, or begin with @";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    SocketAddr::from_pathname(name)
}
