/* SPDX-License-Identifier: MIT */
/*
 * The n-th-failure loop over every operation of the stores. links: fm_store
 *
 * Goal:   whatever call fails, there is one error with a text, no descriptor and no partial file is
 *         left, what
 * was there is as it was. Method: fail the n-th fault point, n = 1, 2, 3 ... until an operation
 * ends without the fault: then every point has been tried.
 */
#include "mover/base/fault.h"
#include "mover/store/aside.h"
#include "mover/store/room.h"
#include "mover/store/store_dir.h"
#include "mover/tree/staging.h"
#include "tests/unit/store_scene.h"

#define POINTS_MAX 200

/* One operation; run() returns its result. What it leaves when it failed is checked by the loop. */
struct step {
	const char *name;
	void (*prepare)(void);
	int (*run)(void);
	void (*check)(int ret);		/* after a failure or the final success */
	unsigned points_min;
};

static void loop_over(const struct step *step, const char *base)
{
	unsigned n, fds;
	bool has_fired = true;
	int ret = 0;

	for (n = 1; has_fired && n < POINTS_MAX; n++) {
		begin(base, true);
		step->prepare();
		fds = fds_open();
		fm_err_clear(&err);
		fm_fault_arm(NULL, n);
		ret = step->run();
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(fds_open(), fds);
		/* Some failures are survived: a way that is not supported gives way to another. */
		CU_ASSERT_TRUE(ret == 0 || has_fired);
		CU_ASSERT_EQUAL(ret, err.code);
		CU_ASSERT_TRUE(ret == 0 || strlen(err.text) > 10);
		step->check(ret);
		end();		/* checks for partial files */
	}
	CU_ASSERT_EQUAL(ret, 0);
	CU_ASSERT_FALSE(has_fired);
	CU_ASSERT_TRUE(n > step->points_min);
}

/* ----------------------------------------------------------------------------------- operations */

static void prepare_nothing(void)
{
}

static void prepare_old(void)
{
	CU_ASSERT_EQUAL(put("d/f", 5000, 1, false), 0);
}

static void prepare_large(void)
{
	CU_ASSERT_EQUAL(put("d/f", CHUNK + 13, 2, false), 0);
}

static int run_put(void)
{
	return put("d/f", CHUNK + 13, 2, true);
}

static int run_put_fleeting(void)
{
	return store_put(&l, s,
			 &(struct put){.path = "d/f",
				       .size = CHUNK + 13,
				       .salt = 2,
				       .may_replace = true,
				       .is_fleeting = true,
				       .is_stream = true},
			 &err);
}

static void check_new(int ret)
{
	CU_ASSERT_EQUAL(store_verify(&l, s, "d/f", CHUNK + 13, 2), ret == 0 ? 0 : -ENOENT);
}

static void check_large(int ret)
{
	(void)ret;
	check_new(0);
}

static void check_replaced(int ret)
{
	bool is_new = ret == 0;

	CU_ASSERT_EQUAL(store_verify(&l, s, "d/f", is_new ? CHUNK + 13 : 5000, is_new ? 2 : 1), 0);
	CU_ASSERT_EQUAL(dir_count(at("d"), PARTIALS), 0);
}

static int run_get(void)
{
	struct fm_file *file;
	struct fm_attr attr;
	int ret = s->ops->open_source(s, "d/f", &a_peer, &file, &attr, &err);
	int64_t res;

	if (ret < 0)
		return ret;
	res = file_read(&l, file, buffer(), CHUNK, 0);
	if (res < 0)
		ret = fm_err_set(&err, (int)res, "reading failed");
	else
		ret = file->ops->check_unchanged(file, &err);
	file->ops->close(file);
	return ret;
}

static void check_old(int ret)
{
	(void)ret;
	CU_ASSERT_EQUAL(store_verify(&l, s, "d/f", 5000, 1), 0);
}

static int run_list(void)
{
	struct fm_list_opts opts = { .after = "", .max = 3 };
	struct fm_entry entries[3];
	size_t count;

	return s->ops->list(s, "d", &a_peer, &opts, entries, &count, &err);
}

static int run_stat(void)
{
	struct fm_attr attr;

	return s->ops->stat(s, "d/f", &a_peer, &attr, &err);
}

static int run_remove(void)
{
	return s->ops->remove(s, "d", &a_peer, true, &err);
}

/* What could not be removed lies under a name of ours at most, which a sweep clears up. */
static void check_removed(int ret)
{
	const atomic_bool is_over = false;
	struct stat st;

	if (ret == 0)
		CU_ASSERT_EQUAL(stat(at("d"), &st), -1);
	s->ops->sweep(s, &is_over);
}

static int run_mkdir(void)
{
	return s->ops->mkdir(s, "a/b", &a_peer, &err);
}

