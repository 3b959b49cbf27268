//! `keymill digest`: the keys of inputs, in the order of the inputs.

use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::process::ExitCode;

use anyhow::Context;
use keymill_engine::space::digest::{DigestError, SCOPE_LEN_MAX};
use serde::Serialize;

use super::output::Data;
use super::site::{DigestedKey, Site, Via};
use super::{unknown, usage};

/// How many inputs are digested at once; they share commits.
const INPUTS_MAX: usize = 1_000;

pub(super) const EXAMPLES: &str = "\
From standard input, each line is an input, and its key is printed in the same order, one per line;
blank lines are skipped. With --json, each key is printed with its input. If an input
is refused, the command fails after it has printed the keys before it. Repeating it is safe.

Examples:
  keymill space create urls --kind digest --normalize url
  keymill digest urls https://example.com/a/long/path
  keymill digest urls https://example.com --scope customer-7
  keymill digest urls - < urls.txt > keys.txt
  keymill digest urls - --json < urls.txt";

#[derive(Debug, clap::Args)]
pub(super) struct DigestArgs {
    /// The keyspace, of kind digest
    pub(super) space: String,
    /// The input; - reads inputs from standard input, one per line
    input: String,
    /// The scope; an input has a different key in each scope
    #[arg(long, default_value = "")]
    scope: String,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// One line of JSON.
#[derive(Serialize)]
struct AnswerView<'a> {
    space: &'a str,
    input: &'a str,
    key: &'a str,
    /// Whether the input is new.
    made: bool,
}

pub(super) async fn run(via: &Via, args: DigestArgs) -> anyhow::Result<ExitCode> {
    usage(args.check())?;
    let site = via.open_safe().await?;
    if let (Via::Store(config), Site::Store(service)) = (via, &site)
        && let Some(wanted) = config.spaces.get(&args.space)
        && service.ensure_space(&args.space, wanted).await?.made
    {
        note!("keymill: created the keyspace `{}`", args.space);
    }
    match unknown::advised(&site, digest(&site, &args)).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            let typed = ["digest", args.space.as_str(), args.input.as_str()];
            Err(unknown::or_swapped(error, &site, typed).await)
        }
    }
}

impl DigestArgs {
    /// Refuses what no keyspace could digest.
    fn check(&self) -> Result<(), DigestError> {
        if self.input.is_empty() {
            return Err(DigestError::InputEmpty);
        }
        let found = self.scope.len();
        if found > SCOPE_LEN_MAX {
            return Err(DigestError::ScopeTooLong { found });
        }
        Ok(())
    }
}

async fn digest(site: &Site, args: &DigestArgs) -> anyhow::Result<()> {
    let mut out = BufWriter::new(Data);
    if args.input == "-" {
        digest_lines(site, args, &mut out).await?;
    } else {
        let input = std::slice::from_ref(&args.input);
        for answer in site.digest(&args.space, &args.scope, input).await {
            write(&mut out, args, &args.input, &answer?)?;
        }
    }
    Ok(out.flush()?)
}

/// Digests standard input line by line. Lines that have arrived together are digested together; none
/// waits for later ones.
async fn digest_lines(
    site: &Site,
    args: &DigestArgs,
    out: &mut BufWriter<Data>,
) -> anyhow::Result<()> {
    let mut input = BufReader::with_capacity(1 << 16, io::stdin());
    let mut number = 0_u64;
    loop {
        let lines = read_lines(&mut input, &mut number);
        let (lines, unreadable) = match lines {
            Ok(lines) => (lines, None),
            Err((lines, error)) => (lines, Some(error)),
        };
        if lines.is_empty() && unreadable.is_none() {
            return Ok(());
        }
        let (numbers, inputs): (Vec<u64>, Vec<String>) = lines.into_iter().unzip();
        let answers = site.digest(&args.space, &args.scope, &inputs).await;
        for ((answer, input), line) in answers.into_iter().zip(&inputs).zip(numbers) {
            match answer {
                Ok(answer) => write(out, args, input, &answer)?,
                Err(error) => {
                    out.flush()?;
                    return Err(error).with_context(|| format!("line {line}"));
                }
            }
        }
        // The sender may wait for these keys before it sends more lines.
        out.flush()?;
        if let Some(error) = unreadable {
            return Err(error).with_context(|| format!("cannot read line {}", number + 1));
        }
    }
}

/// Lines of the input, each with its number.
type Lines = Vec<(u64, String)>;

/// The next lines that are not blank: at least one, unless the input has ended, and no more than have arrived.
/// If one cannot be read, those before it are returned with the error. `number` counts the lines read.
fn read_lines(
    input: &mut BufReader<io::Stdin>,
    number: &mut u64,
) -> Result<Lines, (Lines, io::Error)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        match input.read_line(&mut line) {
            Ok(0) => return Ok(lines),
            Ok(_) => {
                *number += 1;
                let text = line.strip_suffix('\n').unwrap_or(&line);
                let text = text.strip_suffix('\r').unwrap_or(text);
                if !text.trim().is_empty() {
                    lines.push((*number, text.to_owned()));
                }
            }
            Err(error) => return Err((lines, error)),
        }
        let waits = !lines.is_empty() && !input.buffer().contains(&b'\n');
        if lines.len() >= INPUTS_MAX || waits {
            return Ok(lines);
        }
    }
}

fn write(
    out: &mut impl Write,
    args: &DigestArgs,
    input: &str,
    answer: &DigestedKey,
) -> anyhow::Result<()> {
    if !args.json {
        return Ok(writeln!(out, "{}", answer.key)?);
    }
    let view = AnswerView { space: &args.space, input, key: &answer.key, made: answer.made };
    Ok(writeln!(out, "{}", serde_json::to_string(&view)?)?)
}
