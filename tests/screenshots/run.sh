#!/usr/bin/env bash
# Makes the pictures of the README: the real server and the real pages, in PID and
# mount namespaces of their own that hold the test targets, so that they show no host.
# Needs root, ./procinsh and tests/targets/bin.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "${1:-}" = inside ] || exec unshare --pid --mount --fork --mount-proc --kill-child "$0" inside

root=$PWD port=39271
mount -t tmpfs demo /srv
cp procinsh tests/targets/bin/* /srv
cd /srv
exec 2>/dev/null
as() { exec setpriv --reuid="$1" --regid="$1" --clear-groups "${@:2}"; }

/srv/procinsh --listen 127.0.0.1:$port --log off &
server=$!
exec >/dev/null
(exec bash -c '/srv/compute --threads 2 & /srv/sleep & wait') &
(as 33 bash -c '/srv/threads & /srv/channels & wait') &
(as 65534 bash -c '/srv/mmap & /srv/allocate & wait') &
(exec /srv/recurse) &
for i in 1 2 3; do (as 33 bash -c "exec -a 'worker: queue $i' sleep 600") & done
sleep 1
kill -0 $server # the port was free
node "$root/tests/screenshots/shoot.mjs" "http://127.0.0.1:$port" "$(pgrep -o -x channels)" "$root/web/screenshots"
