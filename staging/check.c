/* SPDX-License-Identifier: MIT */
/*
 * check - see check.h.
 *
 * The directory and the manifest are in one order, so they are gone through side by side: a name
 * that only one of them has is seen at once, and neither is held.
 */
#include "staging/check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/tree/reading.h"
#include "mover/tree/tree.h"
#include "staging/chunk.h"
#include "staging/walk.h"

struct check {
	const struct fm_stage_check_opts *o;
	struct fm_stage_reader *manifest;
	struct fm_stage_walk *walk;	/* NULL: of one file */
	uint8_t *buf;
	bool is_met;			/* of one file: it was */
	/* At hand, and not compared yet: */
	struct fm_stage_entry wanted;
	struct fm_stage_met met;
	int has_wanted, has_met;	/* 1; 0: there are no more */
	char path[FM_TREE_PATH_MAX + 1];	/* of what is wanted, terminated */
};

static void tell(struct check *c, enum fm_stage_found found, const char *path, uint64_t offset,
		 uint64_t len)
{
	const struct fm_stage_finding f = {
		.found = found, .path = path, .offset = offset, .len = len,
	};

	c->o->found(c->o->ctx, &f);
}

static void tell_chunk(struct check *c, enum fm_stage_found found, uint64_t n,
		       const struct fm_stage_chunk *wanted)
{
	const struct fm_stage_finding f = {
		.found = found, .path = c->path, .offset = n * FM_STAGE_CHUNK,
		.len = fm_stage_chunk_len(c->wanted.size, n), .is_chunk = true,
		.crc = wanted->crc,
	};

	c->o->found(c->o->ctx, &f);
}

/* Reports a finding about the whole entry of this name. */
static void tell_whole(struct check *c, enum fm_stage_found found)
{
	tell(c, found, c->path, 0, c->wanted.size);
}

static bool is_stopped(const struct check *c)
{
	return c->o->is_stopped && atomic_load(c->o->is_stopped);
}

/* ---- one name ---- */

static void add_done(struct check *c, uint64_t len)
{
	if (c->o->bytes_done)
		atomic_fetch_add_explicit(c->o->bytes_done, len, memory_order_relaxed);
}

static bool is_chunk_same(const struct fm_stage_chunk *a, const struct fm_stage_chunk *b)
{
	return a->crc == b->crc && a->zeros == b->zeros;
}

/*
 * Compares every chunk of a file with the manifest, and goes on after a difference. 0, or an error
 * of the manifest.
 */
static int compare_chunks(struct check *c, const struct fm_reading *r, struct fm_err *err)
{
	struct fm_stage_chunk want, is;
	int ret;

	for (uint64_t n = 0; (ret = fm_stage_reader_chunk(c->manifest, &want)) > 0; n++) {
		uint32_t len = fm_stage_chunk_len(c->wanted.size, n);
		int read = is_stopped(c) ? -ECANCELED : fm_stage_chunk_read(r, n, c->buf, &is);

		if (read == -ECANCELED)
			return fm_err_set(err, read, "stopped");
		if (read < 0)
			tell_chunk(c, FM_STAGE_UNREADABLE, n, &want);
		else if (!is_chunk_same(&want, &is))
			tell_chunk(c, FM_STAGE_DAMAGED, n, &want);
		add_done(c, len);
	}
	return ret < 0 ? fm_err_sys(err, ret, "read the manifest") : 0;
}

static bool is_as_wanted(const struct check *c, const struct stat *st)
{
	return S_ISREG(st->st_mode) && (uint64_t)st->st_size == c->wanted.size &&
	       fm_reading_mtime(st) == c->wanted.mtime_ns;
}

static int compare_file(struct check *c, struct fm_err *err)
{
	struct fm_reading *r;
	int ret;

	if (!is_as_wanted(c, &c->met.st)) {
		tell_whole(c, FM_STAGE_OTHER);
		return 0;
	}
	ret = fm_stage_chunk_open(c->met.dir, c->met.name, &r);
	if (ret == -ENOMEM || ret == -EMFILE || ret == -ENFILE)	/* it is not the file's fault */
		return fm_err_sys(err, ret, "read a file");
	if (ret < 0) {
		tell_whole(c, FM_STAGE_UNREADABLE);
		return 0;
	}
	if (is_as_wanted(c, &r->st))
		ret = compare_chunks(c, r, err);
	else
		tell_whole(c, FM_STAGE_OTHER);
	if (ret == 0 && fm_reading_check(r) < 0)
		tell_whole(c, FM_STAGE_OTHER);	/* somebody writes to it */
	fm_reading_put(r);
	return ret;
}

static int compare_link(struct check *c, struct fm_err *err)
{
	char target[FM_TREE_PATH_MAX + 1];
	int n = FM_FAULT("stage.readlink")
			? -EIO
			: fm_call(readlinkat(c->met.dir, c->met.name, target, sizeof(target)));

	(void)err;
	if (n < 0 && n != -EINVAL)
		tell_whole(c, FM_STAGE_UNREADABLE);
	else if (!S_ISLNK(c->met.st.st_mode) || n < 0 || (size_t)n != c->wanted.target_len ||
		 memcmp(target, c->wanted.target, (size_t)n) != 0 ||
		 fm_reading_mtime(&c->met.st) != c->wanted.mtime_ns)
		tell_whole(c, FM_STAGE_OTHER);
	return 0;
}

