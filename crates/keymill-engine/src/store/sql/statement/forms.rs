//! What statements on many rows are written from, and the texts that become of it. Called by `statement`
//! alone, once for each statement and dialect.

use super::{Dialect, ITEMS, Lists, Many, NOW, Said, There, argument};

/// Rows to write.
#[derive(Debug)]
pub(super) struct Insert {
    pub(super) into: &'static str,
    pub(super) shared: &'static str,
    pub(super) columns: &'static str,
    pub(super) there: There,
}

/// Rows of a list, to read, change or remove.
#[derive(Debug)]
pub(super) struct List {
    pub(super) head: &'static str,
    pub(super) filter: &'static str,
    pub(super) by: &'static str,
    pub(super) tail: &'static str,
    pub(super) each: bool,
}

/// Rows of a list, to remove and to tell of those that were there.
#[derive(Debug)]
pub(super) struct Removal {
    pub(super) from: &'static str,
    pub(super) filter: &'static str,
    pub(super) by: &'static str,
    pub(super) columns: &'static str,
}

/// Rows that get values of their own each.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) table: &'static str,
    pub(super) also: &'static str,
    pub(super) by: &'static str,
    pub(super) set: &'static str,
}

impl Insert {
    /// For one row.
    pub(super) fn one(&self, dialect: &Dialect) -> String {
        let own = self.columns_in(dialect).into_iter();
        let own = own.map(|index| format!("${}", self.first() + index));
        let values = joined(", ", self.shared().map(|(_, value)| value.to_owned()).chain(own));
        format!("{} VALUES ({values}){}", self.head(dialect), self.tail(dialect))
    }

    pub(super) fn many(&self, dialect: &Dialect) -> Many {
        let (head, columns) = (self.head(dialect), self.columns_in(dialect));
        let shared: String = self.shared().map(|(_, value)| format!("{value}, ")).collect();
        let text = match dialect.lists {
            Lists::Arrays => {
                let (arrays, names) = (numbered("$", self.first(), columns.len()), columns.len());
                let names = numbered("c", 0, names);
                format!("{head} SELECT {shared}{names} FROM unnest({arrays}) AS new ({names})")
            }
            _ => format!("{head} VALUES "),
        };
        let (text, shared) = (dialect.expand(&text), dialect.expand(&shared));
        let is_plain = matches!(self.there, There::Never)
            && self.shared().all(|(_, value)| value.starts_with('$'));
        let copied = is_plain.then(|| head.replacen("INSERT INTO ", "", 1));
        Many { text, shared, tail: dialect.expand(&self.tail(dialect)), columns, copied }
    }

    /// The columns that are the same in all rows, each with what it is.
    fn shared(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        columns(self.shared).filter_map(|shared| shared.split_once(" = "))
    }

    /// The number of the first parameter that is a row's own.
    fn first(&self) -> usize {
        parameters(self.shared) + 1
    }

    /// The indexes of the columns that a dialect has.
    fn columns_in(&self, dialect: &Dialect) -> Vec<usize> {
        let columns = columns(self.columns).enumerate();
        columns.filter(|(_, it)| !dialect.expand(it).is_empty()).map(|(index, _)| index).collect()
    }

    fn head(&self, dialect: &Dialect) -> String {
        let all: Vec<&str> = columns(self.columns).collect();
        let own = self.columns_in(dialect).into_iter().map(|index| all[index]);
        let columns: Vec<&str> = self.shared().map(|(column, _)| column).chain(own).collect();
        format!("INSERT INTO {} ({})", self.into, columns.join(", "))
    }

    fn tail(&self, dialect: &Dialect) -> String {
        let is_mysql = dialect.lists == Lists::Literals;
        let into = self.into;
        let new = |column: &str| {
            if is_mysql { format!("VALUES({column})") } else { format!("excluded.{column}") }
        };
        let (key, set) = match self.there {
            There::Never => return String::new(),
            There::Found if is_mysql => return String::new(),
            There::Stays if is_mysql => {
                // `INSERT IGNORE` would also cut off what does not fit its column.
                let first = self.shared().next().map(|(column, _)| column);
                let first = first.or(columns(self.columns).next()).unwrap_or_default();
                ("", format!("{first} = {into}.{first}"))
            }
            There::Stays | There::Found => return " ON CONFLICT DO NOTHING".to_owned(),
            There::Becomes(key, set) => {
                let set = columns(set).map(|column| format!("{column} = {}", new(column)));
                (key, joined(", ", set))
            }
            There::Adds(key, set) => (key, format!("{set} = {into}.{set} + {}", new(set))),
            There::Completes(key, set) => {
                (key, format!("{set} = coalesce({into}.{set}, {})", new(set)))
            }
        };
        if is_mysql {
            return format!(" ON DUPLICATE KEY UPDATE {set}");
        }
        format!(" ON CONFLICT ({key}) DO UPDATE SET {set}")
    }
}

