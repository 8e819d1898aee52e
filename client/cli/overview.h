/* SPDX-License-Identifier: MIT */
/*
 * overview - `fmove` without a command: what this machine has of fmove, and what to do next.
 */
#ifndef FM_CLIENT_OVERVIEW_H
#define FM_CLIENT_OVERVIEW_H

/*
 * Prints it on standard output: without a configuration how to begin; without a daemon the line
 * that starts it; else node, peers and volumes, a line each. The exit status. It
 * is a verb without a name (fm_cmd_alone), and has no arguments.
 */
int fm_overview(int argc, char **argv);

#endif
