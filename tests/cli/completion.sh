#!/bin/bash
# Goal:   TAB completes nodes, stores, remote paths, options, jobs and local files in bash, zsh and
#         fish; a name with blanks, quotes or a colon comes out as one word that means this name.
# Method: the shells themselves, on a terminal of script(1): a command line is typed up to a TAB and
#         ended; what fmove, behind a wrapper that writes its arguments down, was given, is compared.
#         fish is asked by its own "complete -C". A shell that is not here is left out, and said.
. "$(dirname "$0")/lib.sh"
command -v script >/dev/null || skip "no script(1)"
export FM_CLUSTER_STORE=''
up 2
left_out=

s=$(store 2)
mkdir -p "$s/sub dir/deep" "$s/plain"
touch "$s/with blank" "$s/it's" "$s/a:b c" "$s/plain/one" "$s/plain/two" "$s/sub dir/deep/x y" "$s/dollar\$HOME"
touch "$s"/$'evil\nname' "$s"/$'bell\a'
touch "local file"

# What it says, before any shell.
words() {
	fmove completion words -- "$@"
}
# Who presses TAB waits for no more than some seconds, in which a busy machine may have nothing to say.
are_words() {
	[ "$(words "${@:2}" | sort | tr '\n' '|')" = "$1" ]
}
is_words() {
	await are_words "$@" || bad "words ${*:2}: $(words "${@:2}" | sort | tr '\n' '|') instead of $1"
}
is_words 'n1:|n2:|' ls ''
is_words 'n2:s/|' ls n2:
is_words 'n2:s/with blank|' stat 'n2:s/wi'
is_words 'n2:s/plain/one|n2:s/plain/two|' rm n2:s/plain/
is_words 'n2:s/sub dir/deep/|' ls 'n2:s/sub dir/'
is_words $'\tfiles|n2:s/it\'s|' get 'n2:s/it'
is_words '' ls 'n2:s/evil'
is_words '' ls 'n2:s/bell'
is_words 'n1:|n2:|' ls -l ''
is_words '' ls 'n9:s/'
is_words '' ls 'n2:none/'
is_words '' ls --socket "$dir/none" ''
is_words 'disk|memory|' put --durability ''
is_words 'n1|n2|' doctor --peer ''
words nvme u | grep -qx units || bad "no words behind nvme"
fmove completion words -- | grep -qx put || bad "no words at all"
no 2 'bash, zsh or fish' fmove completion tcsh

# A daemon that is silent keeps nobody who pressed TAB.
kill -STOP "$(cat "$dir/c/n1/pid")"
for line in 'wait' 'ls' 'pin'; do
	timeout 30 fmove completion words -- $line '' >/dev/null 2>&1
	[ $? -eq 0 ] || bad "words $line wait for a daemon that is stopped"
done
kill -CONT "$(cat "$dir/c/n1/pid")"
reachable 2

# fmove, as the shells find it: it writes down what it is given, unless it is asked for words. There are some for all that is typed here, and
# they come in the end.
mkdir bin
cat >bin/fmove <<-END
	#!/bin/bash
	if [ "\$1" = completion ]; then
		for _ in {1..20}; do
			said=\$("$FMOVE_BIN/fmove" "\$@")
			[ -z "\$said" ] || break
		done
		[ -z "\$said" ] || printf '%s\n' "\$said"
		exit
	fi
	printf '%s\n' "\$#" "\$@" >"$dir/w/given"
END
chmod +x bin/fmove
PATH=$dir/w/bin:$PATH

# types SHELL... -- TEXT: on a terminal of that shell; \t in TEXT is TAB.
types() {
	local shell=()

	while [ "$1" != -- ]; do shell+=("$1"); shift; done
	rm -f given
	# A shell reads keys when it is ready for them; until then the terminal keeps them.
	{ printf '%b\n' "$2"; await test -e given; printf 'exit\n'; } | TERM=xterm timeout "$HANG_S" script -qec "${shell[*]}" /dev/null >talk 2>&1
}

