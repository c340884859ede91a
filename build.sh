#!/usr/bin/env bash
# Builds, runs and tests procinsh. `./build.sh help` lists the verbs.
set -euo pipefail
cd "$(dirname "$0")"
export CGO_ENABLED=0 GOTOOLCHAIN=local
unset GOFLAGS
tools=tests/tools/go.mod

help() {
	cat <<-'TEXT'
	./build.sh [VERB]
	  build        web pages and ./procinsh, one static binary (the default)
	  run [ARGS]   build, then serve on 127.0.0.1:9090, or where --listen says
	  check        gofmt, go vet, staticcheck, biome, tsc, generated files, import rules
	  test         check, then every test in its short form
	  soak         the long form of the tests that have one
	  bench [scan] comparison tables against C and other tools; bench stop: how long a snapshot stops;
	               bench sensors: what the sensors cost what they watch
	  bpf          rebuild the BPF objects with clang-19
	  live [URL]   sensor tests on the server at URL, or on one of their own
	  vm [VERSION] tests of sensors and runs on Debian's kernels 5.10, 6.1, 6.12, in QEMU
	  dist [DIR]   release archives in DIR, else dist/: binary, source, bill of materials, checksums
	TEXT
}

die() { echo "build.sh: $*" >&2; exit 1; }

# need COMMAND PACKAGE: installs a missing tool with apt when root, else names it.
updated=
need() {
	command -v "$1" >/dev/null && return
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "== installing $2"
		[ -n "$updated" ] || { apt-get update -qq; updated=1; }
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null
		command -v "$1" >/dev/null && return
	fi
	die "$1 is missing (Debian package $2)"
}

# wish COMMAND PACKAGE: the same for what is better to have, but not needed.
wish() { (need "$1" "$2") || true; }

