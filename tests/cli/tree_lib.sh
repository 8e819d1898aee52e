# tree_lib.sh - what the tests of put -r and get -r share; sourced behind lib.sh.

# listing DIR [owners]: one line for each entry: type, mode, size (of files), time, names (of files), target, path. The
# numbers of hard links say who belongs together only with the content, which is compared beside.
listing() {
	# A directory's size and number of names are the file system's affair.
	(cd "$1" && find . -mindepth 0 \( -type d -printf '%y %m - %T@ - %p\0' -o -type l -printf '%y - - %T@ %l %p\0' \
		-o -printf '%y %m %s %T@ %n %p\0' \) | sort -z | tr '\0\n' '\n?')
}

# sums DIR: the content of every file.
sums() {
	(cd "$1" && find . -type f -print0 | sort -z | xargs -0 -r cksum --)
}

# same_tree A B
same_tree() {
	diff <(listing "$1") <(listing "$2") >listing.diff || bad "$1 and $2 differ: $(head -n 6 listing.diff)"
	diff <(sums "$1") <(sums "$2") >sums.diff || bad "the files of $1 and $2 differ: $(head -n 4 sums.diff)"
}

# no_trees [DIR...]: nothing of an unfinished tree lies about in them; in none at all: here or in any store. The daemon may take a moment.
no_trees() {
	[ $# -gt 0 ] || set -- "$dir/w" "$dir"/c/n*/s
	await has_no_tree "$@" || bad "left behind: $left"
}

has_no_tree() {
	left=$(find "$@" -name '.fmove*' ! -name '.fmove*.old' ! -name '.fmove.*.manifest' ! -name '.fmove.held.*' ! -name '.fmove.kept.*' 2>/dev/null)
	[ -z "$left" ]
}

# copying: wait until a transfer of n1 moves.
copying() {
	await is_copying || bad "it does not move: $(cat err)"
}

is_copying() {
	fmove status --json | grep -q '"state":"copying"'
}

# spoil FILE OFFSET: as flip, of a file that is read-only.
spoil() {
	chmod u+w "$1"
	flip "$1" "$2"
	chmod u-w "$1"
}
