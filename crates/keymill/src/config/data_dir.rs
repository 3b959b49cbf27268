//! The data directory: where it is if it is not set.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// The data directory, and the variable that names it if no setting does.
pub(super) fn data_dir(given: Option<&Path>) -> anyhow::Result<(PathBuf, Option<&'static str>)> {
    let named = |variable: &str| std::env::var_os(variable).filter(|it| !it.is_empty());
    let (path, variable) = if let Some(path) = given {
        (path.to_owned(), None)
    } else if let Some(path) = named("STATE_DIRECTORY") {
        // systemd may name several, separated by colons; the first is ours.
        let path = path.to_string_lossy();
        (path.split(':').next().unwrap_or_default().into(), Some("STATE_DIRECTORY"))
    } else {
        let xdg = named("XDG_DATA_HOME").map(PathBuf::from);
        let variable = xdg.as_ref().filter(|path| path.is_absolute()).map(|_| "XDG_DATA_HOME");
        let path = platform_data_dir(xdg, std::env::home_dir())
            .context("this user has no home folder for data; set --data-dir")?;
        (path, variable)
    };
    Ok((std::path::absolute(path)?, variable))
}

/// Where this platform keeps a program's data. A relative `XDG_DATA_HOME` does not count, by XDG's
/// own rule.
fn platform_data_dir(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let below_home =
        if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/share" };
    let home = home.filter(|home| !home.as_os_str().is_empty());
    let base = xdg.filter(|path| path.is_absolute()).or_else(|| Some(home?.join(below_home)))?;
    Some(base.join("keymill"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_lives_where_the_platform_keeps_it() {
        let data_dir = |xdg: Option<&str>, home: Option<&str>| {
            platform_data_dir(xdg.map(PathBuf::from), home.map(PathBuf::from))
        };
        assert_eq!(data_dir(Some("/x"), Some("/h")), Some("/x/keymill".into()));
        assert_eq!(data_dir(None, None), None);
        assert_eq!(data_dir(None, Some("")), None);
        if cfg!(target_os = "linux") {
            let at_home = Some("/h/.local/share/keymill".into());
            assert_eq!(data_dir(None, Some("/h")), at_home);
            assert_eq!(data_dir(Some("relative"), Some("/h")), at_home);
        }
    }
}
