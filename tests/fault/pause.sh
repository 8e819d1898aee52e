# SPDX-License-Identifier: MIT
# pause.sh - waiting without a program, for loops over many starts of a daemon; sourced. A sleep(1) takes a tenth of the processor's time
# that the daemon takes to start, and there are many of them in one start.
# shellcheck shell=bash

exec {never}<> <(:)		# nothing ever comes from here

# pause SECONDS
pause() {
	read -r -t "$1" -u "$never" || true
}
