/* SPDX-License-Identifier: MIT */
/*
 * What a tree is promised before it comes: half of what is free at most, and the rest as it goes
 * on. links: fm_store
 */
#include <pthread.h>
#include <sys/mount.h>
#include <sys/statfs.h>

#include "mover/base/fault.h"
#include "mover/store/promise.h"
#include "mover/store/room.h"
#include "mover/store/store_dir.h"
#include "tests/unit/may_mount.h"
#include "tests/unit/store_scene.h"

#define QUOTA UINT64_C(100000)
#define MIB (UINT64_C(1) << 20)

static struct fm_promise p, other;

static struct fm_store_dir *store_dir(void)
{
	return fm_container_of(s, struct fm_store_dir, store);
}

static void begin_with_quota(void)
{
	struct fm_store_opts opts = {
		.name = "s", .read = everybody, .write = everybody, .quota_bytes = QUOTA
	};

	begin(IN_MEMORY, false);
	s->ops->free(s);
	opts.directory = dir;
	CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &s, &err), 0);
	fm_promise_init(&p, store_dir(), &(struct fm_who){ .peer = "h1" });
	fm_promise_init(&other, store_dir(), &(struct fm_who){ .peer = "h2" });
}

/* Whatever became of them, nothing stays promised. */
static void end_promises(void)
{
	fm_promise_end(&p);
	fm_promise_end(&other);
	CU_ASSERT_EQUAL(atomic_load(&store_dir()->usage.reserved), 0);
	CU_ASSERT_EQUAL(atomic_load(&store_dir()->usage.trees), 0);
	end();
}

static int ask(struct fm_promise *promise, uint64_t bytes)
{
	return fm_promise_ask(promise, store_dir()->root, bytes, &err);
}

static uint64_t used(void)
{
	return atomic_load(&store_dir()->usage.used);
}

/*
 * Goal: who says that he brings nearly all that is free holds half of it; others get the other half
 * at once.
 */
static void test_half(void)
{
	begin_with_quota();
	CU_ASSERT_EQUAL(ask(&p, QUOTA / 10 * 9), 0);
	CU_ASSERT_EQUAL(p.held, QUOTA / 2);
	CU_ASSERT_EQUAL(p.rest, QUOTA / 10 * 4);
	CU_ASSERT_EQUAL(atomic_load(&store_dir()->usage.trees), QUOTA / 2);
	CU_ASSERT_EQUAL(put("f", QUOTA / 10 * 4, 1, false), 0);
	CU_ASSERT_EQUAL(ask(&other, QUOTA / 10), 0);
	CU_ASSERT_EQUAL(other.held, QUOTA / 20);
	end_promises();
}

/*
 * Goal: half is for one peer or user, however many trees he says it of; that local users have no
 * name makes none of them another, nor a peer.
 */
static void test_half_is_for_one(void)
{
	static const struct fm_who same[] = {
		{ .peer = "h1", .uid = 7 }, { .peer = "h1" }, { .uid = 5 }, { .uid = 5 }
	};
	static const struct fm_who others[] = {
		{ .peer = "h2" }, { .uid = 0 }, { .peer = "h1", .uid = 5 }, { .uid = 6 }
	};

	for (unsigned i = 0; i < 4; i++) {
		begin_with_quota();
		fm_promise_end(&p);
		fm_promise_end(&other);
		fm_promise_init(&p, store_dir(), &same[i]);
		fm_promise_init(&other, store_dir(), &same[i ^ 1]);
		CU_ASSERT_EQUAL(ask(&p, QUOTA / 2), 0);
		CU_ASSERT_EQUAL(p.held, QUOTA / 2);
		CU_ASSERT_EQUAL(ask(&other, QUOTA / 2), 0);
		CU_ASSERT_EQUAL(other.held, 0);
		/* It comes all the same, and somebody else's would hold something. */
		CU_ASSERT_EQUAL(fm_promise_take(&other, QUOTA / 10, &err), 0);
		fm_promise_end(&other);
		fm_promise_init(&other, store_dir(), &others[i]);
		CU_ASSERT_EQUAL(ask(&other, QUOTA / 10 * 4), 0);
		CU_ASSERT_EQUAL(other.held, QUOTA / 10 * 2);
		end_promises();
	}
}

