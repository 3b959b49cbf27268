//! The pure part of keymill: how an ordinal becomes a key, and a key an ordinal again.
//!
//! ```text
//! ordinal --step, offset--> number --FF1--> number --shape--> key
//! ```
//!
//! The engine calls [`Generations`]; everything else is what they are made of. Nothing here
//! does I/O, waits, reads a clock or draws randomness, so nothing here can fail at run time
//! other than by refusing its input.
//!
//! # Layout, in reading order
//!
//! - [`alphabet`]: the symbols keys are written in, and what else is read as one of them
//! - [`check`]: the check character, a digit that closes a product in a group
//! - [`text`]: the buffer a key is written to
//! - [`shape`]: how a number is written: alphabet, length, prefix, grouping, check
//! - [`ff1`]: the keyed bijection that makes the order of keys unguessable
//! - [`codec`]: ordinals to keys and back
//! - [`generations`]: the codecs of a space that has grown, one behind the other
//! - [`blocklist`]: words that no key may contain
//! - [`snowflake`]: the bits of IDs that are made of time, worker and sequence

#![forbid(unsafe_code)]

pub mod alphabet;
pub mod blocklist;
pub mod check;
pub mod codec;
mod digits;
pub mod ff1;
pub mod generations;
mod modulus;
mod reciprocal;
mod rounds;
pub mod shape;
pub mod snowflake;
pub mod text;

pub use alphabet::{Alphabet, AlphabetError};
pub use blocklist::{Blocklist, BlocklistError};
pub use check::CheckGroup;
pub use codec::{Codec, CodecError, Located};
pub use ff1::{Ff1, Ff1Error};
pub use generations::{GenerationError, Generations};
pub use shape::{DecodeError, Shape, ShapeError, ShapeSpec};
pub use snowflake::{Fields, Layout, LayoutError};
pub use text::KeyText;
