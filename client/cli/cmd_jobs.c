/* SPDX-License-Identifier: MIT */
/* cmd_jobs - fmove jobs: what the daemon has for us, one line each or as JSON. */
#include "client/cli/ask.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/rows.h"
#include "client/cli/show.h"
#include "mover/base/json.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/words.h"

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_ALL, OPT_QUIET };

const struct fm_opt fm_opts_jobs[] = {
	{ "all", 'a', OPT_ALL, NULL, "those of all users (root)", NULL },
	{ "quiet", 'q', OPT_QUIET, NULL, "only their ids", NULL },
	FM_ASK_JSON,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

#define END_MAX (FMOVE_PATH_MAX + 2 * FMOVE_NAME_MAX + 4)

static const char *state_of(const struct fmove_job *j)
{
	return j->state == FMOVE_JOB_OTHER ? "other" : fm_words_state[j->state];
}

/*
 * The word for a job's state. For people a job that goes on by itself "waits", for a place or for
 * its next try; show_moved() says which.
 */
static const char *word_of(const struct fmove_job *j)
{
	return j->state == FMOVE_JOB_QUEUED ? fm_words_state[FMOVE_JOB_WAITING] : state_of(j);
}

struct jobs {
	struct fm_rows rows;
	bool is_json;
	bool is_quiet;
	bool is_all;
	unsigned count;
};

/* Writes NODE:STORE/PATH, or our own end. */
static void far_end(const struct fmove_job *j, char out[static END_MAX])
{
	(void)snprintf(out, END_MAX, "%s:%s/%s", j->node, j->store, j->path);	/* fits */
}

static void near_end(const struct fmove_job *j, char out[static END_MAX])
{
	if (j->local_store[0])
		/* fits */
		(void)snprintf(out, END_MAX, "%s:%s/%s", j->local_node, j->local_store,
			       j->local_path);
	else
		(void)snprintf(out, END_MAX, "%s", j->local_path[0] ? j->local_path : "-");
}

/* ---- for people ---- */

static void show_moved(const struct fmove_job *j, char *out, size_t cap)
{
	char bytes[FM_SHOW_MAX], size[FM_SHOW_MAX], time[FM_SHOW_MAX];

	switch (j->state) {
	case FMOVE_JOB_QUEUED:
		(void)snprintf(out, cap, "%" PRIu64 " before it", j->before);
		break;
	case FMOVE_JOB_RUNNING:
		if (strcmp(j->phase, "copying") != 0)
			(void)snprintf(out, cap, "%s", j->phase);
		else if (j->size == UINT64_MAX)
			(void)snprintf(out, cap, "%s", fm_show_bytes(j->bytes, bytes));
		else
			(void)snprintf(out, cap, "%s of %s", fm_show_bytes(j->bytes, bytes),
				       fm_show_bytes(j->size, size));
		break;
	case FMOVE_JOB_WAITING:
		(void)snprintf(out, cap, "again in %s",
			       fm_show_time((j->again_ms + 999) / 1000, time));
		break;
	case FMOVE_JOB_DONE:
		(void)snprintf(out, cap, "%s",
			       j->size == UINT64_MAX ? "" : fm_show_bytes(j->size, size));
		break;
	default:
		out[0] = '\0';
		break;
	}
}

/* fm_stdout_end() looks for errors. */
static void print_line(const struct jobs *jobs, const struct fmove_job *j)
{
	char near[END_MAX], far[END_MAX], near_shown[1024], far_shown[1024], moved[80],
		text[FMOVE_TEXT_MAX * 4];

	near_end(j, near);
	far_end(j, far);
	fm_show(near, strlen(near), near_shown, sizeof(near_shown));
	fm_show(far, strlen(far), far_shown, sizeof(far_shown));
	fm_show(j->text, strlen(j->text), text, sizeof(text));
	show_moved(j, moved, sizeof(moved));
	(void)printf("%-8s  ", j->id);
	if (jobs->is_all)
		(void)printf("%-6u  ", j->user);
	(void)printf("%-9s  %-6s  %-22s  %s %s -> %s%s%s\n", word_of(j),
		     fm_words_priority[j->priority], moved, j->is_put ? "put" : "get",
		     j->is_put ? near_shown : far_shown, j->is_put ? far_shown : near_shown,
		     text[0] ? ": " : "", text);
}

/* ---- for programs ---- */

static void job_json(struct fm_json_writer *w, const struct fmove_job *j)
{
	fm_jw_text(w, "job", j->id);
	fm_jw_u64(w, "user", j->user);
	fm_jw_text(w, "op", j->is_put ? "put" : "get");
	fm_jw_text(w, "state", state_of(j));
	fm_jw_text(w, "phase", j->phase);
	fm_jw_text(w, "priority", fm_words_priority[j->priority]);
	fm_jw_bool(w, "detached", j->is_detached);
	fm_jw_bool(w, "attended", j->is_attended);
	fm_jw_text(w, "node", j->node);
	fm_jw_text(w, "store", j->store);
	fm_jw_name(w, "path", j->path, strlen(j->path));
	if (j->local_store[0]) {
		fm_jw_text(w, "local_node", j->local_node);
		fm_jw_text(w, "local_store", j->local_store);
	}
	fm_jw_name(w, j->local_store[0] ? "local_path" : "file", j->local_path,
		   strlen(j->local_path));
	fm_jw_u64_or_null(w, "size", j->size, UINT64_MAX);
	fm_jw_u64(w, "bytes", j->bytes);
	fm_jw_u64(w, "before", j->before);
	fm_jw_u64(w, "again_ms", j->again_ms);
	fm_jw_u64(w, "tries", j->tries);
	fm_jw_i64(w, "created_ms", j->created_ms);
	fm_jw_i64(w, "ended_ms", j->ended_ms);
	fm_jw_u64(w, "exit", (uint64_t)j->exit);
	fm_jw_text(w, "text", j->text);
}

static void print_json(struct jobs *jobs, const struct fmove_job *j)
{
	struct fm_json_writer *w = fm_rows_next(&jobs->rows);

	job_json(w, j);
	fm_jw_object_end(w);
}

static bool print_one(void *ctx, const struct fmove_job *j)
{
	struct jobs *jobs = ctx;

	if (jobs->is_json)
		print_json(jobs, j);
	else if (jobs->is_quiet)
		(void)printf("%s\n", j->id);
	else
		print_line(jobs, j);
	jobs->count++;
	return true;
}

int fm_cmd_jobs(int argc, char **argv)
{
	struct jobs jobs = { .count = 0 };
	struct fmove_error why;
	struct fm_args args;
	struct fmove *c;
	int key, ret, status = FM_EXIT_DONE;

	fm_args_begin(&args, "jobs", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		jobs.is_json |= key == OPT_JSON;
		jobs.is_all |= key == OPT_ALL;
		jobs.is_quiet |= key == OPT_QUIET;
	}
	if (fm_args_end(&args, 0, 0) < 0)
		return args.status;
	if (fm_ask_open("jobs", jobs.is_quiet, &c, &status) < 0)
		return status;
	if (jobs.is_json)
		fm_rows_begin(&jobs.rows, "jobs");
	ret = fmove_jobs(c, jobs.is_all, print_one, &jobs, &why);
	fmove_close(c);
	if (ret < 0)
		status = fm_ask_fail("jobs", NULL, &why);
	if (jobs.is_json)
		fm_rows_end(&jobs.rows, status);
	return fm_stdout_end("jobs", status);
}
