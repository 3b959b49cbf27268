//! Statements as they are written once, and how each dialect of SQL says them.
//!
//! A statement has parameters `$1`, `$2`, … and leaves open, in braces, what the dialects have other words
//! for: `{now}`, `{lock}`. A driver's [`Dialect`] has these words. What a statement is in a dialect is
//! worked out once, at its first use.
//!
//! Statements on many rows are described rather than written. They become one statement over arrays
//! (PostgreSQL), texts that name hundreds of rows each (MySQL), or one that is run for row after row
//! (SQLite, which has no round trips to save).

mod forms;
#[cfg(feature = "mysql")]
mod literals;
#[cfg(test)]
mod tests;
mod words;

use std::fmt::Write;
use std::sync::OnceLock;

use forms::{Insert, List, Removal, Update, columns};
#[cfg(feature = "mysql")]
pub(super) use literals::list_texts;
pub(super) use words::Words;

/// A dialect of SQL: a constant of its driver.
#[derive(Debug)]
pub(super) struct Dialect {
    /// Which of the dialects it is: the index of its texts in a statement.
    pub(super) number: usize,
    pub(super) placeholders: Placeholders,
    pub(super) lists: Lists,
    /// What it says for the words in braces.
    pub(super) words: Words,
}

/// How many dialects there are.
const DIALECTS: usize = 3;

/// How parameters are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placeholders {
    /// `$1`; each may be used several times.
    Dollar,
    /// `?1`, likewise. The time is a parameter too, the last one: the driver adds it.
    Numbered,
    /// `?`, one for each use.
    Bare,
}

/// How a list gets into a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lists {
    /// As an array for each column.
    Arrays,
    /// As literals in its text.
    Literals,
    /// Row by row.
    OneByOne,
}

/// A statement that stands once for all dialects.
#[derive(Debug)]
pub(super) struct Statement {
    form: Form,
    said: [OnceLock<Said>; DIALECTS],
}

/// What a statement is written from. Columns are listed with commas in between.
#[derive(Debug)]
enum Form {
    Text(&'static str),
    Insert(Insert),
    List(List),
    Removal(Removal),
    Update(Update),
}

/// What becomes of a row that is there already.
#[derive(Debug, Clone, Copy)]
pub(super) enum There {
    /// It cannot be: the statement fails.
    Never,
    /// It stays as it is.
    Stays,
    /// The same, for `insert_new`, which tells which rows are new. MySQL cannot tell, so its driver has looked
    /// for them before; there the statement fails where one has come since.
    Found,
    /// It gets the new values of some columns. The key comes first.
    Becomes(&'static str, &'static str),
    /// The new value of a column is added to its own.
    Adds(&'static str, &'static str),
    /// It gets the new value of a column that it has no value of.
    Completes(&'static str, &'static str),
}

/// A statement in the words of a dialect.
#[derive(Debug)]
pub(super) struct Said {
    /// For one row, or for a list.
    pub(super) text: String,
    /// Which argument each placeholder takes. [`NOW`] is none of them, but the time.
    pub(super) order: Vec<usize>,
    /// The same for many rows, where it is an insertion.
    pub(super) many: Option<Many>,
    /// What removes the rows that it has found and locked, where it cannot remove them itself.
    pub(super) removal: Option<String>,
}

/// A statement that writes many rows, in the words of a dialect.
#[derive(Debug)]
pub(super) struct Many {
    /// The statement, all of it over arrays, or up to the rows.
    pub(super) text: String,
    /// What a row begins with, before its own values, where rows are literals.
    pub(super) shared: String,
    /// What follows the rows.
    pub(super) tail: String,
    /// Which of the values of a row this dialect has a column for.
    pub(super) columns: Vec<usize>,
    /// The columns, where rows are nothing but parameters and cannot be there: such rows can be copied.
    pub(super) copied: Option<String>,
}

/// In [`Said::order`]: the time.
pub(super) const NOW: usize = usize::MAX;
/// Where the items of a list go, in a text with literals.
pub(super) const ITEMS: &str = "\u{1}";

impl Statement {
    pub(super) const fn new(text: &'static str) -> Statement {
        Statement::of(Form::Text(text))
    }

    /// Writes rows. `shared` has the columns that are the same in all rows, each with its value: one of the first
    /// parameters, or the time. The others are `columns`; one in braces is there only in a dialect that has
    /// a word for it.
    pub(super) const fn insert(
        into: &'static str,
        shared: &'static str,
        columns: &'static str,
        there: There,
    ) -> Statement {
        Statement::of(Form::Insert(Insert { into, shared, columns, there }))
    }

    /// Reads, changes or removes the rows of a list, which has values for the columns `by`. The parameters
    /// of `head` and of `filter`, which holds for all of them, come first.
    pub(super) const fn list(
        head: &'static str,
        filter: &'static str,
        by: &'static str,
        tail: &'static str,
    ) -> Statement {
        Statement::of(Form::List(List { head, filter, by, tail, each: false }))
    }

