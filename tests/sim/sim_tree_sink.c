/* SPDX-License-Identifier: MIT */
/*
 * sim_tree_sink - a simulated directory that comes: staged beside its name, journaled, published at
 * once.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/crc32c.h"
#include "mover/base/fault.h"
#include "mover/store/tree_file.h"
#include "mover/tree/digest.h"
#include "tests/sim/sim_tree_priv.h"

#define RANGES_MAX 4096
#define BLOCK 4096

/* One name of a tree that is not there yet. */
struct staged {
	struct staged *next;
	struct sim_tree_entry e;
	uint64_t identity;
	struct fm_ranges got;		/* of a file, written ... */
	struct fm_ranges pending;	/* large: ... and said so ... */
	struct fm_ranges logged;	/* ... and logged: what the next try finds */
	int fd;				/* large; -1: not made yet */
	bool is_current;		/* of what this try sent, or said */
	bool is_sealed;			/* large: complete */
	bool is_decided;		/* it was offered in this try ... */
	bool is_declined;		/* ... and not needed */
	bool is_reused;
};

/* What is staged for one name. Kept on the disk between tries. */
struct sim_stage {
	struct sim_stage *next;
	char *path;
	bool is_callers;
	bool is_used;			/* by a try that runs */
	bool is_synced;			/* a power cut leaves it as it is */
	struct fm_identity source;
	struct staged *staged;
};

struct sink {
	struct fm_tree tree;
	struct sim_node *node;
	struct sim_stage *stage;
	struct fm_create_tree how;
	struct fm_list open_at;		/* sim_node.open_sinks */
	bool is_stopped, is_prepared, is_ended;
	bool is_dead;			/* its node died: what is staged is the next try's */
	struct fm_tree_count count;
};

static struct sink *sink_of(struct fm_tree *t)
{
	return fm_container_of(t, struct sink, tree);
}

static struct sim *sim_of(const struct sink *s)
{
	return s->node->sim;
}

/* What an honest source never does; a hostile one spoils its own tree only. */
static int blame(const struct sink *s, const char *path, const char *what, struct fm_err *err)
{
	if (!sim_is_suspect(s->stage->path))
		sim_fail(sim_of(s), "%s: %s", path, what);
	return fm_err_set(err, -EPROTO, "%s: %s", path, what);
}

/* ---- what is staged ---- */

static void staged_free(struct staged *st)
{
	fm_ranges_free(&st->got);
	fm_ranges_free(&st->pending);
	fm_ranges_free(&st->logged);
	if (st->fd >= 0)
		close(st->fd);
}

static void stage_clear(struct sim_stage *stage)
{
	for (struct staged *st = stage->staged; st; st = st->next)
		staged_free(st);
	stage->staged = NULL;
}

static struct staged *find(const struct sink *s, const char *path, size_t len)
{
	for (struct staged *st = s->stage->staged; st; st = st->next)
		if (strlen(st->e.path) == len && memcmp(st->e.path, path, len) == 0)
			return st;
	return NULL;
}

static struct staged *add(struct sink *s, const char *path, size_t len, enum fm_pack_type type)
{
	struct staged *st = find(s, path, len);

	if (st && st->e.type == type) {
		st->is_current = true;
		return st;
	}
	if (st) {
		fm_ranges_free(&st->got);
		fm_ranges_free(&st->logged);
	} else {
		st = sim_alloc(sim_of(s), sizeof(*st));
		st->next = s->stage->staged;
		s->stage->staged = st;
	}
	st->fd = -1;
	st->e = (struct sim_tree_entry){.type = type, .path = sim_tree_copy(sim_of(s), path, len)};
	st->is_current = true;
	return st;
}

static void add_range(struct sink *s, struct fm_ranges *r, uint64_t offset, uint64_t len)
{
	if (len > 0 && fm_ranges_add(r, offset, len, RANGES_MAX) < 0 &&
	    fm_ranges_add(r, offset, len, RANGES_MAX) < 0)
		sim_fail(sim_of(s), "no memory for ranges");
}

static bool is_whole(const struct staged *st)
{
	if (st->e.type != FM_PACK_FILE || st->is_reused)
		return true;
	if (!st->e.blob)
		return false;
	return st->e.is_large ? st->is_sealed : fm_ranges_bytes(&st->got) == st->e.blob->size;
}

