# SPDX-License-Identifier: MIT
# saved.sh - guests that go on from where one like them was saved; sourced by `run`.
# shellcheck shell=bash disable=SC2034,SC2154
#
# Three quarters of what an emulated processor does until a test begins is the same for every guest: the kernel finds its processor, its
# memory, its buses. So the first guest of a kind (kernel, memory) is stopped where `init` waits for the host's files, and saved in the
# cache. QEMU saves no guest that has mounted these, nor one with an NVMe disk: disks and wires a guest gets when it goes on, as if somebody plugged
# them in.
#
# Two guests that go on from one file must not draw the same keys and numbers: QEMU's vmgenid tells the kernel, which takes new entropy before
# anything else runs (`init` looks at that). Their clock is set to that of the machine.
#
# A guest that comes back after its power was cut boots: one that goes on would have been up, by its own clock, since before the cut, and fmoved
# goes by that where it tells what nobody can be at work on any more. Where a test says that this decides nothing (`# returns: saved`) it goes on,
# too: it has another boot_id, an empty memory, and the disks as they are. All are booted where FMOVE_LAB_RESUME is no, for other processors and
# accelerators, and where saving or going on fails; and with more than one processor: there are few, and it takes longer to save one than to boot
# it.

# Limits for what hangs. A test may take the first two before its own time begins, for which CTest gives it five minutes.
SAVE_S=120		# for a guest to boot and to be written
LOCK_S=150		# for another run that does so
ANSWER_S=100		# for QEMU to answer, also that a guest is read

# answer G TEXT: wait for a line of guest G's monitor that has it, or for one that says what went wrong; until the caller's `deadline`, if it has one.
answer() {
	local g=$1 word=$2 line end=${deadline:-$((SECONDS + ANSWER_S))}

	while is_alive "$g" && ((SECONDS < end)); do
		read -r -t 0.5 -u "${answers[g]}" line || continue
		case $line in
		*"$word"*)	return 0 ;;
		*'"error"'*|*'"status": "failed"'*|*'"return": "'[!\"]*)
			say "QEMU says: $line"
			return 1 ;;
		esac
	done
	say "no answer from QEMU"
	return 1
}

# ask G COMMAND [ARGUMENTS]: as JSON has them.
ask() {
	echo "{\"execute\": \"$2\"${3:+, \"arguments\": {$3\}}}" >&"${monitors[$1]}"
	answer "$1" '"return": {}'
}

# greet G: until then QEMU's monitor takes no command. It has an answer to this, too, for which only those wait who read each one.
greet() {
	echo '{"execute": "qmp_capabilities"}' >&"${monitors[$1]}"
}

# type_in G LINE: a line of QEMU's monitor for people, which has the same words for a device as its command line. Its answer is empty if all went well.
type_in() {
	echo "{\"execute\": \"human-monitor-command\", \"arguments\": {\"command-line\": \"$2\"}}" >&"${monitors[$1]}"
	answer "$1" '"return": ""'
}

# Sets `saved`, the file from which guests with `base` go on; nothing if they are to boot, and `why` if that was not asked for.
get_saved() {
	local base hash lock=''

	saved='' why=''
	[ "$arch" = amd64 ] && [ "$cpus" = 1 ] && [ "${FMOVE_LAB_RESUME:-yes}" != no ] && [ -z "${FMOVE_LAB_ACCEL:-}" ] || return 0
	set_machine
	hash=$({ cat "$lab_dir/saved.sh"; stat -Lc '%s %Y' "$(command -v "$emulator")"; echo "$kernel $initrd ${base[*]} $(boot_line)"; } | sha256sum)
	saved=$cache_dir/saved-${hash:0:16}
	if [ ! -s "$saved" ]; then
		lock_cache && { [ -s "$saved" ] || try_save; } || saved=''
		[ -z "$lock" ] || exec {lock}>&-
	fi
	[ -z "$saved" ] || touch "$saved" 2> /dev/null || true	# another user's may be used
}

# Sets `lock`, which is held; false, and sets `why`, where guests are to boot.
lock_cache() {
	local file=$cache_dir/lock.saved

	if [ ! -w "$cache_dir" ] || { [ -e "$file" ] && [ ! -w "$file" ]; }; then
		why="$cache_dir may not be written"
		return 1
	fi
	exec {lock}> "$file"
	! flock -n "$lock" || return 0
	say "another run saves a guest: waiting for that"
	! flock -w $LOCK_S "$lock" || return 0
	why="another run took more than $LOCK_S s to save one"
	return 1
}