/* A further name is one of the same inode. */
static int compare_hard(struct check *c, struct fm_err *err)
{
	char target[FM_TREE_PATH_MAX + 1];
	struct stat st;
	int fd, ret;

	memcpy(target, c->wanted.target, c->wanted.target_len);
	target[c->wanted.target_len] = '\0';
	fd = FM_FAULT("stage.open") ? -EMFILE
				    : fm_call_open_below(c->o->root, target, O_PATH | O_NOFOLLOW, 0,
							 RESOLVE_NO_SYMLINKS);
	if (fd == -EMFILE || fd == -ENFILE)
		return fm_err_sys(err, fd, "look at a file");
	ret = fd < 0 ? fd : fm_call(fstat(fd, &st));
	if (fd >= 0)
		(void)close(fd);	/* only looked at */
	if (ret < 0 || st.st_dev != c->met.st.st_dev || st.st_ino != c->met.st.st_ino)
		tell_whole(c, FM_STAGE_OTHER);
	return 0;
}

static int compare(struct check *c, struct fm_err *err)
{
	switch (c->wanted.type) {
	case FM_STAGE_DIR:
		if (!S_ISDIR(c->met.st.st_mode))
			tell_whole(c, FM_STAGE_OTHER);
		return 0;
	case FM_STAGE_FILE:
		return compare_file(c, err);
	case FM_STAGE_LINK:
		return compare_link(c, err);
	case FM_STAGE_HARD:
		break;
	}
	return compare_hard(c, err);
}

/* ---- side by side ---- */

static int next_wanted(struct check *c, struct fm_err *err)
{
	c->has_wanted = fm_stage_reader_next(c->manifest, &c->wanted);
	if (c->has_wanted < 0)
		return fm_err_sys(err, c->has_wanted, "read the manifest");
	if (c->has_wanted == 0)
		return 0;
	memcpy(c->path, c->wanted.path, c->wanted.path_len);
	c->path[c->wanted.path_len] = '\0';
	return 0;
}

static int meet_one_file(struct check *c, struct fm_err *err)
{
	const char *file = c->o->file;
	int ret;

	c->has_met = 0;
	if (c->is_met)
		return 0;
	c->is_met = true;
	c->met = (struct fm_stage_met){ .dir = c->o->root, .name = file, .path = file,
					.path_len = strlen(file) };
	ret = FM_FAULT("stage.fstatat") ? -EIO : fm_call_fstatat(c->o->root, file, &c->met.st);
	if (ret < 0 && ret != -ENOENT)
		return fm_err_sys(err, ret, "look at the file");
	c->has_met = ret == 0;
	return 0;
}

static int next_met(struct check *c, struct fm_err *err)
{
	if (!c->walk)
		return meet_one_file(c, err);
	c->has_met = fm_stage_walk_next(c->walk, &c->met, err);
	return c->has_met < 0 ? c->has_met : 0;
}

/* < 0: the next name is in the manifest alone; > 0: on the disk alone. */
static int order(const struct check *c)
{
	if (!c->has_met || !c->has_wanted)
		return c->has_wanted ? -1 : 1;
	return fm_stage_path_compare(c->wanted.path, c->wanted.path_len, c->met.path,
				     c->met.path_len);
}

static int step(struct check *c, struct fm_err *err)
{
	int side = order(c), ret = 0;

	if (is_stopped(c))
		return fm_err_set(err, -ECANCELED, "stopped");
	if (side < 0)
		tell_whole(c, FM_STAGE_MISSING);
	else if (side > 0)
		tell(c, FM_STAGE_EXTRA, c->met.path, 0, 0);
	else
		ret = compare(c, err);
	if (ret == 0 && side <= 0)
		ret = next_wanted(c, err);
	if (ret == 0 && side >= 0)
		ret = next_met(c, err);
	return ret;
}

static int begin(struct check *c, struct fm_err *err)
{
	int ret = fm_stage_reader_new(c->o->manifest, &c->manifest);

	if (ret < 0)
		return fm_err_sys(err, ret, "read the manifest");
	c->buf = fm_stage_chunk_buf_new();
	ret = c->buf ? 0 : -ENOMEM;
	if (ret == 0 && !c->o->file)
		ret = fm_stage_walk_new(c->o->root, FM_STAGE_NAMES_MAX, &c->walk);
	if (ret < 0)
		return fm_err_sys(err, ret, "read files");
	ret = next_wanted(c, err);
	return ret < 0 ? ret : next_met(c, err);
}

int fm_stage_check(const struct fm_stage_check_opts *opts, struct fm_err *err)
{
	struct check c = { .o = opts };
	int ret = begin(&c, err);

	while (ret == 0 && (c.has_wanted || c.has_met))
		ret = step(&c, err);
	fm_stage_walk_free(c.walk);
	fm_stage_reader_free(c.manifest);
	fm_stage_chunk_buf_free(c.buf);
	return ret;
}
