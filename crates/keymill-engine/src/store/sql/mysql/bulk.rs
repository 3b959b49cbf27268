//! Statements of many rows, whose text names them: strings in it are written in hex.

use std::fmt::Write;

use super::dialect::DIALECT;
use super::transaction::Tx;
use crate::store::sql::driver::{Result, Sql, Values};
use crate::store::sql::statement::{ITEMS, Many, argument};
use crate::store::sql::value::{Row, Value};

/// The most rows of one statement. MariaDB turns lists of 1,000 into joins, which may lock more rows
/// than the list has.
const ROWS_MAX: usize = 500;
/// The same for a statement that names what becomes of each: it compares every row with all of them.
const UPDATES_MAX: usize = 200;
/// The most bytes of a statement: a fraction of what servers take.
const TEXT_MAX: usize = 512 << 10;

impl Tx {
    /// Runs a query on a list of items, part by part.
    pub(super) async fn query_items(
        &mut self,
        text: &str,
        values: Values<'_>,
        list: Values<'_>,
        width: usize,
    ) -> Result<Vec<Row>> {
        let (text, mut found) = (with_literals(text, values), Vec::new());
        for items in list.chunks(ROWS_MAX * width) {
            found.extend(self.query_text(&text.replacen(ITEMS, &tuples(items, width), 1)).await?);
        }
        Ok(found)
    }

    /// Runs a statement on a list of ids, part by part; how many rows it changed.
    pub(super) async fn execute_items(
        &mut self,
        text: &str,
        values: Values<'_>,
        list: Values<'_>,
    ) -> Result<u64> {
        let (text, mut changed) = (with_literals(text, values), 0);
        for items in list.chunks(ROWS_MAX) {
            changed += self.execute_text(&text.replacen(ITEMS, &tuples(items, 1), 1)).await?;
        }
        Ok(changed)
    }

    /// The ids of rows that are there, locked from here on.
    pub(super) async fn lock_ids(
        &mut self,
        insertion: Sql,
        values: Values<'_>,
        rows: Values<'_>,
    ) -> Result<Vec<Value<'static>>> {
        let into = insertion.into();
        let text = format!(
            "SELECT id FROM {into} FORCE INDEX (PRIMARY) WHERE space = $1 AND id IN ({ITEMS}) \
             FOR UPDATE"
        );
        let ids: Vec<Value<'_>> = rows.iter().step_by(insertion.width()).cloned().collect();
        let found = self.query_items(&text, values, &ids, 1).await?;
        Ok(found.iter().map(|row| row.get::<i64>(0).into()).collect())
    }

    /// Writes rows, as many to a statement as may be; how many the server counts.
    pub(super) async fn insert_rows(
        &mut self,
        many: &Many,
        values: Values<'_>,
        rows: Values<'_>,
        width: usize,
    ) -> Result<u64> {
        let shared = with_literals(&many.shared, values);
        let rows: Vec<String> = rows
            .chunks(width)
            .map(|row| {
                let row: Vec<String> = many.columns.iter().map(|it| literal(&row[*it])).collect();
                format!("({shared}{})", row.join(","))
            })
            .collect();
        let mut counted = 0;
        for run in runs(&rows, ROWS_MAX, String::len) {
            let text = format!("{}{}{}", many.text, run.join(","), many.tail);
            counted += self.execute_text(&text).await?;
        }
        Ok(counted)
    }

    /// Gives each row values of its own, many to a statement.
    pub(super) async fn update_rows(&mut self, sql: Sql, rows: Values<'_>) -> Result<u64> {
        let (by, set) = sql.updates().expect("an update of rows");
        let (text, mut changed) = (&sql.said(&DIALECT).text, 0);
        let rows: Vec<Vec<String>> =
            rows.chunks(sql.width()).map(|row| row.iter().map(literal).collect()).collect();
        let size = |row: &Vec<String>| 2 * row.iter().map(String::len).sum::<usize>();
        for run in runs(&rows, UPDATES_MAX, size) {
            let mut cases = Vec::new();
            for (place, column) in (by.len()..).zip(&set) {
                let mut case = format!("{column} = CASE");
                for row in run {
                    let same: Vec<String> =
                        by.iter().zip(row).map(|(by, key)| format!("{by} = {key}")).collect();
                    write!(case, " WHEN {} THEN {}", same.join(" AND "), row[place])
                        .expect("a String grows");
                }
                cases.push(case + " END");
            }
            let keys: Vec<String> =
                run.iter().map(|row| format!("({})", row[..by.len()].join(","))).collect();
            let (cases, by) = (cases.join(", "), by.join(", "));
            let set = format!("{cases} WHERE ({by}) IN ({})", keys.join(","));
            changed += self.execute_text(&text.replacen(ITEMS, &set, 1)).await?;
        }
        Ok(changed)
    }
}

/// Splits items into runs that fit one statement each; `size` tells about how many bytes an item
/// adds.
fn runs<T>(items: &[T], items_max: usize, size: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let (mut runs, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (place, item) in items.iter().enumerate() {
        let adds = size(item);
        if place - start == items_max || (place > start && bytes + adds > TEXT_MAX) {
            runs.push(&items[start..place]);
            (start, bytes) = (place, 0);
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
        let (place, after) = argument(&rest[at + 1..]);
        written.push_str(&literal(&values[place]));
        rest = after;
    }
    written + rest
}

/// The items of a list, each in parentheses where it has several values.
fn tuples(items: Values<'_>, width: usize) -> String {
    let literals = |item: &[Value<'_>]| item.iter().map(literal).collect::<Vec<_>>().join(",");
    if width == 1 {
        return literals(items);
    }
    let items: Vec<String> =
        items.chunks(width).map(|item| format!("({})", literals(item))).collect();
    items.join(",")
}

fn literal(value: &Value<'_>) -> String {
    match value {
        Value::Int(Some(number)) => number.to_string(),
        Value::Text(Some(text)) => hex(text.as_bytes()),
        Value::Bytes(Some(bytes)) => hex(bytes),
        Value::Bool(truth) => i32::from(*truth).to_string(),
        Value::Int(None) | Value::Text(None) | Value::Bytes(None) => "NULL".to_owned(),
    }
}

/// A literal for bytes, whatever they are.
fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut literal = String::with_capacity(2 * bytes.len() + 3);
    literal.push_str("x'");
    for byte in bytes {
        literal.push(char::from(DIGITS[usize::from(byte >> 4)]));
        literal.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    literal.push('\'');
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_hex_also_of_nothing_and_of_quotes() {
        for (bytes, expected) in [("", "x''"), ("a'\\", "x'61275c'"), ("\u{fc}", "x'c3bc'")] {
            assert_eq!(hex(bytes.as_bytes()), expected);
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
