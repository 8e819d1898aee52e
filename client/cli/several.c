/* SPDX-License-Identifier: MIT */
/*
 * several - see several.h.
 *
 * Happy path: a thread for each destination; each is prepared; the last one to be decides: commit;
 * a byte in the pipe wakes all of them; each is done. Each reads the source by itself, so what was
 * sent to them is compared before: all the same, or it changed meanwhile, and nobody gets it.
 * Failure modes: one fails before that: it
 * decides, and the others end cancelled, keeping what has come for the next try. A signal: each is
 * cancelled by itself. One fails behind the decision: the others have the file; that is said. No
 * place is free for one of them: all of them give back theirs, and all begin again later. Else two
 * commands could each have half of what both need. With --retry all of them are tried again as
 * well, as long as nobody has it.
 */
#include "client/cli/several.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/interrupt.h"
#include "client/cli/transfer.h"
#include "client/lib/tries.h"
#include "mover/base/env.h"
#include "mover/base/err.h"

#define TARGET_TEXT_MAX (FMOVE_PATH_MAX + 2 * FM_NAME_PART_MAX + 4)

#define SENT_TEXT_MAX 32

struct group;

struct dest {
	struct group *group;
	const struct fm_name *target;
	char text[TARGET_TEXT_MAX];
	int fd;				/* a description of its own; -1: none */
	char sent[SENT_TEXT_MAX];	/* once it is prepared: see fmove_options.prepared_as */
	pthread_t thread;
	bool is_started;
	uint64_t bytes;			/* moved so far */
	struct fmove_options opts;
	struct fmove_result result;
	struct fmove_error why;
	int ret;
};

struct group {
	struct fm_transfer *t;
	uint64_t limit_ms;		/* of this try; 0: none */
	uint64_t timeout_ms;		/* what is left of that */
	const struct fm_name *own;	/* NULL: a file or directory here */
	bool is_tree;
	struct dest *dests;
	unsigned count;
	int wake[2];			/* readable: it is decided */
	/* Under the lock: */
	pthread_mutex_t lock;
	unsigned prepared;
	bool is_decided;
	bool is_commit;
	struct dest *first;		/* that failed; NULL: none */
	struct dest *other;		/* to which another version went than to the first one */
};

/* ---- the decision ---- */

/* Decides for all destinations, once. The caller has the lock. */
static void decide(struct group *g, bool is_commit)
{
	if (g->is_decided)
		return;
	g->is_decided = true;
	g->is_commit = is_commit;
	(void)!write(g->wake[1], "", 1);	/* an empty pipe takes a byte */
}

/* One of the destinations to which another version went than to the first one; NULL: none. */
static struct dest *find_other(struct group *g)
{
	for (unsigned i = 1; i < g->count; i++)
		if (strcmp(g->dests[i].sent, g->dests[0].sent) != 0)
			return &g->dests[i];
	return NULL;
}

static void dest_prepared(void *ctx, const char *sent)
{
	struct dest *d = ctx;
	struct group *g = d->group;

	pthread_mutex_lock(&g->lock);
	(void)snprintf(d->sent, sizeof(d->sent), "%s", sent);	/* fits */
	if (++g->prepared == g->count) {
		g->other = g->is_decided ? NULL : find_other(g);
		decide(g, !g->other);
	}
	pthread_mutex_unlock(&g->lock);
}

static bool dest_decide(void *ctx)
{
	struct group *g = ((struct dest *)ctx)->group;
	bool is_commit;

	pthread_mutex_lock(&g->lock);
	is_commit = g->is_commit;
	pthread_mutex_unlock(&g->lock);
	return is_commit;
}

static void dest_failed(struct dest *d)
{
	struct group *g = d->group;

	pthread_mutex_lock(&g->lock);
	if (!g->first)
		g->first = d;
	decide(g, false);
	pthread_mutex_unlock(&g->lock);
}

/* Shows the progress of the slowest destination. */
static void dest_progress(void *ctx, const struct fmove_progress *now)
{
	struct dest *d = ctx;
	struct group *g = d->group;
	bool is_slowest = true;

	pthread_mutex_lock(&g->lock);
	d->bytes = now->bytes;
	for (unsigned i = 0; i < g->count; i++)
		is_slowest &= g->dests[i].bytes >= d->bytes;
	if (is_slowest)
		fm_progress_show(&g->t->progress, now);
	pthread_mutex_unlock(&g->lock);
}

/* ---- one destination ---- */

