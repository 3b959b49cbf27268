//! Listeners: where a server accepts connections, and the sockets that are bound there.
//!
//! `cli` binds them before the service starts, so that an address in use is reported at once; `accept` takes
//! connections from them. Nothing here reads a byte.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener as StdTcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixSocket, UnixStream};

use super::tls::Tls;

/// Connections that the system accepts on its own and keeps until they are asked for.
const BACKLOG: u32 = 1_024;

/// Who may connect to a Unix socket: its owner and its group.
const SOCKET_MODE: u32 = 0o660;

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// The sockets of a server.
#[derive(Debug, Default)]
pub struct Listeners {
    pub(super) public: Vec<Bound>,
    pub(super) admin: Option<Bound>,
    pub(super) redis: Vec<Bound>,
    pub(super) tls: Option<Arc<Tls>>,
}

/// An endpoint that cannot be listened on, and why.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {endpoint}")]
pub struct BindError {
    /// Which one.
    pub endpoint: Endpoint,
    /// Why not.
    pub source: io::Error,
}

/// A socket that listens.
#[derive(Debug)]
pub(super) enum Bound {
    Tcp(TcpListener),
    /// The file goes first, so that nobody finds it while nothing answers on it.
    Unix(SocketFile, UnixListener),
}

/// The file of a Unix socket, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// What it was made as, until it is removed: another process may have put its own in this place.
    inode: Option<Inode>,
}

/// Which file a path names: its device and its number there.
type Inode = (u64, u64);

/// A connection that was accepted, by a runtime that only reads who it is for.
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Endpoint {
    /// Whether only this machine can connect to it.
    pub fn is_local(&self) -> bool {
        match self {
            Endpoint::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Endpoint::Unix(_) => true,
        }
    }

    /// Whether this is IPv4 on the same port.
    fn is_v4_on(&self, port: u16) -> bool {
        matches!(self, Endpoint::Tcp(SocketAddr::V4(address)) if address.port() == port)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => address.fmt(f),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Listeners {
    /// Listens on all of these endpoints, in a runtime. With an admin endpoint, what only admins need is
    /// answered nowhere else.
    pub async fn bind(
        public: &[Endpoint],
        admin: Option<&Endpoint>,
    ) -> Result<Listeners, BindError> {
        let endpoints: Vec<&Endpoint> = public.iter().chain(admin).collect();
        let mut bound = Bound::bind_all(&endpoints).await?;
        let admin = admin.and_then(|_| bound.pop());
        Ok(Listeners { public: bound, admin, ..Listeners::default() })
    }

    /// Speaks the Redis protocol on these endpoints, in addition.
    pub async fn with_redis(mut self, endpoints: &[Endpoint]) -> Result<Listeners, BindError> {
        let endpoints: Vec<&Endpoint> = endpoints.iter().collect();
        self.redis = Bound::bind_all(&endpoints).await?;
        Ok(self)
    }

    /// Uses TLS on every TCP listener.
    pub fn with_tls(mut self, tls: Option<Arc<Tls>>) -> Listeners {
        self.tls = tls;
        self
    }

    /// Whether its TCP listeners use TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Where it listens for everybody, with the ports that the system has chosen.
    pub fn public(&self) -> io::Result<Vec<Endpoint>> {
        self.public.iter().map(Bound::endpoint).collect()
    }

    /// Where it listens for admins.
    pub fn admin(&self) -> io::Result<Option<Endpoint>> {
        self.admin.as_ref().map(Bound::endpoint).transpose()
    }

    /// Where it speaks the Redis protocol.
    pub fn redis(&self) -> io::Result<Vec<Endpoint>> {
        self.redis.iter().map(Bound::endpoint).collect()
    }
}

impl From<TcpListener> for Listeners {
    fn from(listener: TcpListener) -> Listeners {
        Listeners { public: vec![Bound::Tcp(listener)], ..Listeners::default() }
    }
}

impl Bound {
    async fn bind_all(endpoints: &[&Endpoint]) -> Result<Vec<Bound>, BindError> {
        let mut bound = Vec::new();
        for endpoint in endpoints {
            // `[::]` includes IPv4, unless a listener of its own is to have that.
            let is_beside_v4 = match endpoint {
                Endpoint::Tcp(at) => endpoints.iter().any(|it| it.is_v4_on(at.port())),
                Endpoint::Unix(_) => false,
            };
            let failed = |source| BindError { endpoint: (*endpoint).clone(), source };
            bound.push(Bound::bind(endpoint, is_beside_v4).await.map_err(failed)?);
        }
        Ok(bound)
    }

    async fn bind(endpoint: &Endpoint, is_beside_v4: bool) -> io::Result<Bound> {
        match endpoint {
            Endpoint::Tcp(address) => {
                let socket = match address {
                    SocketAddr::V4(_) => TcpSocket::new_v4()?,
                    SocketAddr::V6(_) => TcpSocket::new_v6()?,
                };
                // A restart does not wait for connections of the process before.
                socket.set_reuseaddr(true)?;
                if address.is_ipv6() && is_beside_v4 {
                    rustix::net::sockopt::set_ipv6_v6only(&socket, true)?;
                }
                socket.bind(*address)?;
                Ok(Bound::Tcp(socket.listen(BACKLOG)?))
            }
            Endpoint::Unix(path) => {
                remove_stale(path).await?;
                let socket = UnixSocket::new_stream()?;
                socket.bind(path)?;
                let file = SocketFile::new(path)?;
                // Before it listens: until then nobody is let in, whatever the umask.
                fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))?;
                Ok(Bound::Unix(file, socket.listen(BACKLOG)?))
            }
        }
    }

    fn endpoint(&self) -> io::Result<Endpoint> {
        Ok(match self {
            Bound::Tcp(listener) => Endpoint::Tcp(listener.local_addr()?),
            Bound::Unix(file, _) => Endpoint::Unix(file.path.clone()),
        })
    }

    /// The next connection, and the address at its other end.
    pub(super) fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(Socket, IpAddr)>> {
        Poll::Ready(Ok(match self {
            Bound::Tcp(listener) => {
                let (stream, peer) = ready!(listener.poll_accept(context))?;
                (Socket::Tcp(stream), peer.ip().to_canonical())
            }
            Bound::Unix(_, listener) => {
                let (stream, _) = ready!(listener.poll_accept(context))?;
                (Socket::Unix(stream), THIS_MACHINE)
            }
        }))
    }

    /// Lets nobody find it any more. Those who have still have to be accepted.
    pub(super) fn hide(&mut self) {
        if let Bound::Unix(file, _) = self {
            file.remove();
        }
    }

    /// The next connection that the system has accepted already. Not through the runtime, which may not have
    /// heard of it yet.
    pub(super) fn accept_now(&self) -> io::Result<(Socket, IpAddr)> {
        Ok(match self {
            Bound::Tcp(listener) => {
                let (stream, peer) = StdTcpListener::from(owned(listener)?).accept()?;
                stream.set_nonblocking(true)?;
                (Socket::Tcp(TcpStream::from_std(stream)?), peer.ip().to_canonical())
            }
            Bound::Unix(_, listener) => {
                let (stream, _) = StdUnixListener::from(owned(listener)?).accept()?;
                stream.set_nonblocking(true)?;
                (Socket::Unix(UnixStream::from_std(stream)?), THIS_MACHINE)
            }
        })
    }
}

