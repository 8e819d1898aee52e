# SPDX-License-Identifier: MIT
# tls - what TLS costs a put over TCP, against what sealing and opening alone cost: two network namespaces and a wire, over which one
# pair of nodes is plain and another is not.
# shellcheck shell=bash

tls_space=fmb-tls

bench_tls() {
	need ip openssl
	[ "$(id -u)" = 0 ] || die "tls needs root, for network namespaces"
	tls_wire
	tls_nodes tls 7471 ''
	tls_nodes plain 7472 '"10.97.0.0/30"'
	tls_source=$memory/source
	head -c "${gib}G" /dev/urandom > "$tls_source"
	in_turn "$work/rate" tls_put_tls tls_put_plain
	compare "put, tmpfs to tmpfs, $gib GiB, with TLS" "$work/rate" 1 3 GB/s "plain TCP" - 0
	compare "its CPU: both daemons and the command" "$work/rate" 2 4 s "plain TCP" - 0
	in_turn "$work/cost" tls_cost tls_openssl
	compare "CPU that TLS adds to a put of $gib GiB" "$work/cost" 1 2 s "openssl speed, $(tls_cipher), sealing and opening" "<=" 1.3
	tls_end
}

# What fmove takes on this machine.
tls_cipher() {
	if grep -qw aes /proc/cpuinfo; then
		echo aes-128-gcm
	else
		echo chacha20-poly1305
	fi
}

tls_wire() {
	local i

	for i in 1 2; do
		ip netns add "$tls_space$i"
		ip -n "$tls_space$i" link set lo up
	done
	ip link add wire0 netns "${tls_space}1" type veth peer name wire0 netns "${tls_space}2"
	for i in 1 2; do
		ip -n "$tls_space$i" addr add "10.97.0.$i/30" dev wire0
		ip -n "$tls_space$i" link set wire0 mtu 9000 up
	done
}

# tls_nodes NAME PORT NETWORKS: nodes n1 and n2, each in a namespace, that name these networks private.
tls_nodes() {
	local name=$1 port=$2 networks=$3 i

	for i in 1 2; do
		node_key "$memory/$name/n$i"
	done
	for i in 1 2; do
		node_conf "$memory/$name/n$i" "n$i" "10.97.0.$i:$port" \
			"$(node_peer "n$((3 - i))" "10.97.0.$((3 - i)):$port" "$memory/$name/n$((3 - i))/pub")" \
			<<< "mover = { private_networks = [ $networks ]; };"
	done
	for i in 1 2; do
		node_wrap=(ip netns exec "$tls_space$i")
		node_start "$memory/$name/n$i"
	done
	unset node_wrap
	node_wait "$memory/$name/n1" tcp 1 all
}

# tls_put PAIR: as put_cost; the put is of the kind that the pair is named for.
tls_put() {
	local is

	put_cost "$memory/$1" "$work/result" --force --json "$tls_source" n2:s/target || return 1
	is=$(json encryption < "$work/result")
	[ "${is/ktls/tls}" = "$1" ] || die "a put that should be $1 is $is"
}

tls_put_tls() {
	tls_put tls
}

tls_put_plain() {
	tls_put plain
}

# CPU seconds of a put with TLS less those of a plain one.
tls_cost() {
	local tls plain

	tls=$(tls_put tls) || return 1
	plain=$(tls_put plain) || return 1
	calc "${tls#* } - ${plain#* }"
}

# CPU seconds to seal and open the same bytes in records of 16 KiB.
tls_openssl() {
	calc "$(tls_speed) + $(tls_speed -decrypt)"
}

tls_speed() {
	openssl speed "$@" -aead -evp "$(tls_cipher)" -bytes 16384 -seconds 2 2> /dev/null |
		awk -v bytes=$((gib << 30)) 'END { sub("k$", "", $NF); printf "%.3f", bytes / 1000 / $NF }'
}

tls_end() {
	local i pair

	for pair in tls plain; do
		for i in 1 2; do
			node_stop "$memory/$pair/n$i"
		done
	done
	for i in 1 2; do
		ip netns del "$tls_space$i"
	done
	rm -f "$tls_source"
}
