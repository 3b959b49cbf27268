//! Five instances on eight workers, which are killed, paused for longer than their windows and
//! stopped, while callers take IDs of all of them.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use keymill_proof::backend::Kind;
use keymill_proof::random::Dice;
use keymill_proof::{Client, Server, ServerSpec};

use super::super::eventually;
use super::{
    ENDLESS_SECONDS, End, Layout, Received, SPACE, backend, endless, gives, instance, make, sqlite,
};

const INSTANCES: usize = 5;
const LAYOUT: Layout = Layout { worker_bits: 3 };
const WINDOW: Duration = Duration::from_secs(1);
/// How many IDs to receive, unless `KEYMILL_SNOWFLAKE_IDS` says another number.
const IDS: u64 = 5_000_000;
/// The end, whether all was reached or not.
const TIME_MAX: Duration = Duration::from_secs(150);
/// One caller for each instance, and some who ask one after another.
const CALLERS: usize = INSTANCES + 3;
/// How long a caller waits for its instance, and how long those who can ask another one.
const PATIENCE: [Duration; 2] = [Duration::from_secs(8), Duration::from_millis(300)];

#[test]
fn no_id_comes_twice_from_instances_that_are_harmed_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    check("SQLite", &sqlite(folder.path()));
}

#[test]
fn no_id_comes_twice_from_instances_that_are_harmed_on_postgres() {
    check_server(Kind::Postgres);
}

#[test]
fn no_id_comes_twice_from_instances_that_are_harmed_on_redis() {
    check_server(Kind::Redis);
}

#[test]
fn no_id_comes_twice_from_instances_that_are_harmed_on_etcd() {
    check_server(Kind::Etcd);
}

fn check_server(kind: Kind) {
    if let Some(backend) = backend(kind) {
        check(&format!("{kind:?}"), &backend.url());
    }
}

/// The negative control.
#[test]
fn the_same_harm_shows_that_instances_do_not_mind_the_end_of_their_windows() {
    let folder = tempfile::tempdir().unwrap();
    let store = sqlite(folder.path());
    let spec = |data_dir: &str| endless(instance(&store, folder.path(), data_dir));
    let run = Run::start(spec, ENDLESS_SECONDS);
    let mut received = run.run();
    let duplicated = received.duplicated();
    println!("{}: {received}, {duplicated} duplicated", run.harm_done());
    assert!(duplicated > 0, "windows that are used after their end went unnoticed");
}

fn check(name: &str, store: &str) {
    let folder = tempfile::tempdir().unwrap();
    let spec = |data_dir: &str| instance(store, folder.path(), data_dir);
    let run = Run::start(spec, WINDOW.as_secs());
    let begin = Instant::now();
    let mut received = run.run();
    let time = begin.elapsed();
    // Nothing has taken a worker for good.
    for server in &run.servers {
        let mut server = server.lock().unwrap();
        eventually("every instance gives IDs again", || gives(&mut received, &server, 100));
        assert!(server.stop().success(), "{}", server.log());
    }
    received.check(&format!("{name}, {} in {time:.1?}", run.harm_done()));
    assert!(run.is_reached(), "the run fell short");
    let is_known = |what: &String| what == "503 no_worker" || what == "503 no_keys_ready";
    assert!(received.refused.keys().all(is_known), "{:?}", received.refused);
}

/// What is done to instances.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    Kill,
    /// For longer than a window.
    Pause,
    Stop,
}

impl Deed {
    const ALL: [Deed; 3] = [Deed::Kill, Deed::Pause, Deed::Stop];

    /// How often, at least.
    fn count(self) -> u32 {
        match self {
            Deed::Kill => 5,
            Deed::Pause | Deed::Stop => 3,
        }
    }
}

/// The instances, and how far the run has come.
struct Run {
    specs: Vec<ServerSpec>,
    /// Locked as long as somebody harms them.
    servers: Vec<Mutex<Server>>,
    /// Where they can be reached, while they are not down: the port of one that was killed may be
    /// that of another test's the next moment.
    addresses: Vec<Mutex<Option<SocketAddr>>>,
    wanted: u64,
    ids: AtomicU64,
    done: [AtomicU32; 3],
    ended: AtomicBool,
}

impl Run {
    fn start(spec: impl Fn(&str) -> ServerSpec, window_seconds: u64) -> Run {
        let specs: Vec<ServerSpec> =
            (0..INSTANCES).map(|number| spec(&format!("d{number}"))).collect();
        let servers: Vec<Server> = specs.iter().map(Server::start).collect();
        make(&servers[0], LAYOUT, window_seconds);
        let wanted = std::env::var("KEYMILL_SNOWFLAKE_IDS").ok().map(|ids| ids.parse().unwrap());
        Run {
            specs,
            addresses: servers.iter().map(|server| Mutex::new(Some(server.address()))).collect(),
            servers: servers.into_iter().map(Mutex::new).collect(),
            wanted: wanted.unwrap_or(IDS),
            ids: AtomicU64::new(0),
            done: Default::default(),
            ended: AtomicBool::new(false),
        }
    }

