//! A keyspace that moves into or out of Redis: the rows that leave are in `export`, those that come in
//! `import`.

mod export;
mod import;

use async_trait::async_trait;

use super::{RedisStore, over};
use crate::store::{
    Created, Floor, Mark, MovedRow, MovedSpace, Moves, Rows, RowsPage, SpaceRecord, StoreError,
};

#[async_trait]
impl Moves for RedisStore {
    async fn moved_rows(&self, page: &RowsPage) -> Result<Rows, StoreError> {
        over!(self, |connection| self.rows_over(&connection, page))
    }

    async fn begin_import(&self, space: &MovedSpace) -> Result<Created, StoreError> {
        over!(self, |connection| self.begin_over(&connection, space))
    }

    async fn import_rows(
        &self,
        space: &str,
        importing: &str,
        rows: &[MovedRow],
        floor: &Floor,
    ) -> Result<Mark, StoreError> {
        over!(self, |connection| self.import_over(&connection, space, importing, rows, floor))
    }

    async fn finish_import(
        &self,
        space: &MovedSpace,
        floor: &Floor,
    ) -> Result<SpaceRecord, StoreError> {
        over!(self, |connection| self.finish_over(&connection, space, floor))
    }
}
