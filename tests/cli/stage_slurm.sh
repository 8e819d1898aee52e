#!/bin/bash
# Goal:   a job of Slurm stages its dataset on each of its nodes in a step of its own; its tasks begin when all have it and hold it; if a
#         node cannot have it the job ends with fmove's status, no task begins, and no node is drained. What all tasks put is published
#         at once, or nothing. burst_buffer.lua has the data on the planned nodes before the job runs, and never holds a job up.
# Method: the commands of client/pages/slurm.md, and the real Slurm with two nodes on this machine, each of which has a fmoved of its own (a
#         TaskProlog says which), and the files of staging/examples and client/examples. The dataset is a third one's.
. "$(dirname "$0")/lib.sh"
for program in slurmctld slurmd sbatch scontrol munged; do
	command -v $program >/dev/null || PATH=$PATH:/usr/sbin
	command -v $program >/dev/null || skip "no program $program: Debian has it in slurmctld, slurmd, slurm-client, munge"
done
export FM_CLUSTER_CONF=$'staging = { directory = "@NODE@/cache"; size = "1GiB"; grace = "0s"; peers = [ "*" ]; };'
. "$FM_SOURCE/tests/nodes.sh"
. "$FM_SOURCE/tests/pages.sh"
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
	SchedulerParameters=bf_interval=1
	${has_lua:+BurstBufferType=burst_buffer/lua}
	C
}

