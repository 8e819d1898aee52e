/* SPDX-License-Identifier: MIT */
/*
 * libfmove_tree - between the two files of libfmove: libfmove.c speaks with the daemon, libfmove_tree.c has the
 * directory.
 */
#ifndef FM_CLIENT_LIBFMOVE_TREE_H
#define FM_CLIENT_LIBFMOVE_TREE_H

#include "client/fmove.h"

struct fm_lib_tree {
	bool is_put;
	const struct fmove_name *name;
	const struct fmove_options *opts;	/* NULL: none */
	const struct fmove_tree_options *tree;	/* the same */
	uint64_t dev;				/* put: of the root ... */
	uint64_t ino;
	const int *fds;				/* to pass */
	unsigned fds_count;
	void (*passed)(void *ctx);		/* they were */
	void *ctx;
};

/* Ask for it and wait for its end. err is filled after an error, its is_kept too. */
int fm_lib_tree_do(struct fmove *c, const struct fm_lib_tree *t, struct fmove_result *result, struct fmove_error *err);

#endif