    /// Reads at most one row for each item of a list. PostgreSQL looks for each by itself: without
    /// statistics it would read all of a space to find many.
    pub(super) const fn each(
        head: &'static str,
        filter: &'static str,
        by: &'static str,
    ) -> Statement {
        Statement::of(Form::List(List { head, filter, by, tail: "", each: true }))
    }

    /// Removes the rows of a list, and reads `columns` of those that were there; the first is `by`.
    pub(super) const fn removal(
        from: &'static str,
        filter: &'static str,
        by: &'static str,
        columns: &'static str,
    ) -> Statement {
        Statement::of(Form::Removal(Removal { from, filter, by, columns }))
    }

    /// Gives rows values of their own each. A row has its key, which are the columns `by`, and then what
    /// it gets. What `also` sets is the same for all.
    pub(super) const fn update(
        table: &'static str,
        also: &'static str,
        by: &'static str,
        set: &'static str,
    ) -> Statement {
        Statement::of(Form::Update(Update { table, also, by, set }))
    }

    const fn of(form: Form) -> Statement {
        Statement { form, said: [const { OnceLock::new() }; DIALECTS] }
    }

    /// What it is in a dialect.
    pub(super) fn said(&self, dialect: &Dialect) -> &Said {
        self.said[dialect.number].get_or_init(|| match &self.form {
            Form::Text(text) => dialect.say(text),
            Form::List(list) => dialect.say(&list.text(dialect)),
            Form::Removal(removal) => removal.said(dialect),
            Form::Update(update) => dialect.say(&update.text(dialect)),
            Form::Insert(insert) => {
                let mut said = dialect.say(&insert.one(dialect));
                said.many = Some(insert.many(dialect));
                said
            }
        })
    }

    /// Whether it finds rows, and changes none.
    pub(super) fn reads(&self) -> bool {
        matches!(self.form, Form::Text(text) if text.starts_with("SELECT"))
    }

    /// The table that it writes rows into.
    pub(super) fn into(&self) -> &'static str {
        let Form::Insert(insert) = &self.form else { unreachable!("{self:?} inserts nothing") };
        insert.into
    }

    /// How many values an item of its list, or a row of it, has.
    pub(super) fn width(&self) -> usize {
        match &self.form {
            Form::Text(_) => 0,
            Form::Insert(insert) => columns(insert.columns).count(),
            Form::List(list) => columns(list.by).count(),
            Form::Removal(_) => 1,
            Form::Update(update) => columns(update.by).count() + columns(update.set).count(),
        }
    }
}

impl Dialect {
    /// A text in this dialect, as it is sent.
    fn say(&self, text: &str) -> Said {
        let text = self.expand(text);
        let (mut said, mut order, mut rest) = (String::new(), Vec::new(), text.as_str());
        if self.lists == Lists::Literals && text.contains(ITEMS) {
            // Its arguments become literals, too, wherever they are.
            return Said { text, order, many: None, removal: None };
        }
        while let Some(at) = rest.find('$') {
            said.push_str(&rest[..at]);
            let (argument, after) = argument(&rest[at + 1..]);
            rest = after;
            let known = order.iter().position(|it| *it == argument);
            let number = known.unwrap_or(order.len());
            match self.placeholders {
                Placeholders::Bare => said.push('?'),
                Placeholders::Dollar => write!(said, "${}", number + 1).expect("a String grows"),
                Placeholders::Numbered => write!(said, "?{}", number + 1).expect("a String grows"),
            }
            if known.is_none() || self.placeholders == Placeholders::Bare {
                order.push(argument);
            }
        }
        said.push_str(rest);
        Said { text: said, order, many: None, removal: None }
    }

    /// A text with all words of this dialect in it, and its parameters as they were.
    fn expand(&self, text: &str) -> String {
        let mut text = text.to_owned();
        while let Some(open) = text.find('{') {
            let close = open + text[open..].find('}').expect("every brace is closed");
            let word = &text[open + 1..close];
            let said = self.words.get(word).unwrap_or_else(|| panic!("no word is {{{word}}}"));
            text.replace_range(open..=close, said);
        }
        if self.placeholders == Placeholders::Bare { quote_key(&text) } else { text }
    }
}

/// The argument that a parameter stands for, counted from 0, and what follows it. `$now` is the time.
fn argument(text: &str) -> (usize, &str) {
    if let Some(after) = text.strip_prefix("now") {
        return (NOW, after);
    }
    let end = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let number: usize = text[..end].parse().expect("parameters are numbers");
    (number - 1, &text[end..])
}

/// Puts the column `key` into quotes: it is a word of MySQL's own.
fn quote_key(text: &str) -> String {
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '`';
    let (mut quoted, mut rest) = (String::with_capacity(text.len() + 16), text);
    while let Some(at) = rest.find("key") {
        let (before, after) = (&rest[..at], &rest[at + 3..]);
        let alone = !before.ends_with(is_word) && !after.starts_with(is_word);
        quoted.push_str(before);
        quoted.push_str(if alone { "`key`" } else { "key" });
        rest = after;
    }
    quoted.push_str(rest);
    quoted
}
