/* SPDX-License-Identifier: MIT */
/*
 * full - what the program `fmove` has not itself: it becomes the program `fmove-full`.
 *
 * Scripts and checkpoint hooks call fmove again and again, for what a daemon does. Such a start
 * is over in a few milliseconds, and three quarters of it would be the loading of libcrypto, of the
 * libraries of RDMA, of ncurses and of libconfig. So there are two programs of the same source:
 * fmove-full has every verb, and fmove those that only ask a daemon (cmd_table.c says which). It
 * knows the names of the others.
 */
#ifndef FM_CLIENT_FULL_H
#define FM_CLIENT_FULL_H

/* Of the sources of both (build_id.cmake): what lies elsewhere and has the same in it is one. */
extern const char fm_build_id[];

/*
 * Before all else, in both programs: the command line as main() got it. It is kept, and must not be
 * changed before the verb runs. FM_EXIT_DONE, or the exit status to end with at once, after a line
 * that says why: the fmove that became this one is of another version, or another build of it.
 */
int fm_full_begin(char **argv);

/*
 * A verb: the whole command line once more, by fmove-full. Returns only if that cannot be started:
 * the exit status, after a line that says why.
 */
int fm_cmd_full(int argc, char **argv);

#endif
