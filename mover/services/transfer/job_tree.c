/* SPDX-License-Identifier: MIT */
/*
 * job_tree - what a transfer of a tree has beyond that of a file. See job.h; tree/tree.h has the
 * ends.
 *
 * Source, happy path: PUT, READY (or GET, FOUND, READY) -> the tree is told what the far end wants
 * (worker) -> packs go as chunks; NEED feeds the tree; each large file that it found becomes a job
 * of its own, at most FM_JOB_SUBS_MAX at once -> packs and large files are all there -> FINISH.
 * Sink: PUT, create (or FOUND, begin) -> READY -> packs are applied, offers answered with NEED; PUT
 * with our number in `tree` makes a large file in it -> FINISH. Failure: a large file that fails
 * fails its tree, and a tree that ends ends them all; only the tree's end is told to the far end.
 * The tree's functions are stopped, so that nothing waits for a caller or a disk of which nobody
 * wants anything more. A tree is freed behind its last large file.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/fault.h"
#include "mover/base/holder.h"
#include "mover/base/show.h"
#include "mover/services/transfer/job.h"
#include "mover/store/held_file.h"
#include "mover/store/large_file.h"
#include "mover/store/tree_file.h"
#include "mover/tree/pack.h"

/* stretches of numbers of offering packs; they come nearly in order */
#define ANSWERED_MAX 65536u

_Static_assert(FM_WIRE_NEED_MAX == FM_TREE_OFFERS_MAX, "a NEED answers one pack");
_Static_assert(FM_WIRE_EXCLUDES_MAX == FM_TREE_EXCLUDES_MAX &&
		       FM_WIRE_EXCLUDE_LEN_MAX == FM_TREE_EXCLUDE_LEN_MAX,
	       "what may be excluded may be asked for");

/* ---- the job ---- */

bool fm_job_has_room_for_tree(const struct fm_engine *e)
{
	return fm_jobs_of(e)->tree_count - fm_jobs_of(e)->peer_trees.used < FM_TREES_LOCAL_MAX;
}

void fm_job_set_tree(struct fm_job *j)
{
	j->is_tree = true;
	fm_jobs_of(j->engine)->tree_count++;
}

int fm_job_set_peers_tree(struct fm_job *j)
{
	struct fm_err err;
	int ret = fm_share_take(&fm_jobs_of(j->engine)->peer_trees, fm_share_name(j->peer_name), 1,
				&j->tree.place, &err);

	if (ret < 0) {
		fm_job_fail(j, &err);
		return ret;
	}
	fm_job_set_tree(j);
	j->deadline_ns = j->started_ns + FM_JOB_OPEN_TREE_NS;
	return 0;
}

int fm_job_set_excludes(struct fm_job *j, const struct fm_wire_str *at, size_t count,
			struct fm_err *err)
{
	size_t bytes = (count + 1) * sizeof(*j->tree.excludes);
	char *text;

	for (size_t i = 0; i < count; i++)
		bytes += at[i].len + 1;
	j->tree.excludes = FM_FAULT("job.excludes") ? NULL : malloc(bytes);
	if (!j->tree.excludes)
		return fm_err_sys(err, -ENOMEM, "remember what to exclude");
	text = (char *)&j->tree.excludes[count + 1];
	for (size_t i = 0; i < count; i++) {
		j->tree.excludes[i] = text;
		memcpy(text, at[i].at, at[i].len);
		text[at[i].len] = '\0';
		text += at[i].len + 1;
	}
	j->tree.excludes[count] = NULL;
	return 0;
}

int fm_job_set_excludes_of(struct fm_job *j, const char *const *at, struct fm_err *err)
{
	struct fm_wire_str strs[FM_TREE_EXCLUDES_MAX];
	size_t count = 0;

	for (; at[count]; count++) {
		if (count == FM_TREE_EXCLUDES_MAX)
			return fm_err_set(err, -EINVAL, "more than %d patterns to exclude",
					  FM_TREE_EXCLUDES_MAX);
		strs[count] = fm_wire_str(at[count]);
		if (strs[count].len == 0 || strs[count].len > FM_TREE_EXCLUDE_LEN_MAX)
			return fm_err_set(err, -EINVAL, "a pattern to exclude has 1 to %d bytes",
					  FM_TREE_EXCLUDE_LEN_MAX);
	}
	return fm_job_set_excludes(j, strs, count, err);
}

