/* SPDX-License-Identifier: MIT */
/*
 * sink_names - the names that a sink adds, replaces and removes, kept until somebody reads them.
 *
 * They lie in a file without a name, on the file system of the tree or else in /tmp, since there
 * may be many. That has FM_SINK_NAMES_BYTES_MAX, as who sends can give one name again and again.
 * What cannot be kept is told once, when they are read. In a dry run, where nothing is made, what
 * only the old version has is what nobody met: of what was met a hash of each path is kept,
 * FM_SINK_MET_MAX at most.
 *
 * fm_sink_name() and fm_sink_name_met(): any thread, also one that is still there while they are
 * read: a caller's channel ends behind that. One thread reads.
 */
#ifndef FM_TREE_SINK_NAMES_H
#define FM_TREE_SINK_NAMES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/tree/names.h"

#define FM_SINK_MET_MAX (4u << 20)	/* hashes of 8 bytes */
#define FM_SINK_NAMES_BYTES_MAX (UINT64_C(4) << 30)	/* in the file */

struct fm_sink_names {
	bool is_wanted;
	pthread_mutex_t lock;
	int fd;				/* -1: none */
	uint64_t bytes;			/* in the file */
	size_t len;			/* behind that, in page */
	struct fm_tree_names *page;
	int error;			/* of keeping them: they are not all there */
	bool is_complete;		/* what only the old version has is among them */
	uint64_t key[2];		/* of the hashes */
	uint64_t *met;
	size_t met_count, met_cap;
	bool is_sorted;			/* met: no more come */
};

struct fm_err;
struct fm_sink;
struct fm_sink_call;
struct fm_pack_entry;
struct fm_tree;

void fm_sink_names_open(struct fm_sink *s);
void fm_sink_names_close(struct fm_sink *s);

/* Keeps a name, if names are wanted. The path of the root is empty. */
void fm_sink_name(struct fm_sink *s, enum fm_tree_change change, const char *path, size_t len);

/* Keeps the name of an entry as added or replaced. met: the result of fm_sink_meet(). */
void fm_sink_name_as(struct fm_sink *s, int met, const struct fm_pack_entry *e);

/* A directory was made, perhaps for what is in it, before it came itself: only that then says
 * whether it replaces another. */
void fm_sink_name_dir(struct fm_sink_call *call, const char *path, size_t len);

/* The same of a file: it is looked for. */
void fm_sink_name_file(struct fm_sink_call *call, const struct fm_pack_entry *e);

/* The hash of a path, with a secret key. */
uint64_t fm_sink_hash(const struct fm_sink *s, const char *path, size_t len);

/* Dry run: the old version has that path too. */
void fm_sink_name_met(struct fm_sink *s, const char *path, size_t len);
bool fm_sink_is_met(const struct fm_sink *s, const char *path, size_t len);

/* The table's. *at: 0 at first, moved on; a page without names is behind the last. */
int fm_sink_names(struct fm_tree *t, uint64_t *at, struct fm_tree_names *out, struct fm_err *err);

#endif
