# SPDX-License-Identifier: MIT
# pages.sh - the commands of a page of client/pages, for the test that runs them; sourced behind FM_SOURCE, or LAB_TOP, is set.
# shellcheck shell=bash

# page_lines PAGE.md: each command behind the node that types it, "first$ COMMAND", as they stand in the page's blocks of sh.
page_lines() {
	awk '/^```/ { is_command = $0 == "```sh"; next } is_command' "${FM_SOURCE:-${LAB_TOP:-}}/client/pages/$1"
}

# page_conf PAGE.md N: the Nth of its blocks of conf.
page_conf() {
	awk -v n="$2" '/^```/ { is_it = $0 == "```conf" && ++count == n; next } is_it' "${FM_SOURCE:-${LAB_TOP:-}}/client/pages/$1"
}

# page_run PAGE.md FUNCTION: FUNCTION NODE COMMAND for each, in this shell; NODE is first, second, third or each. Fails if there is none.
page_run() {
	local line count=0

	while IFS= read -r line <&3; do
		"$2" "${line%%\$ *}" "${line#*\$ }"
		count=$((count + 1))
	done 3< <(page_lines "$1")
	[ $count -gt 0 ]
}
