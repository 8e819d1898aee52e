/* SPDX-License-Identifier: MIT */
/*
 * reading - a file or directory of a tree that is a source: opened without following links, read,
 * and compared with what it was when it was opened.
 *
 * A struct fm_reading is counted, since several pieces of one file may be read at once; the last
 * one that puts it back closes it. Any thread. Calls block on the disk.
 */
#ifndef FM_TREE_READING_H
#define FM_TREE_READING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "mover/journal/journal.h"

struct fm_err;

struct fm_reading {
	atomic_uint refs;
	int fd;
	struct stat st;		/* when it was opened */
	bool is_kept;		/* a CRC32C was kept with it, and nobody wrote to it since: */
	bool is_kept_damaged;	/* nobody can read what was kept, and nothing equals it */
	uint32_t kept_crc;
	_Atomic uint32_t parts;	/* of what was read so far: contributions, xored ... */
	_Atomic uint64_t left;	/* ... and how much was not */
};

enum fm_reading_way {
	FM_READING_NAME,	/* one component, no link */
	FM_READING_PATH,	/* several, none of which may be a link or lead out of dir */
	FM_READING_FOLLOW,	/* one or several, wherever links lead */
};

/*
 * Open for reading; the access time stays as it is where that is allowed. flags: O_DIRECTORY or 0.
 * Returns the descriptor, or -errno (-ELOOP: a link).
 */
int fm_reading_open_fd(int dir, const char *name, int flags, enum fm_reading_way way);

/*
 * 0, or -errno: -ESTALE if it is no regular file (any more), or is being written to. What was
 * stored in it through a mapping is on the disk then (mover/journal/written.h).
 */
int fm_reading_open(int dir, const char *name, enum fm_reading_way way,
		    struct fm_reading **out);

struct fm_reading *fm_reading_get(struct fm_reading *r);
void fm_reading_put(struct fm_reading *r);	/* NULL is allowed */

/* Only one reference is left: take the descriptor (at position 0) out of it, and free the rest. */
int fm_reading_take_fd(struct fm_reading *r);

/*
 * The advice for a name that cannot be sent. The end that meets it does not know which command
 * asked: put and get can leave it out, a request to stage cannot.
 */
#define FM_READING_WAY_OUT "move it away, or leave it out with --exclude of put or get"

/* Exactly len bytes at offset. -ESTALE: there are fewer now. */
int fm_reading_read(struct fm_reading *r, void *buf, size_t len, uint64_t offset);

/* 0, or -ESTALE: it was written to since it was opened (mover/journal/written.h). */
int fm_reading_check(struct fm_reading *r);

/* A digest that was kept with the file counts from here on: fm_reading_count(). Before the first
 * read. 0, or -errno. */
int fm_reading_expect(struct fm_reading *r);

/*
 * A piece was read, each once; part: its contribution to the CRC of the whole. False: it was the
 * last, and all of them are not what was kept with the file.
 */
bool fm_reading_count(struct fm_reading *r, uint32_t part, size_t len);

/* Whether it has a hole that can be found: fewer blocks than bytes may also be compression. Not
 * beside other threads. */
bool fm_reading_has_holes(struct fm_reading *r);

bool fm_reading_may_have_holes(const struct stat *st);

int64_t fm_reading_mtime(const struct stat *st);
void fm_reading_identity(const struct stat *st, struct fm_identity *out);

/* Set err to why path (terminated, "" is the root) cannot be read, and what to do. Returns the
 * code. */
int fm_reading_fail(struct fm_err *err, int code, const char *path);

#endif
