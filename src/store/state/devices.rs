//! Devices, their tokens, and settings.

use super::Booted;
use crate::base::Millis;
use crate::config::Secret;
use crate::gateway::auth::{About, Change, Device, Issuer, Scopes, Token};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn sql_ms(at: Millis) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

fn ms(value: i64) -> Millis {
    Millis(u64::try_from(value).unwrap_or(0))
}

/// Everything that a start needs.
pub(super) fn load(db: &Connection) -> rusqlite::Result<Booted> {
    let mut booted = Booted::default();
    let mut tokens: BTreeMap<String, BTreeMap<String, Token>> = BTreeMap::new();
    let mut statement = db.prepare("SELECT * FROM device_tokens")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        match token(row) {
            Ok((device, role, token)) => {
                tokens.entry(device).or_default().insert(role, token);
            }
            Err(error) => booted.damaged.push(format!("a device's token: {error}")),
        }
    }
    let mut statement = db.prepare("SELECT * FROM devices")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        match device(row) {
            Ok(mut device) => {
                device.tokens = tokens.remove(&device.id).unwrap_or_default();
                booted.devices.push(device);
            }
            Err(error) => booted.damaged.push(format!("a device: {error}")),
        }
    }
    let sql = "SELECT value FROM settings WHERE name = 'issuer'";
    let stored: Option<String> = db.query_row(sql, [], |r| r.get(0)).optional()?;
    if let Some(stored) = stored {
        booted.issuer = issuer(&stored);
        if booted.issuer.is_none() {
            booted.damaged.push("the setting issuer: not what this program wrote".to_owned());
        }
    }
    Ok(booted)
}

fn issuer(text: &str) -> Option<Issuer> {
    let value: Value = serde_json::from_str(text).ok()?;
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let generation = value["generation"].as_u64()?;
    Some(Issuer { generation, salt: text("salt")?, mark: text("mark")? })
}

fn scopes(text: &str) -> Scopes {
    Scopes::from_words(text.split(' '))
}

fn token(row: &Row<'_>) -> rusqlite::Result<(String, String, Token)> {
    let at = |name: &str| row.get::<_, Option<i64>>(name).map(|at| at.map(ms));
    let token = Token {
        token: Secret::new(row.get::<_, String>("token")?),
        scopes: scopes(&row.get::<_, String>("scopes")?),
        created_at: ms(row.get("created_at")?),
        rotated_at: at("rotated_at")?,
        revoked_at: at("revoked_at")?,
        last_used_at: at("last_used_at")?,
        issuer: row.get::<_, Option<i64>>("issuer")?.and_then(|n| u64::try_from(n).ok()),
    };
    Ok((row.get("device_id")?, row.get("role")?, token))
}

fn device(row: &Row<'_>) -> rusqlite::Result<Device> {
    let about = About {
        display_name: row.get("display_name")?,
        platform: row.get("platform")?,
        device_family: row.get("device_family")?,
        client_id: row.get("client_id")?,
        client_mode: row.get("client_mode")?,
        browser_origin: row.get("browser_origin")?,
        remote_ip: row.get("remote_ip")?,
    };
    let roles: String = row.get("roles")?;
    Ok(Device {
        id: row.get("device_id")?,
        key: row.get("public_key")?,
        about,
        label: row.get("label")?,
        roles: roles.split(' ').map(str::to_owned).collect(),
        approved: scopes(&row.get::<_, String>("scopes")?),
        silent: row.get("silent")?,
        created_at: ms(row.get("created_at")?),
        approved_at: ms(row.get("approved_at")?),
        last_seen_at: row.get::<_, Option<i64>>("last_seen_at")?.map(ms),
        tokens: BTreeMap::new(),
    })
}

/// Writes a change.
pub(super) fn write(db: &Connection, change: &Change) -> rusqlite::Result<()> {
    match change {
        Change::Device(device) => put(db, device),
        Change::Removed(id) => {
            db.prepare_cached("DELETE FROM device_tokens WHERE device_id = ?1")?.execute([id])?;
            db.prepare_cached("DELETE FROM devices WHERE device_id = ?1")?.execute([id])?;
            Ok(())
        }
        Change::Issuer(Issuer { generation, salt, mark }) => {
            let value = json!({"generation": generation, "salt": salt, "mark": mark}).to_string();
            let sql = "INSERT INTO settings(name, value) VALUES('issuer', ?1) \
                       ON CONFLICT(name) DO UPDATE SET value = excluded.value";
            db.prepare_cached(sql)?.execute([value])?;
            Ok(())
        }
    }
}

fn put(db: &Connection, device: &Device) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM device_tokens WHERE device_id = ?1")?.execute([&device.id])?;
    let sql = "INSERT INTO devices VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, \
               ?14, ?15, ?16) ON CONFLICT(device_id) DO UPDATE SET public_key = ?2, \
               display_name = ?3, platform = ?4, device_family = ?5, client_id = ?6, \
               client_mode = ?7, browser_origin = ?8, remote_ip = ?9, label = ?10, roles = ?11, \
               scopes = ?12, silent = ?13, created_at = ?14, approved_at = ?15, last_seen_at = ?16";
    let about = &device.about;
    db.prepare_cached(sql)?.execute(params![
        device.id,
        device.key,
        about.display_name,
        about.platform,
        about.device_family,
        about.client_id,
        about.client_mode,
        about.browser_origin,
        about.remote_ip,
        device.label,
        device.roles.join(" "),
        device.approved.words().join(" "),
        device.silent,
        sql_ms(device.created_at),
        sql_ms(device.approved_at),
        device.last_seen_at.map(sql_ms),
    ])?;
    let sql = "INSERT INTO device_tokens VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    for (role, token) in &device.tokens {
        db.prepare_cached(sql)?.execute(params![
            device.id,
            role,
            token.token.expose(),
            token.scopes.words().join(" "),
            sql_ms(token.created_at),
            token.rotated_at.map(sql_ms),
            token.revoked_at.map(sql_ms),
            token.last_used_at.map(sql_ms),
            token.issuer.and_then(|n| i64::try_from(n).ok()),
        ])?;
    }
    Ok(())
}
