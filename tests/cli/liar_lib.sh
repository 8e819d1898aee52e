# liar_lib.sh - a further node, h1, that lies of staging runs (hostile_peer); sourced by what has it, behind lib.sh.
#
# What is not as it has to be ends the script at once (`give_up`): the lies behind it would each wait as long.

give_up() {
	bad "$@"
	exit
}

# know_liar: all nodes know it.
know_liar() {
	local i key

	key=$(fmove keygen liar.key)
	for i in $(seq "$nodes"); do
		sed -i "s|^peers = (\$|&\\n\\t{ name = \"h1\"; address = \"127.0.0.1:1\"; key = \"$key\"; },|" "$dir/c/n$i/fmove.conf"
		take_over "$i"
	done
}

# liar I LIE PATH SECONDS [MORE...]: to nI, in the background, of runs of that path of a store, so long from when it has heard of one. nI has a session with it
# when this returns: it says so itself, since nI may end the session before anybody who asks nI has seen it. MORE: further options of the liar.
liar() {
	local line port

	port=$(sed -n 's/.*listen = ".*:\([0-9]*\)";/\1/p' "$dir/c/n$1/fmove.conf")
	exec {said[$1]}< <(exec timeout $HANG_S hostile_peer --key liar.key --name h1 --listen 127.0.0.1:0 --to "$port" \
		--to-key "$(fmove keygen --show "$dir/c/n$1/node.key")" --lie "$2" --of "$3" --seconds "$4" "${@:5}" 2>"liar.$1")
	asides="$asides $!"
	read -r -t $HANG_S -u "${said[$1]}" line && [ "$line" = "h1: is connected" ] || give_up "$2: n$1 has no session with the liar: $line $(tail -n 3 "liar.$1")"
}

# lied LIE: all liars have, and have ended by themselves.
lied() {
	local i line

	for i in "${!said[@]}"; do
		read -r -t $HANG_S -u "${said[i]}" line && [[ $line = "h1: "*" staging runs that it told of" ]] ||
			give_up "$1: the liar of n$i did not end, or not well: $line $(tail -n 3 "liar.$i")"
		exec {said[i]}<&-
	done
	said=() asides=
}