/* A file as the source says it is; if it is another one than what is there, that is dropped. */
static struct staged *add_file(struct sink *s, const char *path, size_t len, uint64_t identity,
			       uint64_t size, bool is_large)
{
	struct staged *st = add(s, path, len, FM_PACK_FILE);

	if (st->e.blob && st->identity == identity && st->e.is_large == is_large)
		return st;
	staged_free(st);
	st->fd = -1;
	st->is_sealed = st->is_decided = st->is_declined = st->is_reused = false;
	st->identity = identity;
	st->e.is_large = is_large;
	st->e.blob = sim_alloc(sim_of(s), sizeof(*st->e.blob));
	st->e.blob->bytes = sim_alloc(sim_of(s), (size_t)size + 1);
	st->e.blob->size = size;
	return st;
}

/* ---- packs ---- */

static int apply_piece(struct sink *s, const struct fm_pack_entry *e, struct fm_err *err)
{
	struct staged *st;

	if (e->size > 1u << 24)
		return fm_err_set(err, -EFBIG, "more than anything here has");
	if (fm_crc32c_part(fm_crc32c(0, e->data, e->data_len), e->offset, e->data_len) != e->crc)
		return blame(s, s->stage->path, "a damaged piece of a file came through", err);
	st = add_file(s, e->path, e->path_len, e->identity, e->size, false);
	if (st->is_declined)
		return blame(s, st->e.path, "it was sent, and not needed", err);
	memcpy(st->e.blob->bytes + e->offset, e->data, e->data_len);
	st->e.blob->attr.mode = e->mode;
	st->e.blob->attr.mtime_ns = e->mtime_ns;
	add_range(s, &st->got, e->offset, e->data_len);
	return 0;
}

static struct sim_tree_entry *find_old(struct sink *s, const struct fm_pack_entry *e)
{
	struct sim_tree *old = sim_tree_at(s->node, s->stage->path, s->stage->is_callers);

	for (size_t i = 0; old && s->how.is_update && i < old->count; i++) {
		struct sim_tree_entry *o = &old->entries[i];

		if (o->type != FM_PACK_FILE || strlen(o->path) != e->path_len ||
		    memcmp(o->path, e->path, e->path_len) != 0)
			continue;
		if (o->blob->size != e->size || o->blob->attr.mtime_ns != e->mtime_ns)
			return NULL;
		return s->how.has_checksums &&
				       (!(e->flags & FM_PACK_HAS_CRC) || e->crc != o->blob->crc)
			       ? NULL
			       : o;
	}
	return NULL;
}

/* Whether it is needed. */
static bool apply_offer(struct sink *s, const struct fm_pack_entry *e)
{
	struct sim_tree_entry *old = find_old(s, e);
	struct staged *st;

	if (s->how.is_dry)
		return !old;
	st = add_file(s, e->path, e->path_len, e->identity, e->size, e->flags & FM_PACK_IS_LARGE);
	/* A pack may come twice, and its file meanwhile: what was needed once is needed still. */
	if (st->is_decided)
		return !st->is_declined;
	st->is_decided = true;
	st->is_declined =
		old || (e->size > 0 && is_whole(st) && fm_ranges_bytes(&st->logged) == e->size);
	st->is_reused = old && st->is_declined;
	if (st->is_reused)
		st->e.blob = old->blob;
	else if (st->is_declined)
		s->count.resumed_files++;
	return !st->is_declined;
}

static int apply_other(struct sink *s, const struct fm_pack_entry *e)
{
	struct staged *st = add(s, e->path, e->path_len, e->type);

	st->e.mode = e->mode;
	st->e.mtime_ns = e->mtime_ns;
	if (e->target_len > 0)
		st->e.target = sim_tree_copy(sim_of(s), e->target, e->target_len);
	return 0;
}

