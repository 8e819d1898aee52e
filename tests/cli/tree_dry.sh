#!/bin/bash
# Goal:   a dry run of an update says what the update does: it ends with the same exit code, names the same entries and refuses in the same
#         words, for put and get.
# Method: pairs of awkward trees. Each is moved with -n and then without, by each of the ways to update, and the two are compared. Root
#         without its rights over other users' files, so that there are entries which cannot be read or kept.
if [ "$(id -u)" -eq 0 ] && [ -z "${FM_FOREIGN:-}" ] && command -v setpriv >/dev/null; then
	FM_FOREIGN=1 exec setpriv --bounding-set -fowner,-chown,-dac_override,-dac_read_search bash "$0"
fi
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/tree_lib.sh"
export FM_CLUSTER_STORE='old_keep = "0s";'
up 2
chmod 755 "$dir/c" "$dir"/c/n? "$dir"/c/n?/s "$dir/w"
mkdir "$dir/t" "$(store 2)/t"
touch -d @1500000000 stamp

# What both trees have; made once, and copied with all its times.
mkdir -p both/sub/empty both/sub/full && cd both || exit
echo 1 >f && echo 2 >sub/f && echo 3 >sub/full/f && ln f sub/hard && ln -s f link && ln -s nowhere dangling
random 5000000 large
truncate -s 100000 hole
find . -exec touch -h -r "$dir/w/stamp" {} +
cd "$dir/w" || exit

# ---- what makes a pair awkward; in $from and $to ----

nothing() { :; }
many() {
	echo other >"$from/f" && chmod 600 "$from/sub/f" && chmod 700 "$from/sub/empty" && touch "$from/large"
	mkdir "$to/only" && echo 1 >"$to/only/f" && ln -s f "$to/only/link" && mkfifo "$to/only/fifo"
	mkdir -p "$from/new/dir" && echo 1 >"$from/new/f" && ln "$from/f" "$from/new/hard" && ln -s x "$from/new/link"
	rm "$from/hole" && ln -s f "$from/hole" && ln -sfn sub "$from/link"
	rm "$from/sub/hard" && cp -p "$from/f" "$from/sub/hard"
	echo 1 >"$from/.fmove.x" && echo 1 >"$to/sub/.fmove.x"
	echo 1 >"$from/"$'a\nb \xff' && echo 1 >"$to/"$' \e[31m"'
	mkdir -p "$from/$(printf 'd%.0s/' $(seq 300))"
	setfattr -n user.what -v x "$from/f" "$from/sub" 2>/dev/null || true
}
hard_together() { ln -f "$from/f" "$from/sub/f"; }
fifo_here() { mkfifo "$from/sub/fifo"; }
fifo_in_place() { rm "$to/f" && mkfifo "$to/f"; }
file_there() { rm -r "$to" && echo 1 >"$to"; }
link_there() { mv "$to" "$to.real" && ln -s "$(basename "$to").real" "$to"; }
none_there() { rm -r "$to"; }
none_above() { rm -r "$to" && target=$target.in/deep/er; }

file_for_dir() { rm -r "$from/sub/empty" "$from/sub/full" && echo 1 >"$from/sub/empty" && ln -s .. "$from/sub/full"; }
dir_for_file() { rm "$from/sub/f" "$from/link" && mkdir "$from/link" "$from/sub/f" && echo 1 >"$from/sub/f/in"; }

mounted() { mount -t tmpfs none "$to/sub/empty"; }
mounted_and_content() { mounted && echo other >"$from/sub/full/f"; }
mounted_file() { touch other && mount --bind other "$to/sub/f"; }

