# SPDX-License-Identifier: MIT
# stage - a dataset of one node on several others, against one node's time, and against what else brings it to all of them. Each node is a
# network namespace; the source's link has a quarter of what each other one has. Everything is in memory. Then one node and many files on
# the disk, against put -r and find.
# shellcheck shell=bash

STAGE_MIB=${FM_BENCH_STAGE_MIB:-1024}		# of the dataset; ten times that is needed in memory; without sbcast, which is left out with less, six
STAGE_RATE=${FM_BENCH_STAGE_RATE:-3200}		# Mbit/s of each node's link, both ways; of the source's a quarter
STAGE_FILES=${FM_BENCH_STAGE_FILES:-50000}	# of 100 KiB on average, on disk
STAGE_PORT=17620
STAGE_NODES=4
STAGE_NET=10.96.0
STAGE_SPACE=fmb-stage				# of namespaces: 0 is the source, 9 the switch

bench_stage() {
	local count tool

	need ip tc ss
	[ "$(id -u)" = 0 ] || die "stage needs root, for network namespaces"
	stage_at=$memory/stage
	stage_wires
	stage_dataset
	stage_nodes
	: > "$work/stage-read"
	for count in $(seq 2 $STAGE_NODES); do
		stage_count=$count
		in_turn "$work/stage-$count" stage_ours stage_one
		compare "stage on $count nodes, source's link a quarter of theirs, $STAGE_MIB MiB" "$work/stage-$count" 3 6 s "one node" "<=" 1.1
	done
	absolute "most that was read of the source for them, in datasets" "$(sort -g "$work/stage-read" | tail -n 1)" "" "<=" 1.02
	stage_tools=(fmove)
	for tool in ${FM_BENCH_STAGE_TOOLS-rsync chain rclone aria2 sbcast udp}; do
		stage_against $tool
	done
	[ -z "$record" ] || stage_draw "$(result_file)"
	stage_end
	stage_small
}

# What stage_ours and stage_theirs share: stage_count, stage_tool.
stage_ours() {
	stage_timed fmove "$stage_count"
}

stage_one() {
	stage_timed fmove 1
}

stage_theirs() {
	stage_timed "$stage_tool" "$stage_count"
}

# stage_against TOOL
stage_against() {
	local program wanted=1.5 name

	stage_tool=$1
	case $1 in
	rsync)	program=rsync name="rsync, all nodes at once" ;;
	chain)	program=rsync name="rsync, each node from the one before it" ;;
	rclone)	program=rclone name="rclone over SFTP, all nodes at once" ;;
	aria2)	program="aria2c mktorrent opentracker" name="aria2 with a torrent, hashing included" ;;
	sbcast)	program="tar munged slurmctld slurmd salloc sbcast srun" name="sbcast of a tar, unpacked by a step of the job" ;;
	udp)	program="udp-sender udp-receiver" name="udp-sender of a tar, which verifies nothing" wanted=0.9 ;;
	esac
	for program in $program; do
		PATH=$PATH:/usr/sbin command -v "$program" > /dev/null || { say "   left out: $name: no program $program"; return; }
	done
	[ "$1" != sbcast ] || stage_has_room "$name" || return 0
	in_turn "$work/stage-$1" stage_ours stage_theirs || die "$name: $(cat "$work/stage.out")"
	compare "stage on $stage_count nodes, $STAGE_MIB MiB, until it is whole on all" "$work/stage-$1" 1 4 GB/s "$name" ">=" $wanted
	compare "its CPU, all nodes" "$work/stage-$1" 2 5 s "$name" - 0
	stage_tools+=("$1")
}

# stage_has_room NAME: for a tar, one more on each node, and what is unpacked from it.
stage_has_room() {
	local wanted=$((STAGE_MIB * (2 * STAGE_NODES + 1))) mib

	stage_clear
	mib=$(df --output=avail -BM "$memory" | awk 'NR == 2 { print int($1) }')
	((mib < wanted)) || return 0
	say "   left out: $1: it takes $wanted MiB in $memory, which has $mib"
	return 1
}

