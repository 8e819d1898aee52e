/* SPDX-License-Identifier: MIT */
/*
 * outcome - what became of one source of a put or get, and of all of them: said in a line, as JSON,
 * and as the exit status.
 *
 * The JSON is documented in fmove(1): one object; for several sources their objects are in its
 * "files".
 */
#ifndef FM_CLIENT_OUTCOME_H
#define FM_CLIENT_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/fmove.h"
#include "mover/base/err.h"
#include "mover/base/json.h"

struct fm_outcome {
	const char *source;		/* as typed, or NODE:STORE/PATH; bytes */
	const char *target;
	struct fm_err err;		/* code 0: done */
	struct fmove_result result;
	char job[FMOVE_JOB_MAX];	/* "": of no job that is told */
	bool is_dry;			/* only said what would be done */
	bool is_update;			/* of a tree: its counts say what differed */
	bool is_same;			/* a file that was not moved: it is the same already */
	bool is_looked;			/* a file, and what has its name was looked at: ... */
	bool is_there;			/* ... there is something */
	bool is_handed_over;		/* to the daemon, as that job: there is no result yet */
	bool is_kept;			/* failed, and the same again goes on with what came */
	bool is_rotated;		/* --keep-last, and what went: */
	struct fmove_rotated rotated;
	bool is_aside;			/* failed, and another's line says why */
	bool is_told;			/* fmoved or libfmove said err, not this program */
};

struct fm_outcomes {
	const char *verb;
	bool is_quiet;
	bool is_json;
	bool is_many;			/* several sources */
	struct fm_json_writer json;
	unsigned done;
	unsigned failed;
	int first_exit;			/* of the first that failed */
	bool is_cancelled;
	bool is_late;			/* the time for all of them was up */
	/* why this transport: what was said last */
	char why[sizeof(((struct fmove_result *)NULL)->why)];
	bool has_names;			/* of the source at hand some were said */
	uint64_t bytes;
	uint64_t start_ns;
};

#define FM_OUTCOME_TRANSPORT_MAX 300	/* the longest `why`, two numbers and words */

/* "rdma+tcp (905 MB over RDMA, 169 MB over TCP; no RDMA connection between the nodes)". Returns
 * out. */
char *fm_outcome_transport(const struct fmove_result *result,
			   char out[static FM_OUTCOME_TRANSPORT_MAX]);

void fm_outcomes_begin(struct fm_outcomes *o);
/* Of a directory: a name that is another now, or would be. Before the source's
 * fm_outcomes_add(). */
void fm_outcomes_name(struct fm_outcomes *o, const struct fm_outcome *one, enum fmove_change change,
		      const char *path);

void fm_outcomes_add(struct fm_outcomes *o, const struct fm_outcome *one);

/* Ends the JSON. The exit status, standard output included. */
int fm_outcomes_end(struct fm_outcomes *o);

#endif
