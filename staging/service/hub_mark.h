/* SPDX-License-Identifier: MIT */
/*
 * hub_mark - from which store the names in a repository of a hub are: one file for each, beside the
 * hub, where huggingface_hub does not look.
 *
 * hf/sources/models--ORG--NAME has two lines: "fmove hub source 1", and NODE:STORE or "several";
 * and a third one, "asked here", if a user of this node asked for it and that store had it.
 * Whatever else is there, or nothing, says "several": that lets nobody do what one source may.
 *
 * Worker, one at a time for a hub; waits for the disk. `home` is the directory hf. Errors are
 * negative errnos.
 */
#ifndef FM_STAGE_HUB_MARK_H
#define FM_STAGE_HUB_MARK_H

#include <stdbool.h>

#include "mover/wire/wire.h"

#define FM_HUB_MARK_MAX (2 * FM_WIRE_NAME_MAX + 1)	/* NODE:STORE */

/*
 * from "": of several. -ENOENT: there is none, which says the same. Another error: what the file
 * says is not known now. is_asked: a user of this node asked for what is from there.
 */
int fm_hub_mark_read(int home, const char *repository, char from[static FM_HUB_MARK_MAX + 1],
		     bool *is_asked);

/* The mark is on the disk, for good, when this returns 0. from "": of several. */
int fm_hub_mark_write(int home, const char *repository, const char *from, bool is_asked);

/* The marks are on the disk for good, also one that a write left there that failed in the end. */
int fm_hub_mark_sync(int home);

/* Removes the marks of repositories that are not in the directory `hub` any more. */
void fm_hub_mark_sweep(int home, int hub);

#endif
