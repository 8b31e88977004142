//! `/sessions/<key>/history` and `/sessions/<key>/kill` (J12).

use super::{Open, error, fault_told, json_response};
use crate::gateway::frame::Fault;
use crate::gateway::hub::{Gateway, Sight};
use crate::gateway::out::Conn;
use crate::gateway::wire::{Request, Response};
use serde_json::{Map, Value};

impl Gateway {
    pub(super) fn history_told(
        &mut self,
        conn: Conn,
        request: &Request,
        key: &str,
        sight: Sight<'_>,
    ) {
        let mut params = Map::from_iter([("sessionKey".to_owned(), key.into())]);
        for pair in request.query.iter().flat_map(|query| query.split('&')) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = match name {
                "" if value.is_empty() => continue,
                "limit" => "limit",
                // A cursor is what the last answer said is next.
                "offset" | "cursor" => "offset",
                other => {
                    let words = format!("query: {other:?} is not known; limit and cursor are");
                    return self.reply(conn, &error(400, "invalid_request_error", &words));
                }
            };
            let number = value.parse::<u64>().map_err(|_| format!("{name}: must be a number"));
            match number {
                Ok(number) if !params.contains_key(name) => {
                    params.insert(name.to_owned(), number.into());
                }
                Ok(_) => {
                    let words = format!("query: {name} is given twice");
                    return self.reply(conn, &error(400, "invalid_request_error", &words));
                }
                Err(words) => {
                    return self.reply(conn, &error(400, "invalid_request_error", &words));
                }
            }
        }
        self.call(conn, Open::History, "chat.history", params, sight);
    }
}

pub(super) fn history(result: Result<Value, Fault>) -> Response {
    match result {
        Err(fault) => fault_told(&fault),
        Ok(page) if page["sessionId"].is_null() => {
            error(404, "not_found", &format!("session not found: {}", text(&page["sessionKey"])))
        }
        Ok(mut page) => {
            if let Some(next) = page["nextOffset"].as_u64() {
                page["nextCursor"] = next.to_string().into();
            }
            json_response(200, &page)
        }
    }
}

pub(super) fn killed(result: Result<Value, Fault>) -> Response {
    match result {
        Err(fault) => fault_told(&fault),
        Ok(mut told) => {
            told["killed"] = (told["status"] == "aborted").into();
            json_response(200, &told)
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