static void check_mkdir(int ret)
{
	struct stat st;

	if (ret == 0)
		CU_ASSERT_EQUAL(stat(at("a/b"), &st), 0);
}

static int run_move(void)
{
	return s->ops->move(s, "d/f", "g", &a_peer, false, &err);
}

/* It has the one name or the other. */
static void check_moved(int ret)
{
	struct stat st;

	CU_ASSERT_EQUAL(store_verify(&l, s, ret == 0 ? "g" : "d/f", 5000, 1), 0);
	CU_ASSERT_EQUAL(stat(at(ret == 0 ? "d/f" : "g"), &st), -1);
}

static void prepare_link(void)
{
	prepare_old();
	CU_ASSERT_EQUAL(symlink("none", at("d/l")), 0);
}

static int run_link(void)
{
	return s->ops->link(s, "d/l", "f", &a_peer, true, &err);
}

/* It says the one or the other. */
static void check_link(int ret)
{
	char text[8] = "";

	CU_ASSERT_TRUE(readlink(at("d/l"), text, sizeof(text) - 1) > 0);
	CU_ASSERT_STRING_EQUAL(text, ret == 0 ? "f" : "none");
	CU_ASSERT_EQUAL(dir_count(at("d"), ".fmove."), 0);
}

static int run_move_dir(void)
{
	return s->ops->move(s, "d", "e", &a_peer, false, &err);
}

static void check_moved_dir(int ret)
{
	struct stat st;

	CU_ASSERT_EQUAL(store_verify(&l, s, ret == 0 ? "e/f" : "d/f", 5000, 1), 0);
	CU_ASSERT_EQUAL(stat(at(ret == 0 ? "d" : "e"), &st), -1);
}

static int run_open(void)
{
	static const char *const rules[] = { "user:root", "group:root", "peer:n2", "*", NULL };
	struct fm_store_opts opts = { .name = "s", .directory = dir, .read = rules, .write = rules,
				      .quota_bytes = 1 << 30 };
	struct fm_store *store;
	int ret = fm_store_open(&opts, &store, &err);

	if (ret == 0)
		store->ops->free(store);
	return ret;
}

static int run_caller(void)
{
	const struct fm_attr attr = { .mode = 0600 };
	struct put p = { .size = CHUNK + 13, .salt = 2 };
	struct fm_create how = { .size = p.size, .is_dense = true };
	struct fm_file *file;
	int64_t res;
	int ret = fm_caller_sink(open(at("c"), O_CREAT | O_RDWR | O_TRUNC, 0600), -1, &how, &file,
				 &err);

	if (ret < 0)
		return ret;
	res = put_bytes(&l, file, &p);
	if (res < 0)
		ret = fm_err_set(&err, (int)res, "writing failed");
	else
		ret = file->ops->publish(file, p.size, &attr, true, &err);
	file->ops->close(file);
	return ret;
}

static void check_caller(int ret)
{
	struct stat st;

	CU_ASSERT_EQUAL(stat(at("c"), &st), 0);
	CU_ASSERT_EQUAL(st.st_size, ret == 0 ? CHUNK + 13 : 0);
}

static int run_caller_source(void)
{
	struct fm_file *file;
	struct fm_attr attr;
	int ret = fm_caller_source(open(at("d/f"), O_RDONLY), &file, &attr, &err);

	if (ret == 0)
		file->ops->close(file);
	return ret;
}

static int run_stream(void)
{
	struct fm_file *file;
	struct fm_attr attr;
	int ends[2], ret;

	CU_ASSERT_EQUAL(pipe(ends), 0);
	close(ends[1]);
	ret = fm_caller_source(ends[0], &file, &attr, &err);
	if (ret == 0)
		file->ops->close(file);
	return ret;
}

static int run_null(void)
{
	struct fm_store_opts opts = {
		.name = "n", .directory = "null:", .read = everybody, .write = everybody};
	struct fm_create how = { .size = 1 };
	struct fm_store *store;
	struct fm_file *file;
	int ret = fm_store_open(&opts, &store, &err);

	if (ret < 0)
		return ret;
	ret = store->ops->create(store, "x", &a_peer, &how, &file, &err);
	if (ret == 0)
		file->ops->close(file);
	store->ops->free(store);
	return ret;
}

static void check_nothing(int ret)
{
	(void)ret;
}

/* ---- what is kept aside ---- */

static char aside[FM_STAGING_NAME_LEN + 1];

static struct fm_store_dir *store_dir(void)
{
	return fm_container_of(s, struct fm_store_dir, store);
}

/* A directory that was replaced, with a file of 5000 bytes. */
static void prepare_aside(void)
{
	prepare_old();
	(void)snprintf(aside, sizeof(aside), "%s", hold("d", FM_STAGING_OLD));
	prepare_old();
	fm_aside_add(store_dir(), aside);
	fm_aside_looked(store_dir(), true);
}

