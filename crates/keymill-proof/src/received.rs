//! What callers received, and whether a key came twice.
//!
//! The figures are those of Jepsen's unique-ids checker. Where keys have an order, such as snowflake IDs, it is
//! watched too. A load notes every take here; a test that asks for itself adds answers one by one.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use crate::client::{Answer, Client};
use crate::key_set::KeySet;
use crate::take::Taken;

/// How many of the duplicated keys are shown.
const SAMPLES_MAX: usize = 16;

/// All takes of a run, with their keys.
#[derive(Default)]
pub struct Received {
    /// Takes that were sent.
    pub attempted: u64,
    /// Takes that were answered with keys, completely.
    pub acknowledged: u64,
    /// Answers with fewer or more keys than asked for.
    pub miscounted: u64,
    /// Takes that were answered with a refusal, by its class.
    pub refusals: BTreeMap<String, u64>,
    /// Takes whose connection broke or timed out after they were sent, by what was wrong.
    pub interruptions: BTreeMap<String, u64>,
    /// How many keys takes had asked for that were interrupted, or refused because a commit is in doubt: so many
    /// may have been drawn for nobody.
    pub in_doubt: u64,
    keys: KeySet,
    /// Keys that came more than once, and how often.
    duplicated: BTreeMap<String, u32>,
    order: Option<Order>,
}

/// Where a key stands: its series, such as a worker, and its number in there.
type Place = dyn Fn(&str) -> (u64, u64) + Send;

/// The order of keys that one server gives one caller, who asks for one thing at a time.
struct Order {
    place: Box<Place>,
    /// The last number of each caller, server and series.
    last: BTreeMap<(usize, SocketAddr, u64), u64>,
    /// Numbers that came after a higher one of these, or after themselves; with that one.
    disordered: Vec<(u64, u64)>,
    /// The highest number of each caller and series.
    highest: BTreeMap<(usize, u64), u64>,
    /// Numbers that came after a higher one that another server made in the same series.
    overtaken: u64,
}

impl Received {
    /// Keys whose order is watched by series and number. Whoever asks a server for one key after another gets
    /// those of a series in rising order. Those of another server may come between: they are counted, and no fault.
    pub fn ordered(place: impl Fn(&str) -> (u64, u64) + Send + 'static) -> Received {
        let order = Order {
            place: Box::new(place),
            last: BTreeMap::new(),
            disordered: Vec::new(),
            highest: BTreeMap::new(),
            overtaken: 0,
        };
        Received { order: Some(order), ..Received::default() }
    }

    /// Notes what came of a take of so many keys that a caller sent to a server.
    pub fn note(&mut self, caller: usize, from: SocketAddr, count: u32, taken: &Taken) {
        self.attempted += 1;
        let keys = match taken {
            Taken::Keys(keys) => {
                self.acknowledged += 1;
                self.miscounted += u64::from(keys.len() != count as usize);
                &keys[..]
            }
            Taken::Refused(class) => {
                *self.refusals.entry(class.clone()).or_default() += 1;
                self.in_doubt += u64::from(class == "503 store_unavailable") * u64::from(count);
                &[]
            }
            Taken::Interrupted { error, keys } => {
                *self.interruptions.entry(error.clone()).or_default() += 1;
                self.in_doubt += u64::from(count);
                &keys[..]
            }
        };
        for key in keys {
            if !self.keys.insert(key) {
                *self.duplicated.entry(key.clone()).or_insert(1) += 1;
            }
            if let Some(order) = &mut self.order {
                order.add(caller, from, key);
            }
        }
    }

    /// Adds an answer, which must be keys that never came before; how many.
    ///
    /// # Panics
    ///
    /// When it is a refusal, or one of its keys came before.
    #[track_caller]
    pub fn add(&mut self, answer: &Answer) -> usize {
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.lines().map(|key| self.add_key(key)).count()
    }

    /// Adds a key, which must not have come before.
    ///
    /// # Panics
    ///
    /// When it has.
    #[track_caller]
    pub fn add_key(&mut self, key: &str) {
        assert!(self.keys.insert(key), "{key} was handed out twice");
    }

    /// Takes from a server until it refuses, and returns the refusal.
    ///
    /// # Panics
    ///
    /// When there is no answer, or a key came before.
    #[track_caller]
    pub fn drain(&mut self, from: SocketAddr, space: &str, batch: u32) -> Answer {
        let mut client = Client::new(from);
        loop {
            let answer = client.take(space, batch).expect("a running server answers");
            if answer.status != 200 {
                return answer;
            }
            self.add(&answer);
        }
    }

