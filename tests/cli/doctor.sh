#!/bin/bash
# Goal:   fmove doctor reads this node whole, joins saved facts, refuses what is no facts, and is
#         harmless to terminals and to the machine.
# Method: a real daemon of a cluster; facts of machines that were written by hand
#         (tests/fuzz/corpus/facts), damaged in one place each.
. "$(dirname "$0")/lib.sh"
up 2
facts=$FM_SOURCE/tests/fuzz/corpus/facts
conf=$dir/c/n1/fmove.conf

# status STATUS CMD...: it ends so, with one line on standard error at most if that is not 0 or 1.
status() {
	local wanted=$1 got

	shift
	"$@" >out 2>err
	got=$?
	[ $got -eq "$wanted" ] || bad "$*: status $got, not $wanted: $(tail -n 3 out err)"
}
has() {
	grep -q -- "$1" "$2" || bad "$2 lacks $1: $(head -c 600 "$2")"
}
hasnt() {
	! grep -q -- "$1" "$2" || bad "$2 has $1: $(grep -o -- ".\{60\}$1.\{60\}" "$2" | head -n 3)"
}

# This node, with what its daemon says.
fmove doctor --save - --config "$conf" >saved || bad "doctor: status $?"
has '"fmove_facts":1' saved
has '"name":"n1"' saved
has "\"directory\":\"$(store 1)\"" saved
has '"role":"key"' saved
has '"peer":"n2"' saved
[ "$(wc -l <saved)" -eq 1 ] || bad "--save - prints more than the facts"
fmove doctor --config "$conf" --save file >direct
[ "$(stat -c %a file)" = 600 ] || bad "saved with mode $(stat -c %a file)"
has 'facts are unknown' direct

# Saved facts say the same.
fmove doctor --from file >again
cmp -s direct again || bad "saved facts say something else: $(diff direct again | head -n 5)"
fmove doctor --json --from file >json
has '"version":1,"nodes":\["n1"\]' json

# Nothing of it says who we are.
fmove doctor --config "$conf" --save anonymous --anonymous >out || [ $? -eq 1 ] || bad "anonymous facts cannot be saved"
for own in '"n1"' "$(store 1)" "$dir" '127\.0\.0\.1' "\"$(cat /proc/sys/kernel/hostname)\""; do
	hasnt "$own" anonymous
done
fmove doctor --from anonymous >out || [ $? -eq 1 ] || bad "anonymous facts cannot be read"

# Without a daemon, without a configuration: unknown, with the reason.
FMOVE_SOCKET=$dir/nobody fmove doctor --save - --config "$dir/nothing" >saved ||
	bad "no daemon: status $?"
has '"rails":{"unknown":"no fmoved listens' saved
has "\"stores\":{\"unknown\":\"$dir/nothing is not there: is the name right" saved

# Nothing is opened for writing but the file that it was told to write.
if command -v strace >/dev/null; then
	calls=openat,open,creat,mkdir,mkdirat,unlink,rename,renameat2,sendto
	# Which looks for leaks it counts in a file, which is the test's own.
	strace -f -o trace -e trace=$calls env -u FM_LEAKS fmove doctor --config "$conf" >out 2>&1
	grep -E 'O_(WRONLY|RDWR|CREAT)|mkdir|unlink|rename' trace |
		grep -v -e ENOENT -e /dev/infiniband >writes && bad "it writes: $(head -n 3 writes)"
	grep -oE 'RTM_[A-Z]+|nlmsg_type=0x[0-9a-f]+' trace |
		grep -vE 'RTM_GET(ADDR|ROUTE|RULE|LINK)$|=0x(12|16|1a|22)$' >asks &&
		bad "it asks the kernel for more than dumps: $(head -n 3 asks)"
fi

# Findings, and the exit status that goes with them.
status 0 fmove doctor --from "$facts/spark.json"
has '^no finding' out
has 'ceiling of rocep1s0f0 at n1: 196.1 Gb/s (24.51 GB/s), the least is the port' out
status 1 fmove doctor --from "$facts/many_findings.json"
for id in half-port mtu-small memlock memory-control-group io-uring-off governor fstab-device-name \
	nvme-two-owners store-full secret-open retransmits link-flaps; do
	has ": $id, at n1" out
done
sed 's/10\.0\.0\.1"/10.0.0.2"/g; s/10\.0\.128\.1"/10.0.128.2"/g; s/"n1"/"n2"/' \
	"$facts/spark.json" >other
status 0 fmove doctor --from "$facts/spark.json" --from other
sed 's/"mtu":9000/"mtu":1500/' other >small
status 1 fmove doctor --from "$facts/spark.json" --from small
has 'error: mtu-differs, at n2' out

# What is no facts. Nothing is said of those that are.
printf '{"fmove_facts":1' >torn
head -c 9000000 /dev/zero | tr '\0' ' ' >long
mkdir folder
no 1 'newer.json: facts of version 2, this fmove knows 1' fmove doctor --from "$facts/newer.json"
no 1 'command.json: interfaces.name: not a value' \
	fmove doctor --from "$facts/spark.json" --from "$facts/command.json"
no 1 'torn: not a JSON object' fmove doctor --from torn
no 1 'long: longer than' fmove doctor --from long
no 2 'folder: read: Is a directory' fmove doctor --from folder
no 1 'nowhere: open: No such file' fmove doctor --from nowhere
no 1 'nowhere' fmove doctor --save nowhere/file --config "$conf"
no 2 'no --save, --config, --peer or --all' fmove doctor --from file --save other
no 2 '--anonymous is about what --save writes' fmove doctor --anonymous
no 2 'operand|argument|too many' fmove doctor n2
many=()
for _ in $(seq 33); do many+=(--from file); done
no 2 'at most 32 files' fmove doctor "${many[@]}"

# Who writes facts moves no cursor and makes no command.
sed -e 's/"role":"key","path":"[^"]*"/"role":"key\\u001b[2J","path":"\/x\\u001b[2J\\n; reboot"/' \
	-e 's/"name":"n1"/"name":"\\u001b]0;x\\u0007\\nforged \\u202e"/' \
	"$facts/many_findings.json" >evil
for option in '' --json; do
	fmove doctor $option --from evil >out 2>err
	has 'secret-open' out
	LC_ALL=C grep -q $'[\033\007]' out && bad "doctor $option lets a terminal obey"
	grep -Eq $'^(forged|; reboot)|\u202e' out && bad "doctor $option: what a node says of itself begins a line: $(cat out)"
done
hasnt 'chmod 600 -- ./x' out

# Of a machine that shows nothing: no finding, no failure.
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	none="--config $dir/nothing --socket $dir/nobody"
	unshare -m sh -c "mount -t tmpfs none /sys && fmove doctor $none" >out 2>err ||
		bad "an empty /sys: $(cat err)"
	has '^no finding' out
	has 'no RDMA port with a link' out
fi
