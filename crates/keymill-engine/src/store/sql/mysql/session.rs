//! Variables of a session that change what statements mean.
//!
//! Any of them may have another default on a server: a `sql_select_limit` of 5 would hide all but five
//! of the keys that are in use. And a proxy may put another server behind a connection. So
//! `transaction` sets them at the beginning of each transaction, and reads them back together with the
//! identity of the store; what follows is decided only where they are as they should be.

use mysql_async::Row;

use super::connection::column;
use crate::store::connections::LOCK_MAX;

/// Each variable, what it is set to, and how the server shows it then.
const VARIABLES: [(&str, &str, &str); 6] = [
    ("sql_select_limit", "18446744073709551615", "18446744073709551615"),
    ("sql_safe_updates", "0", "0"),
    ("sql_mode", "'STRICT_ALL_TABLES'", "STRICT_ALL_TABLES"),
    ("time_zone", "'+00:00'", "+00:00"),
    ("completion_type", "0", "NO_CHAIN"),
    ("innodb_lock_wait_timeout", "3", "3"),
];
const _: () = assert!(LOCK_MAX.as_secs() == 3, "it is written out above");

/// Begins a transaction, in one round trip. A server that has become read-only refuses it, unless the
/// user is exempt from that.
pub(super) fn begin() -> String {
    format!("START TRANSACTION READ WRITE; {}", set())
}

/// What a new connection is told, for what is read outside of transactions. The isolation cannot be
/// changed inside of one.
pub(super) fn connect() -> String {
    let isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
    format!("{isolation}; SET SESSION autocommit = 1; {}", set())
}

fn set() -> String {
    format!("SET SESSION {}", VARIABLES.map(|(name, set, _)| format!("{name} = {set}")).join(", "))
}

/// What was found when a transaction looked at its server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SessionState {
    /// All is as it should be; the identity of the store.
    Good(String),
    /// The server takes no writes any more.
    ReadOnly,
    /// A variable has another value than it was given.
    Changed(String),
}

/// A statement that reads the identity of the store and everything that it depends on whether the
/// transaction may go on. `isolation` is this server's name for the isolation of transactions.
pub(super) fn look_at(isolation: &str) -> String {
    let variables = VARIABLES.map(|(name, ..)| format!("@@{name}")).join(", ");
    // A limit in the statement overrides that of the session.
    format!("SELECT identity, @@GLOBAL.read_only, @@{isolation}, {variables} FROM store LIMIT 1")
}

impl SessionState {
    /// From the row that [`look_at`] reads.
    pub(super) fn of(row: &Row, isolation: &str) -> SessionState {
        let values: Vec<String> = (0..row.len()).map(|number| column(row, number)).collect();
        SessionState::judge(&values, isolation)
    }

    fn judge(values: &[String], isolation: &str) -> SessionState {
        let [identity, read_only, variables @ ..] = values else {
            return SessionState::Changed("the server's answer is cut off".to_owned());
        };
        // A user may be exempt from it, and would go on where nobody follows.
        if !["0", "OFF"].contains(&read_only.as_str()) {
            return SessionState::ReadOnly;
        }
        let variables_shown = VARIABLES.map(|(name, _, shown)| (name, shown));
        let expected = [(isolation, "READ-COMMITTED")].into_iter().chain(variables_shown);
        for (found, (name, wanted)) in variables.iter().zip(expected) {
            if found != wanted {
                return SessionState::Changed(format!(
                    "{name} is `{found}`, although keymill set it to `{wanted}`; the server, or a \
                     proxy in front of it, may have changed it"
                ));
            }
        }
        SessionState::Good(identity.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_shows_is_good_only_as_it_was_set() {
        let good = ["id", "0", "READ-COMMITTED"].into_iter().chain(VARIABLES.map(|it| it.2));
        let good: Vec<String> = good.map(str::to_owned).collect();
        let with = |index: usize, value: &str| {
            let mut values = good.clone();
            value.clone_into(&mut values[index]);
            SessionState::judge(&values, "tx_isolation")
        };
        assert_eq!(with(1, "OFF"), SessionState::Good("id".to_owned()));
        for on in ["1", "ON", "NO_LOCK"] {
            assert_eq!(with(1, on), SessionState::ReadOnly);
        }
        for index in 2..good.len() {
            let name = if index == 2 { "tx_isolation" } else { VARIABLES[index - 3].0 };
            let SessionState::Changed(problem) = with(index, "5") else {
                panic!("{name} was not noticed")
            };
            assert!(problem.starts_with(&format!("{name} is `5`")), "{problem}");
        }
    }
}
