#!/bin/bash
# Goal:   the real netplan and nmcli take the lines that doctor prints.
# Method: findings of facts written by hand; netplan generates from them below a directory, nmcli makes
#         a profile without a NetworkManager.
. "$(dirname "$0")/lib.sh"
facts=$FM_SOURCE/tests/fuzz/corpus/facts
for generate in "${NETPLAN_GENERATE:-}" /usr/libexec/netplan/generate /usr/lib/netplan/generate; do
	[ ! -x "$generate" ] || break
done
[ -x "$generate" ] || skip "no netplan here (NETPLAN_GENERATE names its generator)"
nmcli --offline connection add type ethernet ifname x >/dev/null 2>&1 ||
	skip "no nmcli that works offline here"
dir=$(mktemp -d "${TMPDIR:-/tmp}/fm-cli.XXXXXX") || exit 1
trap down EXIT
cd "$dir" || exit 1

# finding ID FILE: the lines that mend it.
finding() {
	fmove doctor --from "$2" | sed -n "/: $1, at/,/^\$/p" | awk '/^  mend / { on = 1 } on' |
		sed -n 's/^  mend    //p; s/^          //p'
}

# netplan ID FILE PATTERN: it generates a file of networkd with that.
netplan() {
	rm -rf root
	mkdir -p root/etc/netplan
	finding "$1" "$2" >root/etc/netplan/60-fmove.yaml
	chmod 600 root/etc/netplan/60-fmove.yaml
	"$generate" --root-dir "$dir/root" 2>err ||
		bad "netplan refuses what mends $1: $(cat err root/etc/netplan/60-fmove.yaml)"
	cat root/run/systemd/network/* >made 2>/dev/null
	grep -qx -- "$3" made || bad "netplan makes no $3 of $1: $(cat made)"
}
netplan half-port "$facts/many_findings.json" 'Address=10.0.64.1/30'
netplan half-port "$facts/many_findings.json" 'LinkLocalAddressing=ipv6'
netplan mtu-small "$facts/many_findings.json" 'MTUBytes=9000'

sed 's/"netplan":true/"netplan":false/; s/"network_manager":false/"network_manager":true/' \
	"$facts/many_findings.json" >nm
add=$(finding half-port nm | sed -n 's/^nmcli connection add/nmcli --offline connection add/p')
[ -n "$add" ] || bad "no nmcli in $(finding half-port nm)"
sh -c "$add" >profile 2>err || bad "nmcli refuses $add: $(cat err)"
grep -q '^address1=10.0.64.1/30' profile || bad "the profile has no address: $(cat profile)"
# Offline it takes the profile from standard input in place of its name.
mtu=$(finding mtu-small nm |
	sed -n 's/^nmcli connection modify "[^"]*" /nmcli --offline connection modify /p')
[ -n "$mtu" ] || bad "no nmcli in $(finding mtu-small nm)"
sh -c "$mtu" <profile >out 2>err || bad "nmcli refuses $mtu: $(cat err)"
grep -q '^mtu=9000' out || bad "the profile has no MTU: $(cat out)"
