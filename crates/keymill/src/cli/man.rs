//! `keymill man`: the manual, made from the same text as `--help`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_mangen::Man;

use super::args::Args;

/// Prints the page of `keymill`, or writes a page for each command into a folder.
pub(super) fn run(folder: Option<&Path>) -> anyhow::Result<ExitCode> {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        Man::new(Args::command()).render(&mut page)?;
        print!("{}", String::from_utf8_lossy(&page));
        return Ok(ExitCode::SUCCESS);
    };
    let cannot = || format!("cannot write the manual to {}", folder.display());
    fs::create_dir_all(folder).with_context(cannot)?;
    clap_mangen::generate_to(Args::command(), folder).with_context(cannot)?;
    eprintln!("keymill: the manual is in {}; read it with `man -l`", folder.display());
    Ok(ExitCode::SUCCESS)
}
