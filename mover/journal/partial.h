/* SPDX-License-Identifier: MIT */
/*
 * partial - the two files of an unfinished transfer, beside the name that it will get:
 *
 *   .fmove.HASH.part       what came of it
 *   .fmove.HASH.journal    what of that counts (journal.h), and the lock of both
 *
 * HASH is 16 hex digits made from the final name, so that the next try finds them. Who uses either
 * holds an exclusive lock on the journal (F_OFD_SETLK: it belongs to the open file, goes along with
 * a descriptor that is passed on, and ends with the last one). Who finds them locked takes a name
 * that nobody can guess, without a journal: nothing of it is found again.
 *
 * The directory may be anybody's: links are not followed, and what is no regular file, has another
 * owner than this process or further names is not used. Any thread; calls may block.
 */
#ifndef FM_JOURNAL_PARTIAL_H
#define FM_JOURNAL_PARTIAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define FM_PARTIAL_PREFIX ".fmove."	/* all names that begin so are fmove's */
#define FM_PARTIAL_NAME_MAX 31		/* ".fmove.", 16 hex digits, ".journal" */

/* What a name with that prefix is of, and how it ends. Directories have others (tree/staging.h). */
enum fm_partial_kind {
	FM_PARTIAL_NONE,	/* neither */
	FM_PARTIAL_FILE,	/* .part */
	FM_PARTIAL_JOURNAL,	/* .journal */
};

/* ".fmove.HASH.part" and so on, terminated. kind is not FM_PARTIAL_NONE. */
void fm_partial_name(uint64_t hash, enum fm_partial_kind kind, char out[FM_PARTIAL_NAME_MAX + 1]);

/* Which kind of name it is; *hash (may be NULL) is set unless it is none. */
enum fm_partial_kind fm_partial_parse(const char *name, uint64_t *hash);

/* The hash of a final name, one component. */
uint64_t fm_partial_hash(const char *name);

struct fm_partial {
	int dir;		/* where they are; not owned */
	int fd;			/* the file, for reading and writing; mode 0600 */
	int journal;		/* locked; -1: none, it will not be found again */
	bool has_content;	/* both hold something: of an earlier try */
	char name[FM_PARTIAL_NAME_MAX + 1];
	char journal_name[FM_PARTIAL_NAME_MAX + 1];	/* "": none */
};

/*
 * Open those of a final name, or make them; if there is nothing to go on with, the journal is
 * emptied and the file is made anew. If they are locked, wait for up to wait_ms. -EAGAIN: locked.
 * -EPERM: the journal is not ours to use. Or the error of a system call. After an error nothing is
 * open; nothing new is left.
 */
int fm_partial_open(int dir, const char *name, unsigned wait_ms, struct fm_partial *out);

/* Make a file under a name from a random number, without a journal. -EEXIST: it is taken. */
int fm_partial_open_random(int dir, uint64_t random, struct fm_partial *out);

/*
 * Whether there may be something to go on with: both hold something, and the journal does not say
 * that it is of another file than the one of which *file tells. journal: open for reading.
 */
bool fm_partial_has_something(int journal, const struct stat *file);

/* Whether there is something in the journal, and it is still there under its name. */
bool fm_partial_is_journaled(const struct fm_partial *p);

/*
 * Both names go, that of the journal last, since its lock guards both. 0, or the error of removing
 * the file (not that it was gone already).
 */
int fm_partial_remove(const struct fm_partial *p);

/* Close what is open; the lock ends. */
void fm_partial_close(struct fm_partial *p);

/*
 * Lock a partial file or a journal that is open for writing. 0; -EAGAIN: somebody has it; or an
 * error: no locks there.
 */
int fm_partial_lock(int fd);

/* Whether the file or journal of that name is locked: 1, 0 (also: there is none), or why nobody can
 * say. */
int fm_partial_is_busy(int dir, const char *name);

#endif
