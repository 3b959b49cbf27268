//! The members of an etcd cluster: one is asked, and another where it does not answer.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{
    AlarmAction, AlarmType, Certificate, Client, Compare, CompareOp, ConnectOptions, KeyValue,
    TlsOptions, Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use tokio::time::{Instant, timeout};

use super::fold_error;
use super::keys::Keys;
use crate::floor::History;
use crate::store::url::{Host, StoreUrl, Tls};
use crate::store::{Finding, StoreError};

const PORT: u16 = 2379;
/// How long one member may take to answer, before another is asked.
const MEMBER_MAX: Duration = Duration::from_millis(1_500);
/// How long members are asked, one after another.
const READ_MAX: Duration = Duration::from_secs(5);
/// How long a change may take. A leader is elected in less.
const COMMIT_MAX: Duration = Duration::from_secs(4);

/// The members of a URL.
pub(super) struct Members {
    url: StoreUrl,
    tls: Option<TlsOptions>,
    clients: Vec<Mutex<Option<Client>>>,
    /// Which one is asked.
    current: AtomicUsize,
}

/// What was read, as of one moment.
pub(super) struct Found {
    pub(super) history: History,
    answers: Vec<Vec<KeyValue>>,
}

pub(super) fn parse(url: &str) -> Result<(Members, Keys), StoreError> {
    let url = StoreUrl::parse(url, &[])?;
    let tls = url.tls()?.map(|tls| tls_options(&tls)).transpose()?;
    let keys = Keys::under(if url.path.is_empty() { "keymill" } else { &url.path });
    let clients = url.hosts.iter().map(|_| Mutex::default()).collect();
    Ok((Members { url, tls, clients, current: AtomicUsize::new(0) }, keys))
}

impl Members {
    pub(super) fn shown(&self) -> String {
        self.url.shown()
    }

    /// Where the member is that is asked, if it is asked in plain text.
    pub(super) fn plain_address(&self) -> Option<String> {
        self.tls.is_none().then(|| self.address_of(self.current.load(Ordering::Relaxed)))
    }

