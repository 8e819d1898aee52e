/* SPDX-License-Identifier: MIT */
/*
 * store_fixture - what the tests of the stores share: a lane to do I/O on, directories on disk and
 * in memory, whole files in one call.
 *
 * Fatal assertions jump out of a test, so nothing here holds memory that LeakSanitizer would find
 * behind one.
 */
#ifndef STORE_FIXTURE_H
#define STORE_FIXTURE_H

#include <CUnit/Basic.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/block.h"
#include "mover/base/err.h"
#include "mover/base/loop.h"
#include "mover/base/ring.h"
#include "mover/store/store.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

#define FIXTURE_BUF_LEN (4u << 20)
#define CHUNK (256u << 10)		/* what the tests move at once */
#define NS_PER_S INT64_C(1000000000)

/* Where the two kinds of store are tested. */
#define ON_DISK "/var/tmp"
#define IN_MEMORY "/dev/shm"

static const struct fm_who root_user = { .uid = 0, .gid = 0 };
static const struct fm_who a_peer = { .peer = "n2", .uid = 1000, .gid = 1000 };
static const char *const everybody[] = { "*", NULL };

struct lane {
	struct fm_loop *loop;
	struct fm_ring *ring;
	struct fm_done_list done;
	struct fm_lane_io io;
};

static inline void lane_open(struct lane *l, bool is_threads_only)
{
	struct fm_loop_opts loop_opts = { .spin_ns = 0 };
	struct fm_ring_opts ring_opts = { .depth = 16, .is_threads_only = is_threads_only };
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&loop_opts, &l->loop, &err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_ring_new(l->loop, &ring_opts, &l->ring, &err), 0);
	fm_done_list_init(&l->done, l->loop);
	l->io = (struct fm_lane_io){ .loop = l->loop, .ring = l->ring, .done = &l->done };
}

static inline void lane_close(struct lane *l)
{
	CU_ASSERT_EQUAL(fm_ring_in_flight(l->ring), 0);
	fm_ring_free(l->ring);
	fm_loop_free(l->loop);
}

/* ---- one operation, waited for ---- */

struct waited {
	struct fm_io io;
	unsigned calls;		/* of done() */
};

static inline void waited_done(struct fm_io *io)
{
	fm_container_of(io, struct waited, io)->calls++;
}

static inline void wait_for(struct lane *l, const struct waited *w)
{
	for (int i = 0; w->calls == 0 && i < 10000; i++)
		fm_loop_step(l->loop, 100000000);
	CU_ASSERT_EQUAL(w->calls, 1);
}

static inline int64_t file_read(struct lane *l, struct fm_file *file, void *buf, uint32_t len,
				uint64_t offset)
{
	struct waited w = {.io = {.done = waited_done, .buf = buf, .len = len, .offset = offset}};

	file->ops->read(file, &l->io, &w.io);
	CU_ASSERT_EQUAL(w.calls, 0);	/* never from inside the call */
	wait_for(l, &w);
	return w.io.res;
}

static inline int64_t file_write(struct lane *l, struct fm_file *file, void *buf, uint32_t len,
				 uint64_t offset)
{
	struct waited w = {.io = {.done = waited_done, .buf = buf, .len = len, .offset = offset}};

	file->ops->write(file, &l->io, &w.io);
	CU_ASSERT_EQUAL(w.calls, 0);
	wait_for(l, &w);
	return w.io.res;
}

/* ---- memory and patterns ---- */

static inline unsigned char *buffer(void)
{
	static _Alignas(65536) unsigned char buf[FIXTURE_BUF_LEN];

	return buf;
}

/* Content number `salt`: no two are alike. */
static inline void pattern(void *buf, uint64_t salt, uint64_t offset, size_t len)
{
	fm_null_fill(buf, (salt << 40) + offset, len);
}

static inline bool is_pattern(const void *buf, uint64_t salt, uint64_t offset, size_t len)
{
	static unsigned char want[FIXTURE_BUF_LEN];

	pattern(want, salt, offset, len);
	return memcmp(buf, want, len) == 0;
}

