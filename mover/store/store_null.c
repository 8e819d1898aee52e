/* SPDX-License-Identifier: MIT */
/*
 * store_null - a store for measuring, and the files it is made of.
 */
#include "mover/store/store_null.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/cpu_time.h"
#include "mover/base/env.h"
#include "mover/store/access.h"
#include "mover/store/done_list.h"
#include "mover/store/path.h"
#include "mover/store/store.h"
#include "mover/store/sys.h"

/* ---------------------------------------------------------------------------------------- files */

struct null_file {
	struct fm_file file;
	uint64_t size;		/* source */
	char *text;		/* of a source that is neither made nor left as it is; NULL */
};

static struct null_file *null_file_of(struct fm_file *file)
{
	return fm_container_of(file, struct null_file, file);
}

/*
 * Word i is i times an odd constant, so that no two words of any file are equal; as a sum, which
 * costs what writing costs.
 */
#define NULL_STEP UINT64_C(0x9e3779b97f4a7c15)

void fm_null_fill(void *buf, uint64_t offset, size_t len)
{
	uint64_t word = (offset / 8 + 1) * NULL_STEP;
	unsigned char *at = buf;
	size_t i;

	assert(offset % 8 == 0);
	for (i = 0; i + 8 <= len; i += 8, word += NULL_STEP) {
		uint64_t le = htole64(word);

		memcpy(at + i, &le, 8);
	}
	word = htole64(word);
	memcpy(at + i, &word, len - i);
}

static int64_t null_there(const struct null_file *f, const struct fm_io *io)
{
	if (io->offset >= f->size)
		return 0;
	return f->size - io->offset < io->len ? (int64_t)(f->size - io->offset) : (int64_t)io->len;
}

static void null_read(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	int64_t there = null_there(null_file_of(file), io);

	fm_null_fill(io->buf, io->offset, (size_t)there);
	fm_done_list_add(lane->done, io, there);
}

static void null_read_untouched(struct fm_file *file, const struct fm_lane_io *lane,
				struct fm_io *io)
{
	fm_done_list_add(lane->done, io, null_there(null_file_of(file), io));
}

static void null_read_text(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	const struct null_file *f = null_file_of(file);
	int64_t there = null_there(f, io);

	if (there > 0)
		memcpy(io->buf, f->text + io->offset, (size_t)there);
	fm_done_list_add(lane->done, io, there);
}

static void null_write(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	(void)file;	/* forgets */
	fm_done_list_add(lane->done, io, io->len);
}

static int null_publish(struct fm_file *file, uint64_t size, const struct fm_attr *attr,
			bool is_durable, struct fm_err *err)
{
	(void)file;
	(void)size;
	(void)attr;
	(void)is_durable;
	(void)err;
	return 0;
}

static void null_discard(struct fm_file *file)
{
	(void)file;	/* there is nothing */
}

static void null_close(struct fm_file *file)
{
	free(null_file_of(file)->text);
	free(null_file_of(file));
}

static const struct fm_file_ops null_source_ops = {
	.read = null_read,
	.close = null_close,
};

static const struct fm_file_ops null_untouched_ops = {
	.read = null_read_untouched,
	.close = null_close,
};

static const struct fm_file_ops null_text_ops = {
	.read = null_read_text,
	.close = null_close,
};

static const struct fm_file_ops null_sink_ops = {
	.write = null_write,
	.publish = null_publish,
	.discard = null_discard,
	.close = null_close,
};

static int null_file_new(const struct fm_file_ops *ops, uint64_t size, struct fm_file **out,
			 struct fm_err *err)
{
	struct null_file *f;

	if (size > FM_SIZE_LIMIT)
		return fm_err_set(err, -EFBIG, "null: %llu bytes are more than any file can have",
				  (unsigned long long)size);
	f = fm_sys_alloc(sizeof(*f));
	if (!f)
		return fm_err_set(err, -ENOMEM, "allocate a null file");
	f->file.ops = ops;
	f->file.is_instant = true;
	f->file.is_ours = true;
	f->size = size;
	*out = &f->file;
	return 0;
}

static void null_attr(uint64_t size, struct fm_attr *out)
{
	*out = (struct fm_attr){
		.type = FM_NODE_FILE,
		.size = size,
		.mode = 0644,
		.mtime_ns = (int64_t)time(NULL) * (int64_t)FM_NS_PER_S,
	};
}

static int null_source_new(const struct fm_file_ops *ops, uint64_t size, struct fm_file **out,
			   struct fm_attr *attr, struct fm_err *err)
{
	int ret = null_file_new(ops, size, out, err);

	if (ret == 0)
		null_attr(size, attr);
	return ret;
}

