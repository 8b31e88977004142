#!/usr/bin/env bash
# A run against llama.cpp's own server, which speaks OpenAI chat completions. Needs LLAMA_SERVER (the
# program) and LLAMA_MODEL (a .gguf file); skips loudly without them. Not part of .ci/run: it is heavy.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ -z "${LLAMA_SERVER:-}" ] || [ -z "${LLAMA_MODEL:-}" ]; then
    echo "SKIPPED: set LLAMA_SERVER and LLAMA_MODEL to try a real server"
    exit 0
fi
port=${LLAMA_PORT:-18080}
state=$(mktemp -d)
"$LLAMA_SERVER" -m "$LLAMA_MODEL" --host 127.0.0.1 --port "$port" -c 4096 -t 2 >"$state/server.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$state"' EXIT
for _ in $(seq 120); do
    curl -fs "http://127.0.0.1:$port/health" >/dev/null 2>&1 && break
    sleep 0.5
done
cat >"$state/stepclaw.json" <<JSON
{ models: { providers: { llama: { baseUrl: "http://127.0.0.1:$port/v1",
  models: [{ id: "m", contextWindow: 4096, maxTokens: 60 }] } } },
  agents: { defaults: { model: { primary: "llama/m" } } } }
JSON
export STEPCLAW_STATE_DIR=$state
program=${CARGO_TARGET_DIR:-target}/release/stepclaw
[ -x "$program" ] || cargo build --release
"$program" agent --journal "$state/journal" -m "Say hello to the world."
"$program" replay "$state/journal"
echo "1 passed, 0 failed"
