#!/bin/bash
# Goal:   the removal of the package takes volumes down first. It is refused, with the reason, while one cannot be that is mounted to be written
#         to; one that is only read, or a daemon that does not answer, keeps nobody from removing.
# Method: the functions of config/debian/fmove.prerm, and a program in the place of fmove that answers as fmove-nvmed would.
. "$(dirname "$0")/lib.sh"
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") && cd "$dir" || exit 1
trap down EXIT
script=$(<"$FM_SOURCE/config/debian/fmove.prerm")
script=${script%%$'\nif [ "$1" = remove ]'*}
[[ $script == *take_volumes_down* ]] || bad "the script has no such function"
echo "$script"$'\ntake_volumes_down' >takes
mkdir bin
cat >bin/fmove <<'END'
#!/bin/sh
echo "$*" >>asked
case $* in
"nvme down --all "*)	[ -z "$DOWN" ] || { echo "fmove: nvme down: $DOWN" >&2; exit 4; } ;;
"nvme status --json")	[ -n "$STATUS" ] || exit 4; echo "$STATUS" ;;
esac
END
chmod 755 bin/fmove

# removal STATUS PATTERN: what it ends with and says; PATTERN "": nothing.
removal() {
	: >asked
	PATH=$PWD/bin:$PATH sh takes >out 2>&1
	got=$?
	[ $got -eq "$1" ] || bad "it ends with $got: $(<out)"
	[[ $(<asked) == "nvme down --all --timeout "* ]] || bad "nobody takes volumes down: $(<asked)"
	[[ ${2:-$(<out)} == "" ]] || [[ $(<out) =~ $2 ]] || bad "no \"$2\" in: $(<out)"
}

# volume POINT IS_MOUNTED IS_READ_WRITE
volume() {
	echo "{\"name\":\"v\",\"mount_point\":\"$1\",\"is_mounted\":$2,\"is_read_write\":$3,\"fs_type\":\"ext4\"}"
}
export DOWN= STATUS=
removal 0 ''
DOWN='data: in use'
removal 0 'does not answer: volumes that are mounted stay mounted'
STATUS="{\"volumes\":[$(volume /srv/a true false),$(volume /srv/b false true)]}"
removal 0 'stay mounted, none of them to be written to: fmove: nvme down: data: in use'
STATUS="{\"volumes\":[$(volume /srv/a true false),$(volume /srv/data true true)]}"
removal 1 'to be written to: /srv/data'
[[ $(<out) == *'nvme down: data: in use'*'fuser -vm'* ]] || bad "it does not say what to do: $(<out)"