    /// How many different keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no key came yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a key is among them.
    pub fn contains(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// All keys, each once, in no order.
    pub fn keys(&self) -> impl Iterator<Item = String> {
        self.keys.iter()
    }

    /// How many keys came more than once.
    pub fn duplicated(&self) -> usize {
        self.duplicated.len()
    }

    /// How many takes were refused.
    pub fn refused(&self) -> u64 {
        self.refusals.values().sum()
    }

    /// How many takes were interrupted.
    pub fn interrupted(&self) -> u64 {
        self.interruptions.values().sum()
    }

    /// Shows the figures. No key may have come twice, or after a higher one of its server and series.
    ///
    /// # Panics
    ///
    /// When one has.
    #[track_caller]
    pub fn check_unique(&self, what: &str) {
        println!("{what}\n{self}");
        assert_eq!(self.duplicated(), 0, "a key came twice");
        let disordered = self.order.as_ref().map_or(&[][..], |order| &order.disordered);
        assert!(disordered.is_empty(), "keys that came after a higher one: {disordered:?}");
    }

    /// The same, and every answer had as many keys as were asked for.
    ///
    /// # Panics
    ///
    /// When that is not so.
    #[track_caller]
    pub fn check(&self, what: &str) {
        self.check_unique(what);
        assert_eq!(self.miscounted, 0, "answers with fewer or more keys than asked for");
    }

    /// No take was interrupted, and none refused for another reason than these.
    ///
    /// # Panics
    ///
    /// When one was.
    #[track_caller]
    pub fn check_answered(&self, reasons: &[&str]) {
        assert!(self.interruptions.is_empty(), "{:?}", self.interruptions);
        self.check_refusals(reasons);
    }

    /// No take was refused for another reason than these, each a class or the beginning of one, such as `503`.
    ///
    /// # Panics
    ///
    /// When one was.
    #[track_caller]
    pub fn check_refusals(&self, reasons: &[&str]) {
        let is_known = |class: &String| reasons.iter().any(|reason| class.starts_with(reason));
        assert!(self.refusals.keys().all(is_known), "{:?}", self.refusals);
    }
}

impl Order {
    fn add(&mut self, caller: usize, from: SocketAddr, key: &str) {
        let (series, number) = (self.place)(key);
        let last = self.last.insert((caller, from, series), number);
        if let Some(last) = last.filter(|last| *last >= number) {
            self.disordered.push((number, last));
        }
        let highest = self.highest.entry((caller, series)).or_default();
        self.overtaken += u64::from(*highest > number);
        *highest = number.max(*highest);
    }
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: &dyn fmt::Display| writeln!(f, "{name:<14} {value}");
        line("attempted", &self.attempted)?;
        line("acknowledged", &self.acknowledged)?;
        line("keys", &self.len())?;
        line("interrupted", &self.interrupted())?;
        for (error, count) in &self.interruptions {
            line("", &format_args!("{count} × {error}"))?;
        }
        line("refused", &self.refused())?;
        for (class, count) in &self.refusals {
            line("", &format_args!("{count} × {class}"))?;
        }
        line("miscounted", &self.miscounted)?;
        line("duplicated", &self.duplicated())?;
        for (key, times) in self.duplicated.iter().take(SAMPLES_MAX) {
            line("", &format_args!("{key} × {times}"))?;
        }
        if let Some(order) = &self.order {
            line("disordered", &order.disordered.len())?;
            line("overtaken", &order.overtaken)?;
        }
        if let Some((lowest, highest)) = self.keys.range() {
            line("range", &format_args!("{lowest} … {highest}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);
    const THERE: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 2);

    #[test]
    fn every_key_received_twice_is_counted_once_and_named() {
        let mut received = Received::default();
        for key in ["a", "b", "a", "c", "b", "a"] {
            received.note(0, HERE, 1, &keys(&[key]));
        }
        assert_eq!((received.duplicated(), received.len()), (2, 3));
        let shown = received.to_string();
        assert!(shown.contains("a × 3") && shown.contains("b × 2"), "{shown}");
        assert!(shown.contains("a … c"), "{shown}");
    }

    #[test]
    fn what_came_before_an_interruption_counts_as_received() {
        let mut received = Received::default();
        received.note(0, HERE, 2, &keys(&["a", "b"]));
        let keys = vec!["a".to_owned()];
        received.note(1, HERE, 5, &Taken::Interrupted { error: "reset".to_owned(), keys });
        received.note(1, HERE, 5, &Taken::Refused("503 no_keys_ready".to_owned()));
        received.note(1, HERE, 7, &Taken::Refused("503 store_unavailable".to_owned()));
        assert_eq!((received.attempted, received.acknowledged), (4, 1));
        assert_eq!((received.interrupted(), received.refused()), (1, 2));
        assert_eq!((received.duplicated(), received.in_doubt), (1, 12));
    }

    #[test]
    fn order_is_that_of_one_caller_server_and_series() {
        // The first digit is the series, the second the number.
        let place = |key: &str| {
            let number: u64 = key.parse().unwrap();
            (number / 10, number % 10)
        };
        let mut received = Received::ordered(place);
        received.note(0, HERE, 3, &keys(&["15", "21", "16"]));
        received.note(1, HERE, 1, &keys(&["14"]));
        received.check("callers may be answered in any order");
        received.note(0, THERE, 1, &keys(&["13"]));
        received.check("another server may be behind");
        let order = received.order.as_ref().unwrap();
        assert_eq!((order.overtaken, order.disordered.len()), (1, 0));
        received.note(0, HERE, 1, &keys(&["12"]));
        assert_eq!(received.order.as_ref().unwrap().disordered, [(2, 6)]);
    }

    fn keys(keys: &[&str]) -> Taken {
        Taken::Keys(keys.iter().map(ToString::to_string).collect())
    }
}