theirs() { chmod 777 "$to/sub" "$from/sub" && as_nobody sh -c "umask 077; echo 1 >'$to/sub/secret'"; }
theirs_and_content() { theirs && echo other >"$from/sub/full/f"; }
theirs_in_both() { theirs_and_content && echo 1 >"$from/sub/secret"; }
their_dir() { chmod 777 "$to/sub" "$from/sub" && as_nobody mkdir "$to/sub/theirs"; }
not_readable() { chmod 777 "$from/sub" && as_nobody sh -c "umask 077; echo 1 >'$from/sub/secret'"; }
not_readable_large() { chmod 777 "$from/sub" && as_nobody sh -c "umask 077; head -c 5000000 /dev/zero >'$from/sub/secret'"; }
not_readable_dir() { chmod 777 "$from/sub" && as_nobody mkdir -m 700 "$from/sub/secret"; }
not_readable_same() { not_readable && chmod 777 "$to/sub" && as_nobody cp -p "$from/sub/secret" "$to/sub/"; }
not_readable_there() { chmod 777 "$to/sub" "$from/sub" && as_nobody mkdir -m 700 "$to/sub/secret"; }
not_readable_there_and_content() { not_readable_there && echo other >"$from/sub/full/f"; }
not_writable() { chmod 777 "$(dirname "$to")" && rm -r "$to" && as_nobody mkdir "$to" && target=$target/in; }

# ---- one of them ----

# Most cases leave nothing that this may not remove.
clear() {
	local at

	! rm -rf "$from" "$to" "$to.real" "$to.in" 2>/dev/null || return 0
	findmnt -rno TARGET | grep -F "$dir/" | tac | while IFS= read -r at; do umount "$at"; done
	as_nobody find "$from" "$to" -depth -user nobody -delete 2>/dev/null
	rm -rf "$from" "$to" "$to.real" "$to.in"
}

# run OPTION...: `status`, and in $said the names and why it was refused.
run() {
	timeout "$HANG_S" fmove "$way" -r -v --durability memory "$@" "$source" "$target" >out 2>err
	status=$?
	sort out >"$said"
	[ $status -eq 0 ] || sed 's/; what came is kept: .*//' err >>"$said"
}

# try CASE WAY: the dry run, then the run.
try() {
	local case=$1 how=$2 target=$target predicted

	clear
	cp -a both "$from" && cp -a both "$to"
	$case || { bad "$case: cannot be made"; return; }
	# shellcheck disable=SC2086
	said=said.dry run -n $how
	predicted=$status
	# shellcheck disable=SC2086
	said=said.real run $how
	[ $status -ne 2 ] || bad "$way $how of $case: $(cat err)"
	[ "$predicted" -eq $status ] || bad "$way $how of $case: exit $status, the dry run $predicted"
	diff said.real said.dry >said.diff || bad "$way $how of $case: the dry run says something else: $(cat said.diff)"
}

# all CASES WAY...: each of them by each of these ways to update.
all() {
	local case how

	for case in $1; do
		for how in "${@:2}"; do
			try "$case" "$how"
		done
	done
}

way=put from=$dir/t/source to=$(store 2)/t/target source=$from target=n2:s/t/target
all 'nothing many' --update '--update --delete' --checksum --replace
all 'hard_together fifo_here fifo_in_place file_there link_there none_there none_above' --update
all 'file_for_dir dir_for_file' --update '--update --delete' '--update --force' --replace
[ -z "${FM_FOREIGN:-}" ] || all 'theirs theirs_and_content theirs_in_both their_dir not_readable not_readable_large not_readable_dir
	not_readable_same not_readable_there not_readable_there_and_content not_writable' --update '--update --delete'
mkdir probe && mount -t tmpfs none probe 2>/dev/null && umount probe &&
	all 'mounted mounted_and_content mounted_file' --update '--update --delete' --replace
clear

way=get from=$(store 2)/t/source to=$dir/t/target source=n2:s/t/source target=$to
all 'nothing many' --update '--update --delete'
all file_for_dir '--update --force'
[ -z "${FM_FOREIGN:-}" ] || all 'theirs their_dir not_readable not_readable_there not_writable' --update
mkdir probe2 && mount -t tmpfs none probe2 2>/dev/null && umount probe2 && all 'mounted mounted_and_content' --update
clear