/* Goal: the whole must have room all the same, before anything is promised. */
static void test_whole(void)
{
	begin_with_quota();
	CU_ASSERT_EQUAL(ask(&p, QUOTA + 1), -EDQUOT);
	CU_ASSERT_STRING_EQUAL(err.text, "over the store's quota: 100001 bytes are needed, 0 of "
					 "100000 are used, 0 promised to running transfers");
	CU_ASSERT_EQUAL(p.held + p.rest, 0);
	CU_ASSERT_EQUAL(ask(&p, QUOTA), 0);
	CU_ASSERT_EQUAL(ask(&other, QUOTA / 2 + 1), -EDQUOT);
	CU_ASSERT_EQUAL(other.held + other.rest, 0);
	CU_ASSERT_EQUAL(atomic_load(&store_dir()->usage.reserved), QUOTA / 2);
	CU_ASSERT_EQUAL(ask(&other, QUOTA / 2), 0);
	end_promises();
}

/*
 * Goal: as files are made the rest is promised, never more than half of what is free; if nobody
 * comes between, all of it comes.
 */
static void test_goes_on(void)
{
	begin_with_quota();
	CU_ASSERT_EQUAL(ask(&p, QUOTA), 0);
	for (unsigned i = 1; i <= 100; i++) {
		CU_ASSERT_EQUAL(fm_promise_take(&p, QUOTA / 100, &err), 0);
		CU_ASSERT_EQUAL(used(), QUOTA / 100 * i);
		CU_ASSERT_EQUAL(p.held + p.rest, QUOTA - used());
		CU_ASSERT_TRUE(p.held <= QUOTA / 2 && (p.held > 0 || p.rest <= 1));
		CU_ASSERT_EQUAL(atomic_load(&store_dir()->usage.reserved), p.held);
	}
	/* nobody spoke of that one */
	CU_ASSERT_EQUAL(fm_promise_take(&p, 1, &err), -EDQUOT);
	CU_ASSERT_STRING_EQUAL(err.text, "over the store's quota: 1 bytes are needed, 100000 of "
					 "100000 are used, 0 promised to running transfers");
	end_promises();
}

/* Goal: a small tree holds all that it said, and nobody gets that. */
static void test_small(void)
{
	begin_with_quota();
	CU_ASSERT_EQUAL(ask(&p, QUOTA / 10 * 4), 0);
	CU_ASSERT_EQUAL(p.held, QUOTA / 10 * 4);
	CU_ASSERT_EQUAL(put("f", QUOTA / 10 * 6 + 1, 1, false), -EDQUOT);
	CU_ASSERT_EQUAL(put("f", QUOTA / 10 * 6, 1, false), 0);
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(fm_promise_take(&p, QUOTA / 10, &err), 0);
	CU_ASSERT_EQUAL(used(), QUOTA);
	end_promises();
}

/*
 * Goal: who comes between gets what is not promised; the tree says so when it comes to that, and
 * what it made counts.
 */
static void test_between(void)
{
	uint64_t taken = 0;

	begin_with_quota();
	CU_ASSERT_EQUAL(ask(&p, QUOTA / 10 * 9), 0);
	CU_ASSERT_EQUAL(put("f", QUOTA / 10 * 4, 1, false), 0);
	while (taken < QUOTA && fm_promise_take(&p, QUOTA / 20, &err) == 0)
		taken += QUOTA / 20;
	CU_ASSERT_EQUAL(taken, QUOTA / 10 * 6);
	CU_ASSERT_EQUAL(err.code, -EDQUOT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "others took meanwhile what was free when the "
						"directory began: over the store's quota: "));
	CU_ASSERT_EQUAL(used(), QUOTA);
	end_promises();
}

/*
 * Goal: what is promised to a tree that stands still is promised until somebody needs it; then it
 * is asked for again.
 */