    /// Reads what a majority has, all as of one moment.
    pub(super) async fn read(&self, gets: Vec<TxnOp>) -> Result<Found, StoreError> {
        let deadline = Instant::now() + READ_MAX;
        loop {
            let number = self.current.load(Ordering::Relaxed);
            let txn = Txn::new().and_then(gets.clone());
            match self.ask(number, txn, MEMBER_MAX).await {
                Ok(response) => return Ok(Found::of(&response)),
                Err(StoreError::InDoubt(problem) | StoreError::Unavailable(problem)) => {
                    if Instant::now() > deadline {
                        return Err(StoreError::Unavailable(format!(
                            "no member answers for a majority; the last one: {problem}"
                        )));
                    }
                    // The others may have just as little to say until a leader is elected.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes on conditions, in one transaction; whether they held.
    pub(super) async fn commit(
        &self,
        conditions: Vec<Compare>,
        writes: Vec<TxnOp>,
        history: History,
    ) -> Result<bool, StoreError> {
        let number = self.current.load(Ordering::Relaxed);
        let txn = Txn::new().when(conditions).and_then(writes);
        let response = self.ask(number, txn, COMMIT_MAX).await?;
        if history_of(&response) != history {
            let place = self.shown();
            return Err(StoreError::InDoubt(format!("{place} became another cluster meanwhile")));
        }
        Ok(response.succeeded())
    }

    /// Writes keys that nobody else writes.
    pub(super) async fn write(&self, pairs: Vec<(String, String)>) -> Result<(), StoreError> {
        let puts = pairs.into_iter().map(|(key, value)| TxnOp::put(key, value, None));
        let number = self.current.load(Ordering::Relaxed);
        self.ask(number, Txn::new().and_then(puts.collect::<Vec<_>>()), COMMIT_MAX).await.map(drop)
    }

    /// Writes a key if there is none; whether it did.
    pub(super) async fn make(&self, key: String, value: String) -> Result<bool, StoreError> {
        let absent = Compare::create_revision(key.as_str(), CompareOp::Equal, 0);
        let txn = Txn::new().when([absent]).and_then([TxnOp::put(key, value, None)]);
        let number = self.current.load(Ordering::Relaxed);
        Ok(self.ask(number, txn, COMMIT_MAX).await?.succeeded())
    }

    pub(super) async fn remove(&self, key: String) -> Result<(), StoreError> {
        let txn = Txn::new().and_then([TxnOp::delete(key, None)]);
        let number = self.current.load(Ordering::Relaxed);
        self.ask(number, txn, COMMIT_MAX).await.map(drop)
    }

    pub(super) async fn findings(&self, keys: &Keys) -> Result<Vec<Finding>, StoreError> {
        let quorum = self.read(vec![TxnOp::get(keys.store(), None)]).await;
        let cluster = quorum.as_ref().map_or(0, |found| found.history.server);
        let answer = match &quorum {
            Ok(_) => "a majority answers".to_owned(),
            Err(error) => error.to_string(),
        };
        let number = self.current.load(Ordering::Relaxed);
        let place = self.place_of(number);
        let fold = |error: etcd_client::Error| fold_error(&place, &error).changing_nothing();
        let mut client = self.client(number).await?;
        let late = |_| StoreError::Unavailable(format!("{place} did not answer"));
        let status = timeout(MEMBER_MAX, client.status()).await.map_err(late)?.map_err(fold)?;
        let members =
            timeout(MEMBER_MAX, client.member_list()).await.map_err(late)?.map_err(fold)?;
        let voting = members.members().iter().filter(|member| !member.is_learner()).count();
        let alarms = client.alarm(AlarmAction::Get, AlarmType::None, None);
        let alarms = timeout(MEMBER_MAX, alarms).await.map_err(late)?.map_err(fold)?.alarms().len();
        let members = format!("{voting} voting");
        Ok(vec![
            Finding::new("server", status.version(), "3.4 or later", true),
            Finding::new("cluster ID", &format!("{cluster:x}"), "any", true),
            Finding::new("quorum", &answer, "a majority answers", quorum.is_ok()),
            Finding::new("alarms", &alarms.to_string(), "0", alarms == 0),
            Finding::new("members", &members, "3 or more", voting >= 3).warning(),
        ])
    }

    /// Asks one member. One that fails is connected to anew, and the next one asked from now on.
    async fn ask(
        &self,
        number: usize,
        txn: Txn,
        time_max: Duration,
    ) -> Result<TxnResponse, StoreError> {
        let place = self.place_of(number);
        let answer = async {
            let mut client = self.client(number).await?;
            client.txn(txn).await.map_err(|error| {
                if never_sent(&error) {
                    return fold_error(&place, &error).changing_nothing();
                }
                fold_error(&place, &error)
            })
        };
        let answer = timeout(time_max, answer).await.unwrap_or_else(|_| {
            Err(StoreError::InDoubt(format!("{place} did not answer in {time_max:?}")))
        });
        if answer.is_err() {
            *self.slot(number) = None;
            let next = (number + 1) % self.clients.len();
            let asked = &self.current;
            let _ = asked.compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        answer
    }

    async fn client(&self, number: usize) -> Result<Client, StoreError> {
        let known = self.slot(number).clone();
        if let Some(client) = known {
            return Ok(client);
        }
        let mut options = ConnectOptions::new()
            .with_connect_timeout(MEMBER_MAX)
            .with_timeout(COMMIT_MAX)
            .with_keep_alive(Duration::from_secs(5), Duration::from_secs(3))
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let (Some(user), Some(password)) = (&self.url.user, &self.url.password) {
            options = options.with_user(user, password);
        }
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        if let Some(tls) = &self.tls {
            options = options.with_tls(tls.clone());
        }
        let address = self.address_of(number);
        let client = Client::connect([format!("{scheme}://{address}")], Some(options)).await;
        let place = self.place_of(number);
        let client = client.map_err(|error| fold_error(&place, &error).changing_nothing())?;
        *self.slot(number) = Some(client.clone());
        Ok(client)
    }

    fn slot(&self, number: usize) -> std::sync::MutexGuard<'_, Option<Client>> {
        self.clients[number].lock().expect("nothing panics while it is held")
    }

    fn address_of(&self, number: usize) -> String {
        let host = &self.url.hosts[number];
        Host { port: Some(host.port_or(PORT)), ..host.clone() }.to_string()
    }

    fn place_of(&self, number: usize) -> String {
        format!("etcd at {}", self.url.hosts[number])
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

impl Found {
    fn of(response: &TxnResponse) -> Found {
        let answers = response.op_responses().into_iter().map(|answer| match answer {
            TxnOpResponse::Get(mut get) => get.take_kvs(),
            _ => Vec::new(),
        });
        Found { history: history_of(response), answers: answers.collect() }
    }

    /// What the `number`-th key holds.
    pub(super) fn value(&self, number: usize) -> Option<&str> {
        self.answers.get(number)?.first()?.value_str().ok()
    }

    /// The revision of etcd that last changed the `number`-th key; 0 where there is no such key.
    pub(super) fn revision(&self, number: usize) -> i64 {
        let found = self.answers.get(number).and_then(|answer| answer.first());
        found.map_or(0, KeyValue::mod_revision)
    }

    /// Keys and values that the `number`-th question found.
    pub(super) fn pairs(&self, number: usize) -> impl Iterator<Item = (&str, &str)> {
        let found = self.answers.get(number).into_iter().flatten();
        found.filter_map(|pair| Some((pair.key_str().ok()?, pair.value_str().ok()?)))
    }
}

fn history_of(response: &TxnResponse) -> History {
    let server = response.header().map_or(0, etcd_client::ResponseHeader::cluster_id);
    History { server, timeline: 0 }
}

/// Whether an error shows that there was nobody to send to.
fn never_sent(error: &etcd_client::Error) -> bool {
    let mut cause = error.source();
    if let etcd_client::Error::GRpcStatus(status) = error {
        cause = status.source();
    }
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return error.kind() == io::ErrorKind::ConnectionRefused;
        }
        cause = error.source();
    }
    false
}

fn tls_options(tls: &Tls) -> Result<TlsOptions, StoreError> {
    let Some(path) = &tls.ca else {
        return Ok(TlsOptions::new().with_native_roots());
    };
    let pem = std::fs::read(path).map_err(|error| {
        StoreError::Broken(format!("the certificates in {}: {error}", path.display()))
    })?;
    Ok(TlsOptions::new().ca_certificate(Certificate::from_pem(pem)))
}
