//! The audit ledger: rows, pages, and what goes when it is old or too much.

use crate::base::Millis;
use crate::gateway::audit::{Page, Query, Row};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

/// How long rows are kept, ms: 30 days.
const KEPT_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// Most rows.
pub(super) const ROWS_MAX: u64 = 100_000;
/// Most rows that go in one transaction.
pub(super) const PRUNED_MAX: u64 = 1_024;

fn sql(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn oldest(now: Millis) -> i64 {
    sql(now.0.saturating_sub(KEPT_MS))
}

/// Writes a row; whether it is a new one.
pub(super) fn write(db: &Connection, row: &Row) -> rusqlite::Result<bool> {
    let sql_text = "INSERT INTO audit(event_id, source_id, schema_version, source_sequence, \
                    occurred_at, kind, action, status, error_code, actor_type, actor_id, agent_id, \
                    session_key, session_id, run_id, tool_call_id, tool_name) \
                    SELECT ?1, ?2, 1, ?3, ?4, ?5, ?6, ?7, ?8, 'agent', ?9, ?9, ?10, ?11, ?12, \
                    ?13, ?14 WHERE NOT EXISTS (SELECT 1 FROM audit WHERE source_id = ?2)";
    let written = db.prepare_cached(sql_text)?.execute(params![
        row.event_id,
        row.source_id,
        sql(row.source_sequence),
        sql(row.occurred_at.0),
        row.kind,
        row.action,
        row.status,
        row.error_code,
        row.agent_id,
        row.session_key,
        row.session_id,
        row.run_id,
        row.tool_call_id,
        row.tool_name,
    ])?;
    Ok(written > 0)
}

/// Drops what is too old or too much, of `rows` that there are; how many are left, and whether
/// there is more to drop.
pub(super) fn prune(db: &Connection, rows: u64, now: Millis) -> rusqlite::Result<(u64, bool)> {
    let old = "DELETE FROM audit WHERE sequence IN (SELECT sequence FROM audit \
               WHERE occurred_at < ?1 ORDER BY occurred_at LIMIT ?2)";
    let aged = db.prepare_cached(old)?.execute([oldest(now), sql(PRUNED_MAX)])? as u64;
    let left = rows.saturating_sub(aged);
    let excess = left.saturating_sub(ROWS_MAX).min(PRUNED_MAX.saturating_sub(aged));
    let mut dropped = 0;
    if excess > 0 {
        let first = "DELETE FROM audit WHERE sequence IN \
                     (SELECT sequence FROM audit ORDER BY sequence LIMIT ?1)";
        dropped = db.prepare_cached(first)?.execute([sql(excess)])? as u64;
    }
    Ok((left.saturating_sub(dropped), aged + dropped >= PRUNED_MAX))
}

/// The same, transaction by transaction, until nothing is left to drop. Gives the rows that stay.
pub(super) fn prune_all(db: &mut Connection, now: Millis) -> rusqlite::Result<u64> {
    let count = db.query_row("SELECT count(*) FROM audit", [], |r| r.get::<_, i64>(0))?;
    let mut rows = u64::try_from(count).unwrap_or(0);
    loop {
        let tx = db.transaction()?;
        let (left, more) = prune(&tx, rows, now)?;
        tx.commit()?;
        rows = left;
        if !more {
            return Ok(rows);
        }
    }
}

/// A page, the newest row first (U6). The signs before the times keep the database from sorting by
/// them: the rows are in order already.
pub(super) fn page(db: &Connection, query: &Query, now: Millis) -> rusqlite::Result<Page> {
    let mut text = "SELECT sequence, event_id, source_id, source_sequence, occurred_at, kind, \
                    action, status, error_code, agent_id, session_key, session_id, run_id, \
                    tool_call_id, tool_name FROM audit WHERE +occurred_at >= ?"
        .to_owned();
    let after = oldest(now).max(sql(query.after.unwrap_or_default().0));
    let mut values = vec![Value::Integer(after)];
    if let Some(before) = query.before {
        text.push_str(" AND +occurred_at <= ?");
        values.push(Value::Integer(sql(before.0)));
    }
    if let Some(cursor) = query.cursor {
        text.push_str(" AND sequence < ?");
        values.push(Value::Integer(sql(cursor)));
    }
    // Names of columns are ours, values are anybody's.
    for (column, value) in &query.equal {
        text.push_str(&format!(" AND {column} = ?"));
        values.push(Value::Text(value.clone()));
    }
    text.push_str(" ORDER BY sequence DESC LIMIT ?");
    values.push(Value::Integer(sql(query.limit.saturating_add(1))));
    let mut statement = db.prepare(&text)?;
    let rows = statement.query_map(params_from_iter(values), row)?;
    let mut rows: Vec<Row> = rows.collect::<Result<_, _>>()?;
    let most = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let more = rows.len() > most;
    rows.truncate(most);
    let next = rows.last().filter(|_| more).map(|row| row.sequence);
    Ok(Page { rows, next })
}

fn row(r: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let number = |at: usize| r.get::<_, i64>(at).map(|n| u64::try_from(n).unwrap_or(0));
    Ok(Row {
        sequence: number(0)?,
        event_id: r.get(1)?,
        source_id: r.get(2)?,
        source_sequence: number(3)?,
        occurred_at: Millis(number(4)?),
        kind: r.get(5)?,
        action: r.get(6)?,
        status: r.get(7)?,
        error_code: r.get(8)?,
        agent_id: r.get(9)?,
        session_key: r.get(10)?,
        session_id: r.get(11)?,
        run_id: r.get(12)?,
        tool_call_id: r.get(13)?,
        tool_name: r.get(14)?,
    })
}