impl List {
    pub(super) fn text(&self, dialect: &Dialect) -> String {
        let List { head, filter, by, tail, each } = *self;
        if dialect.lists != Lists::Arrays || !each {
            return listed(dialect, head, filter, by, tail);
        }
        let (first, width) = (parameters(head).max(parameters(filter)) + 1, columns(by).count());
        let (arrays, names) = (numbered("$", first, width), numbered("c", 0, width));
        // With a limit it cannot be turned into a join.
        format!(
            "SELECT found.* FROM unnest({arrays}) AS wanted ({names}) \
             CROSS JOIN LATERAL ({} LIMIT 1) AS found",
            filtered(head, filter, &equal(by, |index| format!("wanted.c{index}")))
        )
    }
}

impl Removal {
    pub(super) fn said(&self, dialect: &Dialect) -> Said {
        let Removal { from, filter, by, columns } = *self;
        if dialect.lists != Lists::Literals {
            let (head, tail) = (format!("DELETE FROM {from}"), format!("RETURNING {columns}"));
            return dialect.say(&listed(dialect, &head, filter, by, &tail));
        }
        let head = format!("SELECT {columns} FROM {from} {{primary}}");
        let mut said = dialect.say(&listed(dialect, &head, filter, by, "{lock}"));
        let head = format!("DELETE {{gone}} FROM {from} {{as_gone}}");
        said.removal = Some(dialect.expand(&listed(dialect, &head, filter, by, "")));
        said
    }
}

impl Update {
    pub(super) fn text(&self, dialect: &Dialect) -> String {
        let Update { table, also, by, set } = self;
        let (keys, sets) = (columns(by).count(), columns(set).count());
        match dialect.lists {
            Lists::Arrays => {
                let set = columns(set).map(|column| format!("{column} = new.{column}"));
                let same = columns(by).map(|column| format!("{table}.{column} = new.{column}"));
                let (set, same) = (joined(", ", set), joined(" AND ", same));
                let arrays = numbered("$", 1, keys + sets);
                let rows = format!("unnest({arrays}) AS new ({by}, {})", self.set);
                format!("UPDATE {table} SET {also}{set} FROM {rows} WHERE {same}")
            }
            Lists::OneByOne => {
                let set = columns(set).zip(keys + 1..);
                let set = joined(", ", set.map(|(column, number)| format!("{column} = ${number}")));
                let same = equal(by, |index| format!("${}", index + 1));
                format!("UPDATE {table} SET {also}{set} WHERE {same}")
            }
            // Its driver names in the text what becomes of each.
            Lists::Literals => format!("UPDATE {table} {{primary}} SET {also}{ITEMS}"),
        }
    }
}

/// A statement on the rows of a list.
fn listed(dialect: &Dialect, head: &str, filter: &str, by: &str, tail: &str) -> String {
    let first = parameters(head).max(parameters(filter)) + 1;
    let condition = match dialect.lists {
        Lists::OneByOne => equal(by, |index| format!("${}", first + index)),
        Lists::Arrays => format!("{by} = ANY(${first})"),
        Lists::Literals if by.contains(',') => format!("({by}) IN ({ITEMS})"),
        Lists::Literals => format!("{by} IN ({ITEMS})"),
    };
    format!("{} {tail}", filtered(head, filter, &condition))
}

fn filtered(head: &str, filter: &str, condition: &str) -> String {
    let and = if filter.is_empty() { "" } else { " AND " };
    format!("{head} WHERE {filter}{and}{condition}")
}

/// A condition that columns have values, by their index.
fn equal(by: &str, value: impl Fn(usize) -> String) -> String {
    let equal = columns(by).enumerate().map(|(index, it)| format!("{it} = {}", value(index)));
    joined(" AND ", equal)
}

/// Names that are numbered on from a first one.
fn numbered(name: &str, first: usize, count: usize) -> String {
    joined(", ", (first..first + count).map(|number| format!("{name}{number}")))
}

pub(super) fn joined(by: &str, parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(by)
}

pub(super) fn columns(list: &str) -> impl Iterator<Item = &str> {
    list.split(", ").filter(|column| !column.is_empty())
}

/// The number of the highest parameter of a text.
fn parameters(text: &str) -> usize {
    let arguments = text.match_indices('$').map(|(at, _)| argument(&text[at + 1..]).0);
    arguments.filter(|it| *it != NOW).map(|it| it + 1).max().unwrap_or(0)
}
