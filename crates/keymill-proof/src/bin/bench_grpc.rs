//! `bench_grpc`: takes over gRPC beside a tonic server that answers a constant, and keys of streams a second.
//!
//! Runs alternate, so that a busy or throttled machine hits both; figures are medians. Both servers are processes of
//! their own, and the client, which is the same for both, shares the machine with them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use keymill_proof::{Deployment, Server, ServerSpec, binary};
use keymill_proto::v1;
use keymill_proto::v1::keymill_client::KeymillClient;
use keymill_proto::v1::keymill_server::{Keymill, KeymillServer};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

type Client = KeymillClient<Channel>;
type BoxError = Box<dyn std::error::Error>;

/// Measure takes over gRPC beside a server that answers a constant. Needs release builds of both.
#[derive(Debug, Parser)]
struct Args {
    /// The server to measure; the one beside this program if left out.
    #[arg(long)]
    keymill: Option<PathBuf>,
    /// How many runs of each.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// How long each is.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How many connections the client has.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// How many calls are under way on each.
    #[arg(long, default_value_t = 32)]
    calls: usize,
    /// How many streams there are, each on a connection of its own.
    #[arg(long, default_value_t = 2)]
    streams: usize,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Be the server that answers a constant.
    #[command(hide = true)]
    Constant,
}

fn main() -> Result<(), BoxError> {
    let args = Args::parse();
    let runtime = tokio::runtime::Runtime::new()?;
    match args.command {
        Some(Command::Constant) => runtime.block_on(serve_constant()),
        None => runtime.block_on(measure(&args)),
    }
}

async fn measure(args: &Args) -> Result<(), BoxError> {
    let deployment = Deployment::sqlite();
    let mut spec = deployment.server("keymill");
    spec.binary = args.keymill.clone().unwrap_or_else(|| binary("keymill"));
    let keymill = spec.start();
    let constant = ServerSpec {
        binary: std::env::current_exe()?,
        args: vec!["constant".to_owned()],
        env: Vec::new(),
        log: deployment.path("constant.log"),
    };
    let constant = constant.start();
    // The first keys, and a lease that lasts.
    warm_up(keymill.address()).await?;
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for run in 1..=args.runs {
        for (name, server, figures) in
            [("constant", &constant, &mut theirs), ("keymill", &keymill, &mut ours)]
        {
            let figure = unary(args, server).await?;
            println!(
                "run {run}: {name}: {:.0} calls/s, {:.2} µs of CPU a call",
                figure.0, figure.1
            );
            figures.push(figure);
        }
    }
    let median = |figures: &[(f64, f64)], which: fn(&(f64, f64)) -> f64| {
        let mut all: Vec<f64> = figures.iter().map(which).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let rate = median(&ours, |it| it.0) / median(&theirs, |it| it.0);
    let cpu = median(&ours, |it| it.1) / median(&theirs, |it| it.1);
    println!("Take: {rate:.2} of the rate of a constant, {cpu:.2} of its CPU time a call");
    let mut keys = Vec::new();
    for run in 1..=args.runs {
        let rate = streams(args, keymill.address()).await?;
        println!("stream {run}: {:.2} million keys/s", rate / 1e6);
        keys.push((rate, 0.0));
    }
    println!("TakeStream: {:.2} million keys/s in all", median(&keys, |it| it.0) / 1e6);
    Ok(())
}

/// Calls a second of a server, and its CPU time a call in microseconds.
async fn unary(args: &Args, server: &Server) -> Result<(f64, f64), BoxError> {
    let (counted, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut callers = Vec::new();
    for _ in 0..args.connections {
        let client = connect(server.address()).await?;
        for _ in 0..args.calls {
            let (mut client, counted, is_over) = (client.clone(), counted.clone(), is_over.clone());
            callers.push(tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let ask = v1::TakeRequest { space: "default".to_owned(), ..Default::default() };
                    let keys = client.take(ask).await?.into_inner().keys;
                    assert_eq!(keys.len(), 1);
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<(), Status>(())
            }));
        }
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (before, cpu, began) = (counted.load(Ordering::Relaxed), cpu_time(server), Instant::now());
    tokio::time::sleep(Duration::from_secs(args.seconds)).await;
    let count = (counted.load(Ordering::Relaxed) - before) as f64;
    let (cpu, time) = (cpu_time(server) - cpu, began.elapsed());
    is_over.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await??;
    }
    Ok((count / time.as_secs_f64(), cpu.as_secs_f64() * 1e6 / count))
}

