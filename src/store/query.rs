//! What clients ask of the store beside the sessions that are in memory: lists, pages of history,
//! single messages. Every answer has a bound.

use super::read::{RUN, SESSION, millis, run_row, session_row, text, unsigned};
use crate::records::{Found, Listed, Page, Query, SessionRow, Sort, Stored, Which};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

/// Most sessions that one list may have.
const LIST_MAX: u32 = 1_000;

/// Answers a question.
pub(super) fn query(db: &Connection, query: &Query) -> rusqlite::Result<Found> {
    match query {
        Query::List(which) => list(db, which),
        Query::Session(key) => {
            let which = Which { titles: true, last: true, ..Which::default() };
            Ok(Found::Session(session(db, key, &which)?.map(Box::new)))
        }
        Query::History { key, limit, offset } => {
            Ok(Found::History(Box::new(history(db, key, *limit, *offset)?)))
        }
        Query::Entry { key, id } => Ok(Found::Entry(entry(db, key, id)?.map(Box::new))),
        Query::Preview { keys, limit } => {
            let mut previews = Vec::with_capacity(keys.len());
            for key in keys {
                let page = history(db, key, *limit, 0)?;
                let there = page.session.is_some();
                previews.push((key.clone(), there.then_some(page.entries)));
            }
            Ok(Found::Preview(previews))
        }
        Query::KeyOf(id) => {
            let sql = "SELECT session_key FROM sessions WHERE session_id = ?1 \
                       AND session_key NOT LIKE 'deleted:%'";
            keys(db, sql, id.as_str())
        }
        Query::Labelled(label) => {
            let sql = "SELECT session_key FROM sessions WHERE json_extract(meta, '$.label') = ?1 \
                       AND session_key NOT LIKE 'deleted:%' ORDER BY updated_at DESC LIMIT 9";
            keys(db, sql, label)
        }
    }
}

fn keys(db: &Connection, sql: &str, of: &str) -> rusqlite::Result<Found> {
    let keys = db.prepare_cached(sql)?.query_map([of], |r| r.get(0))?.collect::<Result<_, _>>()?;
    Ok(Found::Keys(keys))
}

fn list(db: &Connection, which: &Which) -> rusqlite::Result<Found> {
    let (filter, values) = filter(which);
    let total = db
        .prepare_cached(&format!("SELECT count(*) FROM sessions WHERE {filter}"))?
        .query_row(params_from_iter(&values), |r| unsigned(r, 0))?;
    let order = match which.sort {
        Sort::Updated => "updated_at",
        Sort::Interaction => "interaction_at",
    };
    let limit = which.limit.min(LIST_MAX);
    let sql = format!(
        "{SESSION} WHERE {filter} ORDER BY json_extract(meta, '$.pinned') IS NOT TRUE, \
         {order} DESC, session_key LIMIT {limit} OFFSET {}",
        which.offset
    );
    let rows: Vec<SessionRow> = db
        .prepare_cached(&sql)?
        .query_map(params_from_iter(&values), session_row)?
        .collect::<Result<_, _>>()?;
    let mut listed = Vec::with_capacity(rows.len());
    for row in rows {
        listed.push(with_more(db, row, which)?);
    }
    Ok(Found::List(listed, total))
}

/// The condition, and the values that it names in order.
fn filter(which: &Which) -> (String, Vec<String>) {
    let mut parts = vec!["session_key NOT LIKE 'deleted:%'".to_owned()];
    let mut values = Vec::new();
    let mut with = |part: &str, value: String| {
        values.push(value);
        parts.push(part.replace("??", &format!("?{}", values.len())));
    };
    if let Some(since) = which.since {
        with("updated_at >= CAST(?? AS INTEGER)", since.0.to_string());
    }
    if let Some(label) = &which.label {
        with("json_extract(meta, '$.label') = ??", label.clone());
    }
    if let Some(parent) = &which.parent {
        with("parent_key = ??", parent.clone());
    }
    if let Some(category) = &which.category {
        with("json_extract(meta, '$.category') = ??", category.clone());
    }
    if let Some(search) = &which.search {
        let escaped = search.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        let part = "(session_key LIKE ?? ESCAPE '\\' \
                    OR json_extract(meta, '$.label') LIKE ?? ESCAPE '\\')";
        with(part, format!("%{escaped}%"));
    }
    let mut flag = |name: &str, wanted: Option<bool>| {
        if let Some(wanted) = wanted {
            let not = if wanted { "" } else { "NOT " };
            parts.push(format!("json_extract(meta, '$.{name}') IS {not}TRUE"));
        }
    };
    flag("archived", which.archived);
    flag("pinned", which.pinned);
    if which.no_children {
        parts.push("session_key NOT LIKE '%:subagent:%'".to_owned());
    }
    if which.no_cron {
        parts.push("session_key NOT LIKE '%:cron:%'".to_owned());
    }
    (parts.join(" AND "), values)
}

