//! One tool outside of a run: `POST /tools/invoke`, and the method `tools.invoke` (J13).

use super::{Open, json_response, object, of_fault, unavailable};
use crate::gateway::frame::{Fault, Params};
use crate::gateway::hub::{Gateway, Sight};
use crate::gateway::out::{Conn, Do};
use crate::gateway::pending::After;
use crate::gateway::wire::{Request, Response};
use crate::transcript::ToolOutput;
use crate::transcript::message::join_text;
use serde_json::{Map, Value, json};

/// Most calls that run at the same time; each has a thread.
const CALLS_MAX: usize = 16;

/// A call that is to be made.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolAsked {
    /// Its number.
    pub ticket: u64,
    /// The tool.
    pub name: String,
    /// The arguments as they came.
    pub args: Map<String, Value>,
}

impl Gateway {
    pub(super) fn tool_asked(&mut self, conn: Conn, request: &Request, sight: Sight<'_>) {
        let bad = |words: &str| failed_response(400, "invalid_request", words);
        let mut params = match object(&request.body) {
            Ok(params) => params,
            Err(words) => return self.reply(conn, &bad(&words)),
        };
        if let Some(name) = params.remove("tool")
            && params.insert("name".to_owned(), name).is_some()
        {
            return self.reply(conn, &bad("tool and name are the same: give one of them"));
        }
        let problems = self.schemas.problems("tools.invoke", &params);
        if !problems.is_empty() {
            return self.reply(conn, &bad(&problems.join("; ")));
        }
        self.call(conn, Open::Tool, "tools.invoke", params, sight);
    }

    /// The method. What may change something is refused: nobody could be asked for an approval.
    pub(in crate::gateway) fn invoke(
        &mut self,
        (conn, id): (Conn, String),
        params: &Params,
    ) -> Result<Option<Value>, Fault> {
        self.key(params, "sessionKey")?;
        let name = params.need("name");
        let Some(tool) = self.facts.tools.iter().find(|tool| tool.name == name) else {
            return Ok(Some(failed(name, "not_found", &format!("Tool {name} not found"))));
        };
        if !tool.safe {
            let words = format!("{name} can change things: it runs in runs alone");
            return Ok(Some(failed(name, "forbidden", &words)));
        }
        if self.web.calls >= CALLS_MAX {
            return Err(Fault::unavailable("too many tools are running"));
        }
        let args = match params.0.get("args") {
            Some(Value::Object(args)) => args.clone(),
            _ => Map::new(),
        };
        let ticket = self.ticket();
        self.web.calls += 1;
        self.asked.insert(ticket, (conn, id, After::Tool { name: name.to_owned() }));
        self.out.push(Do::Tool(ToolAsked { ticket, name: name.to_owned(), args }));
        Ok(None)
    }

    /// A call has ended; an error is one of its arguments.
    pub fn tool_done(&mut self, ticket: u64, result: Result<ToolOutput, String>, sight: Sight<'_>) {
        self.see(sight);
        self.web.calls = self.web.calls.saturating_sub(1);
        let Some((conn, id, After::Tool { name })) = self.asked.remove(&ticket) else { return };
        let payload = match result {
            Err(words) => failed(&name, "invalid_request", &words),
            Ok(output) if output.is_error => {
                failed(&name, "tool_error", &join_text(&output.content))
            }
            Ok(output) => {
                let output = json!({"content": output.content, "details": output.details});
                json!({"ok": true, "toolName": name, "output": output, "source": "core"})
            }
        };
        self.respond(conn, &id, Ok(payload));
    }
}

fn failed(name: &str, code: &str, words: &str) -> Value {
    let error = json!({"code": code, "message": words});
    json!({"ok": false, "toolName": name, "error": error, "source": "core"})
}

fn failed_response(status: u16, kind: &str, words: &str) -> Response {
    json_response(status, &json!({"ok": false, "error": {"type": kind, "message": words}}))
}

/// What the method says, by HTTP.
pub(super) fn invoked(result: Result<Value, Fault>) -> Response {
    let told = match result {
        Ok(told) => told,
        Err(fault) => {
            return match of_fault(&fault) {
                (503, _) => unavailable(&fault.message),
                (status, kind) => failed_response(status, kind, &fault.message),
            };
        }
    };
    if told["ok"] == true {
        return json_response(200, &json!({"ok": true, "result": told["output"]}));
    }
    let kind = told["error"]["code"].as_str().unwrap_or_default();
    let status = match kind {
        "not_found" => 404,
        "forbidden" => 403,
        "invalid_request" => 400,
        _ => 500,
    };
    failed_response(status, kind, told["error"]["message"].as_str().unwrap_or_default())
}
