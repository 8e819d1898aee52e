/* SPDX-License-Identifier: MIT */
/*
 * top_rows - what the daemons answer as rows of fmove top (top_table.h). Nothing is asked here.
 * Texts of the answers may be a peer's; in rows they are plain. Any thread.
 */
#ifndef FM_CLIENT_TOP_ROWS_H
#define FM_CLIENT_TOP_ROWS_H

#include <stdint.h>

#include "client/cli/top_table.h"

struct fm_json;
struct fmove_cache;
struct fmove_dataset;
struct fmove_job;
struct fmove_space;

/* What stands above all tables. */
struct fm_top_node {
	char node[80], version[32];
	uint64_t uptime_s;
	size_t peers, peers_up;
	double out, in; /* bytes per second, of all rails */
	uint64_t slabs, slabs_free;
	unsigned restarts; /* of fmoved that were seen */
};

/*
 * Of one look (fm_ask_status()), and one that many seconds before, which may be NULL: then no rate
 * is known. restarts is counted on.
 */
void fm_top_node(struct fm_top_node *node, const struct fm_json *now, const struct fm_json *before,
		 double seconds);
void fm_top_rails(struct fm_top_table *table, const struct fm_json *now,
		  const struct fm_json *before, double seconds);
void fm_top_transfers(struct fm_top_table *table, const struct fm_json *now,
		      const struct fm_top_table *before, double seconds);

/* A job, if it has not ended and does not run: those that run are transfers. */
void fm_top_job(struct fm_top_table *table, const struct fmove_job *job);
void fm_top_space(struct fm_top_table *table, const struct fmove_space *space);
void fm_top_dataset(struct fm_top_table *table, const struct fmove_dataset *dataset);

/* How full it is, above its datasets. */
void fm_top_cache(struct fm_top_table *table, const struct fmove_cache *cache);

/* All of the status that fmove-nvmed gives. */
void fm_top_volumes(struct fm_top_table *table, const struct fm_json *done);

#endif
