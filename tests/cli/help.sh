#!/bin/bash
# Goal:   --help, fmove(1) and the completion say the same, within 80 columns.
# Method: read the options of each --help and of the verb's section in the man page, both ways.
. "$(dirname "$0")/lib.sh"
man=$FM_SOURCE/client/man/fmove.1
dir=$(mktemp -d) && cd "$dir" || exit 1
trap 'down' EXIT

verbs=$(fmove --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ "$(echo "$verbs" | wc -w)" -ge 13 ] || bad "fmove --help lists only: $verbs"

# The options of a verb, one per line; its section of the man page.
options_help() {
	fmove "$1" --help | sed -n 's/^  --\([a-z-]*\).*/\1/p' | sort -u
}
verb_section() {
	awk -v verb="$1" '/^\.S[SH]/ { on = ($0 ~ "^\\.SS \"?fmove " verb "( |\"|$)") } on' "$man"
}

for verb in $verbs; do
	fmove "$verb" --help >out 2>err || bad "$verb --help: $(cat err)"
	[ -s err ] && bad "$verb --help talks on standard error"
	awk -v v="$verb" 'length($0) > 80 { print v ": " $0; bad = 1 } END { exit bad }' out || bad "$verb --help is wider than 80"
	grep -q "^Usage: fmove $verb" out || bad "$verb --help has no usage"
	fmove help "$verb" | cmp -s - out || bad "fmove help $verb differs from $verb --help"
	verb_section "$verb" >section
	[ -s section ] || { bad "fmove(1) says nothing of $verb"; continue; }
	for option in $(options_help "$verb"); do
		case $option in help | socket) continue ;; esac
		sed 's/\\-/-/g' section | grep -Eq -- "--$option\b" || bad "fmove(1), $verb: --$option is missing"
	done
	for option in $(sed 's/\\-/-/g' section | grep -oE -- '^\.(BR|B|BI|IR) "?--[a-z-]+' | grep -oE '[a-z][a-z-]+$'); do
		options_help "$verb" | grep -qx -- "$option" || bad "fmove(1), $verb: --$option is not in --help"
	done
done
for option in help version socket; do
	sed 's/\\-/-/g' "$man" | grep -q -- "--$option" || bad "fmove(1): --$option is missing"
done
for status in 0 1 2 3 4 5 6 130; do
	sed -n '/^\.SH "*EXIT STATUS/,/^\.SH/p' "$man" | grep -qE "^(\.B )?$status\b" || bad "fmove(1): exit status $status is missing"
done
awk 'length($0) > 80 { exit 1 }' < <(fmove --help) || bad "fmove --help is wider than 80"
fmove --version | grep -Eq '^fmove [0-9]+\.[0-9]+' || bad "fmove --version"
if command -v man >/dev/null; then
	MANWIDTH=80 man --warnings -l "$man" 2>&1 >/dev/null | grep . && bad "fmove(1) has mistakes"
	MANWIDTH=80 man --warnings -l "$FM_SOURCE/client/man/fmove-api.7" 2>&1 >/dev/null | grep . && bad "fmove-api(7) has mistakes"
fi

# The completion knows every verb and option, and a shell can read it.
fmove completion bash >fmove.bash || bad "completion"
bash -n fmove.bash || bad "bash cannot read its completion"
complete_of() {
	bash -c '. ./fmove.bash; compopt() { :; }; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _fmove; printf "%s\n" "${COMPREPLY[@]}"' x "$@"
}
complete_of fmove p | grep -qx put || bad "completion of p"
complete_of fmove put --d | grep -qx -- --durability || bad "completion of put --d"
complete_of fmove put --durability d | grep -qx disk || bad "completion of --durability"
complete_of fmove --socket x ge | grep -qx get || bad "completion behind --socket"
for verb in $verbs; do
	grep -q "$verb) options=" fmove.bash || bad "the completion does not know $verb"
done