static int dest_put(struct dest *d, struct fmove *c)
{
	struct fmove_name parts = fm_name_parts(d->target), own;

	d->result.struct_size = sizeof(d->result);
	if (d->group->is_tree)
		return fmove_put_tree(c, d->fd, &parts, &d->opts, &d->group->t->dir.tree,
				      &d->result, &d->why);
	if (!d->group->own)
		return fmove_put(c, d->fd, &parts, &d->opts, &d->result, &d->why);
	own = fm_name_parts(d->group->own);
	return fmove_put_store(c, &own, &parts, &d->opts, &d->result, &d->why);
}

static void *dest_main(void *arg)
{
	struct dest *d = arg;
	struct fmove *c;

	d->ret = fmove_connect(fm_socket_path(), &c, &d->why);
	if (d->ret == 0) {
		d->ret = dest_put(d, c);
		fmove_close(c);
	}
	if (d->ret < 0)
		dest_failed(d);
	return NULL;
}

static void dest_start(struct dest *d)
{
	int code = pthread_create(&d->thread, NULL, dest_main, d);

	d->is_started = code == 0;
	if (d->is_started)
		return;
	d->ret = d->why.code = -code;
	(void)snprintf(d->why.text, sizeof(d->why.text), "start a thread: %s", fm_err_name(code));
	dest_failed(d);
}

/* Opens the file once more: flags belong to an open file description, and the daemon sets some. */
static int dest_open(struct dest *d, int fd, struct fm_err *err)
{
	char path[40];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);	/* fits */
	d->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return d->fd < 0 ? fm_err_sys(err, -errno, "open it once more") : 0;
}

/* ---- all of them ---- */

static int source_look(struct group *g, const char *src, const struct stat *st, struct fm_err *err)
{
	const struct fm_dir_args *dir = &g->t->dir;

	if (dir->is_verbose)
		return fm_err_set(err, -EINVAL, "--verbose takes one destination");
	g->is_tree = S_ISDIR(st->st_mode);
	if (g->is_tree && !dir->is_recursive)
		return fm_err_set(err, -EISDIR,
				  "%s is a directory; put -r sends it with all that is in it", src);
	if (g->is_tree)
		return 0;
	if (!S_ISREG(st->st_mode))
		return fm_err_set(
			err, -EINVAL,
			"%s is no regular file: only those can go to several nodes at once", src);
	if (dir->tree.is_dry_run)
		return fm_err_set(err, -EINVAL,
				  "%s is no directory: --dry-run of a file takes one destination",
				  src);
	return 0;
}

