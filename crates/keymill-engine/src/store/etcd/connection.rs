//! The members of an etcd cluster: one is asked, and another where it does not answer.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, KeyValue, TlsOptions, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
};
use tokio::time::{Instant, timeout};

use super::fold_error;
use super::key_paths::KeyPaths;
use crate::store::url::{Host, StoreUrl, Tls};
use crate::store::{History, StoreError};

const PORT: u16 = 2379;
/// How long one member may take to answer, before another is asked.
const MEMBER_MAX: Duration = Duration::from_millis(1_500);
/// How long members are asked, one after another.
const READ_MAX: Duration = Duration::from_secs(5);
/// How long a change may take. A leader is elected in less.
const COMMIT_MAX: Duration = Duration::from_secs(4);
/// The largest answer that is read. A library's default of 4 MB would be too little for a page of
/// large documents.
const ANSWER_MAX: usize = 64 << 20;

/// How many keys one request names; a transaction of etcd has at most 128 operations.
pub(super) const GETS_MAX: usize = 100;

/// The members of a URL.
pub(super) struct Members {
    url: StoreUrl,
    tls: Option<TlsOptions>,
    clients: Vec<Mutex<Option<Client>>>,
    /// Which one is asked.
    current: AtomicUsize,
}

/// What was read, as of one moment.
pub(super) struct Answers {
    pub(super) at: Moment,
    answers: Vec<Vec<KeyValue>>,
}

/// A moment in the life of a cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) history: History,
    /// The cluster's revision, which every change to any key raises.
    pub(super) revision: i64,
}

