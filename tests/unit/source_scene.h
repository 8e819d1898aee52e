/* SPDX-License-Identifier: MIT */
/*
 * source_scene - a directory to send, and a far end that takes what a tree's source makes and
 * compares it with the directory.
 */
#ifndef SOURCE_SCENE_H
#define SOURCE_SCENE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "mover/base/crc32c.h"
#include "mover/base/err.h"
#include "mover/tree/pack.h"
#include "mover/tree/tree.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

#define GOT_BUCKETS (1u << 16)
#define PENDING_MAX 4096

/* One name that came. */
struct got {
	struct got *next;
	enum fm_pack_type type;
	uint64_t size, have, identity;
	uint32_t mode, uid, parts, whole_crc;
	int64_t mtime_ns;
	bool is_offered, is_wanted, is_large, has_attr, has_whole_crc;
	uint8_t *data;
	char *target;
	size_t xattr_len;
	char path[];
};

/* An offering pack that was not answered. */
struct pending {
	uint64_t seq;
	size_t count;
	uint8_t bits[FM_TREE_OFFERS_MAX / 8];
};

static struct far_end {
	struct got *buckets[GOT_BUCKETS];
	size_t names;
	struct pending pending[PENDING_MAX];
	size_t pending_count, pending_max;
	unsigned wanted_percent;
	uint64_t wanted_files, wanted_bytes, spared_files, spared_bytes;
	size_t larges, packs, again;
} far;

static struct fm_tree *tree;
static struct fm_err err;
static char root[64];
static unsigned noise = 1;

/* A repeatable stream of numbers. */
static inline unsigned some(unsigned below)
{
	noise ^= noise << 13;
	noise ^= noise >> 17;
	noise ^= noise << 5;
	return noise % below;
}

/* ---- making a directory ---- */

static inline const char *in_root(const char *name)
{
	static char paths[4][8192];
	static unsigned calls;
	char *path = paths[calls++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
	return path;
}

static inline void root_make(const char *base)
{
	snprintf(root, sizeof(root), "%s/fm_source.XXXXXX", base);
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(root));
}

static inline void root_remove(void)
{
	remove_all(root);
}

static inline void make_dir(const char *name)
{
	CU_ASSERT_EQUAL(mkdir(in_root(name), 0755), 0);
}

/* Bytes that depend on the name and the size. */
static inline void make_file(const char *name, size_t size)
{
	int fd = open(in_root(name), O_CREAT | O_EXCL | O_WRONLY, 0644);
	uint8_t *data = malloc(size + 4);

	CU_ASSERT_TRUE_FATAL(fd >= 0 && data);
	for (size_t i = 0; i < size; i += 4) {
		unsigned v = some(1u << 31);

		memcpy(data + i, &v, 4);
	}
	CU_ASSERT_EQUAL(write(fd, data, size), (ssize_t)size);
	free(data);
	close(fd);
}

static inline void make_sparse(const char *name, off_t size, off_t data_at)
{
	int fd = open(in_root(name), O_CREAT | O_EXCL | O_WRONLY, 0600);

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_EQUAL(ftruncate(fd, size), 0);
	CU_ASSERT_EQUAL(pwrite(fd, "data", 4, data_at), 4);
	close(fd);
}

/* ---- what comes ---- */

static inline struct got **got_slot(const char *path, size_t len)
{
	uint32_t hash = fm_crc32c(0, path, len);
	struct got **at = &far.buckets[hash % GOT_BUCKETS];

	while (*at && !(strlen((*at)->path) == len && memcmp((*at)->path, path, len) == 0))
		at = &(*at)->next;
	return at;
}

static inline struct got *got_find(const char *path)
{
	return *got_slot(path, strlen(path));
}

static inline struct got *got_get(const char *path, size_t len)
{
	struct got **slot = got_slot(path, len);

	if (!*slot) {
		*slot = calloc(1, sizeof(struct got) + len + 1);
		memcpy((*slot)->path, path, len);
		far.names++;
	}
	return *slot;
}

static inline void far_forget(void)
{
	for (size_t i = 0; i < GOT_BUCKETS; i++)
		while (far.buckets[i]) {
			struct got *g = far.buckets[i];

			far.buckets[i] = g->next;
			free(g->data);
			free(g->target);
			free(g);
		}
	memset(&far, 0, sizeof(far));
}

static inline void take_attributes(struct got *g, const struct fm_pack_entry *e)
{
	g->mode = e->mode;
	g->uid = e->uid;
	g->mtime_ns = e->mtime_ns;
	g->xattr_len = e->xattr_len;
}

