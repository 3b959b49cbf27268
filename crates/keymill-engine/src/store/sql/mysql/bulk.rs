//! Statements of many rows, whose text names them: strings in it are written in hex.

use mysql_async::Row;

use super::rows::column;
use super::transaction::Tx;
use crate::store::{KeyId, StoreError};

/// The most rows of one statement. MariaDB turns lists of 1,000 into joins, which may lock more rows
/// than the list has.
pub(super) const ROWS_MAX: usize = 500;
/// The most bytes of a statement: a fraction of what servers take.
const TEXT_MAX: usize = 512 << 10;

impl Tx {
    /// Runs a query on a list of values, which it lacks at its end, part by part.
    pub(super) async fn among(
        &mut self,
        select: &str,
        values: &[String],
        ending: &str,
    ) -> Result<Vec<Row>, StoreError> {
        let mut found = Vec::new();
        for values in values.chunks(ROWS_MAX) {
            let text = format!("{select} IN ({}){ending}", values.join(","));
            found.extend(self.query_text(&text).await?);
        }
        Ok(found)
    }

    /// Writes rows, as many to a statement as may be; how many the server counts.
    pub(super) async fn insert(
        &mut self,
        into: &str,
        rows: &[String],
        ending: &str,
    ) -> Result<u64, StoreError> {
        let (mut rest, mut counted) = (rows, 0);
        while let Some((first, others)) = rest.split_first() {
            let mut text = format!("{into}{first}");
            rest = others;
            for _ in 1..ROWS_MAX {
                let Some((row, others)) = rest.split_first() else { break };
                if text.len() + row.len() > TEXT_MAX {
                    break;
                }
                text.push(',');
                text.push_str(row);
                rest = others;
            }
            text.push_str(ending);
            counted += self.execute_text(&text).await?;
        }
        Ok(counted)
    }

    /// The ids whose rows a query finds, locked from here on.
    pub(super) async fn lock_ids(
        &mut self,
        select: &str,
        ids: &[KeyId],
    ) -> Result<Vec<KeyId>, StoreError> {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let rows = self.among(&format!("{select} AND id"), &ids, " FOR UPDATE").await?;
        Ok(rows.iter().map(|row| column(row, 0)).collect())
    }

    /// Runs a statement on the rows of ids, part by part; how many it changed.
    pub(super) async fn on_ids(
        &mut self,
        statement: &str,
        ids: &[KeyId],
    ) -> Result<u64, StoreError> {
        let mut changed = 0;
        for ids in ids.chunks(ROWS_MAX) {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let text = format!("{statement} AND id IN ({})", ids.join(","));
            changed += self.execute_text(&text).await?;
        }
        Ok(changed)
    }
}

/// Splits items into runs that fit one statement each; `size` tells about how many bytes an item
/// adds. A statement that names what becomes of each compares every row with all of them.
pub(super) fn runs<T>(items: &[T], size: impl Fn(&T) -> usize) -> Vec<&[T]> {
    const ITEMS_MAX: usize = 200;
    let (mut runs, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (place, item) in items.iter().enumerate() {
        // In hex, and twice.
        let adds = 4 * size(item);
        if place - start == ITEMS_MAX || (place > start && bytes + adds > TEXT_MAX) {
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

/// A statement that deletes rows of a space; it lacks their ids.
pub(super) fn removal(table: &str, space: &str) -> String {
    format!("DELETE gone FROM {table} AS gone FORCE INDEX (PRIMARY) WHERE space = {space}")
}

/// A literal for bytes, whatever they are.
pub(super) fn hex(bytes: &[u8]) -> String {
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
    fn runs_are_cut_by_number_and_by_size_and_leave_nothing_out() {
        for (items, expected) in [
            (vec![], vec![]),
            (vec![1; 200], vec![200]),
            (vec![1; 401], vec![200, 200, 1]),
            (vec![1, TEXT_MAX, 1, 1], vec![1, 1, 2]),
        ] {
            let runs = runs(&items, |size| *size);
            assert_eq!(runs.iter().map(|run| run.len()).collect::<Vec<_>>(), expected);
            assert_eq!(runs.concat(), items);
        }
    }
}
