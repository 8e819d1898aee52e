/* SPDX-License-Identifier: MIT */
/*
 * run - see run.h.
 *
 * Happy path: prepare (room; the tree's sink in the dataset's directory), the job, finish (the
 * manifest of what came; READY). A run that finds the whole tree there, since an earlier one was
 * killed behind it, goes on with finish. If an older version of the source is here, what did not
 * change is laid down first, and the tree that comes is an update of it, which gets the dataset's
 * name when it is whole.
 */
#include "staging/service/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/node/node.h"
#include "mover/store/held_file.h"
#include "mover/tree/remove.h"
#include "mover/tree/staging.h"
#include "staging/build.h"
#include "staging/cache_file.h"
#include "staging/key.h"
#include "staging/same.h"
#include "staging/service/hub.h"
#include "staging/service/local.h"
#include "staging/service/older.h"
#include "staging/service/rights.h"
#include "staging/service/served.h"
#include "staging/service/together.h"

#define COPY_LEN (64u << 10)

struct fm_stage_run {
	struct fm_list at;
	struct fm_stage_runs *runs;
	char job[FM_WIRE_JOB_LEN + 1];
	struct fm_list waiters;
	struct fm_cache_key key;
	struct fm_stage_totals totals;
	char node[65], store[65], path[FM_PATH_LEN_MAX + 1], name[FM_CACHE_NAME_MAX + 1];
	char source[FM_CACHE_SOURCE_MAX + 1];
	size_t path_len;
	uid_t uid;
	gid_t gid;
	char peer[FM_WIRE_NAME_MAX + 1];	/* "": he asked here */
	const char *phase;
	struct fm_work work;
	struct fm_queue_watch watch;
	struct fm_cache_fetch *fetch;
	struct fm_store *sink;		/* the dataset's directory */
	struct fm_file *file;
	struct fm_store_ref *from;	/* a store of this node; NULL: another node's */
	struct fm_served *served;	/* by the caller; NULL: it is of a store */
	struct fm_together *together;	/* NULL: it comes from the source alone */
	struct fm_together *also;	/* hears how it ends, but it does not come from there */
	struct fm_together_sink taker;
	bool is_shared;			/* it came so */
	bool is_alone;			/* no other node asked for it */
	bool is_there;			/* all of it came, in an earlier run */
	bool is_left;			/* it was served, and the last who waited has gone */
	bool is_coming;			/* its bytes do, now */
	bool is_hub;
	int draft;			/* of its manifest; -1: none */
	bool is_refused;		/* nothing was begun: its user, or the cache, has no room */
	bool is_update;			/* of what an older version had */
	_Atomic uint64_t taken, cloned;	/* bytes of that; of these what is no hard link */
	atomic_bool is_comparing;	/* an older version is read, to take from it; bytes of it */
	_Atomic uint64_t compared;
	/* a hub's, and its names say other bytes or places; or not what came */
	bool is_misnamed;
	bool is_damaged;		/* what came, however often it is read */
	atomic_bool is_stopped;
	_Atomic uint64_t done;		/* bytes of this phase, unless the job counts them */
	uint64_t id;
	struct fm_err err;
};

/* ---- the end ---- */

static void close_run(struct fm_work *work)
{
	struct fm_stage_run *r = fm_container_of(work, struct fm_stage_run, work);

	if (r->sink)
		r->sink->ops->free(r->sink);
	if (r->fetch)
		fm_cache_fetch_close(r->fetch);
}

static void tell_how_it_ended(const struct fm_stage_run *r, struct fm_together *t)
{
	if (r->err.code < 0)
		fm_together_refuse(t, &r->err);
	else
		fm_together_found(t);
	fm_together_put(t);
}

/* Of several nodes together.c says it. */
static void log_end(const struct fm_stage_run *r)
{
	uint64_t now_ns = fm_loop_now(r->runs->o.loop);
	struct fm_log_limit *lines;

	if (r->together)
		return;
	lines = r->peer[0] ? fm_engine_job_lines(r->runs->o.engine, r->peer)
			   : fm_log_of_user(&r->runs->lines, r->uid, now_ns);
	if (r->err.code < 0)
		fm_log_job(lines, now_ns, FM_LOG_WARN, r->job,
			   "staging of %.300s ended: %s", r->source, r->err.text);
	else
		fm_log_job(lines, now_ns, FM_LOG_INFO, r->job, "%.300s is ready here: %llu bytes",
			   r->source, (unsigned long long)r->totals.bytes);
}

/*
 * Whether somebody who waits may have what the user of this run may not: that is over his quota, or
 * his share of places; some of these are for root alone.
 */
static bool is_others(const struct fm_stage_run *r, const struct fm_stage_waiter *w)
{
	bool is_same = w->uid == r->uid && strcmp(w->peer ? w->peer : "", r->peer) == 0;
	bool is_root = w->uid == 0 && !w->peer;

	return r->is_refused && !r->runs->is_stopping && !is_same &&
	       (r->err.code == -EDQUOT || (r->err.code == -ENOSPC && is_root));
}

