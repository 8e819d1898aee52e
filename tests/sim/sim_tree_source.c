/* SPDX-License-Identifier: MIT */
/*
 * sim_tree_source - a simulated directory that is sent.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/crc32c.h"
#include "mover/base/fault.h"
#include "mover/store/tree_file.h"
#include "tests/sim/sim_tree_priv.h"

#define LARGES_MAX 2		/* that wait */
#define UNANSWERED_MAX 2
#define OFFERS_MAX 5		/* of one pack */
#define BLOCK 4096u

struct sent {
	struct sent *next;
	uint64_t seq;
	uint8_t *bytes;
	size_t len;
	size_t *entries;		/* of an offer, as indices of the tree */
	size_t count;
	bool is_answered;
	bool is_acked;
};

struct source {
	struct fm_tree tree;
	struct sim_node *node;
	const struct sim_tree *content;
	struct fm_tree_begin how;
	bool has_begun, is_stopped, is_over;
	uint64_t at;			/* of the walk: entry ... */
	uint64_t from;			/* ... and byte of its file that is next */
	size_t *wanted;			/* files that were asked for, in order */
	size_t wanted_at, wanted_count;
	uint64_t wanted_from;
	struct sent *sent;
	unsigned unanswered;
	size_t larges[LARGES_MAX];
	unsigned larges_count;
	struct fm_tree_count count;
};

static struct source *source_of(struct fm_tree *t)
{
	return fm_container_of(t, struct source, tree);
}

static struct sim *sim_of(const struct source *s)
{
	return s->node->sim;
}

struct fm_identity sim_blob_identity(const struct sim_blob *b)
{
	return (struct fm_identity){.dev = b->attr.dev,
				    .ino = b->attr.ino,
				    .size = b->size,
				    .mtime_ns = b->attr.mtime_ns,
				    .ctime_ns = b->attr.ctime_ns};
}

int sim_tree_fault(struct sim_node *n, unsigned one_in, const char *what, struct fm_err *err)
{
	if (n->death)
		return fm_err_set(err, -EIO, "%s: its node died", what);
	if (!sim_one_in(n->sim, one_in) && !FM_FAULT("sim.tree"))
		return 0;
	sim_fired(n->sim, SIM_FIRED_IO);
	return fm_err_set(err, -EIO, "%s: simulated I/O error", what);
}

static int source_begin(struct fm_tree *t, const struct fm_tree_begin *how, struct fm_err *err)
{
	struct source *s = source_of(t);

	assert(!s->has_begun);
	s->has_begun = true;
	s->how = *how;
	return sim_tree_fault(s->node, sim_faults(sim_of(s))->create_fails, "open the tree", err);
}

/* ---- packs ---- */

static struct sent *find_sent(struct source *s, uint64_t seq)
{
	for (struct sent *p = s->sent; p; p = p->next)
		if (p->seq == seq)
			return p;
	return NULL;
}

struct filling {
	struct fm_pack_writer w;
	size_t entries[64];
	size_t count;
	bool is_full;
};

static struct fm_pack_entry describe(const struct sim_tree_entry *e)
{
	struct fm_pack_entry p = {.type = e->type,
				  .path = e->path,
				  .path_len = strlen(e->path),
				  .mtime_ns = e->mtime_ns};
	struct fm_identity id;

	if (e->type == FM_PACK_DIR)
		p.mode = e->mode;
	if (e->target) {
		p.target = e->target;
		p.target_len = strlen(e->target);
	}
	if (e->type == FM_PACK_FILE) {
		id = sim_blob_identity(e->blob);
		p.mode = e->blob->attr.mode;
		p.mtime_ns = e->blob->attr.mtime_ns;
		p.size = e->blob->size;
		p.identity = fm_identity_hash(&id);
	}
	return p;
}

/* One entry without data; false: no room. */
static bool put_plain(struct filling *f, const struct sim_tree_entry *e, size_t index,
		      const struct fm_pack_entry *p)
{
	(void)e;
	if (f->count == 64 || fm_pack_room(&f->w, p->path_len, p->target_len, 0) < 0)
		return false;
	(void)fm_pack_add(&f->w, p);
	f->entries[f->count++] = index;
	return true;
}

/* As much of the file as there is room for; *from moves on. True: it is all in packs. */
static bool put_data(struct filling *f, const struct sim_tree_entry *e, size_t index,
		     uint64_t *from)
{
	struct fm_pack_entry p = describe(e);
	int64_t room = fm_pack_room(&f->w, p.path_len, 0, 0);
	uint64_t left = e->blob->size - *from;
	uint8_t *data;

	if (f->count == 64 || room < 0 || (room == 0 && left > 0))
		return false;
	p.offset = *from;
	p.data_len = (uint32_t)(left < (uint64_t)room ? left : (uint64_t)room);
	p.crc = fm_crc32c_part(fm_crc32c(0, e->blob->bytes + *from, p.data_len), *from, p.data_len);
	data = fm_pack_add(&f->w, &p);
	if (p.data_len > 0)
		memcpy(data, e->blob->bytes + *from, p.data_len);
	f->entries[f->count++] = index;
	*from += p.data_len;
	return *from == e->blob->size;
}

