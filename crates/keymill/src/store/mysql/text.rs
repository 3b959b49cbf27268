//! Statements of many rows, whose text names them: strings in it are written in hex.

use mysql_async::Row;

use super::rows::column;
use super::tx::Tx;
use crate::store::StoreError;
use crate::store::keys::KeyId;

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

    /// Writes rows, as many to a statement as may be.
    pub(super) async fn insert(
        &mut self,
        into: &str,
        rows: &[String],
        ending: &str,
    ) -> Result<(), StoreError> {
        let mut rest = rows;
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
            self.execute_text(&text).await?;
        }
        Ok(())
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
}