static int apply_entry(struct sink *s, const struct fm_pack_entry *e, bool is_offer,
		       bool *is_needed, struct fm_err *err)
{
	*is_needed = false;
	if (e->type == FM_PACK_FILE && is_offer)
		*is_needed = apply_offer(s, e);
	else if (s->how.is_dry)
		return e->type != FM_PACK_FILE
			       ? 0
			       : fm_err_set(err, -EPROTO, "a file came in a dry run");
	else if (e->type == FM_PACK_FILE)
		return apply_piece(s, e, err);
	else
		return apply_other(s, e);
	return 0;
}

static int check_space(struct sink *s, size_t len, struct fm_err *err)
{
	uint64_t space = sim_faults(sim_of(s))->space_bytes;

	if (space == 0 || len <= space)
		return 0;
	sim_fired(sim_of(s), SIM_FIRED_SPACE);
	return fm_err_set(err, -ENOSPC, "simulated: no space");
}

/* As a peer may over RDMA: what it can reach is another now, but the pack is not. */
static void check_rewritten(struct sink *s, const void *pack, size_t len, uint32_t crc)
{
	sim_conn_rewrite(sim_of(s));
	if (fm_crc32c(0, pack, len) != crc)
		sim_fail(sim_of(s), "%s: a pack changed while it was applied", s->stage->path);
}

static int sink_apply(struct fm_tree *t, const void *pack, size_t len, uint8_t *bits, size_t *count,
		      struct fm_err *err)
{
	struct sink *s = sink_of(t);
	struct fm_pack_reader r;
	struct fm_pack_entry e;
	const uint32_t crc = fm_crc32c(0, pack, len);
	bool is_offer, is_needed;
	int ret;

	assert(!s->is_prepared && !s->is_ended);
	*count = 0;
	if (s->is_stopped)
		return -ECANCELED;
	ret = sim_tree_fault(s->node, sim_faults(sim_of(s))->write_eio, "write the tree", err);
	if (ret == 0)
		ret = check_space(s, len, err);
	if (ret == 0 && fm_pack_open(&r, pack, len) < 0)
		ret = fm_err_set(err, -EPROTO, "a damaged pack came");
	if (ret < 0)
		return ret;
	is_offer = r.flags & FM_PACK_OFFER;
	for (size_t i = 0; (ret = fm_pack_next(&r, &e)) > 0; i++) {
		check_rewritten(s, pack, len, crc);
		ret = apply_entry(s, &e, is_offer, &is_needed, err);
		if (ret < 0)
			return ret;
		if (is_needed)
			bits[i / 8] = (uint8_t)(bits[i / 8] | 1u << i % 8);
		*count = is_offer ? i + 1 : 0;
	}
	return ret < 0 ? fm_err_set(err, -EPROTO, "a damaged pack came") : 0;
}

/* ---- large files ---- */

static void copy_ranges(struct sink *s, struct fm_ranges *to, const struct fm_ranges *from)
{
	/* A fault point hits once; here it is the simulator's own memory. */
	if (fm_ranges_copy(to, from) < 0 && fm_ranges_copy(to, from) < 0)
		sim_fail(sim_of(s), "no memory for ranges");
}

static uint32_t parts_of(struct sink *s, int fd, uint64_t offset, uint64_t len)
{
	uint8_t *bytes = sim_alloc(sim_of(s), (size_t)len + 1);

	if (pread(fd, bytes, (size_t)len, (off_t)offset) != (ssize_t)len)
		sim_fail(sim_of(s), "%llu bytes at %llu were said to be written and are not there",
			 (unsigned long long)len, (unsigned long long)offset);
	return fm_crc32c_part(fm_crc32c(0, bytes, (size_t)len), offset, len);
}

/* See sim_store.c. What rots is not logged any more: the next try would not know it for what it
 * is. */
