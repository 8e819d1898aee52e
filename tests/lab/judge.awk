# SPDX-License-Identifier: MIT
# judge.awk - whether two nodes ever had one namespace in ways that destroy what is read or
# written, from what the target saw alone.
#
#   awk -f judge.awk BYTES.NSID KMSG TRACE        (see guard.sh, which makes them)
#
# BYTES.NSID   lines "NSID SECTORS": the namespaces, and where the marks of mount_watch begin
# KMSG         /dev/kmsg of the target: which controller is which host's ("...5555555555N" at the
#              end of its host NQN: node N)
# TRACE        its trace of nvmet_req_init, in the order of the commands
#
# A mount is what marks of one kind say it is, from the first to the last but one: when the last
# was asked for, the one before had been answered. While a node has a mount, no other node writes,
# nor has it to write: whoever mounts read-write writes. It says so, one line for each, and exits
# 1; 2 if the trace proves nothing, because it has gaps or marks that cannot be.

function complain(line) {
	if (++found <= 20)
		print line "; during: " scene
}

function told(node, text,	n, other) {
	for (n in mark) {
		split(n, other, SUBSEP)
		if (other[1] == nsid && other[2] != node && !(n in doubt)) {
			doubt[n] = text " while n" other[2] " had it mounted " \
				(mark[n] % 2 ? "read-write" : "read-only")
			doubt_at[n] = marks[n]
		}
	}
}

function marked(node, slot,	key) {
	key = nsid SUBSEP node
	if (mark[key] != slot || !(key in marks)) {
		mark[key] = slot
		marks[key] = 0
		delete doubt[key]
		mounts++
	}
	marks[key]++
	all_marks++
	if (key in doubt && marks[key] >= doubt_at[key] + 2) {
		complain("namespace " nsid ", " doubt[key] " (until " time " at least)")
		delete doubt[key]
	}
	if (slot % 2)
		told(node, "n" node " had it mounted read-write at " time)
}

function value(name,	at, rest) {
	at = index($0, name "=")
	rest = substr($0, at + length(name) + 1)
	return at ? rest + 0 : -1
}

function connect_until(when) {
	while (next_connect < connects && connect_at[next_connect] <= when) {
		host[connect_ctrl[next_connect]] = connect_node[next_connect]
		next_connect++
	}
}

FILENAME == ARGV[1] { marks_from[$1] = $2; next }

FILENAME == ARGV[2] {
	if (!/creating nvm controller/)
		next
	split($0, part, /[,;]/)
	match($0, /controller [0-9]+/)
	connect_ctrl[connects] = substr($0, RSTART + 11, RLENGTH - 11)
	match($0, /5555555555[0-9]\./)
	connect_node[connects] = substr($0, RSTART + 10, 1)
	connect_at[connects++] = part[3] / 1000000
	next
}

/LOST/ { gaps++; next }

/tracing_mark_write: / && !/settled/ { scene = $0; sub(/.*tracing_mark_write: /, "", scene); next }

/nvmet_req_init: nvmet[0-9]/ {
	match($0, /[0-9]+\.[0-9]+: nvmet_req_init: nvmet[0-9]+/)
	time = substr($0, RSTART) + 0
	rest = substr($0, RSTART, RLENGTH)
	sub(/.*nvmet/, "", rest)
	connect_until(time)
	node = host[rest]
	nsid = value("nsid")
	slba = value("slba")
	if (!(nsid in marks_from))
		next
	if (/nvme_cmd_read/) {
		if (slba < marks_from[nsid] || value("len") != 0)
			next
		slot = slba - marks_from[nsid]
		if (int(slot / 16384) != node)
			strange++
		marked(node, slot)
	} else {
		writes++
		told(node, "n" node " wrote at " time)
	}
}

END {
	printf "%d marks of %d mounts, %d writes, seen by the target\n", all_marks, mounts, writes
	if (gaps || strange || !all_marks || !writes) {
		printf "it proves nothing: %d gaps, %d marks of another node\n", gaps, strange
		exit 2
	}
	if (found)
		exit 1
}
