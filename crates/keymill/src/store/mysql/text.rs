//! Statements of many rows, whose text names them: strings in it are written in hex.

use mysql_async::Row;

use super::tx::Tx;
use crate::store::StoreError;

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