pub(super) fn parse(url: &str) -> Result<(Members, KeyPaths), StoreError> {
    let url = StoreUrl::parse(url, &[])?;
    let tls = url.tls()?.map(|tls| tls_options(&tls)).transpose()?;
    let paths = KeyPaths::under(if url.path.is_empty() { "keymill" } else { &url.path });
    let clients = url.hosts.iter().map(|_| Mutex::default()).collect();
    Ok((Members { url, tls, clients, current: AtomicUsize::new(0) }, paths))
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
    pub(super) async fn read(&self, gets: Vec<TxnOp>) -> Result<Answers, StoreError> {
        let deadline = Instant::now() + READ_MAX;
        loop {
            match self.ask(Txn::new().and_then(gets.clone()), MEMBER_MAX).await {
                Ok(response) => return Ok(Answers::of(&response)),
                Err(StoreError::InDoubt(problem) | StoreError::Unavailable(problem)) => {
                    if Instant::now() > deadline {
                        return Err(StoreError::Unavailable(format!(
                            "no etcd member can reach a majority; the last error: {problem}"
                        )));
                    }
                    // The others may have just as little to say until a leader is elected.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The same of a cluster that was read before, and of no other.
    pub(super) async fn read_of(
        &self,
        history: History,
        gets: Vec<TxnOp>,
    ) -> Result<Answers, StoreError> {
        let found = self.read(gets).await?;
        if found.at.history != history {
            let url = self.shown();
            let problem = format!("{url} is now a different cluster");
            return Err(StoreError::Unavailable(problem));
        }
        Ok(found)
    }

    /// Drops all connections, so that the next request makes its own.
    pub(super) fn disconnect(&self) {
        (0..self.clients.len()).for_each(|number| *self.slot(number) = None);
    }

    /// Writes on conditions, in one transaction; whether they held.
    pub(super) async fn commit(
        &self,
        conditions: Vec<Compare>,
        writes: Vec<TxnOp>,
        history: History,
    ) -> Result<bool, StoreError> {
        let txn = Txn::new().when(conditions).and_then(writes);
        let response = self.ask(txn, COMMIT_MAX).await?;
        if moment_of(&response).history != history {
            let url = self.shown();
            return Err(StoreError::InDoubt(format!("{url} is now a different cluster")));
        }
        Ok(response.succeeded())
    }

    /// Writes keys that nobody else writes, in one transaction.
    pub(super) async fn write(&self, writes: Vec<TxnOp>) -> Result<(), StoreError> {
        self.ask(Txn::new().and_then(writes), COMMIT_MAX).await.map(drop)
    }

    /// Writes a key if there is none; whether it did.
    pub(super) async fn make(&self, key: String, value: String) -> Result<bool, StoreError> {
        let absent = Compare::create_revision(key.as_str(), CompareOp::Equal, 0);
        let txn = Txn::new().when([absent]).and_then([TxnOp::put(key, value, None)]);
        Ok(self.ask(txn, COMMIT_MAX).await?.succeeded())
    }

    pub(super) async fn remove(&self, key: String) -> Result<(), StoreError> {
        let txn = Txn::new().and_then([TxnOp::delete(key, None)]);
        self.ask(txn, COMMIT_MAX).await.map(drop)
    }

    /// Makes a lease of etcd, which ends so many seconds after it was last kept alive.
    pub(super) async fn grant(&self, seconds: i64) -> Result<i64, StoreError> {
        let grant = |mut client: Client| async move { client.lease_grant(seconds, None).await };
        Ok(self.call(COMMIT_MAX, grant).await?.id())
    }

    /// Keeps a lease of etcd alive, which makes no revision; whether it had not ended before.
    pub(super) async fn keep_alive(&self, lease: i64) -> Result<bool, StoreError> {
        let keep = |mut client: Client| async move {
            match client.lease_keep_alive(lease).await {
                Ok(_) => Ok(true),
                Err(etcd_client::Error::LeaseKeepAliveError(_)) => Ok(false),
                Err(error) => Err(error),
            }
        };
        // A member that does not lead passes it on, and waits while a leader is elected.
        self.call(COMMIT_MAX, keep).await.map_err(StoreError::changing_nothing)
    }

    /// How many seconds a lease of etcd lasts, and how many of them are left; `None` where it has ended.
    pub(super) async fn time_to_live(&self, lease: i64) -> Result<Option<(i64, i64)>, StoreError> {
        let look = |mut client: Client| async move { client.lease_time_to_live(lease, None).await };
        let times = self.look(look).await?;
        Ok((times.ttl() >= 0).then(|| (times.granted_ttl(), times.ttl())))
    }

    /// Ends a lease of etcd, with the keys that are attached to it.
    pub(super) async fn revoke(&self, lease: i64) -> Result<(), StoreError> {
        let revoke = |mut client: Client| async move { client.lease_revoke(lease).await };
        self.call(COMMIT_MAX, revoke).await.map(drop)
    }

    /// Asks one member for what changes nothing.
    pub(super) async fn look<T, F>(
        &self,
        request: impl FnOnce(Client) -> F + Send,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        self.call(MEMBER_MAX, request).await.map_err(StoreError::changing_nothing)
    }

    async fn ask(&self, txn: Txn, time_max: Duration) -> Result<TxnResponse, StoreError> {
        let ask = |client: Client| async move {
            let mut client = client.kv_client().max_decoding_message_size(ANSWER_MAX);
            client.txn(txn).await
        };
        self.call(time_max, ask).await
    }

    /// Asks one member. One that fails is connected to anew, and the next one asked from now on.
    async fn call<T, F>(
        &self,
        time_max: Duration,
        request: impl FnOnce(Client) -> F + Send,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        let number = self.current.load(Ordering::Relaxed);
        let server_name = self.server_name(number);
        let answer = async {
            let client = self.client(number).await?;
            request(client).await.map_err(|error| {
                if never_sent(&error) {
                    return fold_error(&server_name, &error).changing_nothing();
                }
                fold_error(&server_name, &error)
            })
        };
        let answer = timeout(time_max, answer).await.unwrap_or_else(|_| {
            Err(StoreError::InDoubt(format!("{server_name} did not answer within {time_max:?}")))
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
        let server_name = self.server_name(number);
        let client = client.map_err(|error| fold_error(&server_name, &error).changing_nothing())?;
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

    fn server_name(&self, number: usize) -> String {
        format!("etcd at {}", self.url.hosts[number])
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

impl Answers {
    fn of(response: &TxnResponse) -> Answers {
        let answers = response.op_responses().into_iter().map(|answer| match answer {
            TxnOpResponse::Get(mut get) => get.take_kvs(),
            _ => Vec::new(),
        });
        Answers { at: moment_of(response), answers: answers.collect() }
    }

    /// What the `number`-th key holds.
    pub(super) fn value(&self, number: usize) -> Option<&str> {
        self.rows(number).first()?.value_str().ok()
    }

    /// The revision of etcd that last changed the `number`-th key; 0 where there is no such key.
    pub(super) fn revision(&self, number: usize) -> i64 {
        self.rows(number).first().map_or(0, KeyValue::mod_revision)
    }

    /// What the `number`-th question found.
    pub(super) fn rows(&self, number: usize) -> &[KeyValue] {
        self.answers.get(number).map(Vec::as_slice).unwrap_or_default()
    }

    /// How many keys the `number`-th question found.
    pub(super) fn count(&self, number: usize) -> usize {
        self.rows(number).len()
    }

    /// The last key that the `number`-th question found.
    pub(super) fn last_key(&self, number: usize) -> Option<&str> {
        self.rows(number).last()?.key_str().ok()
    }

    /// KeyPaths and values that the `number`-th question found.
    pub(super) fn pairs(&self, number: usize) -> impl Iterator<Item = (&str, &str)> {
        let found = self.rows(number).iter();
        found.filter_map(|row| Some((row.key_str().ok()?, row.value_str().ok()?)))
    }
}

fn moment_of(response: &TxnResponse) -> Moment {
    let header = response.header();
    let server = header.map_or(0, etcd_client::ResponseHeader::cluster_id);
    let revision = header.map_or(0, etcd_client::ResponseHeader::revision);
    Moment { history: History { server, timeline: 0 }, revision }
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
