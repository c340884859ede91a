#!/usr/bin/env bash
# Makes the pictures and the recording of the README: the real server and the real pages
# over a host of its own, PID and mount namespaces that hold the test targets under names
# of services, so that no other host is shown. Needs root, ./procinsh, tests/targets/bin,
# node and Chromium; says which is missing. With names, run.sh list space, it makes those.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD port=39271

services() {
	mount -t tmpfs demo /srv
	for name in web queue mail; do cp "$root/tests/targets/bin/channels" /srv/$name; done
	cp "$root/tests/targets/bin/activity" /srv/store
	cp "$root/tests/targets/bin/compute" /srv/report
	cp "$root/tests/targets/bin/mmap" /srv/cache
	cp "$root/tests/targets/bin/allocate" /srv/index
	cp "$root/tests/targets/bin/threads" /srv/pool
	cp "$root/tests/targets/bin/sleep" /srv/gateway
	cp "$root/tests/targets/bin/recurse" /srv/parser
	cp /bin/bash /srv/init
	cp /bin/bash /srv/supervisor
	cp /bin/bash /srv/builder
	cp /bin/sleep /srv/worker
	cp "$root/procinsh" /srv
	DEMO=init exec /srv/init "$0"
}

# as USER COMMAND…
as() { exec setpriv --reuid="$1" --regid="$1" --clear-groups "${@:2}"; }

init() {
	cd /srv
	exec 2>/dev/null >/dev/null
	/srv/procinsh --listen 127.0.0.1:$port --log off &
	(as 33 /srv/supervisor -c 'for i in 1 2 3 4; do /srv/web --rate 40 & done; /srv/pool & /srv/gateway & wait') &
	(as 65534 /srv/supervisor -c 'for i in 1 2 3; do /srv/queue --rate 15 & done; /srv/mail --rate 4 & /srv/cache & /srv/index & wait') &
	(exec /srv/supervisor -c '/srv/report --threads 2 & (while sleep 0.1; do echo "all 6 8192"; done) | /srv/store & /srv/parser & wait') &
	(as 1000 /srv/builder -c 'for i in 1 2 3; do /srv/builder -c "for j in 1 2 3 4 5; do /srv/worker 600 & done; wait" & done; wait') &
	wait
}

case ${DEMO:-} in
services) services ;;
init) init ;;
'')
	[ "$(id -u)" = 0 ] || { echo "$0: needs root, to make namespaces" >&2; exit 1; }
	for need in ./procinsh tests/targets/bin/channels web/node_modules; do
		[ -e $need ] || { echo "$0: $need is missing: run ./build.sh and tests/targets/build.sh" >&2; exit 1; }
	done
	for need in node unshare setpriv "${CHROME:=/usr/bin/chromium}"; do
		command -v "$need" >/dev/null || { echo "$0: $need is missing" >&2; exit 1; }
	done
	export CHROME
	DEMO=services unshare --pid --mount --fork --mount-proc --kill-child "$0" &
	namespace=$!
	trap 'kill -KILL $namespace; wait $namespace 2>/dev/null || true' EXIT
	node tests/screenshots/shoot.mjs "http://127.0.0.1:$port" web/screenshots "$@"
	;;
esac
