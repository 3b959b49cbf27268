//! Secrets among the settings: the master secret, the store's URL, tokens, the key for TLS.
//!
//! Each may be in a variable, in a file that a setting or a variable names, or among systemd's credentials
//! (`LoadCredential=`). `Config` finds them all here, so that one rule holds for all. Nothing here prints what it
//! has read.
//!
//! # Invariants
//!
//! - A flag wins over variables and credentials, and these win over the settings file. Two of the same rank are
//!   refused, because nobody knows which of them is meant.
//! - A file is read only when its text is asked for: a command that needs no secret need not be able to read it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use zeroize::Zeroizing;

use super::variables::variable_name;
use super::{Origin, Origins, WrongUsage};

/// Where systemd puts credentials.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// Something that not everybody may read.
#[derive(Debug)]
pub(super) struct Secret {
    /// What messages call it.
    what: &'static str,
    /// The setting or variable that holds it, as origins name it.
    value: &'static str,
    /// The setting or variable that names its file.
    file: &'static str,
    /// Its name among systemd's credentials.
    credential: &'static str,
}

pub(super) const MASTER: Secret = Secret {
    what: "the secret",
    value: "secret",
    file: "secret_file",
    credential: "keymill-secret",
};

pub(super) const STORE: Secret = Secret {
    what: "the store's URL",
    value: "store",
    file: "store_file",
    credential: "keymill-store",
};

pub(super) const ADMIN_TOKEN: Secret = Secret {
    what: "the token",
    value: "admin_token",
    file: "admin_token_file",
    credential: "keymill-admin-token",
};

/// The token of a command that works through a server.
pub(super) const TOKEN: Secret =
    Secret { what: "the token", value: "token", file: "token_file", credential: "keymill-token" };

/// It is always a file.
pub(super) const TLS_KEY: Secret = Secret {
    what: "the key of the certificate",
    value: "tls_key",
    file: "tls_key",
    credential: "keymill-tls-key",
};

/// Where a secret was found.
#[derive(Debug)]
pub(super) struct Source {
    what: &'static str,
    content: Content,
    /// Which setting, variable or credential holds it or names its file.
    pub(super) origin: Origin,
}

enum Content {
    Text(Zeroizing<String>),
    File(PathBuf),
}

impl Secret {
    /// Where it comes from, if it is set: `value` holds it, `file` names a file with it, and `origins` knows
    /// where both are set.
    pub(super) fn find(
        &self,
        value: Option<&str>,
        file: Option<&Path>,
        origins: &Origins,
    ) -> anyhow::Result<Option<Source>> {
        let named = std::env::var_os(CREDENTIALS);
        let credential = named.map(|folder| Path::new(&folder).join(self.credential));
        // One that cannot be looked at is there, and its error is told when it is read.
        let credential = credential.filter(|path| path.try_exists().unwrap_or(true));
        self.choose(value, file, credential, origins)
    }

    /// Where it comes from, if it is no setting: only variables and credentials hold it.
    pub(super) fn find_in_environment(&self) -> anyhow::Result<Option<Source>> {
        let [value, file] = [self.value, self.file].map(|name| {
            let variable = variable_name("", name);
            // What is not text was refused before.
            std::env::var(&variable).ok().map(|text| (Zeroizing::new(text), variable))
        });
        let mut origins = Origins::default();
        for (name, found) in [(self.value, &value), (self.file, &file)] {
            if let Some((_, variable)) = found {
                origins.set(name, Origin::Variable(variable.clone()));
            }
        }
        let file = file.as_ref().map(|(path, _)| Path::new(path.as_str()));
        self.find(value.as_ref().map(|(text, _)| text.as_str()), file, &origins)
    }

    fn choose(
        &self,
        value: Option<&str>,
        file: Option<&Path>,
        credential: Option<PathBuf>,
        origins: &Origins,
    ) -> anyhow::Result<Option<Source>> {
        let source = |content, origin| Source { what: self.what, content, origin };
        let value = value.map(|text| {
            let text = Zeroizing::new(text.to_owned());
            source(Content::Text(text), origins.of(self.value))
        });
        let file = file.map(|path| source(Content::File(path.to_owned()), origins.of(self.file)));
        let credential = credential.map(|path| {
            source(Content::File(path), Origin::Credential(self.credential.to_owned()))
        });
        let mut found: Vec<Source> = value.into_iter().chain(file).chain(credential).collect();
        let highest = found.iter().map(|source| rank(&source.origin)).max();
        found.retain(|source| Some(rank(&source.origin)) == highest);
        if let [one, other, ..] = &found[..] {
            let [one, other] = [one, other].map(|source| self.name_of(source));
            let problem = format!("{one} and {other} both give {}; keep one of them", self.what);
            return Err(WrongUsage(problem).into());
        }
        Ok(found.pop())
    }

