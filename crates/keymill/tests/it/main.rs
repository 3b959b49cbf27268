//! The integration tests, in one binary so that they link once.

mod cli;
mod http;
mod store_behavior;