static int say_have(struct sink *s, struct staged *st, struct fm_have *have)
{
	struct fm_ranges logged = { 0 };
	size_t count = st->logged.count;

	if (count == 0)
		return 0;
	have->pieces = FM_FAULT("sim.have") ? NULL : fm_budget_alloc(count * sizeof(*have->pieces));
	if (!have->pieces)
		return -ENOMEM;
	copy_ranges(s, &have->ranges, &st->logged);
	for (size_t i = 0; i < count; i++) {
		const struct fm_range *r = &st->logged.at[i];
		struct fm_written *w = &have->pieces[have->count++];

		*w = (struct fm_written){r->offset, r->len, parts_of(s, st->fd, r->offset, r->len)};
		have->crc ^= w->crc;
		if (r->len < 4 || !sim_one_in(sim_of(s), sim_faults(sim_of(s))->kept_flips)) {
			add_range(s, &logged, r->offset, r->len);
		} else if (pwrite(st->fd, "rot", 3,
				  (off_t)(r->offset + sim_below(sim_of(s), r->len - 3))) == 3) {
			sim_fired(sim_of(s), SIM_FIRED_ROT);
		}
	}
	fm_ranges_free(&st->logged);
	st->logged = logged;
	return 0;
}

static int sink_create_large(struct fm_tree *t, const struct fm_tree_large *how, int *fd,
			     struct fm_have *have, struct fm_err *err)
{
	struct sink *s = sink_of(t);
	struct staged *st;
	int ret = sim_tree_fault(s->node, sim_faults(sim_of(s))->create_fails, "make a large file",
				 err);

	assert(!s->is_prepared && !s->is_ended && !s->how.is_dry);
	if (s->is_stopped || ret < 0)
		return ret < 0 ? ret : -ECANCELED;
	if (how->size > 1u << 24)
		return fm_err_set(err, -EFBIG, "more than anything here has");
	st = add_file(s, how->path, strlen(how->path), fm_identity_hash(&how->id), how->size, true);
	if (st->is_declined)
		return blame(s, how->path, "it was sent, and not needed", err);
	if (st->fd < 0)
		st->fd = memfd_create("sim", MFD_CLOEXEC);
	st->e.blob->attr.mode = how->mode;
	st->e.blob->attr.mtime_ns = how->mtime_ns;
	if (say_have(s, st, have) < 0)
		return fm_err_set(err, -ENOMEM, "no memory for what is there");
	sim_disk_world(sim_of(s))->resumed += fm_ranges_bytes(&have->ranges);
	s->count.resumed_bytes += fm_ranges_bytes(&have->ranges);
	*fd = dup(st->fd);
	return *fd < 0 ? fm_err_set(err, -EMFILE, "no descriptor") : 0;
}

static int sink_wrote_large(struct fm_tree *t, const struct fm_journal_entry *e, struct fm_err *err)
{
	struct sink *s = sink_of(t);
	struct staged *st = find(s, e->path, e->path_len);

	if (s->is_stopped || s->is_dead)
		return fm_err_set(err, -ECANCELED, "stopped");
	if (!st || !st->e.is_large || st->fd < 0 || e->size != st->e.blob->size ||
	    e->identity != st->identity)
		return blame(s, s->stage->path,
			     "bytes of a large file are to be logged that is not being written",
			     err);
	if (fm_ranges_overlap(&st->logged, e->offset, e->len))
		return blame(s, st->e.path, "what was there was sent again", err);
	if (parts_of(s, st->fd, e->offset, e->len) != e->crc)
		return blame(s, st->e.path, "what is to be logged is not what is there", err);
	add_range(s, &st->pending, e->offset, e->len);
	return 0;
}

static int sink_seal_large(struct fm_tree *t, const struct fm_tree_large *how, int fd,
			   const struct fm_digest *digest, struct fm_err *err)
{
	struct sink *s = sink_of(t);
	struct staged *st = find(s, how->path, strlen(how->path));
	struct stat is;
	int ret = sim_tree_fault(s->node, sim_faults(sim_of(s))->publish_fails, "seal a large file",
				 err);

	if (ret < 0 || s->is_stopped)
		return ret < 0 ? ret : fm_err_set(err, -ECANCELED, "stopped");
	if (!st || fstat(fd, &is) < 0 || (uint64_t)is.st_size != st->e.blob->size)
		return blame(s, how->path, "it is sealed and not of its size", err);
	if (pread(fd, st->e.blob->bytes, (size_t)is.st_size, 0) != (ssize_t)is.st_size)
		sim_fail(sim_of(s), "a large file cannot be read");
	if (!digest || digest->crc != sim_crc32c(st->e.blob->bytes, st->e.blob->size))
		return blame(s, how->path, "its CRC32C is not its content's", err);
	st->is_sealed = true;
	return 0;
}