/* ---- directories ---- */

static inline void dir_make(const char *base, char out[64])
{
	snprintf(out, 64, "%s/fm-store-XXXXXX", base);
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(out));
	CU_ASSERT_EQUAL(chmod(out, 0755), 0);
}

static inline void dir_remove(const char *dir)
{
	remove_all(dir);
}

/* Names that begin with prefix, in one directory. */
static inline unsigned dir_count(const char *dir, const char *prefix)
{
	DIR *d = opendir(dir);
	unsigned count = 0;

	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
		count += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
	if (d)
		closedir(d);
	return count;
}

#define PARTIALS ".fmove."

static inline unsigned fds_open(void)
{
	return dir_count("/proc/self/fd", "");
}

/* ---- stores ---- */

static inline struct fm_store *store_open(const char *dir)
{
	struct fm_store_opts opts = {.name = "s",
				     .directory = dir,
				     .read = everybody,
				     .write = everybody,
				     .is_durable = true};
	struct fm_store *store = NULL;
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &store, &err), 0);
	return store;
}

struct put {
	const char *path;
	uint64_t size;
	uint64_t salt;
	bool is_stream;		/* size not said beforehand */
	bool may_replace;
	bool is_fleeting;	/* not durable */
};

/* Write pattern p->salt into an open sink, chunk by chunk. */
static inline int64_t put_bytes(struct lane *l, struct fm_file *file, const struct put *p)
{
	int64_t res = 0;

	for (uint64_t at = 0; at < p->size && res >= 0; at += CHUNK) {
		uint32_t len = p->size - at < CHUNK ? (uint32_t)(p->size - at) : CHUNK;

		pattern(buffer(), p->salt, at, len);
		res = file_write(l, file, buffer(), len, at);
		if (res >= 0 && res != len)
			res = -EPROTO;
	}
	return res < 0 ? res : 0;
}

/* A whole put, as the engine does it. */
static inline int store_put(struct lane *l, struct fm_store *store, const struct put *p,
			    struct fm_err *err)
{
	struct fm_create how = {.size = p->is_stream ? FM_SIZE_UNKNOWN : p->size,
				.is_dense = !p->is_stream,
				.may_replace = p->may_replace};
	struct fm_attr attr = {
		.type = FM_NODE_FILE, .size = p->size, .mode = 04640, .mtime_ns = 5 * NS_PER_S + 7};
	struct fm_file *file;
	int64_t res;
	int ret = store->ops->create(store, p->path, &root_user, &how, &file, err);

	if (ret < 0)
		return ret;
	res = put_bytes(l, file, p);
	if (res < 0)
		ret = fm_err_set(err, (int)res, "writing failed");
	else
		ret = file->ops->publish(file, p->size, &attr, !p->is_fleeting, err);
	if (ret < 0)
		file->ops->discard(file);
	file->ops->close(file);
	return ret;
}

/* 0 if the file holds size bytes of pattern salt. The tail is asked for rounded up, as the engine
 * may. */
static inline int store_verify(struct lane *l, struct fm_store *store, const char *path,
			       uint64_t size, uint64_t salt)
{
	struct fm_err err = { 0 };
	struct fm_file *file;
	struct fm_attr attr;
	int ret = store->ops->open_source(store, path, &root_user, &file, &attr, &err);

	if (ret < 0)
		return ret;
	if (attr.size != size)
		ret = -EPROTO;
	for (uint64_t at = 0; at < size && ret == 0; at += CHUNK) {
		uint64_t left = size - at < CHUNK ? size - at : CHUNK;
		uint32_t ask = (uint32_t)fm_block_up(left);
		int64_t res = file_read(l, file, buffer(), ask, at);

		if (res != (int64_t)left || !is_pattern(buffer(), salt, at, left))
			ret = res < 0 ? (int)res : -EBADMSG;
	}
	if (ret == 0)
		ret = file->ops->check_unchanged(file, &err);
	file->ops->close(file);
	return ret;
}

#endif
