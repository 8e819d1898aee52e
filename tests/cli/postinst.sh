#!/bin/bash
# Goal:   an upgrade of the package restarts fmoved only while nothing is under way: neither a transfer nor staging, of this node or of another
#         one. It asks the socket of the configuration, and tells a daemon that does not answer from one that is busy.
# Method: the function of config/debian/fmove.postinst, which asks real daemons; a slow node makes it last.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };'
up 2

# The configuration of a node in place of that in /etc, and the daemon of nobody else's choice.
mkdir bin
cat >bin/fmove <<END
#!/bin/bash
unset FMOVE_SOCKET
[ "\$*" != "config check --json" ] || set -- config check --json "\$CONF"
exec "$FMOVE_BIN/fmove" "\$@"
END
chmod 755 bin/fmove
script=$(<"$FM_SOURCE/config/debian/fmove.postinst")
script=${script%%$'\nif [ "$1" = configure ]'*}
[[ $script == *what_fmoved_does* ]] || bad "the script has no such function"
echo "$script"$'\nwhat_fmoved_does' >asks

# does NODE WORD
does() {
	said=$(CONF=$dir/c/$1/fmove.conf PATH=$PWD/bin:$PATH sh asks)
	[ "$said" = "$2" ]
}
await does n1 idle || bad "nothing is under way, and it is $said"

# busy NODE: it is; or what keeps it so is over, which a machine that is busy itself may be too late to see.
busy() {
	does "$1" busy || ! kill -0 $work 2>/dev/null
}

# Staging is not always a transfer: here it waits for what another node, which stands still, has there. There is no job.
waits() {
	does n1 busy && fmove status --json >out && grep -q '"jobs":\[\]' out
}
mkdir "$(store 2)/set"
random 6000000 "$(store 2)/set/large"
slow 2
kill -STOP "$(cat "$dir/c/n2/pid")"
fmove stage n2:s/set >staged 2>&1 &
work=$!
await waits || bad "it waits to stage, and is $said: $(cat out)"
kill -CONT "$(cat "$dir/c/n2/pid")"
await busy n2 || bad "another node has it read, and it is $said"
kill $work 2>/dev/null
wait $work
await does n1 idle || bad "nobody stages any more, and it is $said"

# A transfer is under way at both ends.
random 12000000 f
use 2
fmove put f n1:s/f >put 2>&1 &
work=$!
await busy n1 || bad "something is put there, and it is $said"
kill $work 2>/dev/null
wait $work
await does n2 idle || bad "the put was ended, and it is $said"

crash n1
does n1 silent || bad "it does not run, and is $said"
start_again n1