static void test_lapses(void)
{
	for (unsigned goes_on = 0; goes_on < 2; goes_on++) {
		begin_with_quota();
		CU_ASSERT_EQUAL(ask(&p, QUOTA), 0);
		CU_ASSERT_EQUAL(put("f", QUOTA / 10 * 6, 1, false), -EDQUOT);
		p.moved_ns -= FM_PROMISE_IDLE_NS + 1;
		CU_ASSERT_EQUAL(put("e", QUOTA / 10, 1, false), 0);	/* has room anyway */
		CU_ASSERT_EQUAL(p.held, QUOTA / 2);
		if (goes_on)
			fm_promise_touch(&p);
		CU_ASSERT_EQUAL(put("f", QUOTA / 10 * 6, 1, false), goes_on ? -EDQUOT : 0);
		CU_ASSERT_EQUAL(p.held, goes_on ? QUOTA / 2 : 0);
		CU_ASSERT_EQUAL(p.held + p.rest, QUOTA);
		CU_ASSERT_EQUAL(fm_promise_take(&p, QUOTA / 10, &err), 0);
		CU_ASSERT_TRUE(p.held > 0);
		CU_ASSERT_EQUAL(p.held + p.rest, QUOTA / 10 * 9);
		end_promises();
	}
}

/* ---- the same of a file system, which knows nothing of it ---- */

static uint64_t free_in(int fd)
{
	struct statfs fs;

	CU_ASSERT_EQUAL(fstatfs(fd, &fs), 0);
	return fs.f_bavail * (uint64_t)fs.f_bsize;
}

static void fill(int at_dir, const char *name, uint64_t bytes)
{
	static const char zeros[65536];
	int fd = openat(at_dir, name, O_CREAT | O_WRONLY | O_EXCL, 0600);

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	for (; bytes > 0; bytes -= sizeof(zeros))
		CU_ASSERT_EQUAL(write(fd, zeros, sizeof(zeros)), sizeof(zeros));
	close(fd);
}

/* A directory "m" in a store, on a file system of 8 MiB: open. Negative: there can be none here. */
static int begin_with_disk(void)
{
	int fd;

	if (!may_mount())
		return -1;
	begin(IN_MEMORY, false);
	CU_ASSERT_EQUAL(mkdir(at("m"), 0755), 0);
	if (mount("tmpfs", at("m"), "tmpfs", 0, "size=8m") < 0) {
		printf("SKIP: cannot mount a small tmpfs\n");
		end();
		return -1;
	}
	fd = open(at("m"), O_RDONLY | O_DIRECTORY);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	fm_promise_init(&p, store_dir(), &(struct fm_who){ .peer = "h1" });
	fm_promise_init(&other, store_dir(), &(struct fm_who){ .peer = "h2" });
	return fd;
}

static void end_with_disk(int fd)
{
	fm_promise_end(&other);
	fm_promise_end(&p);
	CU_ASSERT_EQUAL(atomic_load(&store_dir()->usage.trees), 0);
	close(fd);
	CU_ASSERT_EQUAL(umount(at("m")), 0);
	end();
}

/*
 * Goal: half of a file system is promised; another tree gets the other half, who writes there wins,
 * and whoever does not fit any more hears why.
 */
static void test_disk(void)
{
	char name[16];
	int fd = begin_with_disk(), ret = 0;
	unsigned i;

	if (fd < 0)
		return;
	CU_ASSERT_EQUAL(fm_promise_ask(&p, fd, 9 * MIB, &err), -ENOSPC);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text,
				      "no space for the directory: its files take 9437184 bytes at "
				      "least, 8388608 are free, of which 0 are "
				      "promised to others; fmove df"));
	CU_ASSERT_EQUAL(fm_promise_ask(&p, fd, 7 * MIB, &err), 0);
	CU_ASSERT_EQUAL(p.held, 4 * MIB);
	CU_ASSERT_EQUAL(fm_promise_ask(&other, fd, 5 * MIB, &err), -ENOSPC);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "of which 4194304 are promised to others"));
	CU_ASSERT_EQUAL(fm_promise_ask(&other, fd, 4 * MIB, &err), 0);
	CU_ASSERT_EQUAL(other.held, 2 * MIB);
	fill(fd, "between", MIB);
	for (i = 0; i < 28; i++) {
		ret = fm_promise_take(&p, MIB / 4, &err);
		CU_ASSERT_TRUE(p.held <= 4 * MIB);
		if (ret < 0)
			break;
		snprintf(name, sizeof(name), "f%u", i);
		fill(fd, name, MIB / 4);
	}
	/* All but what somebody wrote, and the other one was promised. */
	CU_ASSERT_EQUAL(i, 20);
	CU_ASSERT_EQUAL(ret, -ENOSPC);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text,
				      "there was when it began, and others took it meanwhile: the "
				      "next file takes 262144 bytes, 2097152 are "
				      "free, of which 2097152 are promised to others; make room"));
	CU_ASSERT_EQUAL(free_in(fd), 2 * MIB);
	for (i = 0; i < 8; i++)
		CU_ASSERT_EQUAL(fm_promise_take(&other, MIB / 4, &err), 0);
	end_with_disk(fd);
}

