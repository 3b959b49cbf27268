//! A store that is rolled back, to when it did not know the windows that are in use: those who
//! hold one go on in it, nobody gets another, and after `space advance` all IDs are above all that
//! were ever taken.

use std::fs;

use keymill_proof::backend::{Backend, Redis, unless_missing};
use keymill_proof::{Deployment, Received, Server};

use super::super::rolled_back::{Way, back_up, restore};
use super::super::{advice, copy_files, eventually, has_problem, is_problem};
use super::{Layout, SPACE, gives, highest_end, id, ids, instance, make, refusal, take};

const LAYOUT: Layout = Layout { worker_bits: 3 };
const WINDOW_SECONDS: u64 = 3;

#[test]
fn no_window_begins_before_those_that_a_restored_file_has_forgotten() {
    let story = Story::on_sqlite_until(Way::InPlace);
    story.advance(None);
    story.goes_on_above_all("SQLite, restored in place");
}

#[test]
fn no_window_begins_before_those_that_a_replaced_file_has_forgotten() {
    let mut story = Story::on_sqlite_until(Way::Rename);
    // They have the file open that is gone.
    story.restart();
    story.advance(None);
    story.goes_on_above_all("SQLite, replaced");
}

#[test]
fn no_window_begins_before_those_that_a_restarted_redis_has_forgotten() {
    let Some(mut redis) = unless_missing(Redis::start()) else { return };
    let mut story = Story::begin(Deployment::on(redis.url()));
    let (log, old) = (redis.folder().join("appendonlydir"), story.deployment.path("old"));
    copy_files(&log, &old);
    story.go_beyond_the_record();
    redis.kill();
    fs::remove_dir_all(&log).unwrap();
    copy_files(&old, &log);
    redis.start();
    story.is_noticed();
    // Each knows how far it has come, and nobody how far all have.
    let to = story.servers.iter().map(advice).max();
    story.advance(to);
    story.goes_on_above_all("Redis");
}

/// Two instances on a store that will be rolled back.
struct Story {
    // Ended before their folder is removed.
    servers: Vec<Server>,
    deployment: Deployment,
    received: Received,
}

impl Story {
    fn begin(deployment: Deployment) -> Story {
        let servers = start(&deployment);
        make(&servers[0], LAYOUT, WINDOW_SECONDS);
        let mut received = LAYOUT.received();
        for server in &servers {
            eventually("it has a worker", || gives(&mut received, server, 100));
        }
        Story { servers, deployment, received }
    }

    /// Until its file was rolled back like that, and they noticed.
    fn on_sqlite_until(way: Way) -> Story {
        let mut story = Story::begin(Deployment::sqlite());
        back_up(&story.deployment);
        story.go_beyond_the_record();
        restore(&story.deployment, way);
        assert!(story.is_noticed() > 0, "they did not hold on to what they had");
        story
    }

    /// Takes of each, until it has given IDs of a time that the record does not know at present.
    fn go_beyond_the_record(&mut self) {
        let known = highest_end(&self.servers[0]);
        for server in &self.servers {
            eventually("its window is extended", || {
                let answer = take(&mut self.received, server, 100);
                let is_new = |key| LAYOUT.ms(id(key)) > Layout::ms_of_tick(known);
                answer.status == 200 && answer.lines().any(is_new)
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
        self.servers = start(&self.deployment);
        for server in &self.servers {
            is_problem(&take(&mut self.received, server, 1), 503, "store_rolled_back");
        }
    }

    fn advance(&self, to: Option<u64>) {
        let to = to.map(|to| to.to_string());
        let to = to.iter().flat_map(|to| ["--to", to]);
        let args: Vec<&str> = ["space", "advance", SPACE].into_iter().chain(to).collect();
        self.deployment.run("d0", &args);
    }

    #[track_caller]
    fn goes_on_above_all(mut self, what: &str) {
        let (before, highest) = (self.received.len(), ids(&self.received).max().unwrap());
        for server in &self.servers {
            eventually("IDs come again", || gives(&mut self.received, server, 100));
            for _ in 0..20 {
                eventually("IDs come", || gives(&mut self.received, server, 1_000));
            }
        }
        let below = ids(&self.received).filter(|id| *id <= highest).count();
        assert_eq!(below, before, "new IDs that are not above {highest}");
        self.received.check(what);
    }
}

fn start(deployment: &Deployment) -> Vec<Server> {
    ["d0", "d1"].map(|data_dir| instance(deployment, data_dir).start()).into()
}
