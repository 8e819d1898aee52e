#!/bin/bash
# Goal:   a job of Slurm stages its dataset on each of its nodes in a step of its own; its tasks begin when all have it and hold it; if a
#         node cannot have it the job ends with fmove's status, no task begins, and no node is drained.
# Method: the real Slurm with two nodes on this machine, each of which has a fmoved of its own (a TaskProlog says which), and the job of
#         staging/examples. The dataset is a third one's.
. "$(dirname "$0")/lib.sh"
for program in slurmctld slurmd sbatch scontrol munged; do
	command -v $program >/dev/null || PATH=$PATH:/usr/sbin
	command -v $program >/dev/null || skip "no program $program: Debian has it in slurmctld, slurmd, slurm-client, munge"
done
export FM_CLUSTER_CONF=$'memory = { arena = "64MiB"; };\nstaging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };'
. "$FM_SOURCE/tests/nodes.sh"
own_ports
up 3
job=$FM_SOURCE/staging/examples/slurm-job.sh

# ---- Slurm: nodes n1 and n3, all of it in $dir/slurm ----

slurm=$dir/slurm
daemons=

daemon() {
	"$@" >>"$slurm/log" 2>&1 &
	daemons="$daemons $!"
}

slurm_down() {
	# shellcheck disable=SC2086
	kill $daemons 2>/dev/null
	# shellcheck disable=SC2086
	wait $daemons 2>/dev/null
	[ "$fails" -eq 0 ] || tail -n 20 "$slurm"/*log >&2
	down
}

slurm_conf() {
	local host port user

	host=$(uname -n) port=$(node_ports 3) user=$(id -un)
	cat <<-C
	ClusterName=fmove
	SlurmctldHost=${host%%.*}(127.0.0.1)
	SlurmctldPort=$port
	AuthInfo=socket=$slurm/munge/socket
	SlurmUser=$user
	SlurmdUser=$user
	StateSaveLocation=$slurm/state
	SlurmdSpoolDir=$slurm/spool.%n
	SlurmctldPidFile=$slurm/slurmctld.pid
	SlurmdPidFile=$slurm/slurmd.%n.pid
	SlurmctldLogFile=$slurm/slurmctld.log
	SlurmdLogFile=$slurm/slurmd.%n.log
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	TaskProlog=$slurm/task-prolog
	JobAcctGatherType=jobacct_gather/none
	SwitchType=switch/none
	MpiDefault=none
	ReturnToService=2
	NodeName=n1 NodeHostname=${host%%.*} NodeAddr=127.0.0.1 Port=$((port + 1))
	NodeName=n3 NodeHostname=${host%%.*} NodeAddr=127.0.0.1 Port=$((port + 2))
	PartitionName=all Nodes=n1,n3 Default=YES MaxTime=INFINITE State=UP
	C
}

slurm_up() {
	mkdir -p "$slurm"/{state,spool.n1,spool.n3}
	mkdir -m 755 "$slurm/munge"
	(umask 077; head -c 1024 /dev/urandom >"$slurm/munge/key")
	export SLURM_CONF=$slurm/slurm.conf
	slurm_conf >"$SLURM_CONF"
	# shellcheck disable=SC2016
	printf '#!/bin/sh\necho "export FMOVE_SOCKET=%s/c/$SLURMD_NODENAME/fmoved.sock"\n' "$dir" >"$slurm/task-prolog"
	chmod 755 "$slurm/task-prolog"
	trap slurm_down EXIT
	# As root it is told that somebody means that.
	daemon munged --force --foreground --key-file "$slurm/munge/key" --socket "$slurm/munge/socket" \
		--pid-file "$slurm/munge/pid" --log-file "$slurm/munge/log" --seed-file "$slurm/munge/seed"
	await test -S "$slurm/munge/socket" || bad "munged does not start: $(cat "$slurm/log")"
	daemon slurmctld -D
	daemon slurmd -D -N n1
	daemon slurmd -D -N n3
	await is_up || bad "Slurm does not start: $(sinfo -N -o '%N %T %E' 2>&1)"
}

is_up() {
	[ "$(sinfo -h -N -o '%N %T')" = $'n1 idle\nn3 idle' ]
}

# run STATUS ARGUMENT...: a job, and how it must end; what it said is in said, its number in number.
run() {
	local want=$1 got

	shift
	rm -f said
	sbatch --parsable --wait --output said "$job" "$@" >number 2>err
	got=$?
	[ $got -eq "$want" ] || bad "slurm-job.sh $* ended with $got instead of $want: $(cat err said)"
}

# property NAME: of the last job.
property() {
	scontrol show job "$(cat number)" | grep -o " $1=[^ ]*" | cut -d = -f 2
}

not_drained() {
	await is_up || bad "a node is not what it was: $(sinfo -N -o '%N %T %E')"
}

slurm_up
[ "$fails" -eq 0 ] || exit

# ---- its tasks have the data ----

mkdir -p "$(store 2)/set/d"
random 30000000 "$(store 2)/set/large"
random 3000 "$(store 2)/set/d/small"
cat >task <<'T'
#!/bin/sh
fmove datasets --json >"holds.$SLURMD_NODENAME"
echo "$SLURMD_NODENAME $FMOVE_STAGED $*" >>tasks
T
chmod 755 task
run 0 n2:s/set ./task --lr 'a b'
sort -o tasks tasks
[ "$(cut -d ' ' -f 1,3- tasks)" = $'n1 --lr a b\nn3 --lr a b' ] || bad "tasks: $(cat tasks said)"
for i in 1 3; do
	data=$(sed -n "s/^n$i \([^ ]*\) .*/\1/p" tasks)
	case $data in "$dir/c/n$i/cache/"*) ;; *) bad "n$i has another one's: $data" ;; esac
	diff -r "$(store 2)/set" "$data" >&2 || bad "n$i: it differs"
	grep -q '"holds":[1-9]' "holds.n$i" || bad "n$i: it was not held: $(cat "holds.n$i")"