static struct fm_tree *tree_of(const struct fm_job *j)
{
	return j->file->tree;
}

void fm_job_tree_count(const struct fm_job *j, struct fm_tree_count *out)
{
	*out = (struct fm_tree_count){ 0 };
	if (j->tree.is_listening)
		tree_of(j)->ops->count(tree_of(j), out);
}

unsigned fm_job_subs(const struct fm_job *j)
{
	unsigned n = 0;

	fm_list_each(at, next, &j->tree.subs)
		n += fm_container_of(at, struct fm_job, sub_at)->state != FM_JOB_ENDED;
	return n;
}

void fm_job_tree_sums(const struct fm_job *j, struct fm_moved *out)
{
	struct fm_moved moved;

	*out = j->tree.sums;
	fm_list_each(at, next, &j->tree.subs) {
		const struct fm_job *sub = fm_container_of(at, struct fm_job, sub_at);

		if (sub->state == FM_JOB_ENDED || !sub->x)
			continue;
		fm_link_moved(sub->x, &moved);
		fm_moved_add(out, &moved);
	}
}

/* ---- large files, both ends ---- */

static struct fm_job *sub_new(struct fm_job *parent, uint64_t id, const struct fm_tree_large *large)
{
	struct fm_job *j = fm_job_new(parent->engine, large->path, strlen(large->path), parent);

	if (!j)
		return NULL;
	j->large = FM_FAULT("job.large") ? NULL : malloc(sizeof(*large));
	if (j->large)
		*j->large = *large;
	j->id = id;
	j->session = parent->session;
	j->is_source = parent->is_source;
	j->state = FM_JOB_OPENING;
	j->deadline_ns = fm_engine_now(j->engine) + FM_JOB_OPEN_NS;
	memcpy(j->peer_name, parent->peer_name, sizeof(j->peer_name));
	memcpy(j->store, parent->store, sizeof(j->store));
	j->who = parent->who;
	j->want = parent->want;
	j->durability = FM_DURABILITY_MEMORY;	/* the tree's sync covers it */
	j->is_readback = parent->is_readback;
	j->accepts_corrupt = parent->accepts_corrupt;
	j->source.is_buffered = parent->source.is_buffered;
	j->attr = (struct fm_attr){ .type = FM_NODE_FILE,
				    .size = large->size,
				    .mode = large->mode,
				    .mtime_ns = large->mtime_ns,
				    .has_holes = large->has_holes,
				    .dev = large->id.dev,
				    .ino = large->id.ino,
				    .ctime_ns = large->id.ctime_ns };
	return j;
}

void fm_job_sub_ended(struct fm_job *j)
{
	struct fm_job *parent = j->parent;
	const struct fm_job_result *r = &j->result;
	struct fm_err err = r->err;
	struct fm_path_shown shown;

	parent->tree.sums.bytes += r->data_bytes;
	parent->tree.sums.chunks += r->chunks;
	for (unsigned i = 0; i < FM_KIND_COUNT; i++)
		parent->tree.sums.kind_bytes[i] += r->kind_bytes[i];
	for (unsigned i = 0; i < FM_ENCRYPTION_COUNT; i++)
		parent->tree.sums.encryption_bytes[i] += r->encryption_bytes[i];
	parent->tree.sums.resent += r->bytes_resent;
	parent->tree.sums.resumed += r->bytes_resumed;
	parent->tree.sums.damaged += r->bytes_damaged;
	parent->tree.sums.corrupt += r->corrupt_chunks;
	if (r->note[0])
		fm_job_set_note(parent, r->note, strlen(r->note));
	if (parent->state == FM_JOB_ENDED)
		return;
	if (r->code == 0) {
		fm_loop_post(parent->engine->env.loop, &parent->tree.task);
		return;
	}
	(void)fm_err_wrap(&err, "%s", fm_path_show(j->path, &shown));
	fm_job_end_kept(parent, j->is_kept, r->code, err.text);
}

