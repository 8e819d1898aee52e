# SPDX-License-Identifier: MIT
# verdict.sh - what came of a run, from the files its guests left behind; sourced by `run`.
# shellcheck shell=bash
#
#   DIR/console.N       the kernel's side of guest N
#   DIR/out/status.N    the test's exit status, written last: without it the guest died
#   DIR/out/skip.N      why the test cannot run there
#   DIR/late.N          made by `run`: the guest was still up when the time was over
#   DIR/refused         made by `run`: what the test asked of it and could not have
#
# Kept apart from `run`, so that it can be tested without a guest (verdict-test).

# Said by the kernel only when something is broken. A test that ends well above a broken kernel
# proves nothing.
KERNEL_TROUBLE='Kernel panic|Oops|BUG:|KASAN|general protection fault|blocked for more than [0-9]+ seconds'

kernel_trouble() {
	[ -e "$1" ] && tr -d '\r' < "$1" | grep -aEm1 "$KERNEL_TROUBLE"
}

guest_status() {
	cat "$1/out/status.$2" 2>/dev/null || echo none
}

# True if the emulator broke a guest, which says nothing about the test; `run` starts it again. Emulated processors now and then run
# what stood in memory before: the kernel meets a breakpoint that it had itself put into its code and taken out again ("Oops: int3"), or
# the shell that runs the test, which nothing of ours can crash, ends by SIGILL, SIGTRAP, SIGBUS or SIGSEGV. Or they lose their own state:
# the flags that the kernel prints have bits above the 21st, which are 0 in every processor.
IMPOSSIBLE_FLAGS='EFLAGS: (0[1-9a-f]|[1-9a-f]|00[4-9a-f])'

any_emulator_trouble() {
	local dir=$1 guests=$2 g

	for ((g = 1; g <= guests; g++)); do
		case $(kernel_trouble "$dir/console.$g") in
		*'Oops: int3'*)	return 0 ;;
		?*)		! grep -am1 'EFLAGS: ' "$dir/console.$g" | grep -Eq "$IMPOSSIBLE_FLAGS" || return 0 ;;
		esac
		case $(guest_status "$dir" "$g") in
		132|133|135|139)	return 0 ;;
		esac
	done
	return 1
}

# True once any guest is past saving, so that the others need not be waited for. It is asked five times a second as long as guests run: no
# program, no subshell.
has_failed() {
	local dir=$1 guests=$2 g status

	[ ! -e "$dir/refused" ] || return 0
	for ((g = 1; g <= guests; g++)); do
		status=none
		[ ! -s "$dir/out/status.$g" ] || read -r status < "$dir/out/status.$g" || true
		case $status in
		none|0|77)	;;
		*)		return 0 ;;
		esac
	done
	return 1
}

any_kernel_trouble() {
	local dir=$1 guests=$2 g trouble

	for ((g = 1; g <= guests; g++)); do
		if trouble=$(kernel_trouble "$dir/console.$g"); then
			echo "the kernel of guest $g: $trouble"
			return 0
		fi
	done
	return 1
}

# Why the test in guest $2 failed; false if it did not. With $3 also what is likely to be somebody
# else's fault: failing because another guest did (76, see sync_point), or waiting for one until the
# time was over.
guest_failure() {
	local dir=$1 g=$2 secondary=$3 status

	status=$(guest_status "$dir" "$g")
	case $status${secondary:+, secondary} in
	none*)
		if [ -e "$dir/late.$g" ]; then
			echo "guest $g was not done in time"
		else
			echo "guest $g died before its test ended"
		fi
		;;
	0|77|76)
		return 1
		;;
	0,*|77,*)
		[ -e "$dir/late.$g" ] || return 1
		echo "guest $g did not power off in time"
		;;
	*)
		echo "the test in guest $g exited with $status"
		;;
	esac
}

any_failure() {
	local dir=$1 guests=$2 secondary g

	any_kernel_trouble "$dir" "$guests" && return
	cat "$dir/refused" 2> /dev/null && return
	for secondary in '' yes; do
		for ((g = 1; g <= guests; g++)); do
			guest_failure "$dir" "$g" "$secondary" && return
		done
	done
	return 1
}

any_skip() {
	local dir=$1 guests=$2 g

	for ((g = 1; g <= guests; g++)); do
		[ "$(guest_status "$dir" "$g")" = 77 ] || continue
		cat "$dir/out/skip.$g" 2>/dev/null || echo "guest $g gives no reason"
		return 0
	done
	return 1
}

# Print one line, return what `run` exits with. A failure anywhere outweighs a skip anywhere.
verdict() {
	local line

	if line=$(any_failure "$@"); then
		echo "FAIL: $line"
		return 1
	fi
	if line=$(any_skip "$@"); then
		echo "SKIP: $line"
		return 77
	fi
	echo "PASS"
}