int fm_null_source(uint64_t size, struct fm_file **out, struct fm_attr *attr, struct fm_err *err)
{
	return null_source_new(&null_source_ops, size, out, attr, err);
}

int fm_null_source_untouched(uint64_t size, struct fm_file **out, struct fm_attr *attr,
			     struct fm_err *err)
{
	return null_source_new(&null_untouched_ops, size, out, attr, err);
}

int fm_null_sink(struct fm_file **out, struct fm_err *err)
{
	return null_file_new(&null_sink_ops, 0, out, err);
}

/*
 * Makes a file that tells the processor time of this node, so that who measures us knows what it
 * cost.
 */
static int null_cpu_new(struct fm_file **out, struct fm_attr *attr, struct fm_err *err)
{
	struct fm_cpu_time *now = fm_sys_alloc(sizeof(*now));
	char *text = fm_sys_alloc(FM_CPU_TEXT_MAX);
	int ret = now && text ? fm_cpu_time_read("/proc", getpid(), now, err) :
				fm_err_set(err, -ENOMEM, "allocate a null file");

	if (ret == 0)
		ret = fm_cpu_time_write(now, text, FM_CPU_TEXT_MAX);
	if (ret >= 0)
		ret = null_source_new(&null_text_ops, (uint64_t)ret, out, attr, err);
	if (ret == 0)
		null_file_of(*out)->text = text;
	else
		free(text);
	free(now);
	return ret;
}

/* ---------------------------------------------------------------------------------------- store */

#define CPU_PATH "cpu"

struct store_null {
	struct fm_store store;
	struct fm_access *read;
	struct fm_access *write;
};

static struct store_null *null_of(struct fm_store *store)
{
	return fm_container_of(store, struct store_null, store);
}

/* "64GiB" -> bytes. -ENOENT: no size, so nothing that this store holds. */
static int parse_size(const char *text, uint64_t *out)
{
	static const struct {
		const char *unit;
		unsigned shift;
	} units[] = { { "", 0 }, { "KiB", 10 }, { "MiB", 20 }, { "GiB", 30 }, { "TiB", 40 } };
	unsigned long long n;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return -ENOENT;
	errno = 0;
	n = strtoull(text, &end, 10);
	for (size_t i = 0; errno == 0 && i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].unit) != 0)
			continue;
		if (n > FM_SIZE_LIMIT >> units[i].shift)
			return -ENOENT;
		*out = n << units[i].shift;
		return 0;
	}
	return -ENOENT;
}

/* Finds what a path names: a size, and whether the bytes are made. */
static int null_find(struct store_null *s, const char *path, const struct fm_who *who,
		     uint64_t *size, bool *is_untouched, struct fm_err *err)
{
	static const char prefix[] = "untouched/";
	struct fm_path_shown shown;
	const char *text = path;
	int ret = fm_access_check(s->read, who, "read", err);

	if (ret == 0)
		ret = fm_path_check(path, err);
	if (ret < 0)
		return ret;
	*is_untouched = strncmp(path, prefix, sizeof(prefix) - 1) == 0;
	if (*is_untouched)
		text += sizeof(prefix) - 1;
	if (parse_size(text, size) == 0)
		return 0;
	return fm_err_set(err, -ENOENT,
			  "\"%s\": is no size; a null store holds files like \"64GiB\", "
			  "\"1000000\" and \"untouched/64GiB\", and \"cpu\"",
			  fm_path_show(path, &shown));
}

static int null_result(const struct store_null *s, int ret, struct fm_err *err)
{
	if (ret < 0)
		fm_err_wrap(err, "store %s", s->store.name);
	return ret;
}

static int store_null_open_source(struct fm_store *store, const char *path,
				  const struct fm_who *who, struct fm_file **out,
				  struct fm_attr *attr, struct fm_err *err)
{
	struct store_null *s = null_of(store);
	bool is_untouched;
	uint64_t size;
	int ret;

	if (strcmp(path, CPU_PATH) == 0) {
		ret = fm_access_check(s->read, who, "read", err);
		return null_result(s, ret < 0 ? ret : null_cpu_new(out, attr, err), err);
	}
	ret = null_find(s, path, who, &size, &is_untouched, err);
	if (ret == 0)
		ret = null_source_new(is_untouched ? &null_untouched_ops : &null_source_ops, size,
				      out, attr, err);
	return null_result(s, ret, err);
}

static int null_may_write(struct store_null *s, const char *path, const struct fm_who *who,
			  struct fm_err *err)
{
	int ret = fm_access_check(s->write, who, "write", err);

	return ret < 0 ? ret : fm_path_check(path, err);
}