# gives TEXT ARGUMENT...: with TEXT typed, fmove is given these.
gives() {
	local text=$1

	shift
	types "${shell[@]}" -- "$text"
	[ "$(cat given 2>/dev/null)" = "$(printf '%s\n' "$#" "$@")" ] ||
		bad "${shell[0]}: $text gives $(tr '\n' '|' <given), not $# $*: $(tr -d '\r' <talk | tail -n 5)"
}

all_of_it() {
	gives 'fmove stat n2\ts/pl\ton\t' stat n2:s/plain/one
	gives 'fmove stat n2:s/wi\t' stat 'n2:s/with blank'
	gives 'fmove stat n2:s/with\\ b\t' stat 'n2:s/with blank'
	gives 'fmove stat n2:s/it\t' stat "n2:s/it's"
	gives 'fmove stat n2:s/a\t' stat 'n2:s/a:b c'
	gives 'fmove stat n2:s/dol\t' stat "n2:s/dollar\$HOME"
	gives 'fmove ls n2:s/sub\td\tx\t' ls 'n2:s/sub dir/deep/x y'
	gives 'fmove get n2:s/wi\t loc\t' get 'n2:s/with blank' 'local file'
	gives 'fmove put --dur\tmem\t loc\t n2\t' put --durability memory 'local file' n2:
}

fmove completion bash >rc.bash
bash -n rc.bash || bad "bash cannot read its completion"
printf 'source %s\nbind "set bell-style none"\n' "$dir/w/rc.bash" >bashrc
shell=(bash --noprofile --rcfile "$dir/w/bashrc" -i)
all_of_it
gives 'fmove stat "n2:s/wi\t' stat 'n2:s/with blank'
gives "fmove stat 'n2:s/a:\\t" stat 'n2:s/a:b c'

if command -v zsh >/dev/null; then
	fmove completion zsh >rc.zsh
	zsh -n rc.zsh || bad "zsh cannot read its completion"
	mkdir zdot && cat >zdot/.zshrc <<-END
		PS1='% ' PATH=$PATH
		autoload -U compinit && compinit -u -D
		source "$dir/w/rc.zsh"
	END
	shell=(env ZDOTDIR="$dir/w/zdot" zsh -i)
	all_of_it
	# As it is installed: a function that zsh loads by itself.
	mkdir site && cp rc.zsh site/_fmove
	printf 'PATH=%s fpath=(%s $fpath)\nautoload -U compinit && compinit -u -D\n' "$PATH" "$dir/w/site" >zdot/.zshrc
	gives 'fmove stat n2:s/wi\t' stat 'n2:s/with blank'
else
	left_out="$left_out zsh"
fi

if command -v fish >/dev/null; then
	fmove completion fish >rc.fish
	fish -n rc.fish || bad "fish cannot read its completion"
	# offers LINE WORD...: what fish shows for that line, as it would be typed.
	offers() {
		HOME=$dir/w fish -N -c "source rc.fish; complete -C $(printf "'%s'" "$1")" 2>err | cut -f 1 | sort >got
		shift
		printf '%s\n' "$@" | sort | cmp -s - got || bad "fish offers $(tr '\n' '|' <got), not $*: $(cat err)"
	}
	offers 'fmove stat n' n1: n2:
	offers 'fmove stat n2:' n2:s/
	offers 'fmove stat n2:s/wi' 'n2:s/with blank'
	offers 'fmove stat n2:s/with\ b' 'n2:s/with blank'
	offers 'fmove stat n2:s/plain/' n2:s/plain/one n2:s/plain/two
	offers 'fmove put --durability d' disk
	offers 'fmove put --dur' --durability
	offers 'fmove get n2:s/wi' 'n2:s/with blank'
	offers 'fmove put loc' 'local file'
else
	left_out="$left_out fish"
fi
[ -z "$left_out" ] || [ "$fails" -gt 0 ] || echo "left out, since they are not here:$left_out"
