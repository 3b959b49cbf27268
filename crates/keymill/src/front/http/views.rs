//! What requests and answers have in them, for the command line when it works through a server.

pub(crate) use super::advance::{AdvanceView, KeysRead};
pub(crate) use super::aliases::{AliasRecordView, Aliases, Owner};
pub(crate) use super::digests::{DigestAsk, DigestView, DigestsView};
pub(crate) use super::imports::ImportView;
pub(crate) use super::key_bounds::BoundsView;
pub(crate) use super::moving::{ExportAsk, MovedView, NDJSON};
pub(crate) use super::pool::{AvailableKeys, FillAsk, FillView};
pub(crate) use super::space_changes::Growth;
pub(crate) use super::store::StoreView;
pub(crate) use super::token_views::{MadeToken, NewToken, Rotation, TokenView, Tokens};
pub(crate) use super::used::{UsedKeys, UsedView};
pub(crate) use crate::front::view::{ExplanationView, SpaceView, Spaces};