static inline void take_piece(struct got *g, const struct fm_pack_entry *e)
{
	CU_ASSERT_TRUE(
		g->type == 0 ||
		(g->type == FM_PACK_FILE && g->have > 0 && g->have + e->data_len <= e->size) ||
		(g->is_offered && g->is_wanted && !g->is_large));
	CU_ASSERT_TRUE(g->type == 0 || (g->size == e->size && g->identity == e->identity));
	g->type = FM_PACK_FILE;
	g->size = e->size;
	g->identity = e->identity;
	take_attributes(g, e);
	if (!g->data)
		g->data = calloc(1, e->size + 1);
	if (e->data_len > 0)
		memcpy(g->data + e->offset, e->data, e->data_len);
	CU_ASSERT_EQUAL(fm_crc32c_part(fm_crc32c(0, e->data, e->data_len), e->offset, e->data_len),
			e->crc);
	g->have += e->data_len;
	g->parts ^= e->crc;
	if (e->data_len == 0)
		g->is_wanted = false;	/* empty: complete */
}

static inline void take_offer(struct got *g, const struct fm_pack_entry *e, struct pending *p,
			      size_t i)
{
	CU_ASSERT_EQUAL(g->type, 0);
	g->type = FM_PACK_FILE;
	g->is_offered = true;
	g->is_large = (e->flags & FM_PACK_IS_LARGE) != 0;
	g->has_whole_crc = (e->flags & FM_PACK_HAS_CRC) != 0;
	g->whole_crc = e->crc;
	g->size = e->size;
	g->identity = e->identity;
	take_attributes(g, e);
	g->is_wanted = some(100) < far.wanted_percent;
	if (!g->is_wanted) {
		far.spared_files++;
		far.spared_bytes += e->size;
		return;
	}
	p->bits[i / 8] = (uint8_t)(p->bits[i / 8] | 1u << i % 8);
	far.wanted_files++;
	far.wanted_bytes += e->size;
}

static inline void take_entry(const struct fm_pack_entry *e, bool is_offer, struct pending *p,
			      size_t i)
{
	struct got *g = got_get(e->path, e->path_len);

	if (e->type == FM_PACK_ATTR) {
		CU_ASSERT_FALSE(g->has_attr);
		g->has_attr = true;
		return;
	}
	if (e->type == FM_PACK_FILE) {
		if (is_offer)
			take_offer(g, e, p, i);
		else
			take_piece(g, e);
		return;
	}
	CU_ASSERT_EQUAL(g->type, 0);
	g->type = e->type;
	take_attributes(g, e);
	if (e->target_len > 0)
		g->target = strndup(e->target, e->target_len);
}

/* Every entry of a pack; one that offers is answered later. */
static inline void take_pack(uint64_t seq, const void *pack, size_t len)
{
	struct pending *p = &far.pending[far.pending_count];
	struct fm_pack_reader r;
	struct fm_pack_entry e;
	bool is_offer;
	int ret;

	CU_ASSERT_EQUAL_FATAL(fm_pack_open(&r, pack, len), 0);
	CU_ASSERT_TRUE_FATAL(far.pending_count < PENDING_MAX);
	is_offer = (r.flags & FM_PACK_OFFER) != 0;
	*p = (struct pending){ .seq = seq, .count = r.count };
	for (size_t i = 0; (ret = fm_pack_next(&r, &e)) > 0; i++)
		take_entry(&e, is_offer, p, i);
	CU_ASSERT_EQUAL(ret, 0);
	far.packs++;
	if (is_offer && ++far.pending_count > far.pending_max)
		far.pending_max = far.pending_count;
}

static inline void take_large(const struct fm_tree_large *large)
{
	struct got *g = got_get(large->path, strlen(large->path));
	struct stat st;

	CU_ASSERT_TRUE(g->type == 0 ||
		       (g->is_offered && g->is_wanted && g->is_large && g->have == 0));
	g->type = FM_PACK_FILE;
	g->is_large = true;
	g->size = g->have = large->size;
	g->mode = large->mode;
	g->mtime_ns = large->mtime_ns;
	CU_ASSERT_EQUAL(fstat(large->fd, &st), 0);
	CU_ASSERT_TRUE((uint64_t)st.st_size == large->size && st.st_ino == large->id.ino &&
		       st.st_dev == large->id.dev);
	CU_ASSERT_EQUAL(lseek(large->fd, 0, SEEK_CUR), 0);
	CU_ASSERT_EQUAL(large->has_holes, lseek(large->fd, 0, SEEK_HOLE) < st.st_size);
	close(large->fd);
	far.larges++;
}

/* ---- driving the source ---- */