/*
 * Goal: a file that comes by itself gets what no tree was promised, and no more; of what a tree
 * that stands still was promised, too.
 */
static void test_files_heed_promises(void)
{
	int fd = begin_with_disk();

	if (fd < 0)
		return;
	CU_ASSERT_EQUAL(fm_promise_ask(&p, fd, 7 * MIB, &err), 0);
	CU_ASSERT_EQUAL(put("m/f", 4 * MIB + 4096, 1, false), -ENOSPC);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(err.text, "4198400 bytes are needed, 8388608 are free, of which 4194304 are "
				 "promised to directories"));
	CU_ASSERT_EQUAL(put("m/f", 3 * MIB, 1, false), 0);
	CU_ASSERT_EQUAL(fm_promise_take(&p, 4 * MIB, &err), 0);
	fill(fd, "of the tree", 4 * MIB);
	CU_ASSERT_EQUAL(put("m/g", MIB / 2, 1, false), -ENOSPC);
	p.moved_ns -= FM_PROMISE_IDLE_NS + 1;
	CU_ASSERT_EQUAL(put("m/g", MIB / 2, 1, false), 0);
	end_with_disk(fd);
}

static int stream(const char *path, uint64_t size)
{
	return store_put(&l, s, &(struct put){.path = path, .size = size, .is_stream = true}, &err);
}

/* Of nothing but a hole, whose size is known before its first byte. */
static int sparse(const char *path, uint64_t size)
{
	const struct fm_create how = { .size = size };
	const struct fm_attr attr = { .type = FM_NODE_FILE, .mode = 0644 };
	struct fm_file *file;
	int ret = s->ops->create(s, path, &root_user, &how, &file, &err);

	if (ret < 0)
		return ret;
	ret = file->ops->publish(file, size, &attr, true, &err);
	file->ops->close(file);
	return ret;
}

/* Goal: with a quota, streams and files with holes leave what a tree was promised, and get all the
 * rest. */
static void test_streams_heed_quota(void)
{
	int (*const comes[])(const char *path, uint64_t size) = { stream, sparse };

	for (unsigned i = 0; i < 2; i++) {
		begin_with_quota();
		CU_ASSERT_EQUAL(ask(&p, QUOTA), 0);
		CU_ASSERT_EQUAL(p.held, QUOTA / 2);
		CU_ASSERT_EQUAL(comes[i]("f", QUOTA / 2 + 1), -EDQUOT);
		CU_ASSERT_EQUAL(comes[i]("f", QUOTA / 2), 0);
		CU_ASSERT_EQUAL(fm_promise_take(&p, QUOTA / 2, &err), 0);
		end_promises();
	}
}

/*
 * Goal: without a quota they are not asked, and take what they come to, as does whoever writes
 * there without fmove: the manual says so. What has a size and no holes leaves it.
 */
static void test_streams_without_quota(void)
{
	int fd = begin_with_disk();

	if (fd < 0)
		return;
	CU_ASSERT_EQUAL(fm_promise_ask(&p, fd, 7 * MIB, &err), 0);
	CU_ASSERT_EQUAL(put("m/f", 5 * MIB, 1, false), -ENOSPC);
	CU_ASSERT_EQUAL(sparse("m/holes", 100 * MIB), 0);
	CU_ASSERT_EQUAL(stream("m/stream", 5 * MIB), 0);
	CU_ASSERT_EQUAL(p.held, 4 * MIB);
	CU_ASSERT_TRUE(free_in(fd) < p.held);
	end_with_disk(fd);
}

