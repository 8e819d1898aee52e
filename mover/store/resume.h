/* SPDX-License-Identifier: MIT */
/*
 * resume - what a sink does to go on with a partial file: begin(), log() and keep() of struct
 * fm_file_ops, the same for a store's files and a caller's.
 *
 * What is there counts only as far as the journal says it; if the journal is of another source, of
 * another file, or says more than the file holds, both are emptied. Errors of the journal itself
 * end no transfer: it goes on without, and the next try sends more. A sync of the file that fails
 * is for ever: nothing more is logged.
 *
 * Calls may block; one at a time, beside writes.
 */
#ifndef FM_STORE_RESUME_H
#define FM_STORE_RESUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/journal/journal.h"

struct fm_err;
struct fm_have;
struct fm_sync;
struct fm_written;

#define FM_RESUME_NOTE_MAX 160

struct fm_resume {
	int fd;				/* the partial file; not owned */
	/* its journal, open for reading and writing; not owned. -1: none */
	int lock;
	bool has_content;		/* both hold something */
	/* what is logged must survive a power cut; NULL: it need not. Not owned */
	struct fm_sync *sync;
	const char *name;		/* the final name, "" if it is not known; outlives this */
	/* The module's: */
	struct fm_journal *journal;	/* NULL: not begun, or given up */
	struct fm_identity source;
	uint64_t end;			/* of what the journal says */
	char note[FM_RESUME_NOTE_MAX];	/* why what was there is of no use; "" if that is not so */
};

/* Once. As begin(); *have is zeroed before. The file is empty then if it did not have what is in
 * *have. */
int fm_resume_begin(struct fm_resume *r, const struct fm_identity *source, struct fm_have *have,
		    struct fm_err *err);

/* As log(). Errors are those of syncing the file. */
int fm_resume_log(struct fm_resume *r, const struct fm_written *written, size_t count,
		  struct fm_err *err);

/* Whether the next try would find something. */
bool fm_resume_has_something(const struct fm_resume *r);

/* Closes the journal, not the descriptors. */
void fm_resume_end(struct fm_resume *r);

#endif
