/* SPDX-License-Identifier: MIT */
/*
 * complete - what the last word of a command line may become, for the completion of every shell:
 * verbs, options and their values from the table of verbs, and nodes, stores, remote paths, jobs,
 * volumes and datasets as the daemons know them now.
 */
#ifndef FM_CLIENT_COMPLETE_H
#define FM_CLIENT_COMPLETE_H

/*
 * The words behind "fmove"; the last is being typed, and may be "". Prints candidates, a line each,
 * as they are without a shell's quotes; shells take of them what begins with the last word. One
 * that ends with ':' or '/' goes on. A line that is FM_COMPLETE_FILES: local files, too.
 */
void fm_complete(int count, char **words);

#define FM_COMPLETE_FILES "\tfiles"

#endif