/* ---- journal ---- */

static void check_lost(struct sink *s, const char *what)
{
	if (atomic_load(&s->tree.sync_error) < 0)
		sim_fail(sim_of(s), "tree %s is %s after a sync of it failed", s->stage->path,
			 what);
}

/* The kernel tells it once: see sim_store.c. */
static int sync_tree(struct sink *s, unsigned odds, struct fm_err *err)
{
	int ret = sim_tree_fault(s->node, odds, "sync the tree", err);

	if (ret < 0)
		atomic_store(&s->tree.sync_error, ret);
	return ret;
}

static int sink_log(struct fm_tree *t, struct fm_err *err)
{
	struct sink *s = sink_of(t);
	int ret;

	check_lost(s, "logged");
	ret = sync_tree(s, 4 * sim_faults(sim_of(s))->publish_fails, err);
	assert(!s->is_prepared && !s->is_ended && !s->how.is_dry);
	if (ret < 0 || s->is_stopped)
		return ret < 0 ? ret : fm_err_set(err, -ECANCELED, "stopped");
	if (sim_crash_point(s->node))
		return fm_err_set(err, -EIO, "its node died before the journal was written");
	for (struct staged *st = s->stage->staged; st; st = st->next) {
		if (st->e.type != FM_PACK_FILE || st->is_reused)
			continue;
		if (!st->e.is_large && is_whole(st) && st->logged.count == 0 &&
		    st->e.blob->size > 0)
			add_range(s, &st->logged, 0, st->e.blob->size);
		for (size_t i = 0; i < st->pending.count; i++)
			add_range(s, &st->logged, st->pending.at[i].offset, st->pending.at[i].len);
		fm_ranges_free(&st->pending);
	}
	(void)sim_crash_point(s->node);		/* it will hear of nothing any more */
	return 0;
}

/*
 * What was written to a large file and not logged is torn; where nothing was written there are
 * zeros still. In a file of its own: who died may write to the old one yet.
 */
static void tear_large(struct sink *s, struct staged *st)
{
	int torn = memfd_create("sim", MFD_CLOEXEC);
	uint8_t block[BLOCK];
	off_t at = 0;

	while ((at = lseek(st->fd, at, SEEK_DATA)) >= 0) {
		uint64_t from, to;
		ssize_t len;

		at -= at % BLOCK;
		fm_ranges_gap(&st->logged, (uint64_t)at, &from, &to);
		len = pread(st->fd, block, BLOCK, at);
		if (from == (uint64_t)at)
			memset(block, 0xa5, sizeof(block));
		if (len <= 0 || pwrite(torn, block, (size_t)len, at) != len)
			sim_fail(sim_of(s), "a memory file cannot be torn");
		at += BLOCK;
	}
	close(st->fd);
	st->fd = torn;
}

/* What was not logged is torn. */
static void tear(struct sink *s, struct staged *st)
{
	fm_ranges_free(&st->pending);
	fm_ranges_free(&st->got);
	st->is_current = st->is_decided = st->is_declined = st->is_sealed = false;
	if (st->is_reused) {
		st->is_reused = false;
		st->e.blob = NULL;
		return;
	}
	if (st->fd >= 0)
		tear_large(s, st);
	else if (st->logged.count > 0)
		copy_ranges(s, &st->got, &st->logged);
	else if (st->e.blob)
		memset(st->e.blob->bytes, 0xa5, (size_t)st->e.blob->size);
}

static void leave_stage(struct sink *s)
{
	for (struct staged *st = s->stage->staged; st; st = st->next)
		tear(s, st);
	s->stage->is_used = false;
}

static void sink_keep(struct fm_tree *t)
{
	struct sink *s = sink_of(t);

	assert(!s->is_ended);
	check_lost(s, "kept");
	s->is_ended = true;
	if (!s->how.is_dry && !s->is_dead)
		leave_stage(s);
}

static void sink_discard(struct fm_tree *t)
{
	struct sink *s = sink_of(t);

	assert(!s->is_ended);
	s->is_ended = true;
	if (s->how.is_dry || s->is_dead)
		return;
	for (struct staged *st = s->stage->staged; st; st = st->next)
		sim_disk_world(sim_of(s))->dropped += fm_ranges_bytes(&st->logged);
	stage_clear(s->stage);
	s->stage->is_used = false;
}