    /// Runs until all is reached; what callers received.
    fn run(&self) -> Received {
        let mut received = Received::new(LAYOUT);
        let begin = Instant::now();
        std::thread::scope(|scope| {
            let _end = End(&self.ended);
            let call = |number| scope.spawn(move || self.call(number));
            let callers: Vec<_> = (0..CALLERS).map(call).collect();
            let harming = scope.spawn(|| self.harm());
            while !self.is_reached() && begin.elapsed() < TIME_MAX && !self.is_ended() {
                std::thread::sleep(Duration::from_millis(50));
            }
            self.ended.store(true, Ordering::SeqCst);
            harming.join().unwrap();
            callers.into_iter().for_each(|caller| received.absorb(caller.join().unwrap()));
        });
        received
    }

    /// Takes of one instance, or of one after another, until the run ends.
    fn call(&self, number: usize) -> Received {
        let _end = End(&self.ended);
        let stays = number < INSTANCES;
        let patience = PATIENCE[usize::from(!stays)];
        let mut received = Received::new(LAYOUT);
        let mut dice = Dice::new(number as u64 + 1);
        let mut clients: Vec<Option<Client>> = (0..INSTANCES).map(|_| None).collect();
        let mut turn = number % INSTANCES;
        while !self.is_ended() {
            turn = if stays { turn } else { (turn + 1) % INSTANCES };
            let count = if dice.one_in(8) { 1 } else { dice.number(500..2_000) };
            let before = received.ids.len();
            if let Some(mut client) = self.connected(turn, clients[turn].take(), patience) {
                let _ = received.take(&mut client, SPACE, u32::try_from(count).unwrap());
                clients[turn] = Some(client);
            }
            let given = (received.ids.len() - before) as u64;
            let all = self.ids.fetch_add(given, Ordering::Relaxed) + given;
            // Who was refused or cut off waits; so do all, once there is nothing to do but harm.
            if given == 0 || all >= self.wanted {
                std::thread::sleep(Duration::from_millis(3));
            }
        }
        received
    }

    /// A connection to an instance, unless it is down: the one there was, if it leads there.
    fn connected(&self, to: usize, old: Option<Client>, patience: Duration) -> Option<Client> {
        let address = (*self.addresses[to].lock().unwrap())?;
        let old = old.filter(|client| client.address() == address);
        let mut client = old.unwrap_or_else(|| Client::new(address).time_max(patience));
        client.connect().is_ok().then_some(client)
    }

    /// Harms one instance after another, until the run ends.
    fn harm(&self) {
        let _end = End(&self.ended);
        let mut dice = Dice::new(7);
        let mut victim = || usize::try_from(dice.number(0..INSTANCES as u64)).unwrap();
        while self.sleeps(200) {
            self.pause(victim());
            for how in [Deed::Kill, Deed::Stop] {
                if !self.sleeps(300) {
                    return;
                }
                self.restart(victim(), how);
            }
        }
    }

    /// Ends an instance and starts it again.
    fn restart(&self, victim: usize, how: Deed) {
        let mut server = self.servers[victim].lock().unwrap();
        // Takes that are under way stay so.
        *self.addresses[victim].lock().unwrap() = None;
        match how {
            Deed::Stop => assert!(server.stop().success(), "{}", server.log()),
            _ => server.kill(),
        }
        // One that was paused in a transaction of SQLite's keeps others from starting until it goes on.
        let spec = &self.specs[victim];
        let started = (0..5).find_map(|_| Server::try_start(spec).ok());
        *server = started.unwrap_or_else(|| Server::start(spec));
        *self.addresses[victim].lock().unwrap() = Some(server.address());
        self.did(how);
    }

    /// Pauses an instance for longer than its window, and has another lease its worker meanwhile: the
    /// other four come anew, and four workers are free then.
    fn pause(&self, victim: usize) {
        let server = self.servers[victim].lock().unwrap();
        server.pause();
        let window = u64::try_from(WINDOW.as_millis()).unwrap();
        if !self.sleeps(window + 100) {
            return server.resume();
        }
        let in_time = std::thread::scope(|scope| {
            let coming = scope.spawn(|| {
                for next in 1..INSTANCES {
                    self.restart((victim + next) % INSTANCES, Deed::Kill);
                }
            });
            // One that was paused in a transaction of SQLite's stops all others.
            let begin = Instant::now();
            while !coming.is_finished() && begin.elapsed() < WINDOW * 2 {
                std::thread::sleep(Duration::from_millis(10));
            }
            let in_time = coming.is_finished() && self.sleeps(200);
            server.resume();
            in_time
        });
        if in_time {
            self.did(Deed::Pause);
        }
    }

    /// Sleeps so many milliseconds; `false` when the run ends first.
    fn sleeps(&self, millis: u64) -> bool {
        let until = Instant::now() + Duration::from_millis(millis);
        while Instant::now() < until && !self.is_ended() {
            std::thread::sleep(Duration::from_millis(5));
        }
        !self.is_ended()
    }

    fn harm_done(&self) -> String {
        let [kills, pauses, stops] = Deed::ALL.map(|deed| self.done(deed));
        format!("{kills} kills, {pauses} long pauses, {stops} restarts")
    }

    fn did(&self, deed: Deed) {
        self.done[deed as usize].fetch_add(1, Ordering::SeqCst);
    }

    fn done(&self, deed: Deed) -> u32 {
        self.done[deed as usize].load(Ordering::SeqCst)
    }

    fn is_reached(&self) -> bool {
        self.ids.load(Ordering::Relaxed) >= self.wanted
            && Deed::ALL.iter().all(|deed| self.done(*deed) >= deed.count())
    }

    fn is_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }
}