/* Whether a run with other nodes goes on here by the request of one of those. */
static bool goes_on(const struct fm_stage_run *r, const struct fm_together *t)
{
	fm_list_each (at, next, &r->waiters) {
		const struct fm_stage_waiter *w = fm_container_of(at, struct fm_stage_waiter, at);

		if (w->together == t && is_others(r, w))
			return true;
	}
	return false;
}

static void end_together(const struct fm_stage_run *r, struct fm_together *t, bool is_told)
{
	if (!t)
		return;
	if (is_told || goes_on(r, t))
		fm_together_put(t);
	else
		tell_how_it_ended(r, t);
}

static void closed(struct fm_work *work)
{
	struct fm_stage_run *r = fm_container_of(work, struct fm_stage_run, work);
	struct fm_engine *engine = r->runs->o.engine;

	fm_list_del(&r->at);
	log_end(r);
	end_together(r, r->together, r->is_shared);
	end_together(r, r->also, false);
	if (r->from)
		fm_engine_store_put(r->from);
	fm_served_put(r->served);
	if (r->draft >= 0)
		(void)close(r->draft);	/* only read */
	while (!fm_list_is_empty(&r->waiters)) {
		struct fm_stage_waiter *w =
			fm_container_of(r->waiters.next, struct fm_stage_waiter, at);

		fm_list_del(&w->at);
		w->is_others = is_others(r, w);
		w->ended(w, r->id, &r->err);
	}
	free(r);
	fm_engine_check_stopped(engine);
}

static void submit_awaiting(struct fm_stage_run *r, void (*run)(struct fm_work *w),
			    void (*done)(struct fm_work *w), const void *may_await,
			    enum fm_work_length length)
{
	r->work = (struct fm_work){ .run = run, .done = done, .user = r->uid, .job = r->job,
				    .may_await = may_await,
				    .awaits_caller = r->served && may_await,
				    .length = length,
				    .who = r->peer[0] ? fm_share_name(r->peer)
						      : fm_share_user(r->uid) };
	fm_worker_submit(r->runs->o.worker, &r->work, r->runs->o.loop);
}

static void submit(struct fm_stage_run *r, void (*run)(struct fm_work *w),
		   void (*done)(struct fm_work *w))
{
	submit_awaiting(r, run, done, NULL, FM_WORK_BRIEF);
}

static void discard(struct fm_work *work)
{
	struct fm_stage_run *r = fm_container_of(work, struct fm_stage_run, work);
	uint64_t id = fm_cache_fetch_id(r->fetch);
	struct fm_err err;

	close_run(work);
	r->sink = NULL;
	r->fetch = NULL;
	/* it makes room as any other one else */
	(void)fm_cache_discard(r->runs->cache, id, &err);
}

/*
 * Whether what came is of no use: the source changed, a blob is not what its name says, it is
 * damaged, or another copy is here. No later request would go on with it, and it would keep its
 * room for nothing. Nor is what a caller served by half: it may be anything, and his next try
 * anything else.
 */
static bool is_useless(const struct fm_stage_run *r)
{
	bool is_wrong = r->err.code == -ESTALE || r->is_misnamed || r->is_damaged ||
			(r->served && r->err.code < 0);

	return r->fetch && (is_wrong || r->id != fm_cache_fetch_id(r->fetch));
}

static void end_run(struct fm_stage_run *r)
{
	/* Whoever reads for it says only that he was told to end. */
	if (r->is_left && (r->err.code == -ECANCELED || r->err.code == -EHOSTDOWN))
		(void)fm_err_set(&r->err, -ECANCELED, "nobody waits for it any more");
	submit(r, is_useless(r) ? discard : close_run, closed);
}

/* ---- finish ---- */

/*
 * Opens the directory that a manifest is made from. For a dataset of one file, that is the
 * directory that the file is in.
 */
static int open_root(const struct fm_stage_run *r, int dir)
{
	return fm_call_open_below(dir, r->totals.is_file ? "." : r->name,
				  O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, 0);
}

static const char *file_of(const struct fm_stage_run *r)
{
	return r->totals.is_file ? r->name : NULL;
}

static int copy_bytes(int from, int to)
{
	uint8_t buf[COPY_LEN];
	int64_t n = 1;
	int ret = 0;

	for (uint64_t at = 0; ret == 0 && n > 0; at += (uint64_t)n) {
		n = fm_call_read_all(from, buf, sizeof(buf), at);
		ret = n < 0 ? (int)n : fm_call_write_all(to, buf, (size_t)n, at);
	}
	return ret;
}

/* What came by extents has its CRCs from memory: nothing is read again. */
static int copy_manifest(struct fm_stage_run *r, int from, int to, struct fm_cache_key *version,
			 struct fm_stage_totals *came)
{
	int ret = FM_FAULT("stage.manifest_copy") ? -ENOSPC : copy_bytes(from, to);

	if (ret == 0)
		ret = fm_stage_manifest_check(to, version->bytes, came);
	return ret < 0 ? fm_err_making(&r->err, ret, to, "make the manifest of %s", r->name) : 0;
}