# stage_draw TABLE: beside it, a picture of one run of each tool for each number of nodes.
stage_draw() {
	local tool count line

	: > "$work/stage-points"
	for tool in "${stage_tools[@]}"; do
		for count in $(seq $STAGE_NODES); do
			line=$(stage_timed "$tool" "$count") || { say "   left out of the picture: $tool, nodes: $count: $(tail -n 1 "$work/stage.out")"; continue; }
			say "   $tool, nodes: $count: $line"
			echo "$tool $count ${line##* }" >> "$work/stage-points"
		done
	done
	awk -v title="seconds until $STAGE_MIB MiB are whole on all nodes" -f "$bench_dir/completion.awk" "$work/stage-points" > "${1%.md}-stage.svg"
}

# ---- nodes and wires ----

# stage_on I CMD...: there; 0 is the source's node.
stage_on() {
	local space=$STAGE_SPACE$1
	shift

	ip netns exec "$space" "$@"
}

stage_wires() {
	local i rate

	ip netns add "${STAGE_SPACE}9"
	spaces+=("${STAGE_SPACE}9")
	ip -n "${STAGE_SPACE}9" link add switch type bridge
	ip -n "${STAGE_SPACE}9" link set switch up
	for i in $(seq 0 $STAGE_NODES); do
		rate=$STAGE_RATE
		[ "$i" != 0 ] || rate=$((STAGE_RATE / 4))
		ip netns add "$STAGE_SPACE$i"
		spaces+=("$STAGE_SPACE$i")
		ip -n "$STAGE_SPACE$i" link set lo up
		ip link add wire0 netns "$STAGE_SPACE$i" type veth peer name "port$i" netns "${STAGE_SPACE}9"
		ip -n "${STAGE_SPACE}9" link set "port$i" master switch
		ip -n "$STAGE_SPACE$i" addr add "$STAGE_NET.$((i + 1))/24" brd + dev wire0
		stage_limit "$STAGE_SPACE$i" wire0 "$rate"
		stage_limit "${STAGE_SPACE}9" "port$i" "$rate"
		ip -n "$STAGE_SPACE$i" route add 224.0.0.0/4 dev wire0		# udp-sender's
	done
}

# stage_limit SPACE DEVICE MBIT: what goes out there.
stage_limit() {
	ip -n "$1" link set "$2" up
	tc -n "$1" qdisc add dev "$2" root tbf rate "$3mbit" burst 2mb latency 50ms
}