/// The address of those who connect through the file system.
const THIS_MACHINE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn owned(listener: &impl AsFd) -> io::Result<OwnedFd> {
    listener.as_fd().try_clone_to_owned()
}

impl Socket {
    /// Sees the first bytes without taking them, once some have arrived.
    pub(super) async fn peek(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.peek(bytes).await,
            Socket::Unix(stream) => {
                let flags = rustix::net::RecvFlags::PEEK;
                stream
                    .async_io(Interest::READABLE, || {
                        Ok(rustix::net::recv(stream, &mut *bytes, flags)?.0)
                    })
                    .await
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Socket::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

/// Removes a socket that nothing answers on: a process that was killed leaves its own behind.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        let problem = "this file exists and is not a socket; choose another path";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, problem));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
        // Where it would block, more connections wait there than the other process accepts.
        _ => {
            let problem = "another process answers on this socket; stop it, or choose another path";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, problem));
        }
    }
    // Another process may have replaced it since.
    if inode(path).is_some_and(|now| now == (found.dev(), found.ino())) {
        fs::remove_file(path)?;
    }
    Ok(())
}

fn inode(path: &Path) -> Option<Inode> {
    fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<SocketFile> {
        let found = fs::symlink_metadata(path)?;
        Ok(SocketFile { path: path.to_owned(), inode: Some((found.dev(), found.ino())) })
    }

    /// Removes it, where it is still the own one.
    fn remove(&mut self) {
        let own = self.inode.take();
        if own.is_some() && inode(&self.path) == own {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}
