//! The shortener under load, while its servers are harmed: no create fails, no key comes twice, and every link that was
//! ever acknowledged leads where it should.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use keymill_proof::backend::{Backend, Postgres, unless_missing};
use keymill_proof::{Deployment, End, Fleet, Server};
use serde_json::json;

use super::{Visitor, body, shortener, to};

/// Who makes links, and who follows them.
const CREATORS: usize = 8;
const FOLLOWERS: usize = 4;
/// How long the load goes on between two deeds.
const BETWEEN: Duration = Duration::from_millis(1_500);

/// What came of the load.
#[derive(Default)]
struct Outcome {
    attempted: AtomicU64,
    followed: AtomicU64,
    unknown: AtomicU64,
    /// Keys in the order of their links.
    links: Mutex<Vec<(String, String)>>,
    failures: Mutex<Vec<String>>,
    /// How long the slowest create took: less than the shortener has patience for.
    slowest: Mutex<Duration>,
}

#[test]
fn no_create_fails_while_keymill_is_killed_and_postgres_restarted() {
    let Some(mut postgres) = unless_missing(Postgres::start()) else { return };
    postgres.sql("postgres", "CREATE DATABASE shortener");
    let links = format!("postgres://keymill@127.0.0.1:{}/shortener", postgres.port());
    let deployment = Deployment::on(postgres.url());
    let fleet = Fleet::start(["d0", "d1", "d2"].map(|it| deployment.server(it))).keeps_addresses();
    let spec = shortener(&fleet, &links, deployment.folder());
    let mut server = spec.start();
    let outcome = under_load(server.address(), |end| {
        end.wait(BETWEEN);
        fleet.hold(0).kill();
        end.wait(BETWEEN);
        // In order, and then as a power cut does, while one instance is still down.
        postgres.stop();
        end.wait(BETWEEN);
        postgres.start();
        end.wait(BETWEEN);
        postgres.kill();
        postgres.start();
        end.wait(BETWEEN);
        fleet.hold(0).start();
        fleet.hold(1).kill();
        end.wait(BETWEEN);
    });
    let retried = "trying again for up to 20s: the database of links";
    assert!(server.log().contains(retried), "PostgreSQL was not missed:\n{}", server.log());
    assert!(server.stop().success());
    outcome.check(&spec.start());
}

#[test]
fn no_create_fails_on_sqlite_while_keymill_is_killed_and_what_was_acknowledged_survives_a_kill() {
    let deployment = Deployment::sqlite();
    let fleet = Fleet::start(["d0", "d1", "d2"].map(|it| deployment.server(it))).keeps_addresses();
    let links = format!("sqlite:{}", deployment.path("links.db").display());
    let spec = shortener(&fleet, &links, deployment.folder());
    let mut server = spec.start();
    let outcome = under_load(server.address(), |end| {
        for number in [0, 1, 2] {
            fleet.hold(number).kill();
            end.wait(BETWEEN / 3);
            fleet.hold(number).start();
        }
        // All of them at once: links are made from the cache.
        for number in [0, 1, 2] {
            fleet.hold(number).kill();
        }
        end.wait(BETWEEN);
        for number in [0, 1, 2] {
            fleet.hold(number).start();
        }
    });
    server.kill();
    outcome.check(&spec.start());
}

/// Makes and follows links for as long as `during` lasts.
fn under_load(address: SocketAddr, during: impl FnOnce(&End)) -> Outcome {
    let (outcome, end) = (Outcome::default(), End::default());
    std::thread::scope(|scope| {
        let _end = end.when_dropped();
        for number in 0..CREATORS {
            let (outcome, end) = (&outcome, &end);
            scope.spawn(move || {
                let mut visitor = Visitor::new(address, number);
                (0..)
                    .take_while(|_| !end.has_come())
                    .for_each(|n| outcome.create(&mut visitor, number, n));
            });
        }
        for number in 0..FOLLOWERS {
            let (outcome, end) = (&outcome, &end);
            scope.spawn(move || {
                let mut visitor = Visitor::new(address, CREATORS + number);
                while !end.has_come() {
                    outcome.follow(&mut visitor);
                }
            });
        }
        during(&end);
    });
    outcome
}