static int run_purge(void)
{
	static struct fm_space_page page;

	return s->ops->purge(s, "", &a_peer, false, &page, &err);
}

/* What failed can be done again; what is no old version is there. */
static void check_purged(int ret)
{
	static struct fm_space_page page;

	CU_ASSERT_EQUAL(s->ops->purge(s, "", &a_peer, false, &page, &err), 0);
	CU_ASSERT_TRUE(page.count <= 1 && (ret < 0 || page.count == 0));
	CU_ASSERT_EQUAL(access(at(aside), F_OK), -1);
	check_old(ret);
}

/* Whatever it said, all that is kept aside can be removed now. */
static void check_purged_after(int ret)
{
	(void)ret;
	check_purged(-1);
}

static int run_space(void)
{
	struct fm_store_space space;
	int ret = s->ops->space(s, &a_peer, &space, &err);

	CU_ASSERT_TRUE(ret < 0 || space.trees <= 1);
	return ret;
}

/* Nobody can have so much: before that is said, what is kept aside goes. */
static int run_promise(void)
{
	struct fm_err why = { 0 };
	int ret = fm_room_for_tree(store_dir(), store_dir()->root, UINT64_MAX / 2, &why);

	CU_ASSERT_TRUE(ret < 0 && strlen(why.text) > 10);
	CU_ASSERT_EQUAL(atomic_load(&store_dir()->usage.trees), 0);
	return ret == -ENOSPC ? 0 : fm_err_set(&err, ret, "%s", why.text);
}

/* Nothing of it stays promised, and no failure makes it hold more than half. */
static int run_promised(void)
{
	struct fm_store_dir *d = store_dir();
	uint64_t free = fm_room_left(d, d->root);
	struct fm_promise p;
	int ret;

	fm_promise_init(&p, d, &(struct fm_who){ .peer = "h1" });
	ret = fm_promise_ask(&p, d->root, free / 4 * 3, &err);
	CU_ASSERT_TRUE(p.held <= free / 2 + (64 << 20));	/* others work on this disk */
	if (ret == 0)
		ret = fm_promise_take(&p, free / 8 * 5, &err);
	if (ret == 0)
		ret = fm_promise_take(&p, 1000, &err);
	fm_promise_end(&p);
	CU_ASSERT_EQUAL(atomic_load(&d->usage.trees), 0);
	CU_ASSERT_EQUAL(atomic_load(&d->usage.reserved), 0);
	return ret;
}

static const struct step steps[] = {
	{"put of a new file", prepare_nothing, run_put, check_new, 15},
	{"put over an old file", prepare_old, run_put, check_replaced, 15},
	{"put, neither durable nor of known size", prepare_old, run_put_fleeting, check_replaced,
	 12},
	{"get", prepare_old, run_get, check_old, 6},
	{"list", prepare_old, run_list, check_old, 4},
	{"stat", prepare_old, run_stat, check_old, 2},
	{"remove -r", prepare_old, run_remove, check_removed, 8},
	{"mkdir", prepare_nothing, run_mkdir, check_mkdir, 5},
	{"move", prepare_old, run_move, check_moved, 7},
	{"move a directory", prepare_old, run_move_dir, check_moved_dir, 7},
	{"link over a link", prepare_link, run_link, check_link, 8},
	{"opening a store", prepare_old, run_open, check_old, 10},
	{"a caller's target", prepare_nothing, run_caller, check_caller, 8},
	{"a caller's source", prepare_large, run_caller_source, check_large, 4},
	{"a caller's small source", prepare_old, run_caller_source, check_old, 8},
	{"a stream", prepare_nothing, run_stream, check_nothing, 2},
	{"purge", prepare_aside, run_purge, check_purged, 4},
	{"df", prepare_aside, run_space, check_purged_after, 3},
	{"making room", prepare_aside, run_promise, check_purged_after, 4},
	{"a promise that is kept", prepare_old, run_promised, check_old, 4},
	{"the null store", prepare_nothing, run_null, check_nothing, 4},
};

static void test_each_failure(void)
{
	for (size_t b = 0; b < BASES; b++)
		for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
			unsigned failures = CU_get_number_of_failures();

			loop_over(&steps[i], bases[b]);
			if (CU_get_number_of_failures() > failures)
				printf("in: %s, %s\n", steps[i].name, bases[b]);
		}
}

static const struct fm_test tests[] = {
	{ "whatever fails, nothing is left and nothing is lost", test_each_failure },
};

int main(void)
{
#ifndef FM_FAULTS
	fm_test_skip("built without fault points");
#endif
	return fm_test_main("store fault", tests, sizeof(tests) / sizeof(tests[0]));
}
