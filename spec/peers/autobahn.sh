#!/usr/bin/env bash
# The cases of the Autobahn test suite against an echo server made from the gateway's connection (H10 to
# H13). Needs a Python 2.7 with pip, named by PYTHON2 if it is not python2.7; installs the suite into the
# target folder. Skips loudly without it. Not part of .ci/run: it installs things. CASES narrows it ("1.*").
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON2:-python2.7}
target=${CARGO_TARGET_DIR:-target}
home=$(mkdir -p "$target/autobahn" && cd "$target/autobahn" && pwd)
suite=$home/env/bin/wstest
skip() {
    echo "SKIPPED: $1"
    exit 0
}
"$python" -c 'import sys; assert sys.version_info[:2] == (2, 7)' 2>/dev/null || skip "no Python 2.7 (set PYTHON2)"
if [ ! -x "$suite" ]; then
    "$python" -m virtualenv --version >/dev/null 2>&1 || "$python" -m pip install -q --user virtualenv \
        >"$home/install.log" 2>&1 || skip "virtualenv cannot be installed, see $home/install.log"
    { "$python" -m virtualenv "$home/env" && "$home/env/bin/pip" install autobahntestsuite==0.8.2; } \
        >"$home/install.log" 2>&1 || skip "the suite cannot be installed, see $home/install.log"
fi
cargo build --example echo
port=${ECHO_PORT:-19001}
"$target/debug/examples/echo" "$port" >"$home/echo.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null' EXIT
for _ in $(seq 100); do
    grep -q listening "$home/echo.log" && break
    sleep 0.1
done
cd "$home"
rm -rf reports
# Without 12 and 13: compression is never answered.
cat >spec.json <<JSON
{ "outdir": "reports", "servers": [{ "agent": "stepclaw", "url": "ws://127.0.0.1:$port" }],
  "cases": ["${CASES:-*}"], "exclude-cases": ["12.*", "13.*"], "exclude-agent-cases": {} }
JSON
"$suite" -m fuzzingclient -s spec.json >suite.log 2>&1 || { tail -n 20 suite.log; exit 1; }
# A binary message comes back as text, or is refused with 1003 (H11), so the cases that want it back as
# it was must fail, and no others. 6.x "NON-STRICT" means that text was judged later than at its byte.
"$python" - reports/index.json <<'PYTHON'
import json, re, sys
cases = json.load(open(sys.argv[1]))["stepclaw"]
binary = re.compile(r"(1\.2|9\.2|9\.4|9\.6|9\.8)\.\d+$")
counts, wrong = {}, []
for name in sorted(cases, key=lambda n: [int(p) for p in n.split(".")]):
    case = cases[name]
    what, close = case["behavior"], case["behaviorClose"]
    counts[what] = counts.get(what, 0) + 1
    fine = what in ("OK", "INFORMATIONAL") and close in ("OK", "INFORMATIONAL")
    if fine == bool(binary.match(name)):
        wrong.append("%s: %s, close %s" % (name, what, close))
print("\n".join(wrong + ["%s: %d" % pair for pair in sorted(counts.items())]))
print("%d as they must be, %d not" % (len(cases) - len(wrong), len(wrong)))
sys.exit(1 if wrong or not cases else 0)
PYTHON
