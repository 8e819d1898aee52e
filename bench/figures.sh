# SPDX-License-Identifier: MIT
# figures.sh - arithmetic, and the table of what was measured; sourced by run.
# shellcheck shell=bash

rows=()			# of the table, columns separated by |
is_short=''		# a figure fell short

# calc EXPRESSION [FORMAT]
calc() {
	awk "BEGIN { printf \"${2:-%.3f}\", $1 }"
}

# median FILE COLUMN
median() {
	sort -g -k "$2,$2" "$1" | awk -v c="$2" '{ v[NR] = $c }
		END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# spread FILE COLUMN: smallest to largest.
spread() {
	sort -g -k "$2,$2" "$1" | awk -v c="$2" 'NR == 1 { a = $c } { b = $c } END { printf "%.2f to %.2f", a, b }'
}

# in_turn FILE OURS THEIRS: run the two functions alternately, `pairs` times, whichever came second first the next time. Each prints one
# line of numbers; FILE gets a line for each pair: theirs behind ours.
in_turn() {
	local file=$1 ours=$2 theirs=$3 i a b

	: > "$file"
	for ((i = 0; i < pairs; i++)); do
		if ((i % 2)); then
			b=$("$theirs") || return 1
			a=$("$ours") || return 1
		else
			a=$("$ours") || return 1
			b=$("$theirs") || return 1
		fi
		say "   $ours: $a   $theirs: $b"
		echo "$a $b" >> "$file"
	done
}

# ratios FILE COLUMN COLUMN: the first divided by the second, pair by pair, into FILE.ratios.
ratios() {
	awk -v a="$2" -v b="$3" '{ printf "%.4f\n", $a / $b }' "$1" > "$1.ratios"
}

# compare WHAT FILE COLUMN COLUMN UNIT NAME RELATION WANTED: a figure from what in_turn left. RELATION is ">=" or "<="; "+-" if the
# figure must be 1, as near as WANTED; or "-" if it is only for the record. The ratio is the median of the pairs' own ratios: the machine drifts, neighbours in time do not.
compare() {
	local what=$1 file=$2 ours=$3 theirs=$4 unit=$5 name=$6 relation=$7 wanted=$8

	ratios "$file" "$ours" "$theirs"
	add_row "$what" "$(calc "$(median "$file" "$ours")") $unit" "$name: $(calc "$(median "$file" "$theirs")") $unit" \
		"$(calc "$(median "$file.ratios" 1)") ($(spread "$file.ratios" 1))" "$(median "$file.ratios" 1)" "$relation" "$wanted"
}

# absolute WHAT VALUE UNIT RELATION WANTED
absolute() {
	add_row "$1" "$2 $3" "" "" "$2" "$4" "$5"
}

# is_as_wanted VALUE RELATION WANTED
is_as_wanted() {
	local left=$1 relation=$2

	[ "$2" != +- ] || { left="($1 < 1 ? 1 - $1 : $1 - 1)"; relation='<='; }
	awk "BEGIN { exit !($left $relation $3) }"
}

add_row() {
	local what=$1 ours=$2 theirs=$3 ratio=$4 value=$5 relation=$6 wanted=$7 verdict='for the record' limit=''

	if [ "$relation" != - ]; then
		limit="$relation $wanted"
		verdict=pass
		[ "$relation" != +- ] || limit="1 +- $wanted"
		is_as_wanted "$value" "$relation" "$wanted" || { verdict=SHORT; is_short=1; }
	fi
	rows+=("$what | $ours | $theirs | $ratio | $limit | $verdict")
	say "-- $what: $ours; $theirs; ratio $ratio, wanted $limit: $verdict"
}

# The table, with what one must know to read it, and nothing that says whose machine it was.
table() {
	local row

	printf '# Figures of %s\n\n' "$(date -u +%Y-%m-%d)"
	printf '%s, %s cores (%s), %s GiB of memory, Linux %s; fmove %s; medians of %s pairs; a ratio is the median of the pairs'"'"' own.\n\n' \
		"$(uname -m)" "$(nproc)" "$(cpu_name)" "$(awk '/^MemTotal/ { printf "%d", $2 / 1048576 }' /proc/meminfo)" \
		"$(uname -r | cut -d. -f1,2)" "$("$FMOVE_BIN/fmove" --version | cut -d' ' -f2)$(commit)" "$pairs"
	printf '| what | fmove | against | ratio (spread) | wanted | |\n|---|---|---|---|---|---|\n'
	for row in "${rows[@]}"; do
		printf '| %s |\n' "$row"
	done
}

cpu_name() {
	sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1
}

commit() {
	git -C "$top_dir" rev-parse --short HEAD 2>/dev/null | sed 's/^/, commit /' || true
}

result_file() {
	mkdir -p "$bench_dir/results"
	echo "$bench_dir/results/$(date -u +%Y-%m-%d)-$(uname -m)-$(nproc)-cores.md"
}

verdict() {
	[ -z "$is_short" ] && echo 0 || echo 3
}