slurm_up() {
	mkdir -p "$slurm"/{state,spool.n1,spool.n3}
	mkdir -m 755 "$slurm/munge"
	(umask 077; head -c 1024 /dev/urandom >"$slurm/munge/key")
	export SLURM_CONF=$slurm/slurm.conf
	# The plugin is Debian's, and opens a Lua that need not be there.
	has_lua=$(/sbin/ldconfig -p | grep 'liblua.*5\.[1-4]')
	slurm_conf >"$SLURM_CONF"
	cp "$FM_SOURCE/staging/examples/burst_buffer.lua" "$slurm"
	: >"$slurm/burst_buffer.conf"
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

# here I NAME: node i has that dataset, ready.
here() {
	FMOVE_SOCKET=$dir/c/n$1/fmoved.sock fmove datasets | grep -q "^ready .* $2 "
}

# state NUMBER: of a job.
state() {
	squeue -h -j "$1" -o %T
}

is_state() {
	[ "$(state "$1")" = "$2" ]
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

# ---- as client/pages/slurm.md has it: where the script is installed it lies in the tree, and the job is waited for ----

sbatch() {
	command sbatch --wait --output said "$@"
}

typed() {
	local command=$2

	command=${command//second:models\/imagenet/n2:s/set}
	command=${command//\/usr\/share\/doc\/fmove\/examples\/staging/$FM_SOURCE\/staging\/examples}
	eval "$command" >>typed 2>err || bad "$2 -> $?: $(cat err said)"
}

echo 'import os; open("trained", "a").write(os.environ["FMOVE_STAGED"] + "\n")' >train.py
page_run slurm.md typed || bad "slurm.md has no commands"
unset -f sbatch
[ "$(wc -l <trained)" -eq 2 ] || bad "slurm.md: tasks: $(cat trained said)"
grep -q '^large$' typed && grep -q 'ready.*n2:s/set' typed || bad "slurm.md: $(cat typed)"

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

# ---- what the tasks put, in one group ----

cat >save <<'T'
#!/bin/sh
[ "$1" != "$SLURM_PROCID" ] || exit 9
echo "of $SLURM_PROCID" >"shard.$SLURM_PROCID"
fmove put "shard.$SLURM_PROCID" "$FMOVE_SAVE/"
fmove ls n2:s/saved >>seen 2>&1
T
cat >train.sh <<T
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1
FMOVE_SAVE_STATE="$PWD/state" exec "$FM_SOURCE/client/examples/slurm-save.sh" "\$@"
T
chmod 755 save
job=train.sh
run 0 n2:s/saved/step1 ./save nobody
[ "$(cat "$(store 2)"/saved/step1/*)" = $'of 0\nof 1' ] || bad "what was saved: $(ls -R "$(store 2)/saved") $(cat said)"
grep -q step1 seen && bad "it was there before all had put: $(cat seen)"
run 9 n2:s/saved/step2 ./save 1
[ ! -e "$(store 2)/saved/step2" ] || bad "a save of which a task failed is there"
fmove group list n2: 2>/dev/null | grep -q step2 && bad "its group is still open: $(fmove group list n2:)"
# A task that puts nothing is missed.
run 1 n2:s/saved/step3 true
[ ! -e "$(store 2)/saved/step3" ] || bad "a save without its shards is there: $(cat said)"
fmove group list n2: 2>/dev/null | grep -q step3 && bad "the group of step3 is still open: $(fmove group list n2:)"
[ -z "$(ls state)" ] || bad "names of groups that have ended are left: $(ls state)"
run 2 n2:s/saved/step4

# ---- burst_buffer.lua: ahead of the job ----

# Slurm gives root none: the jobs are nobody's, in a directory of his.
[ -n "$has_lua" ] || { echo "burst_buffer.lua was not tried: no liblua"; exit; }
need_nobody
mkdir -m 777 nobody "$(store 2)/ahead"
cp task nobody
cd nobody || exit
"$FM_SOURCE/tests/cluster" stop "$dir/c" n3
sed -i 's/size = "1MiB"/size = "1GiB"/' "$dir/c/n3/fmove.conf"
start_again n3
use 3
reachable 2
use 1
random 3000000 "$(store 2)/ahead/f"
printf '#!/bin/sh\nuntil [ -e go ]; do sleep 0.1; done\n' >busy
sed "s|^set -eu|#BB_LUA fmove n2:s/ahead\n&|" "$FM_SOURCE/staging/examples/slurm-job.sh" >ahead.sh

# Both nodes are taken for now; the scheduler plans them for this one.
busy=$(as_nobody sbatch --parsable --nodes 2 --time 5 --output busy.said busy)
await is_state "$busy" RUNNING || bad "the first job does not begin"
waiting=$(as_nobody sbatch --parsable --time 5 --output said ahead.sh n2:s/ahead ./task)
for i in 1 3; do
	await here $i ahead || bad "n$i has nothing while the job waits: $(tail -n 20 "$slurm/slurmctld.log")"
done
is_state "$waiting" PENDING || bad "the job does not wait: $(state "$waiting")"
is_logged 'ahead on n1,n3: staged' "$slurm/slurmctld.log" || bad "slurmctld's log says nothing of it"
touch go
is_over() { ! squeue -h -j "$waiting" | grep -q .; }
await is_over || bad "the job does not end: $(state "$waiting")"
grep -q 'n2:s/ahead: .*fetched as' said && bad "the job fetched it again: $(cat said)"
[ "$(grep -c 'its source not asked' said)" -eq 2 ] || bad "its tasks: $(cat said)"

# What cannot be staged ahead holds nothing up, and no shell reads it.
printf '#!/bin/sh\n#SBATCH --nodes=2 --nodelist=n1,n3\n#BB_LUA fmove %s\nexit 3\n' \
	"n2:s/no'; touch $PWD/ran; '\$(touch $PWD/ran)" >bad.sh
as_nobody sbatch --wait --output said bad.sh >out 2>err
[ $? -eq 3 ] || bad "the job did not run: $(cat err said)"
is_logged 'on n1,n3: not staged' "$slurm/slurmctld.log" || bad "it was not tried: $(tail "$slurm/slurmctld.log")"
[ ! -e ran ] || bad "a shell ran what a job's script named"

# A line that names no source is refused at once.
for line in fmove 'fmove --as=x' 'fmove ftp/x' "fmove n2:s/a$(printf '%1000000s' '')b"; do
	printf '#!/bin/sh\n#BB_LUA %s\ntouch ran\n' "$line" >bad.sh
	as_nobody sbatch bad.sh >out 2>err && bad "a job with #BB_LUA $line is taken"
	grep -q 'wants a source' err || bad "#BB_LUA $line: $(cat err)"
done