fn session(db: &Connection, key: &str, which: &Which) -> rusqlite::Result<Option<Listed>> {
    let sql = format!("{SESSION} WHERE session_key = ?1 AND session_key NOT LIKE 'deleted:%'");
    let row = db.prepare_cached(&sql)?.query_row([key], session_row).optional()?;
    row.map(|row| with_more(db, row, which)).transpose()
}

fn with_more(db: &Connection, row: SessionRow, which: &Which) -> rusqlite::Result<Listed> {
    let id = row.session_id.as_str();
    let sql = format!(
        "{RUN} WHERE runs.session_id = ?1 AND claimed_at IS NOT NULL \
         ORDER BY accepted_at DESC LIMIT 1"
    );
    let last = db.prepare_cached(&sql)?.query_row([id], run_row).optional()?;
    let mut title = None;
    if which.titles {
        let sql = "SELECT body FROM entries WHERE session_id = ?1 AND at >= ?2 \
                   AND body LIKE '%\"role\":\"user\"%' ORDER BY n LIMIT 1";
        let at = i64::try_from(row.started_at.0).unwrap_or(i64::MAX);
        title = db
            .prepare_cached(sql)?
            .query_row(params![id, at], |r| text(r, 0))
            .optional()?
            .flatten();
    }
    let mut latest = None;
    if which.last {
        // Only the newest few are looked at: a list is not a search.
        latest = newest(db, id, row.entries, 8, 0, 0)?
            .into_iter()
            .find(|entry| entry.body.starts_with("{\"type\":\"message\""));
    }
    Ok(Listed { row, last, title, latest })
}

fn history(db: &Connection, key: &str, limit: u32, offset: u32) -> rusqlite::Result<Page> {
    let none = Page { session: None, entries: vec![], total: 0, waiting: vec![] };
    let titled = Which { titles: true, ..Which::default() };
    let Some(listed) = session(db, key, &titled)? else { return Ok(none) };
    let id = listed.row.session_id.as_str();
    let after = if listed.row.revision == 0 { 0 } else { last_reset(db, id)? };
    let total = match after {
        0 => listed.row.entries,
        _ => db
            .prepare_cached("SELECT count(*) FROM entries WHERE session_id = ?1 AND n > ?2")?
            .query_row(params![id, after], |r| unsigned(r, 0))?,
    };
    let mut entries = newest(db, id, listed.row.entries, limit, offset, after)?;
    entries.reverse();
    let sql = "SELECT queue.run_id, body FROM queue LEFT JOIN runs ON runs.run_id = queue.run_id \
               WHERE queue.session_id = ?1 AND (runs.run_id IS NULL OR ended_at IS NULL) \
               ORDER BY n LIMIT 200";
    let row = |r: &Row<'_>| Ok((text(r, 0)?, text(r, 1)?.unwrap_or_default()));
    let waiting = db.prepare_cached(sql)?.query_map([id], row)?.collect::<Result<_, _>>()?;
    Ok(Page { session: Some(listed), entries, total, waiting })
}

fn last_reset(db: &Connection, session: &str) -> rusqlite::Result<i64> {
    let sql = "SELECT n FROM entries WHERE session_id = ?1 AND body LIKE '{\"type\":\"reset\"%' \
               ORDER BY n DESC LIMIT 1";
    Ok(db.prepare_cached(sql)?.query_row([session], |r| r.get(0)).optional()?.unwrap_or(0))
}

/// The newest first. `count` is how many the session has in all: places are counted back from it.
fn newest(
    db: &Connection,
    session: &str,
    count: u64,
    limit: u32,
    offset: u32,
    after: i64,
) -> rusqlite::Result<Vec<Stored>> {
    let sql = "SELECT id, at, run_id, idem, body FROM entries WHERE session_id = ?1 AND n > ?2 \
               ORDER BY n DESC LIMIT ?3 OFFSET ?4";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(params![session, after, limit, offset])?;
    let mut seq = count.saturating_sub(offset.into());
    let mut entries = Vec::new();
    while let Some(r) = rows.next()? {
        entries.push(stored(r, seq)?);
        seq = seq.saturating_sub(1);
    }
    Ok(entries)
}

fn stored(r: &Row<'_>, seq: u64) -> rusqlite::Result<Stored> {
    Ok(Stored {
        seq: seq.max(1),
        id: text(r, 0)?.unwrap_or_default(),
        at: millis(r, 1)?,
        run: text(r, 2)?,
        idem: text(r, 3)?,
        body: text(r, 4)?.unwrap_or_default(),
    })
}

fn entry(db: &Connection, key: &str, id: &str) -> rusqlite::Result<Option<Stored>> {
    let sql = "SELECT e.id, e.at, e.run_id, e.idem, e.body, (SELECT count(*) FROM entries \
               WHERE session_id = e.session_id AND n <= e.n) FROM entries e JOIN sessions s \
               ON s.session_id = e.session_id WHERE s.session_key = ?1 AND e.id = ?2";
    db.prepare_cached(sql)?
        .query_row([key, id], |r| {
            let seq = unsigned(r, 5)?;
            stored(r, seq)
        })
        .optional()
}
