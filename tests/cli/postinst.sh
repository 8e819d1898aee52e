#!/bin/bash
# Goal:   an upgrade of the package restarts fmoved only while nothing is under way: neither a transfer nor staging, of this node or of another
#         one. It asks the socket of the configuration, and tells a daemon that does not answer from one that is busy.
# Method: the function of config/debian/fmove.postinst, which asks real daemons; a slow node makes it last.
. "$(dirname "$0")/lib.sh"
export FM_CLUSTER_CONF=$'memory = { arena = "64MiB"; };\nstaging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };'
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

# Staging is no transfer. The one that the other node reads for is busy, too.
mkdir "$(store 2)/set"
random 12000000 "$(store 2)/set/large"
slow 2
fmove stage n2:s/set >staged 2>&1 &
stager=$!
await does n1 busy || bad "it stages, and is $said"
fmove status --json >out
grep -q '"jobs":\[\]' out || bad "there is a job: $(cat out)"
does n2 busy || ! kill -0 $stager 2>/dev/null || bad "another node has it read, and it is $said"
kill $stager 2>/dev/null
wait $stager
await does n1 idle || bad "nobody wants it any more, and it is $said"

# A transfer is under way at both ends.
random 12000000 f
use 2
fmove put f n1:s/f >put 2>&1 &
putter=$!
await does n1 busy || bad "something is put there, and it is $said"
kill $putter 2>/dev/null
wait $putter
await does n2 idle || bad "the put was ended, and it is $said"

crash n1
does n1 silent || bad "it does not run, and is $said"
start_again n1