    /// Where it comes from, for people.
    pub(super) fn origin_in_words(&self, origin: &Origin) -> String {
        match origin {
            Origin::File | Origin::Default => format!("from `{}`", self.file),
            origin => format!("from the {origin}"),
        }
    }

    fn name_of(&self, source: &Source) -> String {
        match (&source.origin, &source.content) {
            (Origin::Variable(name), _) => name.clone(),
            (Origin::Flag(flag), _) => (*flag).to_owned(),
            (Origin::Credential(name), _) => format!("the credential `{name}`"),
            (Origin::Default | Origin::File, Content::Text(_)) => format!("`{}`", self.value),
            (Origin::Default | Origin::File, Content::File(_)) => format!("`{}`", self.file),
        }
    }
}

impl Source {
    /// The secret.
    pub(super) fn read(&self) -> anyhow::Result<Zeroizing<String>> {
        match &self.content {
            Content::Text(text) => Ok(text.clone()),
            Content::File(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read {} in {}", self.what, path.display()))?;
                Ok(Zeroizing::new(text))
            }
        }
    }

    /// What an error calls it: the file, or who holds it.
    pub(super) fn label(&self) -> String {
        match (&self.content, &self.origin) {
            (Content::File(path), _) => path.display().to_string(),
            (Content::Text(_), Origin::Variable(name)) => name.clone(),
            (Content::Text(_), origin) => origin.to_string(),
        }
    }

    /// The file that it is in.
    pub(super) fn file(&self) -> Option<&Path> {
        match &self.content {
            Content::Text(_) => None,
            Content::File(path) => Some(path),
        }
    }
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Content::Text(_) => f.write_str("Text(…)"),
            Content::File(path) => write!(f, "File({})", path.display()),
        }
    }
}

fn rank(origin: &Origin) -> u8 {
    match origin {
        Origin::Default => 0,
        Origin::File => 1,
        Origin::Variable(_) | Origin::Credential(_) => 2,
        Origin::Flag(_) => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_place_counts_and_two_of_the_same_are_refused() {
        let (variable, flag) = (Origin::Variable("KEYMILL_STORE".to_owned()), Origin::Flag("-s"));
        let by_file = Origin::Variable("KEYMILL_STORE_FILE".to_owned());
        let credential = Origin::Credential("keymill-store".to_owned());
        for (value, file, has_credential, expected) in [
            (None, None, false, Ok(None)),
            (Some(Origin::File), None, false, Ok(Some(Origin::File))),
            (Some(Origin::File), Some(by_file.clone()), false, Ok(Some(by_file.clone()))),
            (Some(variable.clone()), Some(Origin::File), false, Ok(Some(variable.clone()))),
            (Some(Origin::File), Some(Origin::File), true, Ok(Some(credential))),
            (Some(flag.clone()), Some(by_file.clone()), true, Ok(Some(flag))),
            (
                Some(variable.clone()),
                Some(by_file.clone()),
                false,
                Err("KEYMILL_STORE and KEYMILL_STORE_FILE both give the store's URL"),
            ),
            (
                Some(variable),
                None,
                true,
                Err("KEYMILL_STORE and the credential `keymill-store` both give"),
            ),
            (
                None,
                Some(by_file),
                true,
                Err("KEYMILL_STORE_FILE and the credential `keymill-store` both give"),
            ),
            (Some(Origin::File), Some(Origin::File), false, Err("`store` and `store_file` both")),
        ] {
            let mut origins = Origins::default();
            for (name, origin) in [("store", &value), ("store_file", &file)] {
                origin.iter().for_each(|origin| origins.set(name, (*origin).clone()));
            }
            let credential = has_credential.then(|| PathBuf::from("credential"));
            let text = value.as_ref().map(|_| "sqlite:x");
            let path = file.as_ref().map(|_| Path::new("x"));
            let found = STORE.choose(text, path, credential, &origins);
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.map(|it| it.origin), expected),
                (Err(error), Err(says)) => {
                    assert!(error.to_string().starts_with(says), "{error}");
                }
                (found, expected) => panic!("{found:?} is not {expected:?}"),
            }
        }
    }

    #[test]
    fn a_secret_is_not_shown_by_debug() {
        let mut origins = Origins::default();
        origins.set("store", Origin::Flag("--store"));
        let found = STORE.choose(Some("postgres://me:hidden@db"), None, None, &origins);
        assert!(!format!("{found:?}").contains("hidden"));
    }
}
