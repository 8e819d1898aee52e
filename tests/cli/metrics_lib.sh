# metrics_lib.sh - scraping a daemon and reading its page; sourced by the tests of metrics, behind lib.sh.
# shellcheck shell=bash

need_scraper() {
	command -v python3 >/dev/null || skip "needs python3"
}

# find_prometheus: finds promtool and prometheus in PATH from then on, or says in $why why it does not.
find_prometheus() {
	why=$("$FM_SOURCE/tests/prometheus") && PATH+=:$why
}

# get [HEADER] [PATH] [STATUS]: the answer at $port, which may be the path of a UNIX socket; its headers in `headers`. It fails unless the status
# is that one (200).
get() {
	python3 - "$port" "${1:-}" "${2:-/metrics}" "${3:-200}" <<-'P'
	import http.client, socket, sys
	port, header, path, status = sys.argv[1:]
	c = http.client.HTTPConnection("127.0.0.1", 0 if port[0] == "/" else int(port), timeout=60)
	if port[0] == "/":
	    c.sock = socket.socket(socket.AF_UNIX)
	    c.sock.connect(port)
	c.request("GET", path, headers={"Accept": header} if header else {})
	r = c.getresponse()
	open("headers", "w").write(f"{r.status}\n{r.headers}")
	sys.stdout.buffer.write(r.read())
	sys.exit(r.status != int(status))
	P
}

# get_page FILE [HEADER]: a page, in the end: on a machine that is busy a daemon may not come to it within the 2 s that it has.
get_page() {
	await page_to "$@" || bad "no page: $(cat headers)"
}
page_to() {
	get "${2:-}" >"$1"
}

# value SAMPLE FILE: of one line, its labels as they stand there.
value() {
	awk -v sample="$1" 'substr($0, 1, length(sample) + 1) == sample " " { print $NF }' "$2"
}

# is_paged PAGE SECTION: a scraped page and that section of fmove-metrics(7), with what every process has, have the same metrics in the same words.
is_paged() {
	sed -n 's/^# HELP \([^ ]*\) \(.*\)/\1 \2/p' "$1" | sort >served
	sed 's/\\-/-/g' "$FM_SOURCE/mover/metrics/fmove-metrics.7" | awk -v section="$2" '/^\.SH/ { is_here = $2 == section || $2 == "PROCESS"; next }
		is_here && /^\.B (fmove|process)_/ { name = $2; getline; print name, $0 }' | sort >paged
	[ -s served ] && cmp -s served paged || bad "fmove-metrics(7) and what is served differ: $(diff served paged)"
}

# is_guarded SOCKET: nobody can hand a descriptor to who serves it, whose last copy would be closed there: the kernel refuses it, or none but the
# owner and root may connect.
is_guarded() {
	python3 - "$1" <<-'P'
	import os, socket, stat, sys
	mode = stat.S_IMODE(os.stat(sys.argv[1]).st_mode)
	s = socket.socket(socket.AF_UNIX)
	s.connect(sys.argv[1])
	try:
	    socket.send_fds(s, [b"GET"], [0])
	except PermissionError:
	    sys.exit(mode != 0o660)
	sys.exit(mode != 0o600)
	P
}