impl Outcome {
    /// Makes a link: every fifth with an alias, and every seventh a second time.
    fn create(&self, visitor: &mut Visitor, number: usize, turn: usize) {
        let url = format!("https://example.com/{number}/{turn}");
        let mut new = to(&url);
        if turn.is_multiple_of(5) {
            new["alias"] = json!(format!("a{number}-{turn}"));
        }
        let Some(key) = self.acknowledged(visitor, &new, 201) else { return };
        let is_wanted = |alias: &str| alias == key;
        if !new["alias"].as_str().is_none_or(is_wanted) {
            self.fail(format!("{new} became {key}"));
        }
        if turn.is_multiple_of(7)
            && self.acknowledged(visitor, &new, 200).is_some_and(|it| it != key)
        {
            self.fail(format!("a second key for {new}"));
        }
        self.links.lock().unwrap().push((key, url));
    }

    fn acknowledged(
        &self,
        visitor: &mut Visitor,
        new: &serde_json::Value,
        status: u16,
    ) -> Option<String> {
        self.attempted.fetch_add(1, Ordering::Relaxed);
        let asked = Instant::now();
        let answer = visitor.create(new);
        {
            let mut slowest = self.slowest.lock().unwrap();
            *slowest = asked.elapsed().max(*slowest);
        }
        match answer {
            Ok(answer) if answer.status == status => {
                Some(body(&answer)["key"].as_str().unwrap().to_owned())
            }
            Ok(answer) => self.fail(format!("{new}: {} {}", answer.status, answer.text())),
            Err(error) => self.fail(format!("{new}: {error}")),
        }
    }

    /// Follows a link that was acknowledged, and one that never was.
    fn follow(&self, visitor: &mut Visitor) {
        let random = fastrand::u64(..);
        let known = {
            let links = self.links.lock().unwrap();
            (!links.is_empty()).then(|| links[fastrand::usize(..links.len())].clone())
        };
        let unknown = (format!("{random:x}"), None);
        let known = known.map(|(key, url)| (key, Some(url)));
        for (key, url) in std::iter::once(unknown).chain(known) {
            let expected = if url.is_some() { 302 } else { 404 };
            let count = if url.is_some() { &self.followed } else { &self.unknown };
            count.fetch_add(1, Ordering::Relaxed);
            match visitor.client.get(&format!("/{key}")) {
                Ok(answer)
                    if answer.status == expected && answer.header("location") == url.as_deref() => {
                }
                Ok(answer) => {
                    drop(self.fail(format!("{key}: {} {}", answer.status, answer.text())));
                }
                Err(error) => drop(self.fail(format!("{key}: {error}"))),
            }
        }
    }

    fn fail(&self, what: String) -> Option<String> {
        self.failures.lock().unwrap().push(what);
        None
    }

    /// Nothing failed, no key came twice, and a new process still knows every link.
    #[track_caller]
    fn check(self, server: &Server) {
        let (links, failures) =
            (self.links.into_inner().unwrap(), self.failures.into_inner().unwrap());
        let [attempted, followed, unknown] =
            [&self.attempted, &self.followed, &self.unknown].map(|it| it.load(Ordering::Relaxed));
        let targets: HashMap<&String, &String> =
            links.iter().map(|(key, url)| (key, url)).collect();
        let duplicates = links.len() - targets.len();
        println!(
            "creates: {attempted} attempted, {} failed requests of all, {} links, {duplicates} duplicates; \
             {followed} followed, {unknown} unknown; the slowest create took {:?}",
            failures.len(),
            links.len(),
            self.slowest.into_inner().unwrap()
        );
        assert!(
            failures.is_empty(),
            "{} failures, such as {:?}",
            failures.len(),
            &failures[..failures.len().min(5)]
        );
        assert_eq!(duplicates, 0);
        assert!(attempted > 100 && followed > 100 && unknown > 100, "there was no load");
        let mut visitor = Visitor::new(server.address(), 99);
        for (key, url) in &links {
            visitor.leads_to(key, url);
        }
    }
}
