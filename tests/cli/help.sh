#!/bin/bash
# Goal:   --help, fmove(1), fmove-nvme(1) and the completion say the same, within 80 columns.
# Method: read the options of each --help and of the verb's section in the man page, both ways.
. "$(dirname "$0")/lib.sh"
man=$FM_SOURCE/client/man/fmove.1
dir=$(mktemp -d) && cd "$dir" || exit 1
trap 'down' EXIT

verbs=$(fmove --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]\+\) .*/\1/p')
[ "$(echo "$verbs" | wc -w)" -ge 13 ] || bad "fmove --help lists only: $verbs"
# Those of a group, with its name before them.
nvme=$(fmove nvme --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]\+\) .*/nvme \1/p')
[ "$(echo "$nvme" | wc -l)" -ge 8 ] || bad "fmove nvme --help lists only: $nvme"

group=$(fmove group --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]\+\) .*/group \1/p')
[ "$(echo "$group" | wc -l)" -ge 3 ] || bad "fmove group --help lists only: $group"

# The options of a verb, of which --help was asked before; its section of the man page.
options_help() {
	help_options <"$1.help"
}
page_of() {
	case $1 in
	"nvme "*) echo "$FM_SOURCE/client/man/fmove-nvme.1" ;;
	*) echo "$man" ;;
	esac
}
verb_section() {
	awk -v verb="$1" '/^\.S[SH]/ { on = ($0 ~ "^\\.SS \"?fmove " verb "(\"|$)") } on' "$(page_of "$1")"
}

# Words of a verb are arguments of their own.
# shellcheck disable=SC2086
while read -r verb; do
	fmove $verb --help >"$verb.help" 2>err || bad "$verb --help: $(cat err)"
	[ -s err ] && bad "$verb --help talks on standard error"
	awk -v v="$verb" 'length($0) > 80 { print v ": " $0; bad = 1 } END { exit bad }' "$verb.help" || bad "$verb --help is wider than 80"
	grep -q "^Usage: fmove $verb" "$verb.help" || bad "$verb --help has no usage"
	fmove help $verb | cmp -s - "$verb.help" || bad "fmove help $verb differs from $verb --help"
	verb_section "$verb" >section
	[ -s section ] || { bad "the manual says nothing of $verb"; continue; }
	options_help "$verb" >options
	sed 's/\\-/-/g' section | grep -oE -- '--[a-z-]+' | cut -c 3- | sort -u >named
	for option in $(grep -vxE 'help|socket' options | comm -23 - named); do
		bad "manual, $verb: --$option is missing"
	done
	for option in $(man_options <section | sort -u | comm -23 - options); do
		bad "manual, $verb: --$option is not in --help"
	done
done <<<"$verbs"$'\n'"$nvme"$'\n'"$group"
# Topics: what they name is there.
topics=$(fmove --help | sed -n '/^Topics/,/^$/s/^  \([a-z ]*\)$/\1/p')
[ "$(echo "$topics" | wc -w)" -ge 7 ] || bad "fmove --help lists only these topics: $topics"
for topic in $topics; do
	fmove help "$topic" >out 2>err || bad "help $topic: $(cat err)"
	awk 'length($0) > 80 { exit 1 }' out || bad "help $topic is wider than 80"
	[ "$(wc -l <out)" -le 22 ] || bad "help $topic is longer than a screen"
	sed -n '/^\.SS "fmove help"/,/^\.SH/p' "$man" | grep -q "\b$topic\b" || bad "manual: nothing of the topic $topic"
	for verb in $(tr '\n' ' ' <out | grep -oE 'fmove [a-z]+' | cut -d ' ' -f 2 | sort -u); do
		grep -qx -- "$verb" <<<"$verbs"$'\nnvme\ngroup' || bad "help $topic: there is no fmove $verb"
	done
	for option in $(tr '\n' ' ' <out | grep -oE -- ' --[a-z-]+' | sort -u); do
		grep -rqh -- "{ *\"${option#--}\"" "$FM_SOURCE/client/cli" || bad "help $topic: there is no option $option"
	done
