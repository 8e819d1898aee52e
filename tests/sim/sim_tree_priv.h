/* SPDX-License-Identifier: MIT */
/*
 * sim_tree_priv - what the files of the simulated trees share.
 */
#ifndef FM_TESTS_SIM_TREE_PRIV_H
#define FM_TESTS_SIM_TREE_PRIV_H

#include "tests/sim/sim_priv.h"
#include "tests/sim/sim_tree.h"

char *sim_tree_copy(struct sim *s, const char *text, size_t len);
struct sim_tree *sim_tree_of_entries(struct sim *s, size_t entries);
void sim_tree_count(struct sim_tree *t);
/* Renamed there, and then synced if is_durable; the node may die in between. */
void sim_tree_place(struct sim_node *n, const char *path, bool is_callers, struct sim_tree *tree,
		    bool is_durable);
bool sim_tree_is_lost(const struct sim_node *n, const char *path, bool is_callers);
struct sim_tree *sim_tree_at(struct sim_node *n, const char *path, bool is_callers);

/*
 * sim_group.c: for the store. A member comes, to that place, until it is let go (NULL is allowed);
 * what is asked of a group; a crash.
 */
int sim_group_enter(struct sim_node *n, const char *path, const uint8_t id[FM_GROUP_ID_LEN],
		    const char **place, struct sim_group **out, struct fm_err *err);
void sim_group_let_go(struct sim_group *group);
int sim_group_do(struct sim_node *n, const char *path, const struct fm_group_ask *ask,
		 struct fm_err *err);
void sim_groups_die(struct sim_node *n);

/* Every name of the disk's files, and of its directories, is what rename() says; NULL: it goes. */
void sim_store_rename(struct sim_node *n, const struct sim_group *group,
		      char *(*rename)(struct sim_node *n, const struct sim_group *g, char *path));
void sim_tree_rename(struct sim_node *n, const struct sim_group *group,
		     char *(*rename)(struct sim_node *n, const struct sim_group *g, char *path));

/* A memory file with that content; holes stay holes. */
int sim_memory_file(struct sim *s, const struct sim_blob *blob);

/* What a file of the tree is told by. */
struct fm_identity sim_blob_identity(const struct sim_blob *blob);

/* Whether a call fails now, since its node died or as the faults are: -EIO with a text. */
int sim_tree_fault(struct sim_node *n, unsigned one_in, const char *what, struct fm_err *err);

/* start(), or much later: as the faults are. For read() and write() of a tree's file. */
void sim_tree_io(struct sim_node *n, struct fm_file *file, const struct fm_lane_io *lane,
		 struct fm_io *io,
		 void (*start)(struct fm_file *file, const struct fm_lane_io *lane,
			       struct fm_io *io));

#endif
