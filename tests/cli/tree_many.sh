#!/bin/bash
# Goal:   a tree is walked, not held: very many entries in one directory cost the memory of a few, at either end and in the command. A deep tree,
#         and names that look alike, arrive as they are.
# Method: peak memory of the command and of both daemons, as the kernel counted it; listings compared. A budget of 128 MiB.
#
#   FM_MANY   entries of the directory (20000; make soak: 1000000, in a release build: the sanitizer's memory is not judged)
. "$FM_SOURCE/tests/cli/lib.sh"
. "$FM_SOURCE/tests/cli/tree_lib.sh"

many=${FM_MANY:-20000}
TOTAL_MIB=128
SLACK_MIB=64		# libraries, code, what malloc keeps
# The sink of a tree remembers what the journal has of it: up to 80 bytes an entry, of FM_JOURNAL_FILES_MAX entries at most.
COMMAND_MIB=$((32 + many * 80 / 1048576))

export FM_CLUSTER_CONF='memory = { arena = "16MiB"; slab = "4MiB"; total = "128MiB"; };'
up 2

is_sanitized() {
	grep -qE '__(a|t)san_init' "$FMOVE_BIN/fmoved"
}

# Peak memory of a process, MiB; 0 once it has ended.
peak() {
	awk '$1 == "VmHWM:" { peak = $2 / 1024 } END { print int(peak) }' "/proc/$1/status" 2>/dev/null || echo 0
}

# watched COMMAND...: it must succeed, and take no more than COMMAND_MIB.
watched() {
	local most=0 now

	"$@" >out 2>err &
	while kill -0 $! 2>/dev/null; do
		now=$(peak $!)
		[ "${now:-0}" -le "$most" ] || most=$now
		pause 0.05
	done
	wait $! || bad "$* -> $?: $(cat err)"
	$sanitized || [ "$most" -le $COMMAND_MIB ] || bad "$*: took $most MiB"
	echo "$1 $2 $3: at most $most MiB"
}

pid1=$(cat "$dir/c/n1/pid")
sanitized=false
! is_sanitized || sanitized=true

# Names alone: what is in the files is not what is tried here.
mkdir wide
(cd wide && seq -f 'entry-%.0f' "$many" | xargs touch -d @1600000000.123456789)
watched fmove put -r wide n2:s/wide
[ "$(find "$(store 2)/wide" -type f | wc -l)" -eq "$many" ] || bad "not all of $many arrived"
watched fmove put -r --update wide n2:s/wide
watched fmove get -r n2:s/wide back
diff <(cd wide && find . -printf '%y %m %T@ %p\n' | sort) <(cd back && find . -printf '%y %m %T@ %p\n' | sort) >listing.diff ||
	bad "what came back differs: $(head -n 4 listing.diff)"
for i in 1 2; do
	most=$(peak "$(cat "$dir/c/n$i/pid")")
	echo "n$i: at most $most MiB"
	$sanitized || [ "$most" -le $((TOTAL_MIB + SLACK_MIB)) ] || bad "n$i took $most MiB, $TOTAL_MIB is its budget"
done

# 1,000 deep: half of the longest path.
bottom=deep/$(printf 'd/%.0s' $(seq 1000))
mkdir -p "$bottom"
echo bottom >"${bottom}f"
ok fmove put -r deep n2:s/deep
ok fmove get -r n2:s/deep deep2
same_tree deep deep2

# Two ways to write one letter, and cases: different bytes are different names.
mkdir alike
printf composed >"alike/$(printf 'caf\303\251')"
printf decomposed >"alike/$(printf 'cafe\314\201')"
for name in README Readme readme; do
	echo $name >alike/$name
done
ok fmove put -r alike n2:s/alike
ok fmove get -r n2:s/alike alike2
same_tree alike alike2
[ "$(find "$(store 2)/alike" -type f | wc -l)" -eq 5 ] || bad "names that look alike were taken for one"