static int source_open(struct group *g, const char *src, int *out, struct fm_err *err)
{
	struct stat st;
	int ret;

	if (strcmp(src, "-") == 0)
		return fm_err_set(err, -EINVAL,
				  "standard input can be read once, and this goes to several "
				  "nodes: put a file");
	/* What is no regular file must not be waited for. */
	*out = open(src, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (*out < 0)
		return fm_err_sys(err, -errno, "%s", src);
	ret = fstat(*out, &st) < 0 ? fm_err_sys(err, -errno, "%s", src)
				   : source_look(g, src, &st, err);
	if (ret < 0)
		(void)close(*out);	/* only read */
	return ret;
}

/* Looks whether a name in a store of this node is a directory. The daemon does the rest. */
static int own_look(struct group *g, struct fm_err *err)
{
	struct fm_outcome one = { .source = "" };
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	int ret;

	if (g->t->dir.is_verbose)
		return fm_err_set(err, -EINVAL, "--verbose takes one destination");
	ret = fm_transfer_is_tree(g->t, g->own, &entry, &one);
	if (ret > 0)
		g->t->opts.tree = &g->t->dir.tree;
	else if (ret == 0 && g->t->dir.tree.is_dry_run)
		return fm_err_set(err, -EINVAL, "--dry-run of a file takes one destination");
	*err = one.err;
	return ret < 0 ? ret : 0;
}

static int open_all(struct group *g, const char *src, struct fm_err *err)
{
	int fd = -1, ret;

	g->t->opts.tree = NULL;
	if (g->own)
		return own_look(g, err);
	ret = source_open(g, src, &fd, err);
	if (ret < 0)
		return ret;
	if (g->is_tree)
		fm_dir_allow_descriptors();
	for (unsigned i = 0; i < g->count && ret == 0; i++)
		ret = dest_open(&g->dests[i], fd, err);
	(void)close(fd);	/* only read */
	return ret;
}

static int group_new(struct group *g, struct fm_err *err)
{
	g->dests = calloc(g->count, sizeof(*g->dests));
	if (!g->dests)
		return fm_err_set(err, -ENOMEM, "no memory for %u destinations", g->count);
	if (pipe2(g->wake, O_CLOEXEC | O_NONBLOCK) < 0) {
		free(g->dests);
		return fm_err_sys(err, -errno, "make a pipe");
	}
	pthread_mutex_init(&g->lock, NULL);
	for (unsigned i = 0; i < g->count; i++)
		g->dests[i].fd = -1;
	return 0;
}

static void group_free(struct group *g)
{
	for (unsigned i = 0; i < g->count; i++)
		if (g->dests[i].fd >= 0)
			(void)close(g->dests[i].fd);	/* only read */
	(void)close(g->wake[0]);
	(void)close(g->wake[1]);
	pthread_mutex_destroy(&g->lock);
	free(g->dests);
}

/* All were cancelled, and this is why. */
static void set_other(struct group *g)
{
	struct dest *d = g->other;

	g->first = d;
	d->ret = d->why.code = -ESTALE;
	(void)snprintf(d->why.text, sizeof(d->why.text),
		       "the source changed while it was read: this is another version than for "
		       "%.200s; nobody has it, run it again when nothing writes there",
		       g->dests[0].text);
}

static void run_all(struct group *g, const char *src)
{
	static char path[PATH_MAX];	/* one group at a time */

	if (g->own || !realpath(src, path))
		path[0] = '\0';
	fm_transfer_set_kind(g->t, g->is_tree || g->t->opts.tree);
	fm_transfer_begin(g->t, src);
	for (unsigned i = 0; i < g->count; i++) {
		struct dest *d = &g->dests[i];

		d->opts = g->t->opts;
		d->opts.timeout_ms = g->timeout_ms;
		d->opts.file = path[0] ? path : NULL;
		d->opts.is_buffered = !g->own;
		d->opts.hold_fd = g->wake[0];
		d->opts.prepared_as = dest_prepared;
		d->opts.decide = dest_decide;
		d->opts.progress = dest_progress;
		d->opts.ctx = d;
	}
	for (unsigned i = 0; i < g->count; i++)
		dest_start(&g->dests[i]);
	for (unsigned i = 0; i < g->count; i++)
		if (g->dests[i].is_started)
			(void)pthread_join(g->dests[i].thread, NULL);	/* it is ours and ends */
	if (g->other && !fm_is_interrupted())
		set_other(g);
	fm_transfer_end(g->t);
}

/* Forgets this try, as if nothing had been done. */
static void forget(struct group *g)
{
	char byte;

	(void)!read(g->wake[0], &byte, 1);	/* there is one */
	g->prepared = 0;
	g->is_decided = g->is_commit = false;
	g->first = g->other = NULL;
	for (unsigned i = 0; i < g->count; i++) {
		struct dest *d = &g->dests[i];

		d->sent[0] = '\0';
		d->bytes = 0;
		d->result = (struct fmove_result){ .bytes = 0 };
		d->why = (struct fmove_error){ .code = 0 };
		d->is_started = false;
		d->ret = 0;
	}
}

/* Destinations that found no place did not find one in time. */
static void set_late(struct group *g)
{
	for (unsigned i = 0; i < g->count; i++)
		if (g->dests[i].why.is_full)
			g->dests[i].ret = g->dests[i].why.code = -ETIMEDOUT;
}

/* Whether there was no place at one of them, and it was waited for. */
static bool is_again(struct group *g, unsigned refused, uint64_t since_ns)
{
	uint64_t gone_ms;

	if (!g->first || !g->first->why.is_full || fm_is_interrupted())
		return false;
	if (!fm_turn_wait(&g->t->turn, &g->first->why, refused,
			  g->timeout_ms ? g->timeout_ms : UINT64_MAX))
		return false;
	gone_ms = (fm_clock_real.now_ns(fm_clock_real.ctx) - since_ns) / FM_NS_PER_MS;
	if (g->limit_ms > 0 && gone_ms >= g->limit_ms) {
		set_late(g);
		return false;
	}
	g->timeout_ms = g->limit_ms > 0 ? g->limit_ms - gone_ms : 0;
	forget(g);
	return true;
}

static void run_until_taken(struct group *g, const char *src)
{
	uint64_t since_ns = fm_clock_real.now_ns(fm_clock_real.ctx);
	unsigned refused = 0;

	/* as in client/cli/background.c: each destination needs one */
	fmove_disconnect(g->t->conn);
	g->timeout_ms = g->limit_ms;
	do {
		run_all(g, src);
	} while (is_again(g, ++refused, since_ns));
}

/*
 * Whether the put failed at all of them, for a reason that may pass, and the time for another try
 * has come.
 */
static bool is_tried_again(struct group *g, struct fm_tries *tries)
{
	uint64_t bytes = 0;

	if (!g->first || g->is_commit || fm_is_interrupted())
		return false;
	for (unsigned i = 0; i < g->count; i++)
		bytes += g->dests[i].why.bytes;
	g->first->why.bytes = bytes;
	if (!fm_tries_again(tries, g->t->conn, &g->first->why)) {
		g->first->ret = g->first->why.code;
		return false;
	}
	forget(g);
	return true;
}

static void run(struct group *g, const char *src)
{
	struct fm_tries tries;

	fm_transfer_begin(g->t, src);
	fm_tries_begin(&tries, &g->t->opts);
	do {
		g->limit_ms = tries.opts.timeout_ms;
		run_until_taken(g, src);
	} while (is_tried_again(g, &tries));
	fm_transfer_end(g->t);
}

/* ---- what became of it ---- */

/* Whether this one failed only because another one did, which is reported there. */
static bool is_aside(const struct group *g, const struct dest *d)
{
	return d->ret == -ECANCELED && d != g->first;
}

static void dest_outcome(const struct group *g, const struct dest *d, const char *src,
			 struct fm_outcome *one)
{
	*one = (struct fm_outcome){ .source = src, .target = d->text, .result = d->result };
	if (g->is_tree || g->t->opts.tree)
		fm_dir_outcome(&g->t->dir, one);
	if (d->ret == 0) {
		(void)fm_transfer_latest(g->t, d->target, one);
		return;
	}
	one->is_kept = d->why.is_kept;
	one->is_aside = is_aside(g, d);
	if (one->is_aside && !fm_is_interrupted()) {
		(void)fm_err_set(&one->err, g->first->ret, "not put, because %.200s failed",
				 g->first->text);
		return;
	}
	one->is_told = true;
	(void)fm_transfer_error(&one->err, &d->why);
	if (!fm_is_interrupted())
		fm_err_wrap(&one->err, "%.200s -> %.200s", src, d->text);
}

/* Says which destinations have the file, and at which it is missing or not known. */
static void say_partly(const struct group *g, const char *src)
{
	char has[300] = "", lacks[300] = "";

	for (unsigned i = 0; i < g->count; i++) {
		const struct dest *d = &g->dests[i];
		char *list = d->ret == 0 ? has : lacks;
		size_t len = strlen(list);

		/* cut if it is too long */
		(void)snprintf(list + len, sizeof(has) - len, "%s%.80s", len > 0 ? ", " : "",
			       d->text);
	}
	fm_say("put: %.200s is at %s; at %s it is not, or it is not known", src, has, lacks);
}

/* Reports each destination. Returns the status of the whole: done, failed, or partly. */
static int tell(const struct group *g, const char *src)
{
	unsigned done = 0, there = 0;
	int code = 0;

	for (unsigned i = 0; i < g->count; i++) {
		struct fm_outcome one;

		dest_outcome(g, &g->dests[i], src, &one);
		done += one.err.code == 0;
		there += g->dests[i].ret == 0;
		if (code == 0)
			code = one.err.code;
		fm_outcomes_add(&g->t->outcomes, &one);
	}
	if (done == g->count)
		return FM_EXIT_DONE;
	if (there > 0 && there < g->count)
		say_partly(g, src);
	return done > 0 ? FM_EXIT_PARTLY
			: (int)fm_api_exit(fm_is_interrupted() ? -ECANCELED : code);
}

int fm_several_none(struct fm_transfer *t, const char *src, const struct fm_name *targets,
		    unsigned count, const struct fm_err *err)
{
	for (unsigned i = 0; i < count; i++) {
		char text[TARGET_TEXT_MAX];
		struct fm_outcome one = {
			.source = src, .target = text, .err = *err, .is_aside = i > 0};

		(void)fm_name_text(&targets[i], text, sizeof(text));
		fm_outcomes_add(&t->outcomes, &one);
	}
	return (int)fm_api_exit(err->code);
}

int fm_several_put(struct fm_transfer *t, const char *src, const struct fm_name *own,
		   const struct fm_name *targets, unsigned count)
{
	struct group g = { .t = t, .own = own, .count = count };
	struct fm_err err;
	int status;

	assert(count > 0 && count <= FM_SEVERAL_MAX);
	if (group_new(&g, &err) < 0)
		return fm_several_none(t, src, targets, count, &err);
	for (unsigned i = 0; i < count; i++) {
		g.dests[i].group = &g;
		g.dests[i].target = &targets[i];
		(void)fm_name_text(&targets[i], g.dests[i].text, sizeof(g.dests[i].text));
	}
	if (open_all(&g, src, &err) < 0) {
		status = fm_several_none(t, src, targets, count, &err);
	} else {
		run(&g, src);
		status = tell(&g, src);
	}
	group_free(&g);
	return status;
}