void fm_job_sub_freed(struct fm_job *j)
{
	struct fm_job *parent = j->parent;

	if (j->large && j->large->fd >= 0)
		/* it was never opened as a file */
		fm_holder_close(fm_job_holder(j), &j->large->fd, 1);
	fm_list_del(&j->sub_at);
	if (parent->state == FM_JOB_ENDED)
		fm_job_clean(parent);
}

void fm_job_tree_end_subs(struct fm_job *j)
{
	assert(j->state == FM_JOB_ENDED);
	fm_list_each(at, next, &j->tree.subs) {
		struct fm_job *sub = fm_container_of(at, struct fm_job, sub_at);

		sub->is_far_end_told = true;	/* by the end of the tree */
		fm_job_end_kept(sub, j->is_kept, j->result.code ? j->result.code : -ECANCELED,
				j->result.err.text);
	}
}

/* ---- source ---- */

int fm_job_tree_open(struct fm_job *j)
{
	struct fm_store *store = j->store_ref->store;
	int ret;

	if (!store->ops->open_tree)
		return fm_err_set(&j->work_err, -EOPNOTSUPP, "store %s has no directories",
				  store->name);
	ret = store->ops->open_tree(store, j->path, &j->who, (const char *const *)j->tree.excludes,
				    &j->file, &j->work_attr, &j->work_err);
	if (ret == 0) {
		assert(j->file->tree && j->file->tree->is_source);
		j->tree.bytes = j->work_attr.size == FM_SIZE_UNKNOWN ? 0 : j->work_attr.size;
		j->work_attr.size = FM_SIZE_UNKNOWN;
	}
	return ret;
}

static void wake_lanes(struct fm_job *j)
{
	fm_link_feed(j->x);
	fm_session_wake(j->session, j->x->o.kinds, UINT64_MAX);
}

static void begin_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);
	struct fm_tree_begin how = {
		.is_offering = j->tree.wants & FM_WIRE_READY_OFFER || j->tree.is_dry ||
			       j->tree.wants & FM_WIRE_READY_DRY,
		.has_checksums = j->tree.has_checksums || j->tree.wants & FM_WIRE_READY_CHECKSUM,
		.has_owners = j->tree.wants & FM_WIRE_READY_OWNERS,
		.is_dry = j->tree.is_dry || j->tree.wants & FM_WIRE_READY_DRY,
		.accepts_corrupt = j->accepts_corrupt};

	fm_err_clear(&j->work_err);
	j->work_ret = fm_tree_file_begin(j->file, &how, &j->work_err);
}

static void begin_done(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	if (fm_job_goes_on(j))
		fm_job_source_copy(j);
}

void fm_job_tree_ready(struct fm_job *j, const struct fm_wire_ready *m)
{
	j->tree.wants = m->flags;
	fm_job_work(j, begin_run, begin_done);
}

/*
 * Whether an opened large file still has the size and time that the walk found; where it goes to
 * several nodes, which compare what the walks found, also the change time, though that may be of no
 * more than another name. Only of one inode do change times tell something.
 */
static int check_large(const struct fm_job *j, const struct fm_attr *attr, struct fm_err *err)
{
	const struct fm_identity *id = &j->large->id;
	bool is_touched = attr->dev == id->dev && attr->ino == id->ino &&
			  attr->ctime_ns != id->ctime_ns;

	if (attr->size == j->large->size && attr->mtime_ns == j->large->mtime_ns &&
	    !(j->parent->source.is_held && is_touched))
		return 0;
	return fm_err_set(
		err, -ESTALE,
		"the source changed while it was read (%llu bytes, now %llu); run it again",
		(unsigned long long)j->large->size, (unsigned long long)attr->size);
}

