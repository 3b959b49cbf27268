//! The settings in force, each with where it comes from: what `config show` prints.
//!
//! The text can be used as a settings file. Passwords, the secret and tokens are not in it, and of a store whose URL
//! is in a file, nothing but where that comes from.

use anyhow::Context;
use serde_json::{Value, json};

use super::secrets::{ADMIN_TOKEN, MASTER, STORE, Secret, TOKEN};
use super::variables::{VARIABLES, path};
use super::{Config, Origin, Remote, redaction};

/// A section of the settings file, with its values.
struct Section {
    path: String,
    values: Vec<(String, toml::Value)>,
}

impl Config {
    /// The settings as TOML, with a comment behind each of them.
    pub fn to_toml(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        let mut line = |line: &str| {
            text.push_str(line.trim_end());
            text.push('\n');
        };
        match self.origins.file() {
            Some(file) => line(&format!("# Settings file: {}", file.display())),
            None => line(&format!(
                "# Settings file: none. There is no keymill.toml in {}.",
                std::env::current_dir().unwrap_or_default().display()
            )),
        }
        self.secrets_in_words().iter().for_each(|secret| line(secret));
        for section in self.sections()? {
            line("");
            if !section.path.is_empty() {
                line(&format!("[{}]", section.path));
            }
            for (name, value) in section.values {
                let origin = self.origins.of(&path(&section.path, &name));
                let setting = format!("{name} = {value}");
                line(&format!("{setting:<40} # {origin}"));
            }
        }
        Ok(text)
    }

    /// The same for programs.
    pub fn to_json(&self) -> anyhow::Result<Value> {
        let mut settings = serde_json::Map::new();
        for section in self.sections()? {
            for (name, value) in section.values {
                let path = path(&section.path, &name);
                let mut setting = origin_json(&self.origins.of(&path));
                setting["value"] = serde_json::to_value(value)?;
                settings.insert(path, setting);
            }
        }
        let [secret, admin_token] = ["secret", "admin_token"].map(|name| {
            let origin = self.origins.of(name);
            if origin == Origin::Default { Value::Null } else { origin_json(&origin) }
        });
        if self.is_store_hidden {
            settings.insert("store".to_owned(), origin_json(&self.origins.of("store")));
        }
        let file = self.origins.file().map(|file| file.display().to_string());
        let token = token_origin().as_ref().map(origin_json);
        Ok(json!({
            "file": file,
            "server": Remote::in_environment().map(|urls| redaction::redact_servers(&urls)),
            "token": token,
            "secret": secret,
            "admin_token": admin_token,
            "settings": settings,
        }))
    }

    /// Where secrets come from; what they are is not shown.
    fn secrets_in_words(&self) -> Vec<String> {
        let hidden = |secret: &Secret, name: &str| match self.origins.of(name) {
            Origin::Default => None,
            origin => Some(format!("{}, not shown", secret.origin_in_words(&origin))),
        };
        let none = || "none is set, so the one in the store is used".to_owned();
        let mut lines =
            vec![format!("# Secret: {}.", hidden(&MASTER, "secret").unwrap_or_else(none))];
        let store = hidden(&STORE, "store").filter(|_| self.is_store_hidden);
        lines.extend(store.map(|origin| format!("# Store: {origin}.")));
        let admin_token = hidden(&ADMIN_TOKEN, "admin_token");
        lines.extend(admin_token.map(|origin| format!("# Admin token: {origin}.")));
        if let Some(urls) = Remote::in_environment() {
            let urls = redaction::redact_servers(&urls);
            lines.push(format!(
                "# Server: {urls}, from the variable KEYMILL_SERVER. Other commands work through it."
            ));
            let token = token_origin().map(|origin| TOKEN.origin_in_words(&origin));
            lines.push(match token {
                Some(origin) => format!("# Token for the server: {origin}, not shown."),
                None => "# Token for the server: none is set.".to_owned(),
            });
        }
        lines
    }

    /// All settings, in the order of the annotated file.
    fn sections(&self) -> anyhow::Result<Vec<Section>> {
        let mut table = toml::Table::try_from(&self.shown).context("settings")?;
        if self.is_store_hidden {
            table.remove("store");
        }
        let mut sections = Vec::new();
        collect("", &table, &mut sections);
        sections.sort_by_key(|section| {
            VARIABLES.iter().position(|it| it.0 == section.path).unwrap_or(usize::MAX)
        });
        Ok(sections)
    }
}

/// Where the token for a server comes from. Two of them are refused when it is used.
fn token_origin() -> Option<Origin> {
    TOKEN.find_in_environment().ok().flatten().map(|source| source.origin)
}

/// Collects a section and those below it. An empty one counts, too: it may be a keyspace with all
/// defaults.
fn collect(path: &str, table: &toml::Table, sections: &mut Vec<Section>) {
    let mut values = Vec::new();
    for (name, value) in table {
        match value {
            toml::Value::Table(below) => {
                collect(&super::variables::path(path, name), below, sections);
            }
            value => values.push((name.clone(), value.clone())),
        }
    }
    values.sort_by_key(|(name, _)| {
        VARIABLES.iter().position(|it| it.0 == path && it.1 == name).unwrap_or(usize::MAX)
    });
    if !values.is_empty() || table.is_empty() {
        sections.push(Section { path: path.to_owned(), values });
    }
}

fn origin_json(origin: &Origin) -> Value {
    match origin {
        Origin::Default => json!({ "origin": "default" }),
        Origin::File => json!({ "origin": "file" }),
        Origin::Variable(name) => json!({ "origin": "variable", "name": name }),
        Origin::Credential(name) => json!({ "origin": "credential", "name": name }),
        Origin::Flag(flag) => json!({ "origin": "flag", "name": flag }),
    }
}
