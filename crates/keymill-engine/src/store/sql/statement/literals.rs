//! Lists as literals: texts that name hundreds of rows each, for a database that takes no arrays.
//!
//! Strings in a text are written in hexadecimal, so that nothing in them can end it.

use super::forms::{columns, joined};
use super::{Dialect, Form, ITEMS, Many, Statement, argument};
use crate::store::sql::driver::Values;
use crate::store::sql::value::Value;

/// The most rows of one statement. MariaDB turns lists of 1,000 into joins, which may lock more rows
/// than the list has.
const ROWS_MAX: usize = 500;
/// The same for a statement that names what becomes of each: it compares every row with all of them.
const UPDATES_MAX: usize = 200;
/// The most bytes of a statement: a fraction of what servers take.
const TEXT_MAX: usize = 512 << 10;

impl Statement {
    /// The texts that run it on a list, or write the rows of one.
    pub(in crate::store::sql) fn texts(
        &self,
        dialect: &Dialect,
        values: Values<'_>,
        list: Values<'_>,
    ) -> Vec<String> {
        let (said, width) = (self.said(dialect), self.width());
        match (&self.form, &said.many) {
            (Form::Update(update), _) => {
                let [by, set] =
                    [update.by, update.set].map(|list| columns(list).collect::<Vec<_>>());
                update_texts(&said.text, &by, &set, list)
            }
            (_, Some(many)) => insert_texts(many, values, list, width),
            _ => list_texts(&said.text, values, list, width),
        }
    }
}

/// The texts of a statement on a list.
pub(in crate::store::sql) fn list_texts(
    text: &str,
    values: Values<'_>,
    list: Values<'_>,
    width: usize,
) -> Vec<String> {
    let text = with_literals(text, values);
    let parts = list.chunks(ROWS_MAX * width);
    parts.map(|items| text.replacen(ITEMS, &tuples(items, width), 1)).collect()
}

/// The texts that write rows, as many in each as may be.
fn insert_texts(many: &Many, values: Values<'_>, rows: Values<'_>, width: usize) -> Vec<String> {
    let shared = with_literals(&many.shared, values);
    let row = |row: &[Value<'_>]| {
        let row = many.columns.iter().map(|index| literal(&row[*index]));
        format!("({shared}{})", joined(",", row))
    };
    let rows: Vec<String> = rows.chunks(width).map(row).collect();
    let runs = runs(&rows, ROWS_MAX, String::len).into_iter();
    runs.map(|run| format!("{}{}{}", many.text, run.join(","), many.tail)).collect()
}

/// The texts that give each row values of its own.
fn update_texts(text: &str, by: &[&str], set: &[&str], rows: Values<'_>) -> Vec<String> {
    let literals = |row: &[Value<'_>]| row.iter().map(literal).collect();
    let rows: Vec<Vec<String>> = rows.chunks(by.len() + set.len()).map(literals).collect();
    let size = |row: &Vec<String>| 2 * row.iter().map(String::len).sum::<usize>();
    let same = |row: &Vec<String>| {
        joined(" AND ", by.iter().zip(row).map(|(by, key)| format!("{by} = {key}")))
    };
    let text_of = |run: &[Vec<String>]| {
        let case = |(index, column): (usize, &&str)| {
            let whens = run.iter().map(|row| format!(" WHEN {} THEN {}", same(row), row[index]));
            format!("{column} = CASE{} END", whens.collect::<String>())
        };
        let cases = joined(", ", (by.len()..).zip(set).map(case));
        let keys = joined(",", run.iter().map(|row| format!("({})", row[..by.len()].join(","))));
        text.replacen(ITEMS, &format!("{cases} WHERE ({}) IN ({keys})", by.join(", ")), 1)
    };
    runs(&rows, UPDATES_MAX, size).into_iter().map(text_of).collect()
}

/// Splits items into runs that fit one statement each; `size` tells about how many bytes an item
/// adds.
fn runs<T>(items: &[T], items_max: usize, size: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let (mut runs, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, item) in items.iter().enumerate() {
        let adds = size(item);
        if index - start == items_max || (index > start && bytes + adds > TEXT_MAX) {
            runs.push(&items[start..index]);
            (start, bytes) = (index, 0);
        }
        bytes += adds;
    }
    if start < items.len() {
        runs.push(&items[start..]);
    }
    runs
}

/// A text with its arguments in it.
fn with_literals(text: &str, values: Values<'_>) -> String {
    let (mut written, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('$') {
        written.push_str(&rest[..at]);
        let (index, after) = argument(&rest[at + 1..]);
        written.push_str(&literal(&values[index]));
        rest = after;
    }
    written + rest
}

/// The items of a list, each in parentheses where it has several values.
fn tuples(items: Values<'_>, width: usize) -> String {
    let literals = |item: &[Value<'_>]| joined(",", item.iter().map(literal));
    if width == 1 {
        return literals(items);
    }
    joined(",", items.chunks(width).map(|item| format!("({})", literals(item))))
}

fn literal(value: &Value<'_>) -> String {
    match value {
        Value::Int(Some(number)) => number.to_string(),
        Value::Text(Some(text)) => format!("x'{}'", hex::encode(text.as_bytes())),
        Value::Bytes(Some(bytes)) => format!("x'{}'", hex::encode(bytes)),
        Value::Bool(truth) => i32::from(*truth).to_string(),
        Value::Int(None) | Value::Text(None) | Value::Bytes(None) => "NULL".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_hex_also_of_nothing_and_of_quotes() {
        for (text, expected) in [("", "x''"), ("a'\\", "x'61275c'"), ("\u{fc}", "x'c3bc'")] {
            assert_eq!(literal(&Value::from(text)), expected);
        }
    }

    #[test]
    fn arguments_are_put_where_their_numbers_are() {
        let values = [Value::from("a"), Value::from(-7_i64), Value::from(None::<i64>)];
        let text = with_literals("a = $2 AND b = $1 OR c = $3 AND d = $2", &values);
        assert_eq!(text, "a = -7 AND b = x'61' OR c = NULL AND d = -7");
    }

    #[test]
    fn runs_are_cut_by_number_and_by_size_and_leave_nothing_out() {
        for (items, expected) in [
            (vec![], vec![]),
            (vec![1; 200], vec![200]),
            (vec![1; 401], vec![200, 200, 1]),
            (vec![1, TEXT_MAX, 1, 1], vec![1, 1, 2]),
        ] {
            let runs = runs(&items, UPDATES_MAX, |size| *size);
            assert_eq!(runs.iter().map(|run| run.len()).collect::<Vec<_>>(), expected);
            assert_eq!(runs.concat(), items);
        }
    }
}
