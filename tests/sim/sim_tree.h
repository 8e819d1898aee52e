/* SPDX-License-Identifier: MIT */
/*
 * sim_tree - simulated directories, and the two ends of a tree (mover/tree/tree.h) over them.
 *
 * As nasty as the contract allows: packs are small, a number that was lost is made again only as it
 * was, offers must be answered before the walk goes on, large files pile up; and what a sink keeps
 * for the next try is only what it logged, the rest is torn. Packs are those of mover/tree/pack.h;
 * large files are memory files, since they travel as descriptors.
 */
#ifndef FM_TESTS_SIM_TREE_H
#define FM_TESTS_SIM_TREE_H

#include "mover/tree/pack.h"
#include "tests/sim/sim.h"

struct sim_tree_entry {
	enum fm_pack_type type;		/* FILE, DIR, LINK, HARD; the directory "" is the root */
	const char *path;
	const char *target;		/* LINK, HARD */
	struct sim_blob *blob;		/* FILE: content, mode, time, identity */
	uint32_t mode;			/* DIR */
	int64_t mtime_ns;		/* DIR, LINK */
	bool is_large;
};

struct sim_tree {
	uint64_t ino;			/* of the root */
	size_t count;
	struct sim_tree_entry *entries;
	uint64_t bytes;
	unsigned files, dirs, links, hards, larges;
};

/* Up to `files` files of up to a few chunks, some large, links, directories. Content and names
 * depend on tag. */
struct sim_tree *sim_tree_new(struct sim *sim, uint64_t tag, unsigned files, uint32_t chunk_bytes);

/* The same with some files changed, taken away and added. */
struct sim_tree *sim_tree_changed(struct sim *sim, const struct sim_tree *like, uint64_t tag,
				  uint32_t chunk_bytes);

/* Without what matches the pattern (fnmatch() of the last component), and what is in it. */
struct sim_tree *sim_tree_without(struct sim *sim, const struct sim_tree *t, const char *pattern);

/* With what only old has; old may be NULL. */
struct sim_tree *sim_tree_merged(struct sim *sim, const struct sim_tree *t,
				 const struct sim_tree *old);

bool sim_tree_is_same(const struct sim_tree *a, const struct sim_tree *b);

/* What is under that name of the node's disk, or NULL. */
struct sim_tree *sim_disk_find_tree(struct sim_node *node, const char *path);
void sim_disk_add_tree(struct sim_node *node, const char *path, struct sim_tree *tree);
void sim_disk_each_tree(struct sim_node *node,
			void (*visit)(void *ctx, const char *path, struct sim_tree *tree),
			void *ctx);

/* Ends that a local caller handed over, as files. The sink's target is a name of its own disk that
 * no store shows. */
struct fm_file *sim_caller_tree_source(struct sim_node *node, const struct sim_tree *tree);
struct fm_file *sim_caller_tree_sink(struct sim_node *node, const char *path,
				     const struct fm_create_tree *how);
struct sim_tree *sim_caller_tree(struct sim_node *node, const char *path);

/* Ends of the store's trees: sim_store.c. closed() when the file is closed. */
struct fm_file *sim_tree_source_file(struct sim_node *node, const struct sim_tree *tree,
				     const char *const *excludes, void (*closed)(void *ctx),
				     void *ctx);
struct fm_file *sim_tree_sink_file(struct sim_node *node, const char *path, bool is_callers,
				   const struct fm_create_tree *how, void (*closed)(void *ctx),
				   void *ctx);

/* Memory files that trees keep; at the end of the world. */
void sim_trees_free(struct sim_node *node);

#endif
