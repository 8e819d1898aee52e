/* SPDX-License-Identifier: MIT */
/*
 * file_source - a regular file that is read: a store's, or one that a caller handed over.
 */
#ifndef FM_STORE_FILE_SOURCE_H
#define FM_STORE_FILE_SOURCE_H

#include <stdbool.h>

struct fm_attr;
struct fm_err;
struct fm_file;
struct stat;

struct fm_file_source_opts {
	bool is_buffered;		/* never O_DIRECT */
	bool is_stored;			/* in a store: a digest that was kept with it counts */
	/* the description is a caller's too: its flags are put back at close */
	bool is_shared;
	/* Called last by close(); may be NULL. */
	void (*closed)(void *ctx);
	void *ctx;
};

/* fd is taken over, also on error. */
int fm_file_source_new(int fd, const struct fm_file_source_opts *opts, struct fm_file **out,
		       struct fm_attr *attr, struct fm_err *err);

/* What is known of a file or directory. fd: to look for holes, or -1: then has_holes may be true
 * without one. */
void fm_attr_from_stat(const struct stat *st, int fd, struct fm_attr *out);

#endif