static bool put_large(struct source *s, size_t index)
{
	if (s->larges_count == LARGES_MAX)
		return false;
	s->larges[s->larges_count++] = index;
	return true;
}

static bool put_file(struct source *s, struct filling *f, size_t index, uint64_t *from)
{
	const struct sim_tree_entry *e = &s->content->entries[index];

	if (e->is_large)
		return put_large(s, index);
	return put_data(f, e, index, from);
}

static void found(struct source *s, const struct sim_tree_entry *e)
{
	s->count.files += e->type == FM_PACK_FILE;
	s->count.bytes += e->type == FM_PACK_FILE ? e->blob->size : 0;
	s->count.dirs += e->type == FM_PACK_DIR && e->path[0];
	s->count.links += e->type == FM_PACK_LINK;
	s->count.hard_links += e->type == FM_PACK_HARD;
}

static void fill_wanted(struct source *s, struct filling *f)
{
	while (s->wanted_at < s->wanted_count) {
		if (!put_file(s, f, s->wanted[s->wanted_at], &s->wanted_from))
			return;
		s->wanted_at++;
		s->wanted_from = 0;
	}
}

static bool put_offer(struct source *s, struct filling *f, const struct sim_tree_entry *e,
		      size_t index)
{
	struct fm_pack_entry p = describe(e);

	if (e->type == FM_PACK_FILE && s->how.has_checksums) {
		p.flags |= FM_PACK_HAS_CRC;
		p.crc = e->blob->crc;
	}
	if (e->is_large)
		p.flags |= FM_PACK_IS_LARGE;
	return put_plain(f, e, index, &p);
}

static void fill_walk(struct source *s, struct filling *f)
{
	while (s->at < s->content->count) {
		const struct sim_tree_entry *e = &s->content->entries[s->at];
		struct fm_pack_entry p = describe(e);
		bool is_put;

		if (s->how.is_offering && f->count == OFFERS_MAX)
			return;
		if (s->how.is_offering)
			is_put = put_offer(s, f, e, s->at);
		else if (e->type == FM_PACK_FILE)
			is_put = put_file(s, f, s->at, &s->from);
		else
			is_put = put_plain(f, e, s->at, &p);
		if (!is_put)
			return;
		found(s, e);
		s->from = 0;
		s->at++;
	}
}

static int64_t keep_sent(struct source *s, uint64_t seq, const struct filling *f, const void *buf,
			 size_t len, bool is_offer)
{
	struct sent *p = sim_alloc(sim_of(s), sizeof(*p));

	p->seq = seq;
	p->len = len;
	p->bytes = sim_alloc(sim_of(s), len);
	memcpy(p->bytes, buf, len);
	p->is_answered = !is_offer;
	if (is_offer) {
		p->count = f->count;
		p->entries = sim_alloc(sim_of(s), f->count * sizeof(*p->entries));
		memcpy(p->entries, f->entries, f->count * sizeof(*p->entries));
		s->unanswered++;
	}
	p->next = s->sent;
	s->sent = p;
	return (int64_t)len;
}

static bool is_blocked(const struct source *s)
{
	return s->unanswered > 0 || s->wanted_at < s->wanted_count || s->at < s->content->count;
}

static int64_t source_fill(struct fm_tree *t, uint64_t seq, void *buf, size_t len,
			   struct fm_err *err)
{
	struct source *s = source_of(t);
	struct sent *old = find_sent(s, seq);
	struct filling f = { .count = 0 };
	bool is_offer;
	size_t made;

	assert(s->has_begun && (uintptr_t)buf % 8 == 0);
	if (s->is_stopped)
		return -ECANCELED;
	if (sim_tree_fault(s->node, sim_faults(sim_of(s))->read_eio, "read the tree", err) < 0)
		return -EIO;
	if (old) {
		assert(!old->is_acked && len >= old->len);
		memcpy(buf, old->bytes, old->len);
		return (int64_t)old->len;
	}
	is_offer = s->how.is_offering && s->wanted_at == s->wanted_count &&
		   s->unanswered < UNANSWERED_MAX;
	fm_pack_begin(&f.w, buf, len, is_offer ? FM_PACK_OFFER : 0);
	if (s->wanted_at < s->wanted_count)
		fill_wanted(s, &f);
	else if (is_offer || !s->how.is_offering)
		fill_walk(s, &f);
	made = fm_pack_end(&f.w);
	if (made > 0)
		return keep_sent(s, seq, &f, buf, made, is_offer);
	s->is_over = !is_blocked(s);
	return s->is_over ? 0 : -EAGAIN;
}

static void source_acked(struct fm_tree *t, uint64_t seq)
{
	struct source *s = source_of(t);
	struct sent *p = find_sent(s, seq);

	if (!p || p->is_acked)
		sim_fail(sim_of(s), "pack %llu is acknowledged, which was not sent",
			 (unsigned long long)seq);
	p->is_acked = true;
}