/* Another tree of the same peer begins while the disk is asked how much this one may be
 * promised. */
static void begin_same(void *ctx, const char *name)
{
	unsigned *looked = ctx;
	struct fm_err why;

	if (strcmp(name, "store.fstatfs") != 0 || ++*looked != 2)
		return;
	CU_ASSERT_EQUAL(fm_promise_ask(&other, store_dir()->root, QUOTA / 2, &why), 0);
	CU_ASSERT_EQUAL(other.held, QUOTA / 2);
}

/* Goal: who begins several trees at once gets no more by that. */
static void test_half_is_for_one_at_once(void)
{
	unsigned looked = 0;

	begin_with_quota();
	fm_promise_end(&other);
	fm_promise_init(&other, store_dir(), &(struct fm_who){ .peer = "h1" });
	fm_fault_watch(begin_same, &looked);
	CU_ASSERT_EQUAL(ask(&p, QUOTA / 2), 0);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_TRUE(looked > 2);
	CU_ASSERT_EQUAL(p.held, 0);
	CU_ASSERT_EQUAL(p.rest, QUOTA / 2);
	CU_ASSERT_EQUAL(atomic_load(&store_dir()->usage.trees), QUOTA / 2);
	end_promises();
}

static unsigned looks;

/* Another tree begins between the two looks at the file system that a put takes. */
static void begin_another(void *ctx, const char *name)
{
	struct fm_err why;

	if (strcmp(name, "store.fstatfs") != 0 || ++looks != 2)
		return;
	CU_ASSERT_EQUAL(fm_promise_ask(&p, *(int *)ctx, 7 * MIB, &why), 0);
}

/* Goal: what was promised after a file looked for its room, and before it had it, is heeded,
 * too. */
static void test_promise_in_between(void)
{
	int fd = begin_with_disk();

	if (fd < 0)
		return;
	fm_fault_watch(begin_another, &fd);
	looks = 0;
	(void)put("m/f", 7 * MIB, 1, false);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_TRUE(looks > 2);
	CU_ASSERT_TRUE(free_in(fd) >= atomic_load(&store_dir()->usage.trees));
	end_with_disk(fd);
}

/*
 * Goal: however many threads make files of a tree, and whoever asks meanwhile, the accounts come
 * out even.
 */
static void *take_many(void *ctx)
{
	struct fm_err why;

	(void)ctx;
	for (unsigned i = 0; i < 500; i++)
		if (fm_promise_take(&p, QUOTA / 2000, &why) < 0)
			return &p;
	return NULL;
}

static void test_threads(void)
{
	pthread_t threads[4];
	struct fm_err why;
	void *failed;

	begin_with_quota();
	CU_ASSERT_EQUAL(ask(&p, QUOTA), 0);
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, take_many, NULL), 0);
	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT_TRUE(fm_promise_ask(&other, store_dir()->root, QUOTA + 1, &why) < 0 &&
			       fm_promises_lapse(store_dir()) == 0);
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], &failed);
		CU_ASSERT_PTR_NULL(failed);
	}
	CU_ASSERT_EQUAL(used(), QUOTA);
	CU_ASSERT_EQUAL(p.held + p.rest, 0);
	end_promises();
}

static const struct fm_test tests[] = {
	{ "half of what is free is promised", test_half },
	{ "half is for one, however many trees he has", test_half_is_for_one },
	{ "half is for one who begins several at once", test_half_is_for_one_at_once },
	{ "the whole must have room", test_whole },
	{ "the rest is promised as files are made", test_goes_on },
	{ "a small tree is promised all of it", test_small },
	{ "who comes between gets what is not promised", test_between },
	{ "what stands still lapses if it is needed", test_lapses },
	{ "a file system is shared in the same way", test_disk },
	{ "files that come by themselves heed what is promised", test_files_heed_promises },
	{ "with a quota streams and files with holes do, too", test_streams_heed_quota },
	{ "without one they are not asked", test_streams_without_quota },
	{ "what is promised while a file gets its room", test_promise_in_between },
	{ "many threads make files at once", test_threads },
};
FM_TEST_MAIN("promise", tests)