static bool store_null_asks_users(struct fm_store *store)
{
	return fm_access_asks_users(null_of(store)->read) ||
	       fm_access_asks_users(null_of(store)->write);
}

static void store_null_rights(struct fm_store *store, const struct fm_who *who, bool *may_read,
			      bool *may_write)
{
	*may_read = fm_access_allows(null_of(store)->read, who);
	*may_write = fm_access_allows(null_of(store)->write, who);
}

static int store_null_create(struct fm_store *store, const char *path, const struct fm_who *who,
			     const struct fm_create *how, struct fm_file **out, struct fm_err *err)
{
	struct store_null *s = null_of(store);
	int ret = null_may_write(s, path, who, err);

	if (ret == 0 && path[0] == '\0')
		ret = fm_err_set(err, -EISDIR,
				 "the store itself is a directory; name a file in it");
	if (ret == 0)
		ret = fm_null_sink(out, err);
	if (ret == 0)
		(*out)->has_fixed_size = how->size != FM_SIZE_UNKNOWN;
	return null_result(s, ret, err);
}

static int store_null_stat(struct fm_store *store, const char *path, const struct fm_who *who,
			   struct fm_attr *attr, struct fm_err *err)
{
	struct store_null *s = null_of(store);
	bool is_untouched;
	uint64_t size;
	int ret;

	if (path[0] == '\0') {
		ret = fm_access_check(s->read, who, "read", err);
		if (ret == 0)
			*attr = (struct fm_attr){ .type = FM_NODE_DIR, .mode = 0755 };
		return null_result(s, ret, err);
	}
	ret = null_find(s, path, who, &size, &is_untouched, err);
	if (ret == 0)
		null_attr(size, attr);
	return null_result(s, ret, err);
}

/* Lists nothing, although every size is there. */
static int store_null_list(struct fm_store *store, const char *path, const struct fm_who *who,
			   const struct fm_list_opts *opts, struct fm_entry *out, size_t *count,
			   struct fm_err *err)
{
	struct store_null *s = null_of(store);
	int ret = fm_access_check(s->read, who, "read", err);

	(void)opts;
	(void)out;
	if (ret == 0)
		ret = fm_path_check(path, err);
	if (ret == 0)
		*count = 0;
	return null_result(s, ret, err);
}

static int store_null_remove(struct fm_store *store, const char *path, const struct fm_who *who,
			     bool is_recursive, struct fm_err *err)
{
	struct store_null *s = null_of(store);
	struct fm_path_shown shown;
	int ret = null_may_write(s, path, who, err);

	(void)is_recursive;
	if (ret == 0)
		ret = fm_err_set(err, -ENOENT, "remove \"%s\": a null store keeps nothing",
				 fm_path_show(path, &shown));
	return null_result(s, ret, err);
}

static int store_null_mkdir(struct fm_store *store, const char *path, const struct fm_who *who,
			    struct fm_err *err)
{
	struct store_null *s = null_of(store);

	return null_result(s, null_may_write(s, path, who, err), err);
}

static bool store_null_lets_peer(struct fm_store *store, const char *peer)
{
	const struct fm_who who = { .peer = peer };

	return fm_access_allows(null_of(store)->read, &who);
}

static void store_null_free(struct fm_store *store)
{
	struct store_null *s = null_of(store);

	fm_access_free(s->write);
	fm_access_free(s->read);
	free(s);
}

static const struct fm_store_ops store_null_ops = {
	.open_source = store_null_open_source,
	.asks_users = store_null_asks_users,
	.rights = store_null_rights,
	.lets_peer = store_null_lets_peer,
	.create = store_null_create,
	.stat = store_null_stat,
	.list = store_null_list,
	.remove = store_null_remove,
	.mkdir = store_null_mkdir,
	.free = store_null_free,
};

int fm_store_null_open(const struct fm_store_opts *opts, struct fm_store **out, struct fm_err *err)
{
	struct store_null *s = fm_sys_alloc(sizeof(*s));
	int (*rules)(const char *const *rules, struct fm_access **out, struct fm_err *err) =
		opts->is_silent ? fm_access_new_at_once : fm_access_new;
	int ret;

	if (!s)
		return fm_err_set(err, -ENOMEM, "allocate the store");
	strcpy(s->store.name, opts->name);
	s->store.ops = &store_null_ops;
	s->store.is_durable = opts->is_durable;
	ret = rules(opts->read, &s->read, err);
	if (ret == 0)
		ret = rules(opts->write, &s->write, err);
	if (ret < 0) {
		store_null_free(&s->store);
		return ret;
	}
	*out = &s->store;
	return 0;
}