need_go() {
	command -v go >/dev/null || die "go is missing; this tree needs Go $(sed -n 's/^go //p' go.mod) or later"
	local want have
	want=$(sed -n 's/^go //p' go.mod) have=$(go env GOVERSION)
	[ "$(printf '%s\n%s\n' "$want" "${have#go}" | sort -V | head -1)" = "$want" ] || die "Go $want or later is needed, this is ${have#go}"
}

need_node() {
	command -v node >/dev/null && command -v npm >/dev/null || die "node and npm are missing; this tree needs Node $(cat .node-version) or later"
	local have
	have=$(node --version)
	[ "$(printf '%s\n%s\n' "$(cat .node-version)" "${have#v}" | sort -V | head -1)" = "$(cat .node-version)" ] || die "Node $(cat .node-version) or later is needed, this is ${have#v}"
}

# need_browser: $CHROME, else Debian's chromium, its headless shell first: the same
# engine at half the CPU.
need_browser() {
	[ -n "${CHROME:-}" ] && return
	CHROME=/usr/bin/chromium-headless-shell
	[ -x $CHROME ] || [ ! -x /usr/bin/chromium ] || CHROME=/usr/bin/chromium
	[ -x $CHROME ] || need $CHROME chromium-headless-shell
	export CHROME
}

npm_packages() {
	need_node
	[ web/node_modules/.stamp -nt web/package-lock.json ] && return
	echo "== npm packages"
	(cd web && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
	touch web/node_modules/.stamp
}

pages() { npm_packages; (cd web && node build.mjs); }

# A source archive has no git: its file VERSION holds version, commit and time.
version() {
	if [ -e VERSION ]; then sed -n 1p VERSION; else git describe --tags --always --dirty 2>/dev/null || echo unversioned; fi
}

commit() {
	local changed=
	if [ -e VERSION ]; then
		sed -n 2p VERSION
		return
	fi
	[ -z "$(git status --porcelain --untracked-files=no 2>/dev/null)" ] || changed=+changed
	! git rev-parse HEAD >/dev/null 2>&1 || echo "$(git rev-parse HEAD)$changed"
}

binary() {
	need_go
	GOAMD64=v1 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$(version) -X main.commit=$(commit)" -o procinsh .
	if command -v ldd >/dev/null && ldd procinsh >/dev/null 2>&1; then die "procinsh is not static"; fi
	echo "== $(./procinsh --version): static, $(($(stat -c %s procinsh) / 1024)) KiB"
}

build() {
	need_go
	[ -e VERSION ] || pages # a source archive has them
	binary
}

staticcheck() { go tool -modfile=$tools staticcheck ./...; }

check() {
	need_go
	npm_packages
	step gofmt sh -c 'f=$(gofmt -l $(git ls-files "*.go")); [ -z "$f" ] || { echo "gofmt would change: $f"; exit 1; }'
	step "go vet" go vet ./...
	step staticcheck staticcheck
	step "contract types" go run ./tests/wiregen -check
	step "licences" go run ./tests/bom -check
	step "BPF objects" bpf_check
	step biome sh -c 'cd web && node_modules/.bin/biome ci --error-on-warnings .'
	step tsc sh -c 'cd web && node_modules/.bin/tsc --noEmit -p .'
	step "TypeScript imports" node web/check-imports.mjs
}

# bpf_objects DIR: compiles bpf/src into DIR, the same bytes from any directory.
bpf_objects() {
	local source out=$1 object
	out=$(realpath "$out")
	(
		cd bpf/src
		for source in *.bpf.c; do
			object=$out/${source%.bpf.c}.o
			clang-19 -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Werror -ffile-prefix-map="$PWD=." -fdebug-compilation-dir=. -c "$source" -o "$object" &&
				llvm-strip-19 -g "$object" || exit 1
		done
	) || return 1
	clang-19 --version | head -1 >"$out/VERSION"
}

bpf() {
	need clang-19 clang-19
	need llvm-strip-19 llvm-19
	mkdir -p bpf/obj
	bpf_objects bpf/obj
	(cd bpf/obj && wc -c *.o)
}

# The committed objects are what the sources say. Another compiler makes other
# bytes, so only the one that made them can tell.
bpf_check() {
	if ! command -v clang-19 >/dev/null || ! command -v llvm-strip-19 >/dev/null; then
		echo "not compared: clang-19 and llvm-19 are not installed"
		return
	fi
	local fresh have result=0
	have=$(clang-19 --version | head -1)
	if [ "$have" != "$(cat bpf/obj/VERSION)" ]; then
		echo "not compared: here is $have, the objects are from $(cat bpf/obj/VERSION)"
		return
	fi
	fresh=$(mktemp -d)
	bpf_objects "$fresh" && diff -r "$fresh" bpf/obj || { echo "bpf/obj is not what bpf/src says: run ./build.sh bpf"; result=1; }
	rm -rf "$fresh"
	return $result
}

# bpf_compiler installs the compiler of the objects where that can be done.
bpf_compiler() {
	command -v clang-19 >/dev/null && command -v llvm-strip-19 >/dev/null && return
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
	[ -n "$updated" ] || { apt-get update -qq; updated=1; }
	[ -n "$(apt-cache search --names-only '^clang-19$')" ] || return 0
	echo "== installing clang-19 and llvm-19"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends clang-19 llvm-19 >/dev/null
}

passed=0 failed=() left=() log=
# logged keeps what is printed from here on, for failures.
logged() {
	log=$(mktemp)
	trap end_beside EXIT
	exec > >(tee "$log") 2>&1
}

# failures prints once more what failed: a test with what it said, of any of the tools.
failures() {
	sleep 0.5 # tee may be behind
	awk '
		{ line = $0; sub(/^ *[0-9]+\.[0-9] /, "", line) } # the time on the console of a guest
		line ~ /^=== (RUN|CONT)/ { n = 0 }
		line ~ /--- FAIL|not ok [0-9]|^panic: |DATA RACE|^== .*: FAILED, / {
			back = line ~ /^== / ? 8 : 20
			for (i = (n > back ? n - back : 0); i < n; i++) print said[i]
			n = 0; more = 20; print line; next
		}
		more > 0 && line ~ /^[ \t]/ { more--; print line; next }
		{ more = 0; said[n++] = line }
		line ~ /^(--- (PASS|SKIP)|ok |PASS|== )/ { n = 0 }
	' "$log" | tail -n 150
}

# step NAME COMMAND: a failure does not keep the other steps from running.
step() {
	local name=$1 from=$SECONDS
	shift
	echo "== $name"
	if "$@"; then
		passed=$((passed + 1))
		echo "== $name: ok, $((SECONDS - from)) s"
	else
		failed+=("$name")
		echo "== $name: FAILED, $((SECONDS - from)) s"
	fi
}

finish() {
	[ ${#left[@]} = 0 ] || printf '== not run: %s\n' "${left[@]}"
	[ ${#failed[@]} = 0 ] || [ -z "$log" ] || { echo "== what failed" && failures; }
	[ ${#failed[@]} = 0 ] || printf '== failed: %s\n' "${failed[@]}"
	echo "$passed passed, ${#failed[@]} failed, $SECONDS s"
	[ ${#failed[@]} = 0 ]
}

race() { CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 go test -race -count=1 "$@"; }

node_tests() { node --test --test-concurrency="${jobs:-1}" "$@"; }

# begin NAME COMMAND: runs it beside the steps that follow; ended NAME waits for it and
# prints what it said. Its process group ends with this script.
declare -A beside_pid beside_log
begin() {
	local name=$1
	shift
	beside_log[$name]=$(mktemp)
	trap end_beside EXIT
	set -m # a process group of its own
	{
		local status=0
		"$@" || status=$?
		echo $status >"${beside_log[$name]}.status"
	} >"${beside_log[$name]}" 2>&1 </dev/null &
	beside_pid[$name]=$!
	set +m
}

# after NAME COMMAND: runs it when what began under that name has ended.
after() {
	until [ -e "${beside_log[$1]}.status" ]; do sleep 1; done
	shift
	"$@"
}

ended() {
	[ -n "${beside_pid[$1]:-}" ] || return 1
	wait "${beside_pid[$1]}" 2>/dev/null || true # bash forgets the status of what ended at once
	unset "beside_pid[$1]"
	cat "${beside_log[$1]}"
	return "$(cat "${beside_log[$1]}.status" || echo 1)"
}

end_beside() {
	local pid
	for pid in "${beside_pid[@]}"; do kill -- -"$pid" 2>/dev/null || true; done
	rm -f "$log" "${beside_log[@]}" "${beside_log[@]/%/.status}"
}

# browsers are all browser tests but those of budgets, two files at a time.
browsers() { jobs=2 node_tests $(ls tests/browser/*.test.mjs | grep -v budget); }

# Two browsers on a busy machine miss each other's moments: a file that failed runs once
# more, alone, and that is said; what is wrong fails again.
browsers_ended() {
	local again
	! ended browsers || return 0
	again=$(sed -n "s/^ *location: '\(.*\.mjs\):[0-9]*:[0-9]*'$/\1/p" "${beside_log[browsers]}" | sort -u)
	[ -n "$again" ] || return 1
	echo "== once more, alone:" $again
	node_tests $again
}

# guest runs tests of sensors and of runs on another kernel, where QEMU and a kernel can be had.
# Exit status 3: the emulator or a kernel could not be had.
guest() {
	local status=0
	guest_build || return
	tests/vm/bin/vm "$@" || status=$?
	guest_status $status
}

guest_status() {
	[ $1 = 3 ] || return $1
	left+=("tests on another kernel: the reason stands above")
}

guest_build() { go build -o tests/vm/bin/vm ./tests/vm; }

guest_ended() {
	local status=0
	ended guest || status=$?
	guest_status $status
}

tests() {
	logged
	need gcc gcc
	[ -e /usr/include/stdio.h ] || need /usr/include/stdio.h libc6-dev
	need less less
	need_browser
	bpf_compiler
	wish promtool prometheus
	check
	build
	export GOFLAGS=-vet=off # go vet has seen all
	step "test targets" tests/targets/build.sh
	step "browser, budgets" node_tests tests/browser/*budget.test.mjs
	# From here on two things at a time: browsers burn, most of the rest waits a lot.
	step "test binaries for Linux 6.1" guest_build
	begin browsers browsers
	begin guest after browsers tests/vm/bin/vm -short 6.1
	step "Go, race detector" race ./proc ./watch ./api
	step "Go" go test -count=1 . ./api ./sandbox ./web ./tests/rules ./tests/wiregen ./tests/bom
	step "symbols" go test -count=1 ./elf
	step "sensors" race ./bpf
	step "runs" race -timeout 15m ./run
	step "runs, from outside" go test -count=1 -timeout 15m ./tests/runs
	step "web model" node_tests web/test/*.test.mjs
	step "sensors" go test -count=1 -short -timeout 20m ./tests/sensors
	step "browser" browsers_ended
	step "inside a process" go test -count=1 -timeout 20m ./ptrace
	step "odd targets, end to end" go test -count=1 ./tests/cases ./tests/e2e
	step "load" go test -count=1 ./tests/load
	step "idle" go test -count=1 ./tests/footprint
	step "release archives, short form" dist_quick
	step "bench, short form" env QUICK=1 tests/bench/run.sh scan
	step "sensors on Linux 6.1" guest_ended
	finish
}

fuzz_all() {
	local pkg f
	for pkg in . proc api elf ptrace bpf run; do
		for f in $(go test -list '^Fuzz' ./$pkg | grep '^Fuzz'); do
			step "fuzz $pkg $f" go test -run '^$' -fuzz "^$f\$" -fuzztime "${FUZZTIME:-60s}" ./$pkg
		done
	done
}

# pack DIR FILE: the same bytes for the same files, whoever packs them when.
pack() {
	tar -C "$(dirname "$1")" --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX,a-s --format=gnu \
		-cf - "$(basename "$1")" | gzip -9n >"$2"
}

# source_tree DIR: the files of this tree with all that a build with Go alone needs.
source_tree() {
	mkdir -p "$1"
	git ls-files -z | tar --null --no-recursion -cf - -T - | tar -C "$1" -xf -
	cp -r web/dist/. "$1/web/dist/"
	printf '%s\n' "$(version)" "$(commit)" "$epoch" >"$1/VERSION"
	(cd "$1" && go mod vendor)
}

# go_alone DIR: builds a source tree where there is nothing but Go and a shell.
go_alone() {
	local tool bin=$work/bin
	mkdir -p "$bin"
	for tool in go bash env sh cat dirname sed sort head stat; do ln -sf "$(command -v $tool)" "$bin/$tool"; done
	(cd "$1" && env -i PATH="$bin" HOME="$work" GOCACHE="${DIST_CACHE:-$work/cache}" GOPROXY=off GOFLAGS= bash build.sh build)
}

# dist_quick is dist without compiling Go's own library again. It is a process of its
# own, because set -e means nothing in a function that a step calls.
dist_quick() {
	local out status=0
	out=$(mktemp -d)
	DIST_CACHE=$(go env GOCACHE) ./build.sh dist "$out" || status=$?
	rm -r "$out"
	return $status
}

# dist_tree DIR makes the archives, and all again from the source archive.
dist_tree() (
	command -v git >/dev/null && git rev-parse HEAD >/dev/null 2>&1 || die "dist needs a git clone"
	out=$1
	name=procinsh-$(version)
	epoch=$(git log -1 --format=%ct)
	work=$(mktemp -d)
	trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
	mkdir -p "$work/1" "$work/2" "$out"
	source_tree "$work/1/$name-source"
	pack "$work/1/$name-source" "$out/$name-source.tar.gz"
	(cd "$work/1/$name-source" && ./build.sh build)

	tar -C "$work/2" -xzf "$out/$name-source.tar.gz"
	pack "$work/2/$name-source" "$work/again.tar.gz"
	cmp "$work/again.tar.gz" "$out/$name-source.tar.gz"
	go_alone "$work/2/$name-source"
	cmp "$work/1/$name-source/procinsh" "$work/2/$name-source/procinsh"
	echo "== the source archive builds the same binary with Go alone"

	bundle=$work/1/$name-linux-amd64
	mkdir "$bundle"
	cp -r "$work/1/$name-source/procinsh" LICENSE README.md LIMITS.md CHANGELOG.md deploy "$bundle/"
	cp web/dist/licenses.txt "$bundle/LICENSES.txt"
	go run ./tests/bom -sbom "$(version)" -time "$epoch" >"$bundle/sbom.spdx.json"
	pack "$bundle" "$out/$name-linux-amd64.tar.gz"
	cp "$bundle/sbom.spdx.json" "$out/$name.spdx.json"
	(cd "$out" && sha256sum "$name"-*.tar.gz "$name.spdx.json" >"$name.sha256" && cat "$name.sha256")
)

# default_listen ARGS: where run serves when ARGS do not say it.
default_listen() { case " $*" in *" --listen"[=\ ]* | *" -listen"[=\ ]*) ;; *) echo --listen 127.0.0.1:9090 ;; esac; }

verb=${1:-build}
[ $# = 0 ] || shift
case $verb in
build) build ;;
run)
	build
	[ "$(id -u)" = 0 ] || echo "start with sudo to see other users' processes"
	exec ./procinsh serve $(default_listen "$@") "$@"
	;;
check) check; finish ;;
test) tests ;;
soak)
	logged
	build
	step "idle and quiet, long form" env PROCINSH_SOAK=1 go test -count=1 -timeout 20m ./tests/footprint
	step "faults, long form" env PROCINSH_SOAK=1 go test -count=1 -timeout 30m -v -run 'Vanish|ServerKilled' ./tests/e2e
	step "clients that stall" env PROCINSH_SOAK=1 go test -count=1 -timeout 10m -v -run Stalled ./api
	step "load, long form" env PROCINSH_SOAK=1 go test -count=1 -timeout 60m -v ./tests/load
	step "storms, long form" env PROCINSH_SOAK=1 go test -count=1 -timeout 60m -v -run 'Storm|Killed|GroupStop' ./ptrace
	step "runs, long form" env PROCINSH_SOAK=1 go test -count=1 -timeout 60m -v -run "ListCost|ManyRuns|RunsInTurn|GreatOutput|OutputIsWhole|Timeouts|Storm" ./run
	step "stacks as another unwinder has them" env COMPARE_INSTANTS=20 go test -count=1 -timeout 20m -v -run 'AsAnotherUnwinder|Browser' ./ptrace
	fuzz_all
	finish
	;;
bench)
	case ${1:-scan} in
	scan) need gcc gcc; need lsof lsof; need ps procps; build; exec tests/bench/run.sh scan ;;
	stop) need_go; need gcc gcc; need gdb gdb; exec tests/bench/stop.sh ;;
	sensors) need_go; need gcc gcc; wish perf linux-perf; wish bpftrace bpftrace; exec tests/bench/sensors.sh ;;
	*) die "unknown bench: $1" ;;
	esac
	;;
bpf) bpf ;;
live)
	need_go
	need gcc gcc
	PROCINSH_URL=${1:-} exec go test -count=1 -v -timeout 20m ./tests/sensors
	;;
vm)
	need_go
	need gcc gcc
	go build -o tests/vm/bin/vm ./tests/vm
	exec tests/vm/bin/vm "$@"
	;;
dist)
	need_go
	pages
	dist_tree "${1:-dist}"
	;;
help | -h | --help) help ;;
*) help >&2; exit 2 ;;
esac
