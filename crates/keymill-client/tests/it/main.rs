//! The client against a stub that answers, hangs up or stalls as it is told. What real servers do with it is shown in
//! `keymill-proof`.

#![allow(clippy::unwrap_used, reason = "a test that fails to unwrap has failed, and says where")]

mod calls;
mod faces;
mod stub;