/// Keys a second that streams receive in all.
async fn streams(args: &Args, address: SocketAddr) -> Result<f64, BoxError> {
    const CREDIT: u32 = 1_000_000;
    let counted = Arc::new(AtomicU64::new(0));
    let mut readers = Vec::new();
    for _ in 0..args.streams {
        let mut client = connect(address).await?;
        let counted = counted.clone();
        readers.push(tokio::spawn(async move {
            let (sender, messages) = tokio::sync::mpsc::channel(4);
            let first = v1::TakeStreamRequest {
                space: "default".to_owned(),
                credit: CREDIT,
                ..Default::default()
            };
            sender.send(first).await.map_err(|_| Status::internal("it is open"))?;
            let mut batches = client.take_stream(ReceiverStream::new(messages)).await?.into_inner();
            let mut used = 0;
            while let Some(batch) = batches.message().await? {
                let keys = u32::try_from(batch.keys.len()).unwrap_or(0) / batch.key_length.max(1);
                counted.fetch_add(keys.into(), Ordering::Relaxed);
                used += keys;
                if used >= CREDIT / 2 {
                    let more = v1::TakeStreamRequest { credit: used, ..Default::default() };
                    let _ = sender.send(more).await;
                    used = 0;
                }
            }
            Ok::<(), Status>(())
        }));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (before, began) = (counted.load(Ordering::Relaxed), Instant::now());
    tokio::time::sleep(Duration::from_secs(args.seconds)).await;
    let count = counted.load(Ordering::Relaxed) - before;
    let rate = count as f64 / began.elapsed().as_secs_f64();
    for reader in readers {
        if reader.is_finished() {
            reader.await??;
        } else {
            reader.abort();
        }
    }
    Ok(rate)
}

async fn connect(address: SocketAddr) -> Result<Client, BoxError> {
    Ok(KeymillClient::new(Channel::from_shared(format!("http://{address}"))?.connect().await?))
}

/// Takes until the server has leased for a demand like that of the runs.
async fn warm_up(address: SocketAddr) -> Result<(), BoxError> {
    let mut client = connect(address).await?;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        let ask = v1::TakeRequest {
            space: "default".to_owned(),
            count: Some(10_000),
            ..Default::default()
        };
        match client.take(ask).await {
            Ok(_) => {}
            Err(status) if status.code() == tonic::Code::Unavailable => {}
            Err(status) => return Err(status.into()),
        }
    }
    Ok(())
}

/// The user and system time of a server.
fn cpu_time(server: &Server) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap_or_default();
    // Behind the name, which may have spaces, they are the 12th and 13th.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    // A tick is a hundredth of a second on Linux.
    Duration::from_millis(10 * ticks)
}

/// A server that does nothing but answer.
struct Constant;

#[tonic::async_trait]
impl Keymill for Constant {
    async fn take(
        &self,
        request: Request<v1::TakeRequest>,
    ) -> Result<Response<v1::TakeResponse>, Status> {
        let space = request.into_inner().space;
        let keys = vec!["3fBqK9d".to_owned()];
        Ok(Response::new(v1::TakeResponse { space, keys, expires_at: None }))
    }
}

async fn serve_constant() -> Result<(), BoxError> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    eprintln!("  listening  http://{}", listener.local_addr()?);
    let service = KeymillServer::new(Constant);
    let incoming = TcpListenerStream::new(listener);
    tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming).await?;
    Ok(())
}