struct drive {
	size_t len;			/* of a pack */
	unsigned threads;
	unsigned again_percent;		/* packs that are made twice */
};

static pthread_mutex_t far_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint_fast64_t next_seq;

/* One of the things that fill() may wait for. */
static inline void help(void)
{
	struct fm_tree_large *large = malloc(sizeof(*large));

	pthread_mutex_lock(&far_lock);
	while (tree->ops->next_large(tree, large) > 0)
		take_large(large);
	if (far.pending_count > 0) {
		struct pending p = far.pending[--far.pending_count];

		CU_ASSERT_EQUAL(tree->ops->need(tree, p.seq, p.bits, p.count, &err), 0);
	}
	pthread_mutex_unlock(&far_lock);
	free(large);
	sched_yield();
}

struct driver {
	const struct drive *how;
	uint8_t *buf, *last, *again;
	uint64_t last_seq;
	int64_t last_len;
	struct fm_err err;
	int64_t ret;
};

/* The pack before: perhaps made again, then acknowledged. */
static inline int64_t settle_last(struct driver *d)
{
	int64_t n = d->last_len;
	bool is_again;

	if (d->last_len == 0)
		return 0;
	pthread_mutex_lock(&far_lock);
	is_again = some(100) < d->how->again_percent;
	far.again += is_again;
	pthread_mutex_unlock(&far_lock);
	if (is_again) {
		n = tree->ops->fill(tree, d->last_seq, d->again, d->how->len, &d->err);
		CU_ASSERT_TRUE(n < 0 || n == d->last_len);
		CU_ASSERT_TRUE(n != d->last_len || memcmp(d->again, d->last, (size_t)n) == 0);
	}
	tree->ops->acked(tree, d->last_seq);
	d->last_len = 0;
	return n < 0 ? n : 0;
}

static inline void *drive_thread(void *arg)
{
	struct driver *d = arg;
	uint64_t seq = atomic_fetch_add(&next_seq, 1);

	d->buf = aligned_alloc(64, d->how->len);
	d->last = aligned_alloc(64, d->how->len);
	d->again = aligned_alloc(64, d->how->len);
	for (;;) {
		d->ret = tree->ops->fill(tree, seq, d->buf, d->how->len, &d->err);
		if (d->ret == -EAGAIN) {
			help();
			continue;
		}
		if (d->ret <= 0)
			break;
		pthread_mutex_lock(&far_lock);
		take_pack(seq, d->buf, (size_t)d->ret);
		pthread_mutex_unlock(&far_lock);
		d->ret = settle_last(d);
		if (d->ret < 0)
			break;
		memcpy(d->last, d->buf, (size_t)d->ret);
		d->last_seq = seq;
		d->last_len = d->ret;
		seq = atomic_fetch_add(&next_seq, 1);
	}
	if (d->ret == 0)
		d->ret = settle_last(d);
	free(d->buf);
	free(d->last);
	free(d->again);
	return NULL;
}

/* Until the end, or the first error: it, with its text in err. */
static inline int64_t drive(const struct drive *how)
{
	struct driver drivers[16] = { 0 };
	pthread_t threads[16];
	int64_t ret = 0;

	atomic_store(&next_seq, 0);
	for (unsigned i = 0; i < how->threads; i++) {
		drivers[i].how = how;
		CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, drive_thread, &drivers[i]),
				      0);
	}
	for (unsigned i = 0; i < how->threads; i++) {
		pthread_join(threads[i], NULL);
		if (drivers[i].ret < 0 && ret == 0) {
			ret = drivers[i].ret;
			err = drivers[i].err;
		}
	}
	if (ret == 0) {
		help();		/* the last large files may still wait */
		CU_ASSERT_EQUAL(far.pending_count, 0);
	}
	return ret;
}

static inline int source_new(struct fm_tree_source_opts opts)
{
	opts.root = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CU_ASSERT_TRUE_FATAL(opts.root >= 0);
	return fm_tree_source_new(&opts, &tree, &err);
}

/* ---- comparing ---- */

static inline bool is_content(const struct got *g, const char *path)
{
	uint8_t *data = malloc(g->size + 1);
	int fd = open(path, O_RDONLY);
	bool is_same = read(fd, data, g->size + 1) == (ssize_t)g->size;

	is_same = is_same && memcmp(data, g->data, g->size) == 0 &&
		  fm_crc32c_whole(g->parts, g->size) == fm_crc32c(0, data, g->size);
	close(fd);
	free(data);
	return is_same;
}

