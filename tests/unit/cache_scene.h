/* SPDX-License-Identifier: MIT */
/*
 * cache_scene - what the tests of a staging cache share: a cache in a directory of its own,
 * datasets of two files in it, a clock that is set by hand.
 */
#ifndef FM_CACHE_SCENE_H
#define FM_CACHE_SCENE_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "mover/base/bytes.h"
#include "mover/base/err.h"
#include "staging/cache.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

#define MIB	 (UINT64_C(1) << 20)
#define S	 UINT64_C(1000000000)
#define HOUR	 (3600 * S)
#define EXTENTS	 11u
#define FILE_LEN 5000u /* of each of the two */

struct scene {
	char dir[64];
	struct fm_cache *c;
	struct fm_cache_opts o;
	int64_t wall_ns;
	uint64_t boot_ns;
	struct fm_cache_clock clock;
	struct fm_err err;
};

static inline int64_t scene_wall(void *ctx)
{
	return ((struct scene *)ctx)->wall_ns;
}

static inline uint64_t scene_boot(void *ctx)
{
	return ((struct scene *)ctx)->boot_ns;
}

static inline void scene_pass(struct scene *s, uint64_t ns)
{
	s->wall_ns += (int64_t)ns;
	s->boot_ns += ns;
}

/* on: "/var/tmp" (a disk) or "/dev/shm" (memory). */
static inline void scene_new(struct scene *s, const char *on)
{
	*s = (struct scene){.wall_ns = INT64_C(1700000000) * (int64_t)S, .boot_ns = 1000 * S};
	snprintf(s->dir, sizeof(s->dir), "%s/fm_cache_XXXXXX", on);
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(s->dir));
	s->clock = (struct fm_cache_clock){.wall_ns = scene_wall, .boot_ns = scene_boot, .ctx = s};
	s->o = (struct fm_cache_opts){.directory = s->dir,
				      .size = 100 * MIB,
				      .high = 90,
				      .low = 50,
				      .grace_ns = HOUR,
				      .clock = &s->clock};
}

static inline void scene_open(struct scene *s)
{
	CU_ASSERT_EQUAL_FATAL(fm_cache_open(&s->o, &s->c, &s->err), 0);
}

/* What a restart of the daemon does. */
static inline void scene_reopen(struct scene *s)
{
	fm_cache_close(s->c);
	scene_open(s);
}

static inline void scene_end(struct scene *s)
{
	fm_cache_close(s->c);
	remove_all(s->dir);
}

static inline struct fm_cache_key scene_key(unsigned n)
{
	struct fm_cache_key key;

	memset(key.bytes, (int)n, sizeof(key.bytes));
	return key;
}

/* Dataset n: its listing is the key n, its version n + 100. */
static inline struct fm_cache_plan scene_plan(unsigned n, uint64_t bytes)
{
	static char names[64][8];

	snprintf(names[n % 64], sizeof(names[0]), "set%u", n);
	return (struct fm_cache_plan){.listing = scene_key(n),
				      .name = names[n % 64],
				      .source = "rosa:data/set",
				      .bytes = bytes,
				      .files = 4,
				      .extents = EXTENTS,
				      .cost = 1};
}

static inline int scene_write(int dir, const char *path, size_t len)
{
	static char bytes[1 << 16];
	int fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), ret = 0;

	memset(bytes, 'x', sizeof(bytes));
	if (fd < 0 || write(fd, bytes, len) != (ssize_t)len)
		ret = -1;
	if (fd >= 0)
		close(fd);
	return ret;
}

/* NAME/a, NAME/sub/b, and the manifest; what is there already stays. */
static inline void scene_fill(struct fm_cache_fetch *f, const char *name)
{
	int dir = fm_cache_fetch_dir(f);
	char path[128];

	(void)mkdirat(dir, name, 0700);
	snprintf(path, sizeof(path), "%s/sub", name);
	(void)mkdirat(dir, path, 0700);
	snprintf(path, sizeof(path), "%s/a", name);
	CU_ASSERT_EQUAL(scene_write(dir, path, FILE_LEN), 0);
	snprintf(path, sizeof(path), "%s/sub/b", name);
	CU_ASSERT_EQUAL(scene_write(dir, path, FILE_LEN), 0);
	CU_ASSERT_EQUAL(scene_write(dir, FM_CACHE_SCRATCH_NAME, 10), 0);
	CU_ASSERT_EQUAL(scene_write(dir, FM_CACHE_MANIFEST_NAME, 10), 0);
}

static inline int scene_finish(struct scene *s, struct fm_cache_fetch *f, unsigned n)
{
	struct fm_cache_key version = scene_key(n + 100);

	for (unsigned i = 0; i < EXTENTS; i++)
		fm_cache_fetch_mark(f, i);
	return fm_cache_fetch_ready(f, &version, &s->err);
}

/* READY dataset n; its id. */
static inline uint64_t scene_stage(struct scene *s, unsigned n, uint64_t bytes)
{
	struct fm_cache_plan plan = scene_plan(n, bytes);
	struct fm_cache_fetch *f;
	uint64_t id;

	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s->c, &plan, &f, &s->err), 0);
	scene_fill(f, plan.name);
	fm_cache_fetch_wrote(f, 2 * FILE_LEN, 4);
	CU_ASSERT_EQUAL(scene_finish(s, f, n), 0);
	id = fm_cache_fetch_id(f);
	fm_cache_fetch_close(f);
	return id;
}

#define SCENE_STAGED_IT 5u		/* r-x */
#define SCENE_BY_RULE	7u		/* rwx, of which the mask leaves r-x */

/* What the list of a dataset's directory (acl(5)) says of a user; 0: nothing. */
static inline unsigned scene_listed(struct scene *s, uint64_t id, uid_t uid)
{
	char path[PATH_MAX];
	uint8_t acl[4096];
	struct fm_reader r;
	ssize_t len;

	CU_ASSERT_EQUAL_FATAL(fm_cache_path(s->c, id, path, sizeof(path)), 0);
	*strrchr(path, '/') = '\0';
	len = getxattr(path, "system.posix_acl_access", acl, sizeof(acl));
	r = (struct fm_reader){.at = acl, .end = acl + (len > 0 ? len : 0)};
	(void)fm_get_le32(&r);
	while (fm_reader_left(&r) >= 8) {
		bool is_user = fm_get_le16(&r) == 2;
		unsigned may = fm_get_le16(&r);

		if (fm_get_le32(&r) == uid && is_user)
			return may;
	}
	return 0;
}

static inline enum fm_cache_state scene_state(struct scene *s, uint64_t id)
{
	struct fm_cache_info info;

	return fm_cache_look(s->c, id, &info) ? info.state : FM_CACHE_ABSENT;
}

static inline bool scene_exists(struct scene *s, const char *path)
{
	char whole[PATH_MAX];

	snprintf(whole, sizeof(whole), "%s/%s", s->dir, path);
	return access(whole, F_OK) == 0;
}

#endif
