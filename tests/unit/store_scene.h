/* SPDX-License-Identifier: MIT */
/*
 * store_scene - what a test of a directory store begins and ends with: a lane, a directory and a
 * store in it.
 */
#ifndef STORE_SCENE_H
#define STORE_SCENE_H

#include "mover/tree/stash.h"
#include "tests/unit/store_fixture.h"

static const char *const bases[] = { ON_DISK, IN_MEMORY };
#define BASES (sizeof(bases) / sizeof(bases[0]))

static struct lane l;
static char dir[64];
static struct fm_store *s;
static struct fm_err err;

static inline void begin(const char *base, bool is_threads_only)
{
	fm_err_clear(&err);
	lane_open(&l, is_threads_only);
	dir_make(base, dir);
	s = store_open(dir);
}

/* No test may leave a partial file. */
static inline void end(void)
{
	CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 0);
	s->ops->free(s);
	dir_remove(dir);
	lane_close(&l);
}

/* A path in the directory, for looking behind the store's back. Valid for the next three calls. */
static inline const char *at(const char *name)
{
	static char paths[4][512];
	static unsigned calls;
	char *path = paths[calls++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static inline int put(const char *path, uint64_t size, uint64_t salt, bool may_replace)
{
	return store_put(
		&l, s,
		&(struct put){.path = path, .size = size, .salt = salt, .may_replace = may_replace},
		&err);
}

/* Makes d/d/d..., so many directories in one another, behind the store's back. */
static inline void make_deep(unsigned depth)
{
	int at = open(dir, O_RDONLY | O_DIRECTORY);

	for (unsigned i = 0; i < depth; i++) {
		int next = mkdirat(at, "d", 0755) < 0 ? -1
						      : openat(at, "d", O_RDONLY | O_DIRECTORY);

		close(at);
		at = next;
	}
	CU_ASSERT_TRUE_FATAL(at >= 0);
	close(at);
}

/* The directory of that name is kept aside, as one that was replaced; where: in a stash. */
static inline const char *hold(const char *name, enum fm_staging_kind kind)
{
	static char where[FM_STAGING_NAME_LEN + 1];
	int fd = open(dir, O_RDONLY | O_DIRECTORY);
	struct stat st;

	CU_ASSERT_EQUAL_FATAL(stat(at(name), &st), 0);
	CU_ASSERT_EQUAL_FATAL(fm_stash_keep(&(struct fm_stash_what){.dir = fd,
								    .from = name,
								    .ino = st.st_ino,
								    .name = name},
					    fd, kind, where),
			      0);
	close(fd);
	return where;
}

/* Two names change places at that point of what is under way: fm_fault_watch(exchange_at, &x). */
struct exchange {
	const char *one, *two;
	unsigned turn;			/* at which point */
	unsigned calls;
};

static inline void exchange_at(void *ctx, const char *point)
{
	struct exchange *x = ctx;

	(void)point;
	if (++x->calls == x->turn)	/* one of them may be gone by then */
		(void)renameat2(AT_FDCWD, at(x->one), AT_FDCWD, at(x->two), RENAME_EXCHANGE);
}

#endif