static void open_large_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);
	struct fm_attr attr = { 0 };
	int fd = j->large->fd;

	fm_err_clear(&j->work_err);
	j->large->fd = -1;
	if (tree_of(j->parent)->has_digests)
		j->work_ret =
			fm_stored_source(fd, j->source.is_buffered, &j->file, &attr, &j->work_err);
	else
		j->work_ret = (j->source.is_buffered
				       ? fm_caller_source_buffered
				       : fm_caller_source)(fd, &j->file, &attr, &j->work_err);
	if (j->work_ret == 0)
		j->work_ret = fm_held_file_new(fm_job_holder(j), &j->file, &j->work_err);
	if (j->work_ret < 0)
		j->file = NULL;
	else
		j->work_ret = check_large(j, &attr, &j->work_err);
	j->attr.has_holes = attr.has_holes;
}

static void open_large_done(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	if (!fm_job_goes_on(j))
		return;
	j->deadline_ns = fm_engine_now(j->engine) + FM_JOB_OPEN_NS;
	fm_job_source_start(j);
}

static void start_large(struct fm_job *parent, const struct fm_tree_large *large)
{
	struct fm_job *j = sub_new(parent, fm_session_new_id(parent->session), large);

	if (!j || !j->large) {
		fm_holder_close(parent->file->holder, &large->fd, 1);
		fm_job_end(parent, -ENOMEM, "out of memory");
		return;
	}
	j->is_far_end_told = true;	/* nothing was asked of it yet */
	/* it waits for threads of the tree, and they for the tree's disk, however long that
	 * takes */
	j->deadline_ns = 0;
	fm_job_work(j, open_large_run, open_large_done);
}

bool fm_job_tree_has_large(struct fm_job *j)
{
	struct fm_tree_large large;
	bool has_begun = false;

	while (j->state == FM_JOB_COPYING && fm_job_subs(j) < FM_JOB_SUBS_MAX &&
	       tree_of(j)->ops->next_large(tree_of(j), &large) > 0) {
		has_begun = true;
		start_large(j, &large);
	}
	if (j->state != FM_JOB_COPYING)
		return false;
	if (has_begun)
		wake_lanes(j);	/* the tree may have waited for room */
	return fm_job_subs(j) > 0;
}

/* Something of the tree was found, needed or finished: go on with it. */
static void source_happened(struct fm_job *j)
{
	if (j->state == FM_JOB_COPYING && j->x && !fm_job_tree_has_large(j) &&
	    j->state == FM_JOB_COPYING && fm_link_is_sent(j->x))
		fm_job_source_progressed(j);
}

void fm_job_on_need(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_need *m = &msg->need;
	struct fm_job *j = fm_job_find(s, m->xfer);
	struct fm_err err = { 0 };
	int ret;

	if (!j)
		return;		/* it crossed our ABORT */
	if (!j->is_tree || !j->is_source || !j->x) {
		fm_session_protocol_error(s, "NEED out of turn");
		return;
	}
	ret = tree_of(j)->ops->need(tree_of(j), m->seq, m->bits, m->count, &err);
	if (ret < 0) {
		fm_job_end(j, ret, "%s asked for files that were not offered: %s", s->name,
			   err.text);
		return;
	}
	if (j->state != FM_JOB_COPYING)
		return;
	wake_lanes(j);
	source_happened(j);
}

/* ---- sink ---- */

int fm_job_tree_create(struct fm_job *j)
{
	struct fm_store *store = j->store_ref->store;
	struct fm_create_tree how = {.may_replace = j->sink.create.may_replace,
				     .is_update = j->tree.is_update,
				     .is_delete = j->tree.is_delete,
				     .has_checksums = j->tree.has_checksums,
				     .is_dry = j->tree.is_dry,
				     .is_durable = j->is_durable,
				     .has_names = j->tree.names.state != FM_NAMES_UNASKED,
				     .has_digests = !j->engine->o.is_unchecked,
				     .bytes = j->tree.bytes,
				     .group = j->sink.create.group};

	if (!store->ops->create_tree)
		return fm_err_set(&j->work_err, -EOPNOTSUPP, "store %s has no directories",
				  store->name);
	fm_job_identity(j, &how.source);
	return store->ops->create_tree(store, j->path, &j->who, &how, &j->file, &j->work_err);
}