done
[ "$(grep -c 'n2:s/set: .*fetched as' said)" -eq 2 ] || bad "the step did not stage on both: $(cat said)"
[ "$(grep -c 'its source not asked' said)" -eq 2 ] || bad "the tasks asked the source again: $(cat said)"
bytes=$(FMOVE_SOCKET=$dir/c/n2/fmoved.sock fmove datasets --json | grep -o '"source_bytes":[0-9]*' | cut -d : -f 2)
[ "$bytes" -le $((30003000 * 102 / 100)) ] || bad "$bytes bytes were read at the source for two nodes"

# The tasks' status is the job's. When they have ended nobody holds it.
run 7 n2:s/set sh -c 'exit 7'
no_holds() { fmove datasets --json | grep -q '"holds":0'; }
await no_holds || bad "it is held by nobody's job: $(fmove datasets)"

# ---- what fails ----

# fails STATUS PATTERN SOURCE: the job ends so, says why, and its tasks do not begin; the nodes are what they were.
fails() {
	rm -f tasks
	run "$1" "$3" ./task
	grep -Eq -- "$2" said || bad "$3: it does not say $2: $(cat said)"
	[ ! -e tasks ] || bad "$3: tasks began: $(cat tasks)"
	[ "$(property JobState)" = FAILED ] || bad "$3: the job is $(property JobState)"
	[ "$(property ExitCode)" = "$1:0" ] || bad "$3: the job's exit code is $(property ExitCode)"
	not_drained
}

fails 1 nowhere n2:s/nowhere
# One node of two, which has no room.
random 1000000 "$(store 2)/set/d/other"
sed -i 's/size = "1GiB"/size = "1MiB"/' "$dir/c/n3/fmove.conf"
"$FM_SOURCE/tests/cluster" stop "$dir/c" n3
start_again n3
use 3
reachable 2
use 1
fails 1 '1: fmove: stage: .*room' n2:s/set
"$FM_SOURCE/tests/cluster" stop "$dir/c" n2
fails 4 'n2' n2:s/set
start_again n2
reachable 2

# Without a command nothing is staged.
run 2 n2:s/set
grep -q '^usage: ' said || bad "without a command: $(cat said)"
