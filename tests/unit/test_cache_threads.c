/* SPDX-License-Identifier: MIT */
/* links: fm_staging */
/*
 * test_cache_threads - a cache that many threads use at once, as workers and the control thread do.
 *
 * Goal: nothing is shared without order (tests/tsan runs this under the thread sanitizer), and what
 * each is told is true. Method: threads that stage, hold, pin, look and remove datasets of their
 * own and of others, while one tidies up; each does a number of rounds, no clock ends them.
 */
#include <pthread.h>

#include "mover/base/log.h"
#include "tests/unit/cache_scene.h"

#define ROUNDS	100
#define STAGERS 3

struct worker {
	struct scene *s;
	unsigned number;
	unsigned failed;
	struct fm_err err;
};

static void fill(struct fm_cache_fetch *f, unsigned *failed)
{
	int dir = fm_cache_fetch_dir(f);
	int fd = openat(dir, FM_CACHE_MANIFEST_NAME, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	*failed += fd < 0 || write(fd, "manifest", 8) != 8;
	if (fd >= 0)
		close(fd);
	fd = openat(dir, "set", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	*failed += fd < 0 || write(fd, "bytes", 5) != 5;
	if (fd >= 0)
		close(fd);
}

/* Two threads stage the same now and then: one of them hears so. */
static uint64_t stage(struct worker *w, unsigned key)
{
	const struct fm_cache_plan plan = {.listing = scene_key(key), .name = "set", .source = "",
					   .bytes = MIB, .files = 1, .extents = 3, .cost = 1};
	struct fm_cache_key version = scene_key(key + 100);
	struct fm_cache_fetch *f;
	uint64_t id;
	int ret = fm_cache_fetch(w->s->c, &plan, &f, &w->err);

	if (ret < 0) {
		w->failed += ret != -EBUSY && ret != -EALREADY && ret != -EAGAIN;
		return fm_cache_find_listing(w->s->c, &plan.listing);
	}
	id = fm_cache_fetch_id(f);
	fill(f, &w->failed);
	for (unsigned e = 0; e < 3; e++)
		fm_cache_fetch_mark(f, e);
	fm_cache_fetch_wrote(f, 5, 1);
	w->failed += fm_cache_fetch_save(f, &w->err) < 0;
	ret = fm_cache_fetch_ready(f, &version, &w->err);
	w->failed += ret < 0 && ret != -EEXIST && ret != -EAGAIN;
	fm_cache_fetch_close(f);
	return id;
}

/* What is held is there, whoever wants it away. */
static void use(struct worker *w, uint64_t id)
{
	const struct fm_cache_holder who = {.uid = 1000 + w->number};
	const struct fm_cache_readers readers = {.user_count = 1, .users = {2000 + w->number}};
	char path[PATH_MAX];
	uint64_t hold;

	if (fm_cache_hold(w->s->c, id, &who, &hold, &w->err) < 0)
		return;
	if (fm_cache_path(w->s->c, id, path, sizeof(path)) == 0)
		w->failed += access(path, F_OK) < 0;
	if (fm_cache_pin(w->s->c, id, who.uid, &w->err) == 0)
		w->failed += fm_cache_unpin(w->s->c, id, who.uid, false, &w->err) < 0;
	(void)fm_cache_allow_user(w->s->c, id, who.uid, false, &w->err);
	(void)fm_cache_allow_readers(w->s->c, id, &readers, NULL, &w->err);
	fm_cache_release(w->s->c, hold);
}

static void *run_stager(void *ctx)
{
	struct worker *w = ctx;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t id = stage(w, 1 + (i + w->number) % 5);

		use(w, id);
		(void)fm_cache_request(w->s->c, id, &w->err);
		if (i % 3 == 0)
			(void)fm_cache_discard(w->s->c, id, &w->err);
	}
	return NULL;
}

/* As the control thread, which never waits; and as a worker that tidies up. */
static void *run_looker(void *ctx)
{
	struct worker *w = ctx;
	struct fm_cache_sums sums;
	struct fm_cache_info info;
	uint64_t ids[16];

	for (unsigned i = 0; i < 4 * ROUNDS; i++) {
		size_t count = fm_cache_list(w->s->c, ids, 16), staying = 0;

		for (size_t k = 0; k < count; k++)
			if (fm_cache_look(w->s->c, ids[k], &info)) {
				w->failed += strcmp(info.name, "set") != 0;
				staying += info.state != FM_CACHE_EVICTING;
			}
		/* Of one listing at most one; besides it one may be on its way out. */
		w->failed += staying > 5;
		fm_cache_sums(w->s->c, &sums);
		w->failed += sums.datasets > 10;
		(void)fm_cache_find_name(w->s->c, "set");
		(void)fm_cache_charged(w->s->c, 1001);
		if (i % 4 == 0)
			fm_cache_upkeep(w->s->c);
	}
	return NULL;
}

static void test_threads(void)
{
	struct scene s;
	struct worker w[STAGERS + 2];
	pthread_t threads[STAGERS + 2];

	scene_new(&s, "/dev/shm");
	s.o.grace_ns = 0;
	s.o.clock = NULL;
	scene_open(&s);
	for (unsigned i = 0; i < STAGERS + 2; i++) {
		w[i] = (struct worker){.s = &s, .number = i};
		CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL,
						     i < STAGERS ? run_stager : run_looker, &w[i]),
				      0);
	}
	for (unsigned i = 0; i < STAGERS + 2; i++) {
		CU_ASSERT_EQUAL(pthread_join(threads[i], NULL), 0);
		CU_ASSERT_EQUAL(w[i].failed, 0);
	}
	scene_end(&s);
}

static const struct fm_test tests[] = {
	{"many threads stage, hold, pin, look and remove at once", test_threads},
};

int main(void)
{
	fm_log_set_level(FM_LOG_ERROR);
	return fm_test_main("cache threads", tests, sizeof(tests) / sizeof(tests[0]));
}
