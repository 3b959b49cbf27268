//! A TCP proxy with faults: between a keymill and its store it loses answers, holds requests
//! back, stalls, and resets.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a stalled connection looks whether it may go on.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What the proxy does to connections, old and new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it passes everything on.
    None,
    /// A request with these bytes is passed on; once its answer comes, the connection is closed
    /// instead. Whoever asked cannot know whether it was done.
    LoseAnswer(&'static str),
    /// A request with these bytes is not passed on, until the fault is another.
    HoldBack(&'static str),
    /// Nothing is passed on either way, until the fault is another.
    Stall,
    /// Whatever is sent is answered with a reset.
    Reset,
}

/// A running proxy; connections through it end with it.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: Mutex<SocketAddr>,
    fault: Mutex<Fault>,
    struck: AtomicU32,
    ended: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// A proxy to a port of this machine.
    ///
    /// # Panics
    ///
    /// When there is no free port.
    pub fn start(target: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let shared = Arc::new(Shared {
            target: Mutex::new(SocketAddr::from(([127, 0, 0, 1], target))),
            fault: Mutex::new(Fault::None),
            struck: AtomicU32::new(0),
            ended: AtomicBool::new(false),
            streams: Mutex::default(),
        });
        let accepting = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.ended.load(Ordering::SeqCst) {
                    return;
                }
                accepting.clone().connect(client);
            }
        });
        Proxy { port, shared }
    }

    /// A proxy to the server that a store's URL names, and the URL through it.
    ///
    /// # Panics
    ///
    /// When the URL names no port.
    pub fn before(url: &str) -> (Proxy, String) {
        let after = url.rsplit_once(':').and_then(|(_, after)| after.split('/').next());
        let port = after.and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("{url} names no port"));
        let proxy = Proxy::start(port);
        let through = url.replace(&format!(":{port}"), &format!(":{}", proxy.port));
        (proxy, through)
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Leads new connections to another port of this machine; those that are open stay where they
    /// are.
    pub fn lead_to(&self, target: u16) {
        let mut now = self.shared.target.lock().expect("nothing panics while it is held");
        *now = SocketAddr::from(([127, 0, 0, 1], target));
    }

    /// Does this from now on.
    pub fn set(&self, fault: Fault) {
        *self.shared.fault.lock().expect("nothing panics while it is held") = fault;
    }

    /// How often it has lost an answer or held a request back.
    pub fn struck(&self) -> u32 {
        self.shared.struck.load(Ordering::SeqCst)
    }

    /// Closes all connections.
    pub fn cut(&self) {
        for stream in self.shared.streams().drain(..) {
            // One that is closed already is as good.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.set(Fault::None);
        self.cut();
        // Wakes the one who accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    /// Joins a client to the target, one thread each way.
    fn connect(self: Arc<Shared>, client: TcpStream) {
        let target = *self.target.lock().expect("nothing panics while it is held");
        let Ok(server) = TcpStream::connect(target) else { return };
        let copies = (client.try_clone(), server.try_clone(), client.try_clone());
        let (Ok(to_client), Ok(from_server), Ok(kept)) = copies else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        self.streams().push(kept);
        let lost = Arc::<AtomicBool>::default();
        let (upwards, losing) = (self.clone(), lost.clone());
        std::thread::spawn(move || upwards.pass_requests(client, server, &losing));
        std::thread::spawn(move || self.pass_answers(from_server, to_client, &lost));
    }

    fn pass_requests(&self, mut client: TcpStream, mut server: TcpStream, lost: &AtomicBool) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = client.read(&mut buffer) {
            let request = &buffer[..length];
            match self.fault() {
                Fault::None => {}
                Fault::LoseAnswer(bytes) => {
                    if contains(request, bytes) {
                        self.struck.fetch_add(1, Ordering::SeqCst);
                        lost.store(true, Ordering::SeqCst);
                    }
                }
                Fault::HoldBack(bytes) => {
                    if contains(request, bytes) {
                        self.struck.fetch_add(1, Ordering::SeqCst);
                        self.while_it_is(Fault::HoldBack(bytes));
                    }
                }
                Fault::Stall => self.while_it_is(Fault::Stall),
                Fault::Reset => {
                    // Closing with no time to linger is a reset.
                    let _ = rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO));
                    break;
                }
            }
            if server.write_all(request).is_err() {
                break;
            }
        }
        let _ = (server.shutdown(Shutdown::Both), client.shutdown(Shutdown::Both));
    }

    fn pass_answers(&self, mut server: TcpStream, mut client: TcpStream, lost: &AtomicBool) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = server.read(&mut buffer) {
            if lost.load(Ordering::SeqCst) {
                break;
            }
            self.while_it_is(Fault::Stall);
            if client.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = (server.shutdown(Shutdown::Both), client.shutdown(Shutdown::Both));
    }

    fn while_it_is(&self, fault: Fault) {
        while self.fault() == fault {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn fault(&self) -> Fault {
        *self.fault.lock().expect("nothing panics while it is held")
    }

    fn streams(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.streams.lock().expect("nothing panics while it is held")
    }
}

fn contains(request: &[u8], bytes: &str) -> bool {
    request.windows(bytes.len()).any(|window| window == bytes.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_pass_until_one_is_lost() {
        let echo = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy::start(echo.local_addr().unwrap().port());
        std::thread::spawn(move || {
            let (mut stream, _) = echo.accept().unwrap();
            let mut word = [0; 4];
            while stream.read_exact(&mut word).is_ok() {
                stream.write_all(&word).unwrap();
            }
        });
        let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        let mut ask = |word: &[u8; 4]| {
            let mut answer = [0; 4];
            client.write_all(word).and_then(|()| client.read_exact(&mut answer)).map(|()| answer)
        };
        assert_eq!(ask(b"ping").unwrap(), *b"ping");
        proxy.set(Fault::LoseAnswer("lose"));
        assert_eq!(ask(b"ping").unwrap(), *b"ping");
        assert!(ask(b"lose").is_err());
        assert_eq!(proxy.struck(), 1);
    }

    #[test]
    fn new_connections_are_led_elsewhere_and_open_ones_stay() {
        let [first, second] = [b"one", b"two"].map(|word| {
            let server = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = server.local_addr().unwrap().port();
            std::thread::spawn(move || {
                let (mut stream, _) = server.accept().unwrap();
                while stream.read_exact(&mut [0]).is_ok() {
                    stream.write_all(word).unwrap();
                }
            });
            port
        });
        let proxy = Proxy::start(first);
        let connect = || TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
        let ask = |stream: &mut TcpStream| {
            let mut word = [0; 3];
            stream.write_all(b"?").and_then(|()| stream.read_exact(&mut word)).unwrap();
            word
        };
        let mut old = connect();
        assert_eq!(ask(&mut old), *b"one");
        proxy.lead_to(second);
        assert_eq!((ask(&mut connect()), ask(&mut old)), (*b"two", *b"one"));
    }
}