# Half of it is one file, the rest files of 1 MiB.
stage_dataset() {
	stage_source=$stage_at/n0/s
	node_key "$stage_at/n0"
	"$FMOVE_BIN/make_tree" "$stage_source/set" $((STAGE_MIB / 2)) =1048576
	head -c "$((STAGE_MIB / 2))M" /dev/urandom > "$stage_source/set/large"
	stage_bytes=$(find "$stage_source/set" -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')
}

stage_nodes() {
	local i j peers

	for i in $(seq $STAGE_NODES); do
		node_key "$stage_at/n$i"
		mkdir "$stage_at/n$i/out"
	done
	for i in $(seq 0 $STAGE_NODES); do
		peers=()
		for j in $(seq 0 $STAGE_NODES); do
			[ "$i" = "$j" ] || peers+=("$(node_peer "n$j" "$STAGE_NET.$((j + 1)):7471" "$stage_at/n$j/pub")")
		done
		node_conf "$stage_at/n$i" "n$i" "$STAGE_NET.$((i + 1)):7471" "${peers[@]}" <<-C
		staging = { directory = "$stage_at/n$i/cache"; size = "$((STAGE_MIB * 2 + 256))MiB"; grace = "0s"; peers = [ "*" ]; };
		mover = { private_networks = [ "$STAGE_NET.0/24" ]; };
		C
	done
	for i in $(seq 0 $STAGE_NODES); do
		node_wrap=(ip netns exec "$STAGE_SPACE$i")
		node_start "$stage_at/n$i"
	done
	unset node_wrap
	for i in $(seq 0 $STAGE_NODES); do
		node_until "$stage_at/n$i" stage_knows_all "$i"
	done
}

stage_knows_all() {
	[ "$(node_status "$stage_at/n$1" | grep -o '"connected": *true' | wc -l)" = $STAGE_NODES ]
}

# ---- one run ----

# stage_timed TOOL COUNT: prints GB/s to each node, CPU seconds of all nodes, seconds.
stage_timed() {
	local tool=$1 count=$2 before begin own seconds TIMEFORMAT='%U+%S'

	stage_clear
	"stage_begin_$tool" "$count" || return 1
	before=$(stage_ticks)
	begin=$EPOCHREALTIME
	own=$({ time "stage_by_$tool" "$count" > "$work/stage.out" 2>&1; } 2>&1) || { cat "$work/stage.out" >&2; return 1; }
	seconds=$(calc "$EPOCHREALTIME - $begin")
	own=$(calc "($(stage_ticks) - $before) / $(getconf CLK_TCK) + $own")
	stage_servers_end
	stage_is_whole "$tool" "$count" || return 1
	echo "$(calc "$stage_bytes / $seconds / 1e9") $own $seconds"
}

# Ticks of all daemons, and of what they have made and waited for.
stage_ticks() {
	local pid

	for pid in "$stage_at"/n?/pid "$work"/stage-*.pid; do
		[ ! -e "$pid" ] || sed 's/.*) //' "/proc/$(cat "$pid")/stat"
	done | awk '{ n += $12 + $13 + $14 + $15 } END { print n + 0 }'
}

stage_clear() {
	local i

	for i in $(seq $STAGE_NODES); do
		rm -rf "$stage_at/n$i/out"
		mkdir "$stage_at/n$i/out"
		node_until "$stage_at/n$i" stage_lets_go "$i"
	done
}

# The hold of a command ends shortly behind it.
stage_lets_go() {
	"$FMOVE_BIN/fmove" --socket "$stage_at/n$1/sock" unstage set > /dev/null 2>&1 || true
	! "$FMOVE_BIN/fmove" --socket "$stage_at/n$1/sock" datasets --quiet 2> /dev/null | grep -qx set
}

# What a tool says is there is there: outside of its time.
stage_is_whole() {
	local i copy

	for i in $(seq "$2"); do
		copy=$stage_at/n$i/out
		[ "$1" != fmove ] || copy=$(echo "$stage_at/n$i/cache/ready"/*/set)
		[ "$1" != aria2 ] || copy=$copy/set
		diff -r "$stage_source/set" "$copy" > "$work/stage.out" 2>&1 || { say "$1: n$i differs: $(tail -n 3 "$work/stage.out")"; return 1; }
	done
}

# stage_each COUNT FUNCTION: FUNCTION I for each node at once; all must end well.
stage_each() {
	local i pid pids=()

	for i in $(seq "$1"); do
		"$2" "$i" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || return 1
	done
}

# stage_server I CMD...: in the background on that node, until the run ends. $! is the program's own number, which
# that of a function would not be.
stage_server() {
	local i=$1
	shift

	ip netns exec "$STAGE_SPACE$i" "$@" > "$work/stage-server.$i" 2>&1 &
	echo $! > "$work/stage-server$i.pid"
}

stage_servers_end() {
	local pid

	for pid in "$work"/stage-server*.pid; do
		[ -e "$pid" ] || continue
		kill "$(cat "$pid")"
		wait "$(cat "$pid")" 2> /dev/null || true
		rm "$pid"
	done
}

# stage_listens I PORT: on that node somebody does, soon.
stage_listens() {
	local i

	for ((i = 0; i < 200; i++)); do
		[ -z "$(stage_on "$1" ss -Hltn "sport = :$2")" ] || return 0
		sleep 0.05
	done
	say "nobody listens at port $2 of n$1: $(cat "$work/stage-server.$1")"
	return 1
}

# ---- the tools ----

stage_begin_fmove() {
	stage_read_before=$(stage_read)
}

stage_read() {
	"$FMOVE_BIN/fmove" --socket "$stage_at/n0/sock" datasets --json 2> /dev/null | json source_bytes
}

stage_by_fmove() {
	local list

	list=$(seq -s , -f 'n%g' "$1")
	"$FMOVE_BIN/fmove" --socket "$stage_at/n1/sock" stage --nodes "$list" n0:s/set -- true
	calc "($(stage_read) - $stage_read_before) / $stage_bytes" '%.4f\n' >> "$work/stage-read"
}

# Each node serves what it has, the source its dataset.
stage_begin_rsync() {
	local i path

	for i in $(seq 0 $STAGE_NODES); do
		path=$stage_at/n$i/out
		[ "$i" != 0 ] || path=$stage_source/set
		printf 'use chroot = no\nuid = root\ngid = root\n[set]\npath = %s\n' "$path" > "$work/stage-rsyncd.$i"
		stage_server "$i" rsync --daemon --no-detach --port=7873 --config="$work/stage-rsyncd.$i"
		stage_listens "$i" 7873 || return 1
	done
}

# stage_rsync I FROM
stage_rsync() {
	stage_on "$1" rsync -a "rsync://$STAGE_NET.$(($2 + 1)):7873/set/" "$stage_at/n$1/out/"
	sync -f "$stage_at/n$1/out"
}

stage_rsync_source() {
	stage_rsync "$1" 0
}

stage_by_rsync() {
	stage_each "$1" stage_rsync_source
}

stage_begin_chain() {
	stage_begin_rsync
}

stage_by_chain() {
	local i

	for i in $(seq "$1"); do
		stage_rsync "$i" $((i - 1)) || return 1
	done
}

stage_begin_rclone() {
	stage_server 0 rclone --config /dev/null serve sftp "$stage_source/set" --addr "$STAGE_NET.1:2022" --user bench --pass bench
	stage_listens 0 2022
}

stage_rclone() {
	stage_on "$1" rclone --config /dev/null copy ":sftp,host=$STAGE_NET.1,port=2022,user=bench,pass=$(rclone obscure bench):" \
		"$stage_at/n$1/out"
	sync -f "$stage_at/n$1/out"
}

stage_by_rclone() {
	stage_each "$1" stage_rclone
}

# Each goes on giving until all have it. In the tracker's directory is what it may track.
stage_begin_aria2() {
	mkdir -p "$work/tracker"
	# shellcheck disable=SC2016
	printf '#!/bin/sh\n: > "$STAGE_DONE"\n' > "$work/stage-done"
	chmod 755 "$work/stage-done"
	rm -f "$work"/stage-done.* "$work/stage.torrent"
}

# stage_aria2 I DIRECTORY [OPTION]...
stage_aria2() {
	local i=$1 into=$2
	shift 2

	STAGE_DONE=$work/stage-done.$i stage_server "$i" aria2c --no-conf --show-console-readout=false --summary-interval=0 --enable-dht=false --listen-port=6900 \
		--file-allocation=none --seed-ratio=0 --on-bt-download-complete="$work/stage-done" --dir="$into" "$@" "$work/stage.torrent"
}

stage_tracker() {
	aria2c --no-conf -S "$work/stage.torrent" | sed -n 's/^Info Hash: //p' > "$work/tracker/accept"
	stage_server 0 opentracker -i "$STAGE_NET.1" -p 6969 -P 6969 -d "$work/tracker" -w accept
	mv "$work/stage-server0.pid" "$work/stage-server-tracker.pid"
	stage_listens 0 6969
}

stage_by_aria2() {
	local i

	mktorrent -l 21 -a "http://$STAGE_NET.1:6969/announce" -n set -o "$work/stage.torrent" "$stage_source/set"
	stage_tracker || return 1
	stage_aria2 0 "$stage_source" --bt-seed-unverified=true
	stage_listens 0 6900 || return 1
	for i in $(seq "$1"); do
		stage_aria2 "$i" "$stage_at/n$i/out"
	done
	for i in $(seq "$1"); do
		stage_waits_for "$work/stage-done.$i" || return 1
		sync -f "$stage_at/n$i/out"
	done
}

# stage_waits_for FILE
stage_waits_for() {
	local end=$((SECONDS + HANG_S))

	until [ -e "$1" ]; do
		((SECONDS < end)) || { say "$1 does not come: $(tail -n 3 "$work"/stage-server.*)"; return 1; }
		sleep 0.05
	done
}

# Slurm, new for each run, with a job that has as many nodes; sbcast sends to all of them. Its controller is on the source's node. All nodes see one file system
# here, so each slurmd has one of its own over the directory to which sbcast sends.
stage_begin_sbcast() {
	local slurm=$work/slurm i

	rm -rf "$slurm"
	mkdir -p "$slurm/state" "$stage_at/bcast"
	mkdir -m 755 "$slurm/munge"
	(umask 077; head -c 1024 /dev/urandom > "$slurm/munge/key")
	export SLURM_CONF=$slurm/slurm.conf
	stage_slurm_conf "$slurm" > "$SLURM_CONF"
	stage_server 0 /usr/sbin/munged --force --foreground --key-file "$slurm/munge/key" --socket "$slurm/munge/socket" --pid-file "$slurm/munge/pid" \
		--log-file "$slurm/munge/log" --seed-file "$slurm/munge/seed"
	mv "$work/stage-server0.pid" "$work/stage-server-munge.pid"
	stage_waits_for "$slurm/munge/socket" || return 1
	stage_server 0 /usr/sbin/slurmctld -D
	for i in $(seq $STAGE_NODES); do
		mkdir "$slurm/spool.n$i"
		# shellcheck disable=SC2016
		stage_slurmd "$i" 'mount --bind "$1" "$2" && exec /usr/sbin/slurmd -D -N "$3"' sh "$stage_at/n$i/out" "$stage_at/bcast" "n$i"
	done
	stage_has_slurm || { say "Slurm does not start: $(stage_on 0 sinfo -N -o '%N %T %E' 2>&1) $(tail -n 3 "$slurm"/*.log)"; return 1; }
	stage_job=$(stage_on 0 salloc --no-shell -w "n[1-$1]" 2>&1 | sed -n 's/.*Granted job allocation //p')
	[ -n "$stage_job" ] || { say "Slurm gives no job: $(tail -n 3 "$slurm"/*.log)"; return 1; }
}

# stage_slurmd I SCRIPT ARGUMENT...: a server, with its own mounts; not by `ip netns exec`, which takes /sys/fs/cgroup away.
stage_slurmd() {
	local i=$1
	shift

	nsenter --net="/run/netns/$STAGE_SPACE$i" unshare -m sh -c "$@" > "$work/stage-server.$i" 2>&1 &
	echo $! > "$work/stage-server$i.pid"
}

stage_slurm_conf() {
	local host i

	host=$(uname -n)
	cat <<-C
	ClusterName=bench
	SlurmctldHost=${host%%.*}($STAGE_NET.1)
	AuthInfo=socket=$1/munge/socket
	SlurmUser=root
	StateSaveLocation=$1/state
	SlurmdSpoolDir=$1/spool.%n
	SlurmctldPidFile=$1/slurmctld.pid
	SlurmdPidFile=$1/slurmd.%n.pid
	SlurmctldLogFile=$1/slurmctld.log
	SlurmdLogFile=$1/slurmd.%n.log
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	JobAcctGatherType=jobacct_gather/none
	SwitchType=switch/none
	MpiDefault=none
	ReturnToService=2
	PartitionName=all Nodes=n[1-$STAGE_NODES] Default=YES MaxTime=INFINITE State=UP
	C
	for i in $(seq $STAGE_NODES); do
		echo "NodeName=n$i NodeHostname=${host%%.*} NodeAddr=$STAGE_NET.$((i + 1)) Port=$((6820 + i))"
	done
}

stage_has_slurm() {
	local end=$((SECONDS + HANG_S))

	until [ "$(stage_on 0 sinfo -h -o '%D %T' 2>&1)" = "$STAGE_NODES idle" ]; do
		((SECONDS < end)) || return 1
		sleep 0.1
	done
}

stage_by_sbcast() {
	local step

	tar -C "$stage_source/set" -cf "$stage_at/set.tar" .
	# shellcheck disable=SC2016
	step='tar -C "$1" -xf "$1/set.tar" && rm "$1/set.tar" && sync -f "$1"'
	stage_on 0 sbcast --jobid "$stage_job" "$stage_at/set.tar" "$stage_at/bcast/set.tar" &&
		stage_on 0 srun --jobid "$stage_job" -N "$1" sh -c "$step" sh "$stage_at/bcast"
	step=$?
	rm "$stage_at/set.tar"
	return $step
}

stage_begin_udp() {
	:
}

stage_udp() {
	if [ "$1" -gt "$stage_receivers" ]; then
		tar -C "$stage_source/set" -cf - . | stage_on 0 timeout "$HANG_S" udp-sender --interface wire0 --nokbd --no-progress --full-duplex \
			--min-receivers "$stage_receivers" --max-bitrate "$((STAGE_RATE / 4 * 95 / 100))m"
	else
		stage_on "$1" timeout "$HANG_S" udp-receiver --interface wire0 --nokbd --no-progress | tar -C "$stage_at/n$1/out" -xf -
	fi
}

stage_by_udp() {
	local stage_receivers=$1

	stage_each $(($1 + 1)) stage_udp
}

stage_end() {
	local i

	for i in $(seq 0 $STAGE_NODES); do
		node_stop "$stage_at/n$i"
		ip netns del "$STAGE_SPACE$i"
	done
	ip netns del "${STAGE_SPACE}9"
	rm -rf "$stage_at"
}

# ---- one node, many files, disk to disk ----

# n1 has the source in its store d; n2 has a store t for what put -r brings.
stage_small() {
	local i stores

	stage_at=$memory/stage-small stage_disk=$disk/stage
	mkdir -p "$stage_disk"/{source,target,cache1,cache2}
	"$FMOVE_BIN/make_tree" "$stage_disk/source/set" "$STAGE_FILES" 102400
	for i in 1 2; do
		node_key "$stage_at/n$i"
	done
	stores=("" "{ name = \"d\"; directory = \"$stage_disk/source\"; }," "{ name = \"t\"; directory = \"$stage_disk/target\"; },")
	for i in 1 2; do
		node_stores=${stores[i]} node_conf "$stage_at/n$i" n$i "127.0.0.1:$((STAGE_PORT + i))" \
			"$(node_peer n$((3 - i)) "127.0.0.1:$((STAGE_PORT + 3 - i))" "$stage_at/n$((3 - i))/pub")" \
			<<< "staging = { directory = \"$stage_disk/cache$i\"; size = \"1TiB\"; grace = \"0s\"; peers = [ \"*\" ]; };"
	done
	for i in 1 2; do
		node_start "$stage_at/n$i"
	done
	node_wait "$stage_at/n2" tcp 1 all
	in_turn "$work/stage-put" stage_one_node stage_put
	compare "stage on one node, $STAGE_FILES files of 100 KiB, cold, disk to disk" "$work/stage-put" 1 2 "files a second" "put -r of the same" ">=" 1
	for stage_tool in cp rsync tar; do
		in_turn "$work/stage-small-$stage_tool" stage_one_node stage_copied
		compare "stage on one node, $STAGE_FILES files of 100 KiB, cold, disk to disk" "$work/stage-small-$stage_tool" 1 2 "files a second" \
			"$stage_tool, then sync" - 0
	done
	stage_run_small > /dev/null
	in_turn "$work/stage-again" stage_again stage_find
	compare "second stage of these, --check listing" "$work/stage-again" 1 2 s "find -printf alone" "<=" 1.2
	for i in 1 2; do
		node_stop "$stage_at/n$i"
	done
	rm -rf "$stage_at" "$stage_disk"
}

# stage_files_of COMMAND...: files a second of it, from a cold cache.
stage_files_of() {
	local seconds

	sync -f "$stage_disk"
	[ "$(id -u)" != 0 ] || echo 3 > /proc/sys/vm/drop_caches
	seconds=$(stage_seconds "$@") || return		# else what failed counts as fast
	calc "$STAGE_FILES / $seconds" %.0f
}

# stage_seconds COMMAND...
stage_seconds() {
	local TIMEFORMAT=%R

	{ time "$@" > "$work/stage.out" 2>&1; } 2>&1 || { cat "$work/stage.out" >&2; return 1; }
}

stage_run_small() {
	"$FMOVE_BIN/fmove" --socket "$stage_at/n2/sock" stage n1:d/set -- true
}

stage_one_node() {
	node_until "$stage_at/n2" stage_lets_go 2
	stage_files_of stage_run_small
}

stage_put() {
	rm -rf "$stage_disk/target/copy"
	stage_files_of "$FMOVE_BIN/fmove" --socket "$stage_at/n1/sock" put -r --quiet --durability disk "$stage_disk/source/set" n2:t/copy
}

# By stage_tool.
stage_copied() {
	rm -rf "$stage_disk/target/copy"
	stage_files_of stage_copies_by "$stage_tool"
}

# stage_copies_by cp|rsync|tar: until it is on the disk. None of them looks whether it is right.
stage_copies_by() {
	local from=$stage_disk/source/set to=$stage_disk/target/copy

	case $1 in
	cp)	cp -r "$from" "$to" ;;
	rsync)	rsync -a "$from/" "$to" ;;
	tar)	mkdir "$to" && tar -C "$from" -cf - . | tar -C "$to" -xf - ;;
	esac && sync -f "$stage_disk"
}

stage_again() {
	stage_seconds stage_run_small
	grep -q 'here and unchanged' "$work/stage.out" || { say "it is not unchanged: $(cat "$work/stage.out")"; return 1; }
}

stage_find() {
	stage_seconds find "$stage_disk/source/set" -printf '%P %y %s %T@ %l\n'
}
