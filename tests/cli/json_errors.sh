#!/bin/bash
# Goal:   with --json every command prints an object also when it fails, and that has the exit status and what was said.
# Method: each command that has --json, called with an option that there is none of, and with a daemon that is not there.
. "$(dirname "$0")/lib.sh"
up 1

# object STATUS COMMAND...: it fails so, and prints one object that says so.
object() {
	want=$1
	shift
	"$@" >out 2>err </dev/null
	got=$?
	[ $got -eq "$want" ] || bad "$* -> $got instead of $want: $(cat err)"
	tr -d '\n' <out | grep -Eq "^\{.*\"exit\":$got.*\}$" || bad "$* prints: $(cat out)"
	tr -d '\n' <out | grep -Eq '"error":\{.*"text":"[^"]' || bad "$* does not print the error: $(cat out)"
}

# What each wants as operands, for those that have --json and ask the daemon.
echo x >f
rows='put f n2:s/f
get n2:s/f g
ls n2:s
stat n2:s/f
rm n2:s/f
mkdir n2:s/d
verify n2:s/f
df
purge n2:s
stage n2:s/f
datasets
jobs
wait abcdefgh
cancel abcdefgh
resume abcdefgh
status'
while read -r verb operands; do
	object 2 fmove $verb --json --no-such-option $operands
	# shellcheck disable=SC2086
	object 4 fmove --socket "$PWD/none" $verb --json $operands
done <<<"$rows"

# No command that has --json and asks the daemon is missing above.
fmove --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' >verbs
while read -r verb; do
	fmove "$verb" --help | grep -q -- '--json' || continue
	case $verb in doctor | topology | bench) continue ;; esac # do without a daemon what they can
	grep -Eq "^$verb( |$)" <<<"$rows" || bad "$verb has --json and is not tried here"
done <verbs