/* It came, and was not made READY: by what is on the disk it would be whatever is there now. */
static int compare_with_came(struct fm_stage_run *r, int manifest, uint32_t extents)
{
	int ret = fm_together_agrees(fm_cache_fetch_dir(r->fetch), manifest, extents);

	if (ret < 0 && ret != -EBADMSG)
		return fm_err_sys(&r->err, ret, "compare %s with what came", r->name);
	r->is_misnamed |= ret < 0;
	return ret == 0 ? 0
			: fm_err_set(&r->err, ret,
				     "what came of %.200s before is damaged on the disk of the "
				     "cache: that is thrown away; run it again",
				     r->source);
}

/*
 * Whole, and not what was kept with its source; or it came earlier, and the cache's disk does not
 * give it back. A later request would only read it again, also when its source is right by then.
 */
static int refuse_damaged(struct fm_stage_run *r, int ret)
{
	char text[FM_ERR_TEXT_MAX];

	r->is_damaged = true;
	(void)snprintf(text, sizeof(text), "%s", r->err.text);
	return fm_err_set(&r->err, ret,
			  "%.300s; its source or this copy is damaged; the copy is thrown away: "
			  "run it again, or fmove verify at the source",
			  text);
}

/* What the one file was laid out in (together_io.c), also by a daemon that was killed then. */
static int remove_laid(struct fm_stage_run *r)
{
	int ret = r->totals.is_file ? fm_tree_remove(fm_cache_fetch_dir(r->fetch),
						     FM_TOGETHER_LAID, NULL)
				    : 0;

	return ret < 0 ? fm_err_sys(&r->err, ret, "finish %s", r->name) : 0;
}