unsigned fm_job_tree_ready_flags(const struct fm_job *j)
{
	const struct fm_tree *t = j->file->tree;

	if (!t)
		return 0;
	return (t->is_partial || j->tree.is_update || j->tree.is_dry ? FM_WIRE_READY_OFFER : 0) |
	       (t->has_owners ? FM_WIRE_READY_OWNERS : 0) |
	       (j->tree.has_checksums ? FM_WIRE_READY_CHECKSUM : 0) |
	       (j->tree.is_dry ? FM_WIRE_READY_DRY : 0);
}

/* Whether a pack is answered for the first time: 1, 0, or -ENOMEM. A pack can come twice. */
static int is_first_answer(struct fm_job *j, uint64_t seq)
{
	if (fm_ranges_cover(&j->tree.answered, seq, 1))
		return 0;
	return fm_ranges_add(&j->tree.answered, seq, 1, ANSWERED_MAX) < 0 ? -ENOMEM : 1;
}

static void sink_happened(struct fm_job *j)
{
	struct fm_wire_msg m = { .type = FM_WIRE_NEED };
	struct fm_tree_answer a;
	int ret;

	while (j->state != FM_JOB_ENDED && fm_tree_file_pop_answer(j->file, &a)) {
		ret = is_first_answer(j, a.seq);
		if (ret < 0)
			fm_job_end(j, ret, "too many files are offered in too odd an order");
		if (ret <= 0)
			continue;
		j->tree.wanted_files += a.wanted_files;
		j->tree.wanted_bytes += a.wanted_bytes;
		m.need.xfer = j->id;
		m.need.seq = a.seq;
		m.need.count = (uint16_t)a.count;
		memcpy(m.need.bits, a.bits, sizeof(a.bits));
		fm_session_send(j->session, &m);
	}
}

static int create_large(struct fm_job *j)
{
	int ret = fm_large_file_new(j->parent->file->tree, j->large, &j->file, &j->have,
				    &j->work_err);

	if (ret == 0)
		ret = fm_held_file_new(fm_job_holder(j), &j->file, &j->work_err);
	if (ret < 0) {
		j->file = NULL;
		return ret;
	}
	return j->have.ranges.count <= FM_WIRE_RANGES_MAX
		       ? 0
		       : fm_err_set(&j->work_err, -EOVERFLOW,
				    "what is there of it is in more pieces than can be said");
}

static void create_large_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	fm_err_clear(&j->work_err);
	j->work_ret = create_large(j);
}

/* Those that are over, too, until they are closed. */
static unsigned subs_kept(const struct fm_job *j)
{
	unsigned n = 0;

	fm_list_each(at, next, &j->tree.subs)
		n++;
	return n;
}

/* Says why a large file is refused, with *code; NULL: it is not refused. */
static const char *why_not(const struct fm_job *tree, const struct fm_wire_put *m, int *code)
{
	*code = -EPROTO;
	if (!tree || tree->is_source || !tree->is_tree || tree->state != FM_JOB_COPYING || !tree->x)
		return "there is no tree that it could belong to";
	if (tree->tree.is_dry)
		return "its tree is only asked what it needs";
	if (!fm_pack_is_good_path(m->path.at, m->path.len))
		return "its path is none below a tree";
	*code = -EBUSY;
	if (fm_job_subs(tree) >= FM_JOB_SUBS_MAX)
		return "too many large files of one tree at once";
	if (subs_kept(tree) >= FM_JOB_SUBS_KEPT_MAX)
		return "too many large files of this tree are still being closed: a disk is slow";
	*code = -ENOMEM;
	return NULL;
}