/* ---- the end ---- */

static int sink_prepare(struct fm_tree *t, bool is_durable, struct fm_err *err)
{
	struct sink *s = sink_of(t);
	int ret;

	(void)is_durable;
	if (s->how.is_dry)
		return 0;
	check_lost(s, "published");
	ret = sync_tree(s, sim_faults(sim_of(s))->publish_fails, err);
	assert(!s->is_prepared && !s->is_ended);
	if (ret < 0)
		return ret;
	for (struct staged *st = s->stage->staged; st; st = st->next) {
		if (!st->is_current)
			continue;
		if (!is_whole(st))
			return blame(s, st->e.path, "its tree is to be published without all of it",
				     err);
		if (st->e.type == FM_PACK_HARD && !find(s, st->e.target, strlen(st->e.target)))
			return blame(s, st->e.path,
				     "its tree is to be published without the file of which it is "
				     "a name",
				     err);
	}
	s->is_prepared = true;
	return 0;
}

static struct sim_tree *make_tree(struct sink *s)
{
	struct sim_tree *made;
	size_t count = 0;

	for (struct staged *st = s->stage->staged; st; st = st->next)
		count++;
	made = sim_tree_of_entries(sim_of(s), count);
	for (struct staged *st = s->stage->staged; st; st = st->next) {
		if (!st->is_current)
			continue;
		made->entries[made->count++] = st->e;
		s->count.reused_files += st->is_reused;
		if (st->e.type == FM_PACK_FILE)
			st->e.blob->crc = sim_crc32c(st->e.blob->bytes, st->e.blob->size);
	}
	sim_tree_count(made);
	return made;
}

static int sink_publish(struct fm_tree *t, bool is_durable, struct fm_err *err)
{
	struct sink *s = sink_of(t);
	struct sim_stage *stage = s->stage;
	struct sim_tree *made;
	int ret = sim_tree_fault(s->node, sim_faults(sim_of(s))->publish_fails, "rename the tree",
				 err);

	assert(s->is_prepared && !s->is_ended);
	if (ret < 0)
		return ret;
	if (sim_crash_point(s->node))
		return fm_err_set(err, -EIO, "its node died before the rename");
	if (!s->how.may_replace && !s->how.is_update &&
	    sim_tree_at(s->node, stage->path, stage->is_callers))
		return fm_err_set(err, -EEXIST, "%s exists", stage->path);
	made = make_tree(s);
	s->count.files = made->files;
	s->count.dirs = made->dirs;
	s->count.links = made->links;
	s->count.hard_links = made->hards;
	s->count.bytes = made->bytes;
	sim_trace(sim_of(s), "%s: published tree %s, %zu entries, %llu bytes%s", s->node->name,
		  stage->path, made->count, (unsigned long long)made->bytes,
		  is_durable ? "" : ", not synced");
	if (s->how.is_update && !s->how.is_delete)
		made = sim_tree_merged(sim_of(s), made,
				       sim_tree_at(s->node, stage->path, stage->is_callers));
	s->is_ended = true;
	stage_clear(stage);
	stage->is_used = false;
	sim_tree_place(s->node, stage->path, stage->is_callers, made, is_durable);
	return 0;
}

static void sink_count(struct fm_tree *t, struct fm_tree_count *out)
{
	*out = sink_of(t)->count;
}

static void sink_stop(struct fm_tree *t)
{
	sink_of(t)->is_stopped = true;
}

static void sink_close(struct fm_tree *t)
{
	struct sink *s = sink_of(t);

	if (!s->is_ended)
		sink_discard(t);
	fm_list_del(&s->open_at);
	sim_disk_world(sim_of(s))->files--;
}

/* ---- the beginning ---- */

static struct sim_stage *stage_new(struct sim_node *n, const char *path, bool is_callers)
{
	struct sim_stage *stage = sim_alloc(n->sim, sizeof(*stage));

	stage->path = sim_tree_copy(n->sim, path, strlen(path));
	stage->is_callers = is_callers;
	stage->next = n->stages;
	n->stages = stage;
	return stage;
}