static int make_manifest(struct fm_stage_run *r, int data, struct fm_cache_key *version)
{
	atomic_bool is_unreadable = false;
	const struct fm_stage_build_opts opts = { .root = data, .file = file_of(r),
						  .is_stopped = &r->is_stopped,
						  .bytes_done = &r->done,
						  .draft = r->draft >= 0 ? &r->draft : NULL,
						  .is_unreadable = &is_unreadable };
	int dir = fm_cache_fetch_dir(r->fetch), ret;
	int filled = r->is_shared ? fm_together_manifest(r->together) : -1;
	struct fm_stage_totals came;
	int fd = openat(dir, FM_CACHE_MANIFEST_NAME, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		return fm_err_making(&r->err, -errno, dir, "make the manifest of %s", r->name);
	if (filled >= 0)
		ret = copy_manifest(r, filled, fd, version, &came);
	else
		ret = fm_stage_build(&opts, fd, version->bytes, &came, &r->err);
	if (filled < 0 && (ret == -EILSEQ || (is_unreadable && r->is_there)))
		ret = refuse_damaged(r, ret);
	if (ret == 0 && r->is_there)
		ret = compare_with_came(r, fd, came.extents);
	if (ret == 0 && fsync(fd) < 0)
		ret = fm_err_sys(&r->err, -errno, "sync the manifest of %s", r->name);
	(void)close(fd);	/* it is synced */
	if (ret == 0 && memcmp(came.listing, r->totals.listing, FM_SHA256_LEN) != 0)
		ret = fm_err_set(&r->err, -ESTALE,
				 "%.200s changed while it was fetched; run it again when "
				 "nothing writes there",
				 r->source);
	return ret;
}

static int refuse_spoilt(struct fm_stage_run *r)
{
	r->is_misnamed = true;
	return fm_err_set(&r->err, -EBADMSG,
			  "what came of %.200s is damaged on the disk of the cache: that is thrown "
			  "away; run it again",
			  r->source);
}

static bool is_spoilt(void *ctx)
{
	const struct fm_stage_run *r = ctx;

	return fm_together_is_spoilt(r->together);
}

static int compare_with(struct fm_stage_run *r, char *path)
{
	int ours = open_root(r, fm_cache_fetch_dir(r->fetch)), other, ret;

	if (r->totals.is_file)	/* of one version, both have one name */
		*strrchr(path, '/') = '\0';
	other = fm_call(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	ret = ours < 0 ? ours : other;
	if (ret < 0)
		(void)fm_err_sys(&r->err, ret, "compare %s with %s", r->name, path);
	else
		ret = fm_stage_same(ours, other, file_of(r), &r->is_stopped, &r->err);
	if (ret == 0 && r->is_shared && (ret = fm_together_is_other(r->together, other)) < 0)
		(void)fm_err_sys(&r->err, ret, "read %s", path);
	if (ours >= 0)
		(void)close(ours);	/* only read */
	if (other >= 0)
		(void)close(other);
	return ret;
}

/*
 * A dataset of another source in this store is here, with the same names, times and CRCs. If its
 * bytes are the same too, it is the answer. What came is thrown away in either case, so it is
 * nobody's concern that it is damaged.
 */
static void take_other(struct fm_stage_run *r, const struct fm_cache_key *version)
{
	char path[FM_PATH_LEN_MAX + 1];
	struct fm_cache_info info;
	int ret;

	r->id = fm_cache_find_version(r->runs->cache, version);
	fm_err_clear(&r->err);
	if (!fm_cache_look(r->runs->cache, r->id, &info) ||
	    fm_cache_path(r->runs->cache, r->id, path, sizeof(path)) < 0)
		(void)fm_err_set(&r->err, -ENOENT, "%s was removed meanwhile; run it again",
				 r->name);
	else if ((ret = compare_with(r, path)) == -EEXIST && r->is_shared && is_spoilt(r))
		(void)refuse_spoilt(r);	/* other nodes found it so, which says why */
	else if (ret == -EEXIST)
		(void)fm_err_set(
			&r->err, -EEXIST,
			"%s has the names, times and CRCs of %s, which is "
			"staged here as %s, and other bytes: one of them was made to look like "
			"the other; fmove unstage the one that is not wanted",
			r->source, info.source, info.name);
}

static int verify_hub(struct fm_stage_run *r, int data)
{
	bool is_hash;
	int ret = fm_hub_verify(data, r->path, &r->is_stopped, &r->done, &is_hash, &r->err);

	r->is_misnamed = ret == -EBADMSG || ret == -EXDEV;
	if (ret == 0 && r->is_there && !is_hash) {
		/* nothing says any more whether other nodes than the source sent it */
		r->is_misnamed = true;
		return fm_err_set(&r->err, -ESTALE,
				  "%.200s has files without a hash in their name, and came before "
				  "fmoved was started or failed: that is thrown away; run it again",
				  r->source);
	}
	if (ret == 0 && r->is_shared && !is_hash) {
		/* what came from other nodes than the source must show by itself that it is that */
		r->is_misnamed = true;
		return fm_err_set(&r->err, -EOPNOTSUPP,
				  "%.200s has files without a hash in their name: stage it on each "
				  "node, without --nodes",
				  r->source);
	}
	return ret < 0 ? fm_err_wrap(&r->err, "%.200s", r->source) : 0;
}

static int remove_ours(void *ctx, const char *name)
{
	return fm_staging_is_ours(name) ? fm_tree_remove(*(const int *)ctx, name, NULL) : 0;
}

/* What came as an update is whole: it gets the dataset's name. */
static int name_update(struct fm_stage_run *r)
{
	int dir = fm_cache_fetch_dir(r->fetch);
	int ret = fm_cache_names(dir, remove_ours, &dir);	/* what it replaced, too */

	return ret < 0 ? ret : fm_call_renameat(dir, FM_STAGE_TAKEN, dir, r->name, 0);
}

/* Whether the bytes are here already as those of another store, whose rules are others. */
static bool is_of_another_store(const struct fm_stage_run *r, const struct fm_cache_key *version)
{
	uint64_t id = fm_cache_find_version(r->runs->cache, version);
	struct fm_cache_info info;

	return fm_cache_look(r->runs->cache, id, &info) &&
	       !fm_stage_is_same_store(info.source, r->source);
}

/*
 * Who may read a copy is asked of one store. One that two of them share would be taken from users
 * of the first by the rules of the second, and the reverse: so each store has a copy of its own.
 */
static int make_ready(struct fm_stage_run *r, struct fm_cache_key *version)
{
	int ret = fm_cache_fetch_ready(r->fetch, version, &r->err);

	if (ret != -EEXIST || !is_of_another_store(r, version))
		return ret;
	fm_err_clear(&r->err);
	ret = fm_stage_store_version(r->source, version->bytes);
	return ret < 0 ? fm_err_sys(&r->err, ret, "name the version of %s", r->name)
		       : fm_cache_fetch_ready(r->fetch, version, &r->err);
}

/*
 * What is of a user's own cache shares no copy with anything, not even of the same bytes: its
 * version is of its source, too.
 */
static int make_own(struct fm_stage_run *r, struct fm_cache_key *version)
{
	return fm_stage_own_version(r->source, version->bytes) < 0
		       ? fm_err_sys(&r->err, -ENOMEM, "name the version of %s", r->name)
		       : 0;
}

/*
 * Each extent was saved when it came. Other nodes read them, and may have found one bad; they may
 * still do while all is synced, so that is asked again behind it.
 */
static int check_spoilt(struct fm_stage_run *r)
{
	fm_cache_fetch_ask(r->fetch, is_spoilt, r);
	return is_spoilt(r) ? refuse_spoilt(r) : 0;
}

static void finish(struct fm_work *work)
{
	struct fm_stage_run *r = fm_container_of(work, struct fm_stage_run, work);
	struct fm_cache_key version;
	int dir = fm_cache_fetch_dir(r->fetch), ret = r->is_update ? name_update(r) : 0;
	int data = ret < 0 ? ret : open_root(r, dir);

	if (data < 0) {
		(void)fm_err_sys(&r->err, data, "open what came of %s", r->name);
		return;
	}
	fm_cache_fetch_wrote(r->fetch, r->totals.bytes, r->totals.entries);
	ret = remove_laid(r);
	if (ret == 0)
		ret = make_manifest(r, data, &version);
	if (ret == 0 && r->served)
		ret = make_own(r, &version);
	if (ret == 0 && r->is_hub)
		ret = verify_hub(r, data);
	(void)close(data);	/* only read */
	if (ret < 0)
		return;
	/* The dataset's manifest replaces what the transfer left for fmove verify. What stays does
	 * no harm. */
	(void)fm_cache_names(dir, remove_ours, &dir);
	for (unsigned i = 0; i < (r->totals.extents ? r->totals.extents : 1); i++)
		fm_cache_fetch_mark(r->fetch, i);
	ret = r->is_shared ? check_spoilt(r) : fm_cache_fetch_save(r->fetch, &r->err);
	if (ret == 0)
		ret = make_ready(r, &version);
	if (ret == -EEXIST)
		take_other(r, &version);
	else if (ret == -EBADMSG)
		(void)refuse_spoilt(r);
}

/* Tells the other nodes how it ended here. */
static void tell_together(struct fm_stage_run *r)
{
	char path[FM_PATH_LEN_MAX + 1] = "";

	if (r->err.code == 0)
		/* it is READY; if it goes just now it has no path */
		(void)fm_cache_path(r->runs->cache, r->id, path, sizeof(path));
	fm_together_published(r->together, path, &r->err);
}

static void finished(struct fm_work *work)
{
	struct fm_stage_run *r = fm_container_of(work, struct fm_stage_run, work);

	if (r->is_shared)
		tell_together(r);
	end_run(r);
}

static void begin_finish(struct fm_stage_run *r)
{
	r->phase = "checking";
	atomic_store(&r->done, 0);
	submit(r, finish, finished);
}

/* ---- the job ---- */

static void fetched(struct fm_queue_watch *watch, const struct fm_job_result *result)
{
	struct fm_stage_run *r = fm_container_of(watch, struct fm_stage_run, watch);

	r->is_coming = false;
	if (result->code < 0) {
		r->err = result->err;
		end_run(r);
		return;
	}
	begin_finish(r);
}

static const struct fm_queue_events fetch_events = { .done = fetched };

static int start_job(struct fm_stage_run *r)
{
	const struct fm_queue_opts o = {
		.job = { .node = r->node, .store = r->store, .path = r->path,
			 .path_len = r->path_len, .file = r->file,
			 .attr = { .type = FM_NODE_DIR, .size = FM_SIZE_UNKNOWN },
			 .who = { NULL, r->uid, r->gid }, .durability = FM_DURABILITY_DISK,
			 .is_update = r->is_update },
		.end = FM_QUEUE_FILE,
		.fd = -1,
		.journal = -1,
		.file = "",
		.peer = r->peer,
		.id = r->job,
	};
	int ret;

	r->file = NULL;		/* taken over */
	r->phase = "fetching";
	r->watch.events = &fetch_events;
	ret = fm_queue_submit(r->runs->o.queue, &o, &r->watch, &r->err);
	r->is_coming = ret == 0;
	return ret;
}

/* ---- from a store of this node ---- */

static void copy(struct fm_work *work)
{
	struct fm_stage_run *r = fm_container_of(work, struct fm_stage_run, work);
	const struct fm_stage_local l = {
		.store = r->from ? r->from->store : NULL, .served = r->served,
		.totals = &r->totals, .path = r->path, .who = { NULL, r->uid, r->gid },
		.is_stopped = &r->is_stopped, .bytes_done = &r->done, .is_update = r->is_update,
	};

	if (r->totals.is_file) {
		(void)fm_stage_local_copy_file(&l, fm_cache_fetch_dir(r->fetch), r->name, &r->err);
		return;
	}
	if (fm_stage_local_copy(&l, r->key.bytes, r->file, &r->err) < 0 && r->file->ops->keep)
		r->file->ops->keep(r->file);
	fm_file_close(r->file);
	r->file = NULL;
}

static void copied(struct fm_work *work)
{
	struct fm_stage_run *r = fm_container_of(work, struct fm_stage_run, work);

	r->is_coming = false;
	if (r->err.code == 0 && r->is_left)	/* no thread had it yet */
		(void)fm_err_set(&r->err, -ECANCELED, "cancelled");
	if (r->file)	/* which nobody has taken then */
		fm_file_give_up(r->file, false);
	r->file = NULL;
	if (r->err.code == 0)
		begin_finish(r);
	else
		end_run(r);
}

static void submit_copy(struct fm_stage_run *r)
{
	const void *store = r->from ? fm_store_may_await(r->from->store) : NULL;

	submit_awaiting(r, copy, copied, r->served ? fm_served_may_await(r->served) : store,
			r->served ? FM_WORK_BRIEF : FM_WORK_COPIES);
}

static void look_up(struct fm_work *work)
{
	struct fm_stage_run *r = fm_container_of(work, struct fm_stage_run, work);
	const struct fm_who who = { NULL, r->uid, r->gid };

	(void)fm_stage_rights_may_read(r->from->store, &who);	/* what copies it says so */
}

static void looked_up(struct fm_work *work)
{
	submit_copy(fm_container_of(work, struct fm_stage_run, work));
}

/* As with a listing, a user database that does not answer is waited for first, apart. */
static void start_copy(struct fm_stage_run *r)
{
	const struct fm_who who = { NULL, r->uid, r->gid };
	const struct fm_store *s = r->from && !r->served ? r->from->store : NULL;
	const void *users = fm_stage_rights_to_look_up(s, &who);

	r->phase = "copying";
	r->is_coming = true;
	if (users)
		submit_awaiting(r, look_up, looked_up, users, FM_WORK_BRIEF);
	else
		submit_copy(r);
}

/* ---- with other nodes ---- */

static void all_came(struct fm_together_sink *sink)
{
	struct fm_stage_run *r = fm_container_of(sink, struct fm_stage_run, taker);

	r->is_shared = true;
	begin_finish(r);
}

static int open_sink(struct fm_stage_run *r);

/* A single file of a store of this node is copied without one. */
static bool needs_sink(const struct fm_stage_run *r)
{
	return !(r->from && r->totals.is_file);
}

static void prepare_alone(struct fm_work *work)
{
	struct fm_stage_run *r = fm_container_of(work, struct fm_stage_run, work);

	if (needs_sink(r))
		(void)open_sink(r);
}

static void prepared_alone(struct fm_work *work)
{
	struct fm_stage_run *r = fm_container_of(work, struct fm_stage_run, work);

	if (r->err.code == -ECANCELED && r->runs->is_stopping)
		(void)fm_err_set(&r->err, -EHOSTDOWN, "fmoved stops");
	if (r->err.code < 0)
		end_run(r);
	else if (r->from)
		start_copy(r);
	else if (start_job(r) < 0)
		end_run(r);
}

/*
 * No other node sends anything. If the source does not stage, this node fetches the dataset alone.
 */
static void none_comes(struct fm_together_sink *sink, const struct fm_err *err)
{
	struct fm_stage_run *r = fm_container_of(sink, struct fm_stage_run, taker);

	if (err->code == -EOPNOTSUPP && r->is_alone) {
		submit(r, prepare_alone, prepared_alone);
		return;
	}
	r->err = *err;
	r->is_misnamed |= err->code == -EBADMSG && fm_together_is_spoilt(r->together);
	end_run(r);
}

static void start_together(struct fm_stage_run *r)
{
	r->phase = "staging";
	r->taker = (struct fm_together_sink){ .publish = all_came, .ended = none_comes };
	fm_together_take(r->together, &r->taker, r->fetch);
}

/* ---- prepare ---- */

static int has_ours(void *ctx, const char *name)
{
	(void)ctx;
	return fm_staging_is_ours(name);
}

/*
 * What is unchanged in an older version, below FM_STAGE_TAKEN. A fetch that went without it so far
 * goes on so. Whatever goes wrong, the rest is all of it; but who is told to stop keeps what he
 * took.
 */
static int take_older(struct fm_stage_run *r)
{
	struct fm_stage_older o = { .cache = r->runs->cache, .source = r->source,
				    .draft = r->draft, .is_stopped = &r->is_stopped,
				    .bytes_done = &r->compared };
	int dir = fm_cache_fetch_dir(r->fetch);
	struct fm_err err;
	struct stat st;
	bool is_gone_on = fm_call_fstatat(dir, FM_STAGE_TAKEN, &st) == 0;
	int ret;

	r->is_update = false;
	if (r->draft < 0 || r->totals.is_file ||
	    r->totals.entries > FM_TREE_HARDLINKS_MAX ||
	    (!is_gone_on && fm_cache_names(dir, has_ours, NULL) != 0))
		return 0;
	atomic_store(&r->is_comparing, true);
	ret = fm_stage_older_take(&o, r->fetch, &err);
	atomic_store(&r->is_comparing, false);
	if (ret <= 0)
		return ret == -ECANCELED ? ret : 0;
	atomic_store(&r->taken, o.bytes);
	atomic_store(&r->cloned, o.bytes - o.linked);
	r->is_update = o.bytes > 0;
	return 0;
}

static int remove_tries(struct fm_stage_run *r)
{
	int dir = fm_cache_fetch_dir(r->fetch), ret = fm_tree_remove(dir, FM_STAGE_TAKEN, NULL);

	if (ret == 0 && r->served)	/* whole, and wrong, or not looked at any more */
		ret = fm_tree_remove(dir, r->name, NULL);
	return ret < 0 ? ret : fm_cache_names(dir, remove_ours, &dir);
}

/* Removes what came of it in another way: together with others, or beside an older version. */
static int begin_anew(struct fm_stage_run *r)
{
	int dir = fm_cache_fetch_dir(r->fetch), ret = fm_tree_remove(dir, FM_TOGETHER_LAID, NULL);
	struct stat st;

	if (ret < 0 || r->is_update || fm_call_fstatat(dir, FM_STAGE_TAKEN, &st) < 0)
		return ret;
	return remove_tries(r);
}

static int open_sink(struct fm_stage_run *r)
{
	static const char *const everybody[] = { "*", NULL };
	struct fm_create_tree how = { .is_durable = true, .has_digests = true,
				      .bytes = r->totals.bytes };
	const struct fm_create how_file = { .size = FM_SIZE_UNKNOWN, .is_resumable = true,
					    .is_synced = true };
	const struct fm_who who = { NULL, r->uid, r->gid };
	char directory[64];
	struct fm_store_opts opts = { .name = "cache", .directory = directory, .read = everybody,
				      .write = everybody, .is_durable = true };
	/* Each try of a caller may bring other files: all of them were more than the dataset has
	 * room for. What a killed daemon left of one is not gone on with. */
	int ret = r->served ? remove_tries(r) : 0;

	if (ret == 0)
		ret = take_older(r);
	if (ret == -ECANCELED)
		return fm_err_set(&r->err, ret, "stopped");
	how.is_update = how.is_delete = how.has_any_mode = r->is_update;
	if (ret == 0)
		ret = begin_anew(r);
	if (ret < 0)
		return fm_err_sys(&r->err, ret, "begin %s anew", r->name);
	(void)snprintf(directory, sizeof(directory), "/proc/self/fd/%d",
		       fm_cache_fetch_dir(r->fetch));
	ret = fm_store_open(&opts, &r->sink, &r->err);
	if (ret < 0)
		return ret;
	if (r->totals.is_file)
		return r->sink->ops->create(r->sink, r->name, &who, &how_file, &r->file, &r->err);
	return r->sink->ops->create_tree(r->sink, r->is_update ? FM_STAGE_TAKEN : r->name, &who,
					 &how, &r->file, &r->err);
}

/* Whether an earlier run has fetched all of it. */
static bool is_there(const struct fm_stage_run *r)
{
	struct stat st;

	return fm_call_fstatat(fm_cache_fetch_dir(r->fetch), r->name, &st) == 0 &&
	       (r->totals.is_file ? S_ISREG(st.st_mode) : S_ISDIR(st.st_mode));
}

static void prepare(struct fm_work *work)
{
	struct fm_stage_run *r = fm_container_of(work, struct fm_stage_run, work);
	const struct fm_cache_plan plan = {
		.listing = r->key,
		.name = r->name,
		.source = r->source,
		.bytes = r->totals.bytes,
		.files = r->totals.entries,
		.extents = r->totals.extents ? r->totals.extents : 1,
		.cost = 1,
		.uid = r->uid,
		.node = r->peer[0] ? r->peer : NULL,
	};
	int ret = fm_cache_fetch(r->runs->cache, &plan, &r->fetch, &r->err);

	r->is_refused = ret == -EDQUOT || ret == -ENOSPC;
	if (ret == -EALREADY) {
		r->id = fm_cache_find_listing(r->runs->cache, &r->key);
		fm_err_clear(&r->err);
	}
	if (ret < 0)
		return;
	r->id = fm_cache_fetch_id(r->fetch);
	if (fm_cache_allow_user(r->runs->cache, r->id, r->uid, r->peer[0], &r->err) < 0)
		return;
	r->is_there = !r->served && is_there(r);
	if (!r->is_there && !r->together && needs_sink(r))
		(void)open_sink(r);
}

static void prepared(struct fm_work *work)
{
	struct fm_stage_run *r = fm_container_of(work, struct fm_stage_run, work);

	if ((r->err.code == 0 || r->err.code == -ECANCELED) && r->runs->is_stopping)
		(void)fm_err_set(&r->err, -EHOSTDOWN, "fmoved stops");
	if (r->err.code == 0 && r->is_left)
		(void)fm_err_set(&r->err, -ECANCELED, "cancelled");
	if (r->err.code < 0 && r->file)
		fm_file_give_up(r->file, true);
	if (r->err.code < 0 || !r->fetch)
		end_run(r);
	else if (r->is_there)
		begin_finish(r);
	else if (r->together)
		start_together(r);
	else if (r->from || r->served)
		start_copy(r);
	else if (start_job(r) < 0)
		end_run(r);
}

/* ---- from outside ---- */

void fm_stage_runs_init(struct fm_stage_runs *runs, const struct fm_stager_opts *opts,
			struct fm_cache *cache)
{
	fm_list_init(&runs->all);
	runs->o = *opts;
	runs->lines.most = FM_LOG_USER_LINES;
	runs->cache = cache;
}

void fm_stage_runs_stop(struct fm_stage_runs *runs)
{
	runs->is_stopping = true;
	fm_list_each (at, next, &runs->all) {
		struct fm_stage_run *r = fm_container_of(at, struct fm_stage_run, at);

		atomic_store(&r->is_stopped, true);
		fm_served_cancel(r->served);
	}
}

static void note_written(struct fm_stage_run *r)
{
	struct fm_queue_progress p = { .job = { .bytes_done = atomic_load(&r->done) } };

	if (r->watch.job)
		fm_queue_progress(r->watch.job, &p);
	fm_cache_fetch_wrote(r->fetch, atomic_load(&r->cloned) + p.job.bytes_done, p.job.files);
}

void fm_stage_runs_note(struct fm_stage_runs *runs)
{
	fm_list_each(at, next, &runs->all) {
		struct fm_stage_run *r = fm_container_of(at, struct fm_stage_run, at);

		if (r->is_coming)
			note_written(r);
	}
}

static struct fm_stage_run *find(const struct fm_stage_runs *runs, const struct fm_cache_key *key)
{
	fm_list_each(at, next, &runs->all) {
		struct fm_stage_run *r = fm_container_of(at, struct fm_stage_run, at);

		if (memcmp(&r->key, key, sizeof(*key)) == 0)
			return r;
	}
	return NULL;
}

const char *fm_stage_runs_doing(const struct fm_stage_runs *runs, const struct fm_cache_key *key)
{
	const struct fm_stage_run *r = find(runs, key);

	if (!r)
		return NULL;
	if (strcmp(r->phase, "making room") == 0)
		return "planned";
	return strcmp(r->phase, "staging") == 0 ? "fetching" : r->phase;
}

bool fm_stage_runs_do_for(const struct fm_stage_runs *runs, const struct fm_cache_key *key,
			  const struct fm_together *together)
{
	const struct fm_stage_run *r = find(runs, key);

	return r && (r->together == together || r->also == together);
}

static struct fm_stage_run *new_run(struct fm_stage_runs *runs, const struct fm_stage_plan *plan)
{
	int draft = plan->draft < 0 ? -1 : fm_call(fcntl(plan->draft, F_DUPFD_CLOEXEC, 0));
	struct fm_stage_run *r = FM_FAULT("stage.run") ? NULL : calloc(1, sizeof(*r));

	if (!r || (draft < 0 && plan->draft >= 0)) {
		free(r);
		if (draft >= 0)
			(void)close(draft);	/* only read */
		return NULL;
	}
	r->runs = runs;
	(void)snprintf(r->job, sizeof(r->job), "%s", plan->job);
	r->totals = *plan->totals;
	r->key = *plan->key;
	r->uid = plan->uid;
	(void)snprintf(r->peer, sizeof(r->peer), "%s", plan->peer ? plan->peer : "");
	r->gid = plan->gid;
	r->is_hub = plan->is_hub;
	r->draft = draft;
	(void)snprintf(r->node, sizeof(r->node), "%s", plan->node);
	(void)snprintf(r->store, sizeof(r->store), "%s", plan->store);
	(void)snprintf(r->name, sizeof(r->name), "%s", plan->name);
	memcpy(r->path, plan->path, plan->path_len);
	r->path_len = plan->path_len;
	r->together = plan->together;
	r->is_alone = plan->is_alone;
	r->served = fm_served_ref(plan->served);
	if (r->together) {
		fm_together_get(r->together);
		fm_together_will_take(r->together);
	}
	(void)snprintf(r->source, sizeof(r->source), "%s", plan->source);
	if (strcmp(r->node, runs->o.node) == 0)
		r->from = fm_engine_store_get(runs->o.engine, r->store, strlen(r->store));
	fm_list_init(&r->waiters);
	fm_stage_runs_note(runs);
	fm_list_append(&runs->all, &r->at);
	r->phase = "making room";
	submit(r, prepare, prepared);
	return r;
}

/*
 * A run with other nodes began too late for this fetch. The other nodes still wait for this node,
 * so they hear of its end.
 */
static void tell_also(struct fm_stage_run *r, struct fm_together *t)
{
	if (!t || t == r->together || t == r->also)
		return;
	if (r->also)
		fm_together_put(r->also);	/* it is over, or there were not two */
	fm_together_get(t);
	r->also = t;
}

int fm_stage_run_join(struct fm_stage_runs *runs, const struct fm_stage_plan *plan,
		      struct fm_stage_waiter *waiter, struct fm_stage_run **out, struct fm_err *err)
{
	struct fm_stage_run *r = find(runs, plan->key);

	if (!r)
		r = new_run(runs, plan);
	if (!r)
		return fm_err_set(err, -ENOMEM, "no memory to fetch %s", plan->name);
	tell_also(r, plan->together);
	waiter->uid = plan->uid;
	waiter->peer = plan->peer;
	waiter->together = plan->together;
	fm_list_append(&r->waiters, &waiter->at);
	*out = r;
	return 0;
}

void fm_stage_run_leave(struct fm_stage_run *r, struct fm_stage_waiter *waiter)
{
	fm_list_del(&waiter->at);
	if (!r->served || !fm_list_is_empty(&r->waiters))
		return;
	r->is_left = true;
	atomic_store(&r->is_stopped, true);
	fm_served_cancel(r->served);
	if (r->is_coming)
		(void)fm_worker_cancel(r->runs->o.worker, &r->work);
}

const char *fm_stage_run_job(const struct fm_stage_run *run)
{
	return run->job;
}

void fm_stage_run_look(const struct fm_stage_run *run, struct fm_stage_progress *out)
{
	struct fm_queue_progress p;

	*out = (struct fm_stage_progress){ .phase = run->phase, .size = run->totals.bytes };
	if (atomic_load(&run->is_comparing)) {
		out->phase = "comparing";
		out->bytes = atomic_load(&run->compared);
	} else if (run->together && !run->is_shared && !run->watch.job) {
		out->bytes = fm_together_done(run->together);
	} else if (run->watch.job) {
		fm_queue_progress(run->watch.job, &p);
		out->bytes = atomic_load(&run->taken) + p.job.bytes_done;
		if (out->bytes > out->size)	/* hard links count in whole blocks */
			out->bytes = out->size;
	} else {
		out->bytes = atomic_load(&run->done);
	}
}