# As `save`; where that failed within a day (the file beside it says so) it is not tried again, or each test would.
try_save() {
	if [ -n "$(find "$saved.failed" -mmin -1440 2> /dev/null)" ]; then
		why="none could be saved; to try again: rm $saved.failed"
		return 1
	fi
	save && return
	why="none could be saved"
	{ : > "$saved.failed"; } 2> /dev/null || true
	return 1
}

# Guest 0, in a directory of its own.
save() {
	local at status=0

	at=$(mktemp -d "$run_dir/save.XXXXXX")
	say "booting a guest that others go on from"
	cd "$at"
	save_here || status=$?
	[ -z "${pids[0]:-}" ] || kill_guest 0
	unset 'pids[0]'
	cd "$run_dir"
	rm -rf "$at"
	return $status
}

save_here() {
	local deadline=$((SECONDS + SAVE_S))

	mkdir out
	boots[0]=1
	make_pipe tell.0
	launch 0 -kernel "$kernel" -initrd "$initrd" -append "$(boot_line)" -chardev pipe,id=tell,path=tell.0 -serial chardev:tell
	until grep -qa 'lab: init: waits' console.0 2> /dev/null; do
		is_alive 0 && ((SECONDS < deadline)) || return
		sleep 0.2
	done
	! kernel_trouble console.0 || return
	answer 0 '"return": {}' && ask 0 stop && ask 0 migrate-set-parameters '"max-bandwidth": 10000000000' &&
		ask 0 migrate-set-capabilities '"capabilities": [{"capability": "events", "state": true}]' &&
		ask 0 migrate '"uri": "exec:cat > state && : > whole; : > ended"' && answer 0 '"status": "completed"' || return
	echo '{"execute": "quit"}' >&"${monitors[0]}"
	until ! is_alive 0; do
		((SECONDS < deadline)) || return
		sleep 0.2
	done
	keep_state
}

# QEMU says that it is through whether or not the disk had room for what it wrote, and while the command that writes still does: `ended` comes at
# that one's end. What is in the cache under its final name is whole, also after this machine's power was cut. Until the caller's `deadline`: a
# disk that does not answer is not waited for, and may still bring a file called .new, which nobody reads.
keep_state() {
	local pid

	until [ -e ended ]; do
		((SECONDS < deadline)) || { say "the guest was not written within $SAVE_S s"; return 1; }
		sleep 0.2
	done
	{ [ -e whole ] && [ -s state ] && mv state "$saved.new" && sync "$saved.new"; } &
	pid=$!
	while kill -0 "$pid" 2> /dev/null; do
		((SECONDS < deadline)) || { say "the disk of $cache_dir did not take the guest within $SAVE_S s"; return 1; }
		sleep 0.2
	done
	wait "$pid" && mv "$saved.new" "$saved" && return
	rm -f "$saved.new"
	return 1
}

# forget_saved WHY: no guest goes on from it any more. It may be broken, and would be for ever; the next run saves another.
forget_saved() {
	[ -n "$saved" ] || return 0
	rm -f "$saved" || true
	saved='' why=$1
}

# A run in which guests booted that should have gone on does not pass for one that tried it: its last line says so, and `tests/check` counts them.
# boots_instead: "; N of M guests booted: WHY", or nothing.
boots_instead() {
	[ "${#instead[@]}" != 0 ] || return 0
	echo "; ${#instead[@]} of $guests guests booted: $why"
	[ -z "${FMOVE_LAB_BOOTED:-}" ] || echo "$why" >> "$FMOVE_LAB_BOOTED"
}

# go_on G: guest $1 begins where the saved one stood, gets its `devices`, is told which one it is, and runs. Before it was loaded nothing may be
# told: what the port had received would be forgotten.
go_on() {
	local g=$1 device

	ln -sfn "$saved" saved
	make_pipe "tell.$g"
	launch "$g" "${arguments[@]}" -S -incoming defer -chardev "pipe,id=tell,path=tell.$g" -serial chardev:tell
	answer "$g" '"return": {}' && ask "$g" migrate-set-capabilities '"capabilities": [{"capability": "events", "state": true}]' &&
		ask "$g" migrate-incoming '"uri": "exec:cat saved"' && answer "$g" '"status": "completed"' || return
	for device in "${devices[@]}"; do
		type_in "$g" "device_add $device" || return
	done
	echo "$g ${boots[g]}" 1<> "tell.$g.in" && ask "$g" cont
}
