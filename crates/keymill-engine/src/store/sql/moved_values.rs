//! What of a keyspace that is moved may go into a statement: where a page of rows begins, and the values of a
//! file.
//!
//! `moves` calls it. It knows no database. A file may have been edited, so nothing of it is taken for a number of
//! ours, or put into a statement, before it was looked at here.

use super::driver::Result;
use crate::store::values::from_hex;
use crate::store::{ERA, ERA_MAX, KeyId, RowsPage, SpaceRecord, StoreError, first_id};

/// How many digits an input has: 32 bytes in hexadecimal.
const INPUT_DIGITS: usize = 64;

/// The number after which a page begins, where the table is in the order of numbers.
pub(super) fn after_number(page: &RowsPage) -> Result<i64> {
    let Some(after) = &page.after else { return Ok(i64::MIN) };
    after.parse().map_err(|_| StoreError::Broken(format!("no page of rows begins after `{after}`")))
}

/// The text after which a page begins, where the table is in the order of keys or inputs.
pub(super) fn after_text(page: &RowsPage) -> &str {
    // Neither a key nor an input is empty.
    page.after.as_deref().unwrap_or_default()
}

/// The bytes after which a page begins, where the table is in the order of bytes.
pub(super) fn after_bytes(page: &RowsPage) -> Result<Vec<u8>> {
    from_hex(after_text(page))
}

/// The lowest id of a key that waits in the pool of a space: what lies below was there before an
/// advance, and is never handed out. `None` where there can be none.
pub(super) fn first_available(space: &SpaceRecord) -> Option<KeyId> {
    (space.mark.revision / ERA <= ERA_MAX).then(|| first_id(space.mark.revision))
}

/// A number of a file, as a column has it.
pub(super) fn whole(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| {
        StoreError::Broken(format!(
            "the export has the number {value}, which is larger than any that keymill writes: it is \
             damaged. Export the keyspace again"
        ))
    })
}

/// An input of a file, which is hexadecimal for certain.
pub(super) fn checked_input(input: &str) -> Result<Vec<u8>> {
    if input.len() == INPUT_DIGITS
        && let Ok(bytes) = from_hex(input)
    {
        return Ok(bytes);
    }
    Err(StoreError::Broken(format!(
        "the export has the input `{input}`, which is not {INPUT_DIGITS} hexadecimal digits: it is \
         damaged. Export the keyspace again"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Part;

    #[test]
    fn a_page_begins_after_a_number_or_with_the_first_of_all() {
        let after = |after: Option<&str>| {
            let (space, after) = ("s".to_owned(), after.map(str::to_owned));
            after_number(&RowsPage { space, part: Part::Used, after, limit: 1 })
        };
        assert_eq!(after(None).unwrap(), i64::MIN);
        assert_eq!(after(Some("12")).unwrap(), 12);
        assert!(matches!(after(Some("twelve")), Err(StoreError::Broken(_))));
    }

    #[test]
    fn what_a_damaged_file_has_reaches_no_statement() {
        assert_eq!(whole(i64::MAX.unsigned_abs()).unwrap(), i64::MAX);
        assert!(matches!(whole(1 << 63), Err(StoreError::Broken(_))));
        let good = "0123456789abcdefABCDEF0123456789".repeat(2);
        assert_eq!(checked_input(&good).unwrap()[..2], [0x01, 0x23]);
        let quoted = format!("{}'", &good[1..]);
        for bad in ["", "00", "g0".repeat(32).as_str(), quoted.as_str()] {
            assert!(matches!(checked_input(bad), Err(StoreError::Broken(_))), "{bad}");
        }
    }
}