static inline bool is_file(const struct got *g, const char *path, const struct stat *st)
{
	struct stat first;

	if (g->type == FM_PACK_HARD)
		return stat(in_root(g->target), &first) == 0 && first.st_ino == st->st_ino &&
		       first.st_dev == st->st_dev;
	if (g->type != FM_PACK_FILE || g->size != (uint64_t)st->st_size ||
	    g->mode != (st->st_mode & 01777))
		return false;
	if (g->mtime_ns != st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec)
		return false;
	if (g->is_offered && !g->is_wanted && g->size > 0)
		return g->have == 0 && !g->data;
	if (g->have != g->size)
		return false;
	return g->is_large || !g->data || is_content(g, path);
}

static inline bool is_link(const struct got *g, const char *path)
{
	char target[5000];
	ssize_t len = readlink(path, target, sizeof(target));

	return g->type == FM_PACK_LINK && len == (ssize_t)strlen(g->target) &&
	       memcmp(target, g->target, (size_t)len) == 0;
}

static size_t names_there;

/* Everything in the directory must have come, as it is. */
static inline int compare_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	const char *below = path + strlen(root) + (path[strlen(root)] == '/');
	struct got *g = got_find(below);
	bool is_same;

	(void)type;
	(void)at;
	names_there++;
	if (!g)
		is_same = false;
	else if (S_ISDIR(st->st_mode))
		is_same = g->type == FM_PACK_DIR && g->mode == (st->st_mode & 01777);
	else
		is_same = S_ISLNK(st->st_mode) ? is_link(g, path) : is_file(g, path, st);
	if (!is_same)
		printf("%s: %s\n", g ? "differs" : "did not come", below);
	CU_ASSERT_TRUE(is_same);
	return 0;
}

static inline void compare_all(void)
{
	names_there = 0;
	CU_ASSERT_EQUAL(nftw(root, compare_one, 50, FTW_PHYS), 0);
	CU_ASSERT_EQUAL(far.names, names_there);
}

/* ---- whole transfers ---- */

#define ON_DISK "/tmp"
#define IN_MEMORY "/dev/shm"

static const struct drive plain = { .len = 256u << 10, .threads = 1 };

static inline void begin(const char *base)
{
	fm_err_clear(&err);
	root_make(base);
}

static inline void end(void)
{
	far_forget();
	root_remove();
}

/* The whole way of a transfer that must succeed. */
static inline void send_all(struct fm_tree_source_opts opts, const struct drive *how)
{
	CU_ASSERT_EQUAL_FATAL(source_new(opts), 0);
	if (drive(how) < 0) {
		printf("%s\n", err.text);
		CU_FAIL("not sent");
	}
}

/* Of a transfer that must fail: the error is in err. */
static inline int64_t send_failing(struct fm_tree_source_opts opts, const struct drive *how)
{
	int64_t ret;

	CU_ASSERT_EQUAL_FATAL(source_new(opts), 0);
	ret = drive(how);
	tree->ops->close(tree);
	far_forget();
	return ret;
}

static inline void check_counts(void)
{
	struct fm_tree_count got = { 0 }, told;

	for (size_t i = 0; i < GOT_BUCKETS; i++)
		for (const struct got *g = far.buckets[i]; g; g = g->next) {
			got.files += g->type == FM_PACK_FILE;
			got.bytes += g->type == FM_PACK_FILE ? g->size : 0;
			got.dirs += g->type == FM_PACK_DIR && g->path[0];
			got.links += g->type == FM_PACK_LINK;
			got.hard_links += g->type == FM_PACK_HARD;
		}
	tree->ops->count(tree, &told);
	CU_ASSERT_TRUE(got.files == told.files && got.bytes == told.bytes && got.dirs == told.dirs);
	CU_ASSERT_TRUE(got.links == told.links && got.hard_links == told.hard_links);
	CU_ASSERT_TRUE(told.wanted_files == far.wanted_files &&
		       told.wanted_bytes == far.wanted_bytes);
	CU_ASSERT_EQUAL(told.resumed_files, far.spared_files);
	CU_ASSERT_EQUAL(told.resumed_bytes, far.spared_bytes);
}

static inline void make_many(unsigned count, const char *prefix)
{
	char name[256];

	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%s/%s%07u", root, prefix, i);
		CU_ASSERT_EQUAL(mknod(name, S_IFREG | 0644, 0), 0);
	}
}

/* fill() of one number, into a buffer that is forgotten. */
static inline int64_t fill_once(uint64_t seq, size_t len)
{
	uint8_t *buf = aligned_alloc(64, len);
	int64_t n = tree->ops->fill(tree, seq, buf, len, &err);

	if (n > 0)
		take_pack(seq, buf, (size_t)n);
	free(buf);
	return n;
}

#endif