static int source_need(struct fm_tree *t, uint64_t seq, const uint8_t *bits, size_t count,
		       struct fm_err *err)
{
	struct source *s = source_of(t);
	struct sent *p = find_sent(s, seq);

	if (!p || p->is_answered || p->count != count)
		return fm_err_set(err, -EPROTO, "pack %llu did not offer them",
				  (unsigned long long)seq);
	p->is_answered = true;
	s->unanswered--;
	for (size_t i = 0; i < count; i++) {
		const struct sim_tree_entry *e = &s->content->entries[p->entries[i]];

		if (!(bits[i / 8] & 1u << i % 8))
			continue;
		if (e->type != FM_PACK_FILE)
			return fm_err_set(err, -EPROTO, "%s is no file", e->path);
		s->count.wanted_files++;
		s->count.wanted_bytes += e->blob->size;
		if (!s->how.is_dry)
			s->wanted[s->wanted_count++] = p->entries[i];
	}
	return 0;
}

/* ---- large files ---- */

int sim_memory_file(struct sim *s, const struct sim_blob *b)
{
	int fd = memfd_create("sim", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)b->size) < 0)
		sim_fail(s, "no memory file");
	for (uint64_t at = 0; at < b->size; at += BLOCK) {
		uint64_t len = b->size - at < BLOCK ? b->size - at : BLOCK;

		if ((!b->is_data || b->is_data[at / BLOCK]) &&
		    pwrite(fd, b->bytes + at, len, (off_t)at) != (ssize_t)len)
			sim_fail(s, "no room in a memory file");
	}
	return fd;
}

static void set_time(struct source *s, int fd, int64_t mtime_ns)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
					  {.tv_sec = (time_t)(mtime_ns / 1000000000),
					   .tv_nsec = (long)(mtime_ns % 1000000000)}};

	if (futimens(fd, times) < 0)
		sim_fail(sim_of(s), "the time of a memory file cannot be set");
}

static int source_next_large(struct fm_tree *t, struct fm_tree_large *out)
{
	struct source *s = source_of(t);
	const struct sim_tree_entry *e;

	if (s->larges_count == 0)
		return 0;
	e = &s->content->entries[s->larges[0]];
	s->larges_count--;
	memmove(s->larges, s->larges + 1, s->larges_count * sizeof(s->larges[0]));
	*out = (struct fm_tree_large){ .fd = sim_memory_file(sim_of(s), e->blob),
				       .size = e->blob->size,
				       .mode = e->blob->attr.mode,
				       .id = sim_blob_identity(e->blob),
				       .has_holes = e->blob->is_data != NULL };
	(void)snprintf(out->path, sizeof(out->path), "%s", e->path);
	/* fm_caller_source() looks at the time of the memory file, whose inode is another one. */
	set_time(s, out->fd, e->blob->attr.mtime_ns);
	out->mtime_ns = e->blob->attr.mtime_ns;
	return 1;
}

/* ---- the rest ---- */

static void source_count(struct fm_tree *t, struct fm_tree_count *out)
{
	*out = source_of(t)->count;
}

static void source_stop(struct fm_tree *t)
{
	source_of(t)->is_stopped = true;
}

static void source_close(struct fm_tree *t)
{
	struct source *s = source_of(t);

	sim_disk_world(sim_of(s))->files--;
}

static const struct fm_tree_ops source_ops = {
	.begin = source_begin,
	.fill = source_fill,
	.acked = source_acked,
	.need = source_need,
	.next_large = source_next_large,
	.count = source_count,
	.stop = source_stop,
	.close = source_close,
};

/* ---- as a file ---- */

static struct fm_file_ops file_ops;	/* tree_file's, but for read() */
static void (*tree_read)(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io);

static void source_read(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	sim_tree_io(source_of(file->tree)->node, file, lane, io, tree_read);
}

static void set_ops(struct fm_file *file)
{
	if (!tree_read) {
		file_ops = *file->ops;
		tree_read = file_ops.read;
		file_ops.read = source_read;
	}
	file->ops = &file_ops;
}

struct fm_file *sim_tree_source_file(struct sim_node *n, const struct sim_tree *tree,
				     const char *const *excludes, void (*closed)(void *ctx),
				     void *ctx)
{
	struct source *s = sim_alloc(n->sim, sizeof(*s));
	const struct fm_tree_file_opts o = { .tree = &s->tree, .closed = closed, .ctx = ctx };
	struct fm_file *file;

	s->tree = (struct fm_tree){ .ops = &source_ops, .is_source = true };
	s->node = n;
	for (; excludes && *excludes; excludes++)
		tree = sim_tree_without(n->sim, tree, *excludes);
	s->content = tree;
	s->wanted = sim_alloc(n->sim, (tree->count + 1) * sizeof(*s->wanted));
	sim_disk_world(n->sim)->files++;
	if (fm_tree_file_new(&o, &file, NULL) < 0)
		return NULL;
	set_ops(file);
	return file;
}

struct fm_file *sim_caller_tree_source(struct sim_node *n, const struct sim_tree *tree)
{
	return sim_tree_source_file(n, tree, NULL, NULL, NULL);
}
