# SPDX-License-Identifier: MIT
# nvme - volumes over NVMe-TCP in the lab: boot, recovery, what supervising costs, and how fast a volume is read.
# shellcheck shell=bash

NVME_RECOVERY_S=7200		# when to give up; a hundred rounds take a quarter of it
NVME_READINGS=10		# of the inventory outside, with the same pause as in the guest
NVME_PAUSE_MS=1000

bench_nvme() {
	nvme_idle
	nvme_recovery
	nvme_boot
	nvme_get
}

# What the guest measured, times how much faster this machine reads the same inventory than the guest does.
nvme_idle() {
	local i

	lab bench_nvme_idle --keep
	mkdir "$memory/inventory"
	tar -C "$memory/inventory" -xf "$work/lab/bench_nvme_idle/out/inventory.tar"
	for ((i = 0; i < pairs; i++)); do
		"$FMOVE_BIN/inventory_load" "$memory/inventory" $NVME_READINGS $NVME_PAUSE_MS >> "$work/outside"
	done
	awk -v outside="$(median "$work/outside" 1)" '{ printf "%.4f\n", $1 / $2 * outside }' "$work/idle" > "$work/idle.here"
	say "   a reading of the inventory: $(calc "$(median "$work/idle" 2) / 1000") ms there, $(calc "$(median "$work/outside" 1) / 1000") ms here"
	absolute "fmove-nvmed, 64 volumes mounted and idle, share of a core; in the emulated guest $(median "$work/idle" 1) %" \
		"$(median "$work/idle.here" 1)" % "<" 0.1
	absolute "its resident memory (PSS $(calc "$(median "$work/memory" 2) / 1024" %.1f) MiB)" \
		"$(calc "$(median "$work/memory" 1) / 1024" %.2f)" MiB "<" 8
}

# The test tells the delay that it configures; it is back with the path that is live, after which I/O goes through.
nvme_recovery() {
	local output line delay_s

	output=$(FMOVE_LAB_ROUNDS=$nvme_rounds lab_run nvme_restart --timeout $NVME_RECOVERY_S)
	line=$(grep -o '[0-9]* rounds, back after.*' <<< "$output")
	say "   $line"
	delay_s=$(sed 's/.*(reconnect_delay \([0-9]*\) s.*/\1/' <<< "$line")
	absolute "volume in use, target restarted: from its open port to the live path, p99 of ${line%% *}, reconnect_delay $delay_s s" \
		"$(sed 's/.*p99 \([0-9]*\) ms.*/\1/' <<< "$line")" ms "<=" $(((delay_s + 1) * 1000))
}

NVME_DEAD_MORE_S=50		# force would come after 60 (fmove-volumes.service)

# Odd boots end with the target up, even ones with it dead.
nvme_boot() {
	local output

	output=$(lab_run nvme_boot)
	sed -n 's/^[0-9]: [a-z]* is mounted \([0-9.]*\) s after the start of fmove-nvmed$/\1/p' <<< "$output" > "$work/boot"
	sed -n 's/^[0-9]: boot \([0-9]*\): all down and the network gone \([0-9.]*\) s after .*/\1 \2/p' <<< "$output" |
		awk '$1 % 2 { up = $2; next } { print $2 - up }' > "$work/dead"
	[ -s "$work/boot" ] && [ -s "$work/dead" ] || die "nvme_boot says nothing of mounts, or of shutdowns"
	say "   $(tr '\n' ' ' < "$work/boot")s"
	absolute "boot with systemd in the emulated guest: from the start of fmove-nvmed to the last of two volumes mounted" \
		"$(sort -g "$work/boot" | tail -n 1)" s "<=" 5
	absolute "shutdown there: until the network goes with a dead target, longer than with one that is up" \
		"$(sort -g "$work/dead" | tail -n 1)" s "<=" $NVME_DEAD_MORE_S
}

nvme_get() {
	lab bench_nvme_get
	compare "get from a mounted volume behind a limited link to a null store, lab, 24 MiB, O_DIRECT, cold, checksums off" "$work/get" 1 2 MiB/s \
		"fio on the same file" ">=" 0.95
}
