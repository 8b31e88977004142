#!/usr/bin/env bash
# OpenClaw's own clients, unmodified, against the gateway: its CLI, its TUI in tmux, its Control UI in headless Chromium. Skips
# loudly what is missing. Screens are kept in a directory that is named at the end: look at them.
#
#   spec/peers/openclaw.sh [PROGRAM]          PROGRAM: the stepclaw to try, else target/release/stepclaw
#   OPENCLAW_DIR: a directory with node_modules/openclaw; else the package is installed into a temporary one
set -u
program=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/release/stepclaw}")
version=2026.9.6
work=$(mktemp -d)
failed=0
skip() { echo "SKIPPED: $*" >&2; }
check() { if eval "$2"; then echo "ok    $1"; else echo "FAILED $1"; failed=1; fi; }
finish() {
    tmux -L stepclaw-peer kill-server 2>/dev/null
    [ -n "${gateway:-}" ] && kill "$gateway" 2>/dev/null
    echo "screens: $work"
}
trap finish EXIT

[ -x "$program" ] || { echo "no program at $program: cargo build --release" >&2; exit 2; }
major=$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/')
if [ "${major:-0}" -lt 24 ]; then skip "node 24 or newer is needed, found ${major:-none}"; exit 0; fi
dir=${OPENCLAW_DIR:-$work}
if [ ! -d "$dir/node_modules/openclaw" ]; then
    (cd "$dir" && npm install --no-audit --no-fund "openclaw@$version" >"$work/npm.log" 2>&1) || { skip "the package cannot be had"; exit 0; }
fi
PATH="$dir/node_modules/.bin:$PATH"
ui="$dir/node_modules/openclaw/dist/control-ui"

export STEPCLAW_STATE_DIR="$work/state" HOME="$work/home"
mkdir -p "$STEPCLAW_STATE_DIR" "$HOME/.openclaw"
echo "{ gateway: { controlUi: { root: '$ui' } } }" >"$STEPCLAW_STATE_DIR/stepclaw.json"
start() {
    "$program" gateway --json --port "${port:-0}" >"$work/ready" 2>>"$work/gateway.log" &
    gateway=$!
    for _ in $(seq 100); do [ -s "$work/ready" ] && break; sleep 0.05; done
    port=$(sed 's/.*"port":\([0-9]*\).*/\1/' "$work/ready")
}
start
token=$(cat "$STEPCLAW_STATE_DIR/gateway.token")
export OPENCLAW_GATEWAY_TOKEN=$token OPENCLAW_GATEWAY_PORT=$port
printf '{gateway:{port:%s,mode:"local",auth:{mode:"token",token:"%s"}}}' "$port" "$token" >"$HOME/.openclaw/openclaw.json"

echo "== CLI"
openclaw gateway call health >"$work/call" 2>&1
check "gateway call health" 'grep -q "\"ok\": true" "$work/call"'
openclaw health >"$work/health" 2>&1
check "health" 'grep -q "Agents: main" "$work/health"'
openclaw status >"$work/status" 2>&1
check "status" 'grep -q "reachable.*auth token" "$work/status"'
openclaw agent --agent main -m "run: echo from-a-tool" >"$work/agent" 2>&1
check "agent with a tool turn" 'grep -q from-a-tool "$work/agent"'

echo "== TUI"
if command -v tmux >/dev/null; then
    say() { tmux -L stepclaw-peer send-keys -t peer -l "$1"; sleep 0.4; tmux -L stepclaw-peer send-keys -t peer Enter; }
    shot() { tmux -L stepclaw-peer capture-pane -p -t peer >"$work/tui-$1"; }
    until_screen() { for _ in $(seq 60); do shot "$1"; grep -q "$2" "$work/tui-$1" && return 0; sleep 0.5; done; return 1; }
    tmux -L stepclaw-peer new-session -d -s peer -x 140 -y 45 "openclaw tui"
    check "connects and shows the history" 'until_screen start from-a-tool'
    say "say 4 words"
    check "a turn" 'until_screen turn "one two three four"'
    say "wait 30"; sleep 2; tmux -L stepclaw-peer send-keys -t peer Escape
    check "stop with Esc" 'until_screen stop "aborted"'
    say "together: wait 3; run: echo steered"; sleep 1; say "say 3 words"
    check "a second message steers" 'until_screen steer "one two three"'
    say "/model"
    check "/model lists" 'until_screen model "offline/scripted"'
    tmux -L stepclaw-peer send-keys -t peer Escape; sleep 0.5
    say "/new"
    check "/new" 'until_screen new "session agent:main:tui-"'
    kill "$gateway"; wait "$gateway" 2>/dev/null; : >"$work/ready"; sleep 1; start
    check "comes back after a restart" 'until_screen back "reconnected"'
    say "say 2 words"
    check "a turn after it" 'until_screen after "one two"'
    tmux -L stepclaw-peer kill-server
else
    skip "the TUI: tmux is missing"
fi

echo "== Control UI"
if command -v chromium >/dev/null; then
    node "$(dirname "$0")/control-ui.mjs" "http://127.0.0.1:$port" "$token" "$work" 2>"$work/ui.log"
    status=$?
    check "authenticates, shows history, sends, streams, stops, reloads" '[ $status -eq 0 ]'
    [ $status -eq 0 ] || cat "$work/ui.log"
else
    skip "the Control UI: chromium is missing"
fi
exit $failed
