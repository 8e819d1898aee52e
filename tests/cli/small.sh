#!/bin/bash
# Goal:   a small file is sent as it was when its put began, nothing of it stays open meanwhile, and
#         at the far end it is made when all of it came: what is refused then leaves nothing, and
#         what was there before is as it was.
# Method: the far daemon is stopped while it is asked for; the file is written to meanwhile, then it
#         goes on.
. "$(dirname "$0")/lib.sh"
up 2
node1=$(cat "$dir/c/n1/pid")
node2=$(cat "$dir/c/n2/pid")

is_asked() {
	fmove status --json | grep -q '"state":"opening"'
}

# is_open FILE: n1 has it open, or who has descriptors of callers for it.
is_open() {
	local pid

	for pid in "$node1" $(cat /proc/"$node1"/task/*/children); do
		find "/proc/$pid/fd" -lname "$PWD/$1" | grep -q . && return
	done
	return 1
}

# behind_back FILE: put it; while its peer has not answered, look whether it is open, and write to
# it. Sets is_held and status.
behind_back() {
	kill -STOP "$node2"
	fmove put "$1" "n2:s/$1" >/dev/null 2>err &
	local put=$!
	await is_asked || bad "the peer of $1 is not asked: $(fmove status)"
	is_held=no
	is_open "$1" && is_held=yes
	echo changed >>"$1"
	kill -CONT "$node2"
	status=0
	wait $put || status=$?
}

for size in 1 4096 65536; do
	random $size "f$size"
	cp "f$size" "was$size"
	behind_back "f$size"
	[ $status -eq 0 ] || bad "$size bytes, written to while they were sent: $status $(cat err)"
	[ $is_held = no ] || bad "$size bytes: the file is open while it is sent"
	same "was$size" "$(store 2)/f$size"
done

# A larger one stays open and is looked at again.
random 65537 large
behind_back large
[ $status -ne 0 ] || bad 'a larger file that was written to while it was sent was published'
[ $is_held = yes ] || bad 'the test does not see what is open'
[ ! -e "$(store 2)/large" ] || bad 'it is there'

# Refused at the far end, behind the last byte.
random 3000 new
no 6 'exists' fmove put new n2:s/f4096
same was4096 "$(store 2)/f4096"
no 1 '' fmove put new n2:s/f4096/below
ok fmove put --force new n2:s/f4096
same new "$(store 2)/f4096"
no_partials
