//! The token list and the record of acts in a transaction.
//!
//! The list is one row, which is there from the start: whoever changes the list, or adds to the record,
//! holds its lock. So ids of acts rise in the order of their commits, and a page never passes over one
//! that is still on its way.

use super::driver::{Result, Step, Transaction};
use super::rows::act_from;
use super::statements::{
    ACT_ADD, ACT_COUNT, ACTS_FORGET, ACTS_MADE, ACTS_PAGE, TOKENS_LOCK, TOKENS_LOOK, TOKENS_PUT,
};
use super::value::{Row, values};
use crate::store::tokens::check_tokens;
use crate::store::{
    ACTS_KEPT, Act, ActPage, Floor, Mark, StoreError, TOKENS, TokenChange, TokenList,
};

pub(super) async fn tokens<T: Transaction>(tx: &mut T, floor: &Floor) -> Result<TokenList> {
    let rows = tx.query(&TOKENS_LOOK, &[], &[]).await?;
    // Before anything is concluded: a server that follows another may lag behind it.
    let identity = tx.identity().await?;
    let list = list_from(tx, &rows)?;
    check_tokens(floor, &identity, list.mark())?;
    Ok(list)
}

pub(super) async fn replace_tokens<T: Transaction>(
    tx: &mut T,
    change: &TokenChange,
    floor: &Floor,
) -> Result<Option<Mark>> {
    let rows = tx.query(&TOKENS_LOCK, &[], &[]).await?;
    let identity = tx.identity().await?;
    let floor = tx.floor(TOKENS, floor)?;
    let found = list_from(tx, &rows)?.mark();
    let Some(mark) = change.judge(&identity, found, &floor)? else { return Ok(None) };
    tx.execute(&TOKENS_PUT, &values![mark.revision, &change.text], &[]).await?;
    Ok(Some(mark))
}

pub(super) async fn record_act<T: Transaction>(tx: &mut T, act: &Act) -> Result<()> {
    let steps = [Step::new(&ACT_COUNT, []), Step::new(&ACTS_MADE, [])];
    let rows = tx.run_all(&steps).await?;
    tx.identity().await?;
    let id: u64 = rows[1].first().ok_or_else(no_list)?.get(0);
    let Act { at, by, from, what, .. } = act;
    let steps = [
        Step::new(&ACT_ADD, values![id, *at, by, from, what]),
        Step::new(&ACTS_FORGET, values![id.saturating_sub(ACTS_KEPT)]),
    ];
    tx.run_all(&steps).await.map(drop)
}

pub(super) async fn acts<T: Transaction>(tx: &mut T, page: &ActPage) -> Result<Vec<Act>> {
    let after = page.after.unwrap_or(0);
    let rows = tx.query(&ACTS_PAGE, &values![after, page.limit], &[]).await?;
    Ok(rows.iter().map(act_from).collect())
}

fn list_from<T: Transaction>(tx: &T, rows: &[Row]) -> Result<TokenList> {
    let row = rows.first().ok_or_else(no_list)?;
    Ok(TokenList { revision: row.get(0), text: row.get(1), history: tx.history() })
}

fn no_list() -> StoreError {
    StoreError::Broken("the table `tokens` has no row: restore a backup".to_owned())
}
