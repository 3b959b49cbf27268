//! A store that is rolled back, to when it did not know the windows that are in use: those who
//! hold one go on in it, nobody gets another, and after `space advance` all IDs are above all that
//! were ever taken.

use std::fs;
use std::path::Path;
use std::process::Command;

use keymill_proof::backend::{Backend, Redis, skip};
use keymill_proof::{Server, binary};

use super::super::rolled_back::{Way, back_up, restore};
use super::super::{eventually, get, is_problem};
use super::{
    Layout, Received, SPACE, gives, has_problem, highest_end, instance, make, refusal, sqlite, take,
};

const LAYOUT: Layout = Layout { worker_bits: 3 };
const WINDOW_SECONDS: u64 = 3;

#[test]
fn no_window_begins_before_those_that_a_restored_file_has_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut story = Story::begin(&sqlite(folder), folder);
    back_up(folder);
    story.go_beyond_the_record();
    restore(folder, Way::InPlace);
    assert!(story.is_noticed() > 0, "they did not hold on to what they had");
    story.advance(None);
    story.goes_on_above_all("SQLite, restored in place");
}

#[test]
fn no_window_begins_before_those_that_a_replaced_file_has_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut story = Story::begin(&sqlite(folder), folder);
    back_up(folder);
    story.go_beyond_the_record();
    restore(folder, Way::Rename);
    assert!(story.is_noticed() > 0, "they did not hold on to what they had");
    // They have the file open that is gone.
    story.restart();
    story.advance(None);
    story.goes_on_above_all("SQLite, replaced");
}

#[test]
fn no_window_begins_before_those_that_a_restarted_redis_has_forgotten() {
    let mut redis = match Redis::start() {
        Ok(redis) => redis,
        Err(missing) => return skip(&missing),
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut story = Story::begin(&redis.url(), folder);
    let (log, old) = (redis.folder().join("appendonlydir"), folder.join("old"));
    copy(&log, &old);
    story.go_beyond_the_record();
    redis.kill();
    fs::remove_dir_all(&log).unwrap();
    copy(&old, &log);
    redis.start();
    story.is_noticed();
    // Each knows how far it has come, and nobody how far all have.
    let to = story.servers.iter().map(advice).max();
    story.advance(to);
    story.goes_on_above_all("Redis");
}

/// Two instances on a store that will be rolled back.
struct Story<'a> {
    store: String,
    folder: &'a Path,
    servers: Vec<Server>,
    received: Received,
}

impl<'a> Story<'a> {
    fn begin(store: &str, folder: &'a Path) -> Story<'a> {
        let servers = start(store, folder);
        make(&servers[0], LAYOUT, WINDOW_SECONDS);
        let mut received = Received::new(LAYOUT);
        for server in &servers {
            eventually("it has a worker", || gives(&mut received, server, 100));
        }
        Story { store: store.to_owned(), folder, servers, received }
    }

    /// Takes of each, until it has given IDs of a time that the record does not know at present.
    fn go_beyond_the_record(&mut self) {
        let known = highest_end(&self.servers[0]);
        for server in &self.servers {
            eventually("its window is extended", || {
                let before = self.received.ids.len();
                gives(&mut self.received, server, 100);
                let new = self.received.ids[before..].iter();
                new.copied().any(|id| LAYOUT.ms(id) > Layout::ms_of_tick(known))
            });
        }
    }

    /// What they hold they use; then they refuse, and say why. How many takes gave IDs until then.
    fn is_noticed(&mut self) -> u64 {
        let before = self.received.acknowledged;
        for server in &self.servers {
            // One that was started again may have been away for longer than the windows.
            eventually("it is noticed", || has_problem(server, "store_rolled_back"));
            let refusal = refusal(&mut self.received, server);
            is_problem(&refusal, 503, "store_rolled_back");
            assert!(refusal.header("retry-after").is_some(), "{}", refusal.text());
            let advice = format!("keymill space advance {SPACE} --to");
            assert!(refusal.text().contains(&advice), "{}", refusal.text());
        }
        self.received.acknowledged - before
    }

    fn restart(&mut self) {
        self.servers.clear();
        self.servers = start(&self.store, self.folder);
        for server in &self.servers {
            is_problem(&take(&mut self.received, server, 1), 503, "store_rolled_back");
        }
    }

    fn advance(&self, to: Option<u64>) {
        let mut command = Command::new(binary("keymill"));
        command.args(["space", "advance", SPACE, "--store", &self.store, "--data-dir"]);
        command.arg(self.folder.join("d0"));
        if let Some(to) = to {
            command.args(["--to", &to.to_string()]);
        }
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    #[track_caller]
    fn goes_on_above_all(mut self, what: &str) {
        let (before, highest) = (self.received.ids.len(), self.received.highest());
        for server in &self.servers {
            eventually("IDs come again", || gives(&mut self.received, server, 100));
            for _ in 0..20 {
                eventually("IDs come", || gives(&mut self.received, server, 1_000));
            }
        }
        let lowest = self.received.ids[before..].iter().copied().min().unwrap();
        assert!(lowest > highest, "{lowest} is not above {highest}");
        self.received.check(what);
    }
}

fn start(store: &str, folder: &Path) -> Vec<Server> {
    ["d0", "d1"].map(|data_dir| Server::start(&instance(store, folder, data_dir))).into()
}

/// How far an instance says that the space must be advanced.
#[track_caller]
fn advice(server: &Server) -> u64 {
    let ready = get(server, "/readyz");
    let (_, rest) = ready.text().split_once("--to ").unwrap_or_else(|| panic!("{}", ready.text()));
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap();
    digits.parse().unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().flatten() {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}
