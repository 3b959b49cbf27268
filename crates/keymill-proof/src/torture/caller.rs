//! A caller: takes keys, one or many at a time, of one server after another or always of the
//! same: so all servers meet all callers, and a paused one does not bring all to a halt.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::fleet::Fleet;
use super::{Received, Torture};
use crate::checker::Report;
use crate::client::{Answer, Client};
use crate::random::Dice;

/// How long most callers wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// One caller in four waits so long only, and so gives up on servers that are paused.
const IMPATIENCE: Duration = Duration::from_millis(200);
/// How long a caller who was turned away waits.
const RESPITE: Duration = Duration::from_millis(2);

pub(super) struct Caller<'a> {
    fleet: &'a Fleet,
    received: &'a Received,
    space: &'a str,
    patience: Duration,
    dice: Dice,
    /// The server to ask next.
    turn: usize,
    /// Whether it stays with that one.
    stays: bool,
    /// A connection to each server.
    clients: Vec<Option<Client>>,
    tally: Report,
}

impl<'a> Caller<'a> {
    pub(super) fn new(
        number: usize,
        torture: &'a Torture,
        fleet: &'a Fleet,
        received: &'a Received,
    ) -> Caller<'a> {
        let impatient = number % 4 == 2;
        Caller {
            fleet,
            received,
            space: &torture.space,
            patience: if impatient { IMPATIENCE } else { PATIENCE },
            dice: Dice::new(torture.seed ^ (number as u64 + 1) << 32),
            turn: number / 2 % fleet.len(),
            stays: number % 2 == 1,
            clients: (0..fleet.len()).map(|_| None).collect(),
            tally: Report::default(),
        }
    }

    /// Takes until the run ends; returns the figures that a caller knows.
    pub(super) fn run(mut self) -> Report {
        let _end = self.fleet.end_when_dropped();
        loop {
            if !self.stays {
                self.turn = (self.turn + 1) % self.fleet.len();
            }
            let gave = self.connected().is_some_and(|client| self.take(client));
            let respite = if gave { Duration::ZERO } else { RESPITE };
            if self.fleet.wait(respite) {
                return self.tally;
            }
        }
    }

    /// A connection to the server whose turn it is, unless it is down.
    fn connected(&mut self) -> Option<Client> {
        let address = self.fleet.address(self.turn)?;
        let mut client = match self.clients[self.turn].take() {
            Some(client) if client.address() == address => client,
            _ => Client::new(address).time_max(self.patience),
        };
        client.connect().is_ok().then_some(client)
    }

    /// One take; `false` when it gave no keys.
    fn take(&mut self, mut client: Client) -> bool {
        let under_way = self.fleet.take_under_way(self.turn);
        self.tally.attempted += 1;
        let (count, answer) = if self.dice.one_in(2) {
            (1, client.get(&format!("/get-key?space={}", self.space)))
        } else {
            let count = self.batch();
            (count, client.take(self.space, count))
        };
        drop(under_way);
        let gave = self.judge(count, answer, &client);
        self.clients[self.turn] = Some(client);
        gave
    }

    fn judge(&mut self, count: u32, answer: io::Result<Answer>, client: &Client) -> bool {
        match answer {
            Ok(answer) if answer.status == 200 => {
                let found = self.received.add(answer.lines().map(str::as_bytes));
                self.received.keys.fetch_add(found, Ordering::Relaxed);
                self.tally.acknowledged += 1;
                self.tally.keys += found;
                self.tally.miscounted += u64::from(found != u64::from(count));
                true
            }
            Ok(answer) => {
                self.tally.refused += 1;
                let what = format!("{} {}", answer.status, code_of(answer.text()));
                *self.tally.refusals.entry(what).or_default() += 1;
                false
            }
            Err(_) => {
                self.tally.interrupted += 1;
                // The last line may be cut short, so it is not a key.
                let lines = client.partial().split_inclusive(|&byte| byte == b'\n');
                let keys = lines.filter_map(|line| line.strip_suffix(b"\n"));
                self.tally.partial_keys += self.received.add(keys);
                false
            }
        }
    }

    /// The size of a batch: mostly small, now and then more than a lease holds.
    fn batch(&mut self) -> u32 {
        let range = if self.dice.one_in(16) { 1_000..10_000 } else { 1..100 };
        u32::try_from(self.dice.number(range)).expect("both ends fit")
    }
}

/// The stable code of a problem.
fn code_of(problem: &str) -> &str {
    let code = problem.split_once("\"code\":\"").map(|(_, rest)| rest);
    code.and_then(|code| code.split('"').next()).unwrap_or("")
}
