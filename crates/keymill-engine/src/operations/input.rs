//! What callers may say: names, keys, owners, callers and where a page begins, each checked in one function
//! before any store is asked.
//!
//! The fronts and the command line pass text on as it came. Stores differ in what they take (PostgreSQL
//! no NUL, MySQL no more than 255 bytes), and what one of them refuses must not look like a failure
//! of the store.

use super::ServiceError;
use crate::space::check_name;

/// The longest text that every store takes.
const TEXT_LEN_MAX: usize = 255;
/// The longest name of a caller.
const CALLER_LEN_MAX: usize = 128;
/// How much of a wrong text is repeated to whoever sent it.
const SHOWN_MAX: usize = 64;

/// Refuses what cannot name a keyspace: then there is none of that name.
#[inline]
pub fn check_space(name: &str) -> Result<(), ServiceError> {
    check_name(name).map_err(|_| ServiceError::UnknownSpace(shown(name)))
}

/// Says why a text cannot be a key or an alias in any keyspace.
pub(super) fn check_key(key: &str) -> Result<(), String> {
    if key.is_empty() {
        return Err("it is empty".to_owned());
    }
    if key.len() > TEXT_LEN_MAX {
        return Err(format!("it is longer than {TEXT_LEN_MAX} bytes"));
    }
    if has_control(key) {
        return Err("it contains a control character".to_owned());
    }
    Ok(())
}

/// Refuses an owner that could not be written down as it is.
pub(super) fn check_owner(owner: &str) -> Result<(), ServiceError> {
    if owner.len() > TEXT_LEN_MAX || has_control(owner) {
        return Err(ServiceError::BadOwner { max: TEXT_LEN_MAX });
    }
    Ok(())
}

/// Refuses a caller that could not be written down as it is.
#[inline]
pub fn check_caller(caller: &str) -> Result<(), ServiceError> {
    if caller.len() > CALLER_LEN_MAX || has_control(caller) {
        return Err(ServiceError::BadCaller { max: CALLER_LEN_MAX });
    }
    Ok(())
}

/// Refuses what no page of names or instances can end with.
pub(super) fn check_after(after: Option<&str>) -> Result<(), ServiceError> {
    match after {
        Some(after) if after.len() > TEXT_LEN_MAX || has_control(after) => {
            Err(ServiceError::BadAfter)
        }
        _ => Ok(()),
    }
}

/// A wrong text as an error may repeat it: its beginning, with control characters spelt out.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_text_is_bounded_and_free_of_control_characters() {
        let long = "x".repeat(256);
        for bad in ["a\0b", "\u{7f}", "a\nb", "\u{85}", &long] {
            assert!(check_space(bad).is_err(), "{bad:?}");
            assert!(check_key(bad).is_err(), "{bad:?}");
            assert!(check_owner(bad).is_err(), "{bad:?}");
            assert!(check_caller(bad).is_err(), "{bad:?}");
            assert!(check_after(Some(bad)).is_err(), "{bad:?}");
        }
        let longest = "x".repeat(255);
        assert!(check_key(&longest).is_ok() && check_owner(&longest).is_ok());
        assert!(check_after(Some(&longest)).is_ok() && check_after(None).is_ok());
        assert!(check_owner("").is_ok() && check_caller("").is_ok() && check_key("").is_err());
        assert!(check_owner("Ada Löwe").is_ok());
        // Bytes count, not characters.
        assert!(check_owner(&"ä".repeat(128)).is_err());
    }

    #[test]
    fn a_wrong_text_is_repeated_in_part_and_without_control_characters() {
        assert_eq!(shown("a\0b\n"), "a\\0b\\n");
        assert_eq!(shown(&"x".repeat(64)), "x".repeat(64));
        assert_eq!(shown(&"x".repeat(65)), format!("{}…", "x".repeat(64)));
    }
}