/* What an earlier try left, if nobody goes on with it now; else a new one. */
static struct sim_stage *stage_for(struct sim_node *n, const char *path, bool is_callers,
				   bool is_dry)
{
	for (struct sim_stage *st = n->stages; st && !is_dry; st = st->next)
		if (!st->is_used && st->is_callers == is_callers && strcmp(st->path, path) == 0)
			return st;
	return stage_new(n, path, is_callers);
}

static int sink_begin(struct fm_tree *t, const struct fm_tree_begin *how, struct fm_err *err)
{
	struct sink *s = sink_of(t);
	int ret =
		sim_tree_fault(s->node, sim_faults(sim_of(s))->create_fails, "make the tree", err);

	if (ret < 0)
		return ret;
	if (!fm_identity_is_same(&s->stage->source, &how->source))
		stage_clear(s->stage);
	s->stage->source = how->source;
	s->stage->is_synced = s->how.is_durable && (s->stage->is_synced || !s->stage->staged);
	s->tree.is_partial = s->stage->staged != NULL;
	return 0;
}

static const struct fm_tree_ops sink_ops = {
	.begin = sink_begin,
	.apply = sink_apply,
	.create_large = sink_create_large,
	.wrote_large = sink_wrote_large,
	.seal_large = sink_seal_large,
	.log = sink_log,
	.prepare = sink_prepare,
	.publish = sink_publish,
	.keep = sink_keep,
	.discard = sink_discard,
	.count = sink_count,
	.stop = sink_stop,
	.close = sink_close,
};

/* ---- as a file ---- */

static struct fm_file_ops file_ops;	/* tree_file's, but for write() */
static void (*tree_write)(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io);

static void sink_write(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	sim_tree_io(sink_of(file->tree)->node, file, lane, io, tree_write);
}

static void set_ops(struct fm_file *file)
{
	if (!tree_write) {
		file_ops = *file->ops;
		tree_write = file_ops.write;
		file_ops.write = sink_write;
	}
	file->ops = &file_ops;
}

struct fm_file *sim_tree_sink_file(struct sim_node *n, const char *path, bool is_callers,
				   const struct fm_create_tree *how, void (*closed)(void *ctx),
				   void *ctx)
{
	struct sink *s = sim_alloc(n->sim, sizeof(*s));
	const struct fm_tree_file_opts o = { .tree = &s->tree, .closed = closed, .ctx = ctx };
	const struct fm_tree_begin begin = { .source = how->source };
	struct fm_file *file;

	s->tree = (struct fm_tree){ .ops = &sink_ops };
	s->node = n;
	s->how = *how;
	s->stage = stage_for(n, path, is_callers, how->is_dry);
	s->stage->is_used = true;
	fm_list_append(&n->open_sinks, &s->open_at);
	sim_disk_world(n->sim)->files++;
	if (fm_tree_file_new(&o, &file, NULL) < 0) {
		fm_list_del(&s->open_at);
		if (closed)
			closed(ctx);
		return NULL;
	}
	set_ops(file);
	/* A store knows the source; a caller hears of it later. */
	if (!is_callers && sink_begin(&s->tree, &begin, NULL) < 0) {
		file->ops->close(file);
		return NULL;
	}
	return file;
}

struct fm_file *sim_caller_tree_sink(struct sim_node *n, const char *path,
				     const struct fm_create_tree *how)
{
	return sim_tree_sink_file(n, path, true, how, NULL, NULL);
}

/* ---- crashes ---- */

void sim_tree_sinks_die(struct sim_node *n)
{
	fm_list_each(at, next, &n->open_sinks) {
		struct sink *s = fm_container_of(at, struct sink, open_at);

		s->is_dead = true;
		if (!s->is_ended && !s->how.is_dry)
			leave_stage(s);
	}
	/* The journal names the boot that it is good for. */
	for (struct sim_stage *st = n->stages; st && n->death == SIM_POWER_CUT; st = st->next)
		if (!st->is_synced)
			stage_clear(st);
}

void sim_trees_free(struct sim_node *n)
{
	for (struct sim_stage *st = n->stages; st; st = st->next)
		stage_clear(st);
}