static void describe_large(const struct fm_wire_put *m, struct fm_tree_large *out)
{
	*out = (struct fm_tree_large){ .fd = -1,
				       .size = m->size,
				       .mode = m->mode & 0777,
				       .mtime_ns = m->mtime_ns,
				       .has_holes = !(m->flags & FM_WIRE_PUT_DENSE),
				       .id = { .dev = m->dev,
					       .ino = m->ino,
					       .size = m->size,
					       .mtime_ns = m->mtime_ns,
					       .ctime_ns = m->ctime_ns } };
	memcpy(out->path, m->path.at, m->path.len);
	out->path[m->path.len] = '\0';
}

void fm_job_tree_put(struct fm_session *s, const struct fm_wire_put *m)
{
	struct fm_job *tree = fm_job_find(s, m->tree), *j = NULL;
	struct fm_tree_large large;
	struct fm_err err;
	const char *why;
	int code;

	if (!fm_session_is_peers_id(s, m->xfer) || fm_job_find(s, m->xfer)) {
		fm_session_protocol_error(s, "a transfer number that is not its to use");
		return;
	}
	why = why_not(tree, m, &code);
	if (!why) {
		describe_large(m, &large);
		j = sub_new(tree, m->xfer, &large);
	}
	if (!j) {
		(void)fm_err_set(&err, code, "%s", why ? why : "out of memory");
		fm_job_refuse(s, m->xfer, &err);
		return;
	}
	if (!j->large) {
		fm_job_end(j, -ENOMEM, "out of memory");
		return;
	}
	j->chunk = m->chunk < j->chunk ? m->chunk : j->chunk;
	j->sink.create.is_resumable = false;
	fm_job_work(j, create_large_run, fm_job_sink_created);
}

/* ---- the journal ---- */

static void log_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	fm_err_clear(&j->work_err);
	j->work_ret = 0;
	for (unsigned i = 0; i < j->tree.logging_count && j->work_ret == 0; i++) {
		struct fm_job *sub = j->tree.logging[i];

		j->work_ret = sub->file->ops->log(sub->file, sub->sink.log, sub->sink.log_count,
						  &j->work_err);
	}
	if (j->work_ret == 0)
		j->work_ret = j->file->ops->log(j->file, NULL, 0, &j->work_err);
}

static void log_done(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	for (unsigned i = 0; i < j->tree.logging_count; i++) {
		struct fm_job *sub = j->tree.logging[i];

		if (!fm_job_is_over(sub) && sub->state == FM_JOB_DRAINING && sub->is_drained)
			fm_job_sink_drained(sub);
	}
	j->tree.logging_count = 0;
	fm_job_sink_logged(j);
}

/*
 * Hands the worker what this large file wrote. Until the worker is done, nothing else is done with
 * the file.
 */
static void take_log(struct fm_job *j, struct fm_job *sub)
{
	if (sub->state != FM_JOB_COPYING || sub->is_working || !sub->x ||
	    j->tree.logging_count == FM_JOB_SUBS_MAX)
		return;
	if (!sub->sink.log)
		sub->sink.log = fm_budget_alloc(FM_XFER_LOG_MAX * sizeof(*sub->sink.log));
	if (!sub->sink.log)
		return;		/* the next time */
	sub->sink.log_count = fm_link_take_log(sub->x, sub->sink.log);
	if (sub->sink.log_count == 0)
		return;
	sub->is_working = true;
	j->tree.logging[j->tree.logging_count++] = sub;
}

void fm_job_tree_log(struct fm_job *j)
{
	fm_list_each(at, next, &j->tree.subs)
		take_log(j, fm_container_of(at, struct fm_job, sub_at));
	fm_job_work(j, log_run, log_done);
}

/* ---- what the tree tells ---- */

static void happened(void *ctx)
{
	struct fm_job *j = ctx;

	if (j->state == FM_JOB_ENDED)
		return;
	if (j->is_source)
		source_happened(j);
	else
		sink_happened(j);
}

static void tree_task_run(struct fm_task *task)
{
	happened(fm_container_of(task, struct fm_job, tree.task));
}

void fm_job_tree_listen(struct fm_job *j)
{
	assert(j->is_tree && j->file->tree);
	j->tree.is_listening = true;
	j->tree.task.run = tree_task_run;
	fm_tree_file_listen(j->file, j->engine->env.loop, happened, j);
}