done
fmove help nonsense >out 2>err
[ $? -eq 2 ] && grep -q 'unknown command or topic' err || bad "help of nonsense: $(cat err)"

for option in help version socket; do
	sed 's/\\-/-/g' "$man" | grep -q -- "--$option" || bad "fmove(1): --$option is missing"
done
# The synopsis has every command, and what stage takes is what its section says.
sed -n '/^\.SH SYNOPSIS/,/^\.SH DESC/p' "$man" >synopsis
for verb in $(fmove --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
	grep -qw -- "$verb" synopsis || bad "fmove(1): the synopsis has no $verb"
done
sed -n '/^\.SS "fmove stage"/,/^\.nf/p' "$man" >section
for operand in 'NODE' '/PATH' 'hf:' 'REVISION' 'COMMAND'; do
	grep -qF -- "$operand" synopsis && grep -qF -- "$operand" section || bad "fmove(1): stage takes $operand, which the synopsis or the section lacks"
done
for status in 0 1 2 3 4 5 6 126 127 130; do
	sed -n '/^\.SH "*EXIT STATUS/,/^\.SH/p' "$man" | grep -qE "^(\.B )?$status\b" || bad "fmove(1): exit status $status is missing"
done
awk 'length($0) > 80 { exit 1 }' < <(fmove --help) || bad "fmove --help is wider than 80"
fmove --version | grep -Eq '^fmove [0-9]+\.[0-9]+' || bad "fmove --version"
if command -v man >/dev/null; then
	MANWIDTH=80 man --warnings -l "$man" 2>&1 >/dev/null | grep . && bad "fmove(1) has mistakes"
	for page in fmove-nvme.1 fmove-facts.5 fmove-topology.5 fmove-bench.5 fmove-api.7; do
		MANWIDTH=80 man --warnings -l "$FM_SOURCE/client/man/$page" 2>&1 >/dev/null | grep . && bad "$page has mistakes"
	done
fi

# Of a line in alternating fonts no blank is left: text that stands there by mistake is one long word.
for page in "$FM_SOURCE"/*/man/*.[1-8]; do
	sed -nE '/^\.(BR|RB|BI|IB|IR|RI) /{s/"""[^"]*""",?//g; s/"[^"]*"//g; s/\.fmove\. HASH//; /[^ ][.,;] +[^ ]|( |^)[.,;] +[A-Za-z]/p}' "$page" |
		grep . && bad "$page: text in a line of two fonts"
done

# The completion knows every verb and option. What shells make of it: completion.sh.
words() {
	fmove completion words -- "$@"
}
words put --d | grep -qx -- --durability || bad "completion of put --d"
words put --durability d | grep -qx disk || bad "completion of --durability"
words --socket x ge | grep -qx get || bad "completion behind --socket"
words bench n | grep -qx nvme-tcp || bad "completion of bench n"
words '' | grep -qx nvme || bad "completion of nv"
words '' | grep -q list && bad "completion knows verbs of a group"
words nvme st | grep -qx status || bad "completion of nvme st"
words nvme down --f | grep -qx -- --force || bad "completion of nvme down --f"
# Words of a verb are arguments of their own.
# shellcheck disable=SC2086
while read -r verb; do
	words $verb - | sed -n 's/^--//p' | sort -u >offered
	options_help "$verb" >options
	[ "$(cat offered)" = "$( (cat options; echo help) | sort -u)" ] || bad "the completion of $verb offers $(tr '\n' ' ' <offered)"
done <<<"$verbs"$'\n'"$nvme"

# A group without a verb, with a wrong one, or with an option before it.
for words in nvme "nvme stauts" "nvme --json list"; do
	# shellcheck disable=SC2086
	no 2 '^fmove: nvme: .*--help' fmove $words
done
fmove nvme stauts 2>&1 | grep -q 'did you mean "status"' || bad "no suggestion within a group"
