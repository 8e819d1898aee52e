/* SPDX-License-Identifier: MIT */
/*
 * Directory stores, on disk and in memory: bytes in, bytes out. links: fm_store
 */
#include <glob.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "mover/base/block.h"
#include "mover/base/exit_code.h"
#include "mover/base/fault.h"
#include "mover/store/aside.h"
#include "tests/unit/may_mount.h"
#include "mover/store/store_dir.h"
#include "tests/unit/store_scene.h"

/* -------------------------------------------------------------------------------------- content */

/*
 * Goal: every length arrives as it is, whether the size was said before or not, through the ring
 * and through threads.
 */
static void test_sizes(void)
{
	static const uint64_t sizes[] = {0,    1,	  511,	 512,	    4095,	   4096,
					 4097, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 13};

	for (size_t b = 0; b < 2 * BASES; b++) {
		begin(bases[b / 2], b % 2);
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			struct put p = {.path = "known",
					.size = sizes[i],
					.salt = i + 1,
					.may_replace = true};

			CU_ASSERT_EQUAL(store_put(&l, s, &p, &err), 0);
			CU_ASSERT_EQUAL(store_verify(&l, s, "known", sizes[i], i + 1), 0);
			p.path = "sub/stream";
			p.is_stream = true;
			p.is_fleeting = true;
			CU_ASSERT_EQUAL(store_put(&l, s, &p, &err), 0);
			CU_ASSERT_EQUAL(store_verify(&l, s, "sub/stream", sizes[i], i + 1), 0);
		}
		end();
	}
}

/* Goal: permission bits and time come along; set-id bits do not; nothing else is left in the
 * directory. */
static void test_metadata(void)
{
	struct fm_attr attr;
	struct stat st;

	for (size_t b = 0; b < BASES; b++) {
		begin(bases[b], false);
		CU_ASSERT_EQUAL(put("f", 4097, 1, false), 0);
		CU_ASSERT_EQUAL(stat(at("f"), &st), 0);
		CU_ASSERT_EQUAL(st.st_mode & 07777, 0640);	/* 04640 was asked for */
		CU_ASSERT_EQUAL(st.st_mtim.tv_sec, 5);
		CU_ASSERT_EQUAL(st.st_mtim.tv_nsec, 7);
		CU_ASSERT_EQUAL(st.st_size, 4097);
		CU_ASSERT_EQUAL(s->ops->stat(s, "f", &a_peer, &attr, &err), 0);
		CU_ASSERT_EQUAL(attr.type, FM_NODE_FILE);
		CU_ASSERT_EQUAL(attr.size, 4097);
		CU_ASSERT_EQUAL(attr.mode, 0640);
		CU_ASSERT_EQUAL(attr.mtime_ns, 5 * NS_PER_S + 7);
		CU_ASSERT_EQUAL(s->ops->stat(s, "", &a_peer, &attr, &err), 0);
		CU_ASSERT_EQUAL(attr.type, FM_NODE_DIR);
		CU_ASSERT_EQUAL(s->ops->stat(s, "none", &a_peer, &attr, &err), -ENOENT);
		CU_ASSERT_STRING_EQUAL(err.text,
				       "store s: open \"none\": no such file or directory");
		CU_ASSERT_EQUAL(dir_count(dir, ""), 3);		/* f . .. */
		end();
	}
}

/* Goal: O_DIRECT is used on disk, or the file says why not; in memory nothing is to be said. */
static void test_direct(void)
{
	struct fm_create how = { .size = 4096, .is_dense = true };
	struct fm_file *file;
	struct fm_attr attr;

	for (size_t b = 0; b < BASES; b++) {
		begin(bases[b], false);
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "f", &root_user, &how, &file, &err), 0);
		CU_ASSERT_TRUE(file->has_fixed_size && !file->is_stream);
		if (b == 0)
			CU_ASSERT_EQUAL(file->is_direct, file->note == NULL);
		if (b == 1)
			CU_ASSERT_TRUE(!file->is_direct && !file->note);
		if (b == 0 && file->note)
			printf("SKIP: no O_DIRECT under " ON_DISK ": %s\n", file->note);
		file->ops->close(file);
		CU_ASSERT_EQUAL(put("g", 13, 1, false), 0);
		CU_ASSERT_EQUAL_FATAL(s->ops->open_source(s, "g", &root_user, &file, &attr, &err),
				      0);
		CU_ASSERT_TRUE(b == 1 || file->is_direct == !file->note);
		file->ops->close(file);
		end();
	}
}

/* Goal: a store that asks for buffered I/O gets it, says so, and stores the same bytes. */
static void test_buffered(void)
{
	struct fm_store_opts opts = {.name = "b",
				     .directory = dir,
				     .read = everybody,
				     .write = everybody,
				     .is_buffered = true};
	struct fm_attr attr;
	struct fm_file *file;

	begin(ON_DISK, false);
	s->ops->free(s);
	CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &s, &err), 0);
	CU_ASSERT_EQUAL(put("f", CHUNK + 13, 1, false), 0);
	CU_ASSERT_EQUAL(store_verify(&l, s, "f", CHUNK + 13, 1), 0);
	CU_ASSERT_EQUAL_FATAL(s->ops->open_source(s, "f", &root_user, &file, &attr, &err), 0);
	CU_ASSERT_FALSE(file->is_direct);
	CU_ASSERT_STRING_EQUAL(file->note, "buffered: the store asks for it");
	file->ops->close(file);
	end();
}

/* Goal: an odd length in the buffer of a longer one is padded with zeros on disk, not with what lay
 * there. */
static void test_odd_writes(void)
{
	struct fm_create how = { .size = FM_SIZE_UNKNOWN };
	struct waited w[2] = { 0 };
	struct fm_attr attr = { .mode = 0600 };
	struct fm_file *file;
	unsigned char *buf = buffer();

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "f", &root_user, &how, &file, &err), 0);
	memset(buf, 0xee, 16384);
	/* Two at once: neither is written while the lane waits. */
	for (unsigned i = 0; i < 2; i++) {
		w[i].io = (struct fm_io){.done = waited_done,
					 .buf = buf + 8192 * i,
					 .len = 100 + i,
					 .offset = 8192 * i};
		file->ops->write(file, &l.io, &w[i].io);
	}
	if (file->is_direct)
		CU_ASSERT_EQUAL(fm_ring_in_flight(l.io.ring), 2);
	for (unsigned i = 0; i < 2; i++) {
		wait_for(&l, &w[i]);
		CU_ASSERT_EQUAL(w[i].io.res, 100 + i);
	}
	CU_ASSERT_EQUAL(file->ops->publish(file, 8400, &attr, true, &err), 0);
	file->ops->close(file);

	CU_ASSERT_EQUAL_FATAL(s->ops->open_source(s, "f", &root_user, &file, &attr, &err), 0);
	for (unsigned i = 0; i < 2; i++) {
		w[i] = (struct waited){.io = {.done = waited_done,
					      .buf = buf + 8192 * i,
					      .len = i ? 208 : 4097,
					      .offset = 8192 * i}};
		file->ops->read(file, &l.io, &w[i].io);
	}
	for (unsigned i = 0; i < 2; i++) {
		wait_for(&l, &w[i]);
		CU_ASSERT_EQUAL(w[i].io.res, i ? 208 : 4097);
		CU_ASSERT_EQUAL(buf[8192 * i + 99 + i], 0xee);
		for (unsigned k = 100 + i; k < 208; k++)
			CU_ASSERT_EQUAL(buf[8192 * i + k], 0);
	}
	file->ops->close(file);
	end();
}

/* ---------------------------------------------------------------------------------------- holes */

/* A sparse file made behind the store's back: data at 1 MiB + 100 (one byte) and at the end. */
static void make_sparse(const char *name, off_t size)
{
	int fd = open(at(name), O_CREAT | O_WRONLY, 0644);

	CU_ASSERT_EQUAL(pwrite(fd, "x", 1, (1 << 20) + 100), 1);
	CU_ASSERT_EQUAL(ftruncate(fd, size), 0);
	CU_ASSERT_EQUAL(pwrite(fd, "y", 1, size - 1), 1);
	CU_ASSERT_EQUAL(fsync(fd), 0);
	close(fd);
}

/* Copy as the engine would, stretch by stretch; returns how many bytes were read. */
static uint64_t copy_data(struct fm_file *src, struct fm_file *dst, uint64_t size)
{
	uint64_t from = 0, to = 0, moved = 0;

	while (src->ops->next_data(src, to, &from, &to) == 0 && from < size) {
		CU_ASSERT_TRUE(from % FM_BLOCK == 0 && from < to &&
			       (to % FM_BLOCK == 0 || to == size));
		for (uint64_t o = from; o < to; o += CHUNK) {
			uint32_t len = to - o < CHUNK ? (uint32_t)(to - o) : CHUNK;

			CU_ASSERT_EQUAL(file_read(&l, src, buffer(), len, o), len);
			CU_ASSERT_EQUAL(file_write(&l, dst, buffer(), len, o), len);
			moved += len;
		}
	}
	CU_ASSERT_EQUAL(from, size);
	return moved;
}

/* Goal: holes stay holes, at the start, in the middle and at the end. */
static void test_holes(void)
{
	const uint64_t size = (64 << 20) + 77;
	struct fm_create how = { .size = size, .is_dense = false };
	struct fm_file *src, *dst;
	struct fm_attr attr;
	struct stat st;

	for (size_t b = 0; b < BASES; b++) {
		begin(bases[b], false);
		make_sparse("sparse", (off_t)size);
		CU_ASSERT_EQUAL_FATAL(
			s->ops->open_source(s, "sparse", &root_user, &src, &attr, &err), 0);
		CU_ASSERT_TRUE(attr.has_holes);
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "copy", &root_user, &how, &dst, &err), 0);
		/* tmpfs may use huge pages */
		CU_ASSERT_TRUE(copy_data(src, dst, size) <= 8 << 20);
		CU_ASSERT_EQUAL(dst->ops->publish(dst, size, &attr, true, &err), 0);
		src->ops->close(src);
		dst->ops->close(dst);
		CU_ASSERT_EQUAL(stat(at("copy"), &st), 0);
		CU_ASSERT_EQUAL(st.st_size, size);
		CU_ASSERT_TRUE(st.st_blocks * 512 <= 8 << 20);
		/* All of it, holes included. */
		snprintf((char *)buffer(), 1024, "cmp '%s' '%s'", at("sparse"), at("copy"));
		CU_ASSERT_EQUAL(system((char *)buffer()), 0);
		end();
	}
}

/* Goal: a file that is nothing but a hole, and one without any. */
static void test_next_data_ends(void)
{
	struct fm_file *src;
	struct fm_attr attr;
	uint64_t from, to;

	begin(ON_DISK, false);
	make_sparse("f", 4 << 20);
	CU_ASSERT_EQUAL(truncate(at("f"), 0), 0);
	CU_ASSERT_EQUAL(truncate(at("f"), 1000000), 0);
	CU_ASSERT_EQUAL_FATAL(s->ops->open_source(s, "f", &root_user, &src, &attr, &err), 0);
	CU_ASSERT_TRUE(attr.has_holes);
	CU_ASSERT_EQUAL(src->ops->next_data(src, 0, &from, &to), 0);
	CU_ASSERT_EQUAL(from, 1000000);
	CU_ASSERT_EQUAL(src->ops->next_data(src, 1000000, &from, &to), 0);
	CU_ASSERT_EQUAL(from, 1000000);
	src->ops->close(src);

	CU_ASSERT_EQUAL(put("dense", 5000, 1, false), 0);
	CU_ASSERT_EQUAL_FATAL(s->ops->open_source(s, "dense", &root_user, &src, &attr, &err), 0);
	CU_ASSERT_FALSE(attr.has_holes);
	CU_ASSERT_PTR_NULL(src->ops->next_data);
	src->ops->close(src);
	end();
}

/* ------------------------------------------------------------------------------------ replacing */

static void test_replace(void)
{
	for (size_t b = 0; b < BASES; b++) {
		begin(bases[b], false);
		CU_ASSERT_EQUAL(put("f", 5000, 1, false), 0);
		CU_ASSERT_EQUAL(put("f", 100, 2, false), -EEXIST);
		CU_ASSERT_STRING_EQUAL(
			err.text,
			"store s: \"f\": exists; it is replaced only if asked for (--force)");
		CU_ASSERT_EQUAL(store_verify(&l, s, "f", 5000, 1), 0);
		CU_ASSERT_EQUAL(put("f", 100, 2, true), 0);
		CU_ASSERT_EQUAL(store_verify(&l, s, "f", 100, 2), 0);
		CU_ASSERT_EQUAL(store_put(&l, s,
					  &(struct put){.path = "f",
							.size = 9,
							.salt = 3,
							.may_replace = true,
							.is_fleeting = true},
					  &err),
				0);
		CU_ASSERT_EQUAL(store_verify(&l, s, "f", 9, 3), 0);
		end();
	}
}

/* Goal: the store's own leave is as good as the caller's. */
static void test_store_replaces(void)
{
	struct fm_store_opts opts = {.name = "r",
				     .directory = dir,
				     .read = everybody,
				     .write = everybody,
				     .may_replace = true};

	begin(ON_DISK, false);
	s->ops->free(s);
	CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &s, &err), 0);
	CU_ASSERT_EQUAL(put("f", 10, 1, false), 0);
	CU_ASSERT_EQUAL(put("f", 20, 2, false), 0);
	CU_ASSERT_EQUAL(store_verify(&l, s, "f", 20, 2), 0);
	end();
}

/* Goal: a name that appears, changes kind or goes while the bytes come is treated as it is at the
 * end. */
static void test_target_changes(void)
{
	static const struct {
		bool is_there, may_replace;
		char becomes;		/* f: a file, d: a directory, l: a link, 0: nothing */
		int ret;
	} cases[] = {
		{false, false, 'f', -EEXIST}, {false, true, 'f', 0},
		{false, false, 'd', -EEXIST}, {false, true, 'd', -EISDIR},
		{false, true, 'l', -EEXIST},  {true, true, 0, 0},
		{true, true, 'd', -EISDIR},
	};
	struct fm_create how = { .size = 0 };
	const struct fm_attr attr = { .mode = 0644 };
	struct fm_file *file;

	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		size_t c = i / 2;
		int ret;

		begin(bases[i % 2], false);
		how.may_replace = cases[c].may_replace;
		if (cases[c].is_there)
			CU_ASSERT_EQUAL(put("f", 77, 1, false), 0);
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "f", &root_user, &how, &file, &err), 0);
		(void)unlink(at("f"));
		if (cases[c].becomes == 'f')
			close(open(at("f"), O_CREAT | O_WRONLY, 0644));
		if (cases[c].becomes == 'd')
			CU_ASSERT_EQUAL(mkdir(at("f"), 0755), 0);
		if (cases[c].becomes == 'l')
			CU_ASSERT_EQUAL(symlink("elsewhere", at("f")), 0);
		ret = file->ops->publish(file, 0, &attr, true, &err);
		CU_ASSERT_EQUAL(ret, cases[c].ret);
		if (ret < 0)
			file->ops->discard(file);
		file->ops->close(file);
		end();
	}
}

/* Goal: a file whose directory is replaced by a new version of it comes into that one. */
static void test_dir_replaced(void)
{
	static const struct {
		bool is_there, may_replace, is_durable;
		int ret;
	} cases[] = {{false, false, true, 0},
		     {false, true, false, 0},
		     {true, true, true, 0},
		     {true, false, true, -EEXIST}};
	const struct fm_attr attr = { .mode = 0644 };
	struct fm_file *file;

	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		struct fm_create how = { .size = 4096, .may_replace = cases[i / 2].may_replace };
		size_t c = i / 2;
		unsigned fds;
		int ret;

		begin(bases[i % 2], false);
		fds = fds_open();
		CU_ASSERT_EQUAL(mkdir(at("d"), 0755) + mkdir(at("next"), 0755), 0);
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "d/f", &root_user, &how, &file, &err), 0);
		pattern(buffer(), 5, 0, 4096);
		CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 4096, 0), 4096);
		if (cases[c].is_there)
			CU_ASSERT_EQUAL(put("next/f", 77, 1, false), 0);
		CU_ASSERT_EQUAL(rename(at("d"), at("before")) + rename(at("next"), at("d")), 0);
		ret = file->ops->publish(file, 4096, &attr, cases[c].is_durable, &err);
		CU_ASSERT_EQUAL(ret, cases[c].ret);
		if (ret < 0)
			file->ops->discard(file);
		file->ops->close(file);
		CU_ASSERT_EQUAL(store_verify(&l, s, "d/f", ret < 0 ? 77 : 4096, ret < 0 ? 1 : 5),
				0);
		CU_ASSERT_EQUAL(dir_count(at("before"), "") + dir_count(at("d"), ""), 2 + 2 + 1);
		CU_ASSERT_EQUAL(fds_open(), fds);
		end();
	}
}

enum in_place { ANOTHER_FILE, NO_FILE, NO_DIRECTORY, PLACES };

/* The directory of a file that is published is put aside at one of the points on the way. */
struct aside_at {
	unsigned turn, calls;
	enum in_place then;
	bool is_moved, is_looked_for;
};

static void put_dir_aside(void *ctx, const char *name)
{
	struct aside_at *a = ctx;

	if (a->calls++ == a->turn) {
		CU_ASSERT_EQUAL(rename(at("d"), at("before")) + rename(at("next"), at("d")), 0);
		a->is_moved = true;
	}
	if (a->is_moved && strcmp(name, "store.open") == 0)
		a->is_looked_for = true;
}

static void make_next(enum in_place then)
{
	CU_ASSERT_EQUAL(put("d/f", 99, 2, false), 0);
	if (then == NO_DIRECTORY)
		CU_ASSERT_EQUAL(put("next", 77, 1, false), 0);
	if (then == NO_FILE)
		CU_ASSERT_EQUAL(mkdir(at("next"), 0755), 0);
	if (then == ANOTHER_FILE)
		CU_ASSERT_EQUAL(put("next/f", 77, 1, false), 0);
}

/* Publishes d/f, and returns what that said. */
static int publish_meanwhile(struct aside_at *a, bool is_durable)
{
	struct fm_create how = { .size = 4096, .may_replace = true };
	const struct fm_attr attr = { .mode = 0644 };
	struct fm_file *file;
	int ret;

	CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "d/f", &root_user, &how, &file, &err), 0);
	pattern(buffer(), 5, 0, 4096);
	CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 4096, 0), 4096);
	fm_fault_watch(put_dir_aside, a);
	ret = file->ops->publish(file, 4096, &attr, is_durable, &err);
	fm_fault_watch(NULL, NULL);
	if (ret < 0)
		file->ops->discard(file);
	file->ops->close(file);
	return ret;
}

/* Where a file that is published before the directory goes is found, and one that is behind. */
static const char *found_as(const struct aside_at *a)
{
	return a->is_moved && !a->is_looked_for ? "before/f" : "d/f";
}

/* Goal: whenever a directory is put aside, and something else gets its name, what was in it stays
 * in it: a file that replaces that comes to where its path leads. One that was published before the
 * directory went is in that. */
static void test_dir_put_aside(void)
{
	struct aside_at a;

	for (unsigned c = 0; c < BASES * 2 * PLACES; c++) {
		a = (struct aside_at){ .then = c % PLACES };
		do {
			bool is_in_the_way = a.then == NO_DIRECTORY;
			int ret;

			a.calls = 0;
			a.is_moved = a.is_looked_for = false;
			begin(bases[c / PLACES % BASES], false);
			make_next(a.then);
			ret = publish_meanwhile(&a, c / PLACES / BASES > 0);
			if (a.is_looked_for) {
				CU_ASSERT_EQUAL(ret, is_in_the_way ? -ENOTDIR : 0);
				CU_ASSERT_EQUAL(store_verify(&l, s, "before/f", 99, 2), 0);
			} else {
				CU_ASSERT_EQUAL(ret, 0);
			}
			ret = ret < 0 ? store_verify(&l, s, "d", 77, 1)
				      : store_verify(&l, s, found_as(&a), 4096, 5);
			CU_ASSERT_EQUAL(ret, 0);
			CU_ASSERT_EQUAL(dir_count(at(a.is_moved ? "before" : "d"), PARTIALS), 0);
			end();
			a.turn++;
		} while (a.is_moved && a.turn < 100);
		CU_ASSERT_TRUE(a.turn > 5 && a.turn < 100);
	}
}

/* At the second look where the path leads, the file has its name. */
static void put_aside_and_replace(void *ctx, const char *name)
{
	unsigned *looks = ctx;

	if (strcmp(name, "store.open") != 0 || ++*looks != 2)
		return;
	CU_ASSERT_EQUAL(rename(at("d"), at("before")) + rename(at("next"), at("d")), 0);
	CU_ASSERT_EQUAL(rename(at("theirs"), at("before/f")), 0);
}

/* Goal: what somebody gave the name of the file before it could move on stays where it is. */
static void test_dir_put_aside_and_replaced(void)
{
	struct fm_create how = { .size = 4096, .may_replace = true };
	const struct fm_attr attr = { .mode = 0644 };
	unsigned looks = 0;
	struct fm_file *file;

	begin(ON_DISK, false);
	make_next(NO_FILE);
	CU_ASSERT_EQUAL(put("theirs", 55, 3, false), 0);
	CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "d/f", &root_user, &how, &file, &err), 0);
	pattern(buffer(), 5, 0, 4096);
	CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 4096, 0), 4096);
	fm_fault_watch(put_aside_and_replace, &looks);
	CU_ASSERT_EQUAL(file->ops->publish(file, 4096, &attr, false, &err), -ESTALE);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "\"d/f\": its directory was replaced"));
	file->ops->discard(file);
	file->ops->close(file);
	CU_ASSERT_EQUAL(looks, 2);
	CU_ASSERT_EQUAL(store_verify(&l, s, "before/f", 55, 3), 0);
	CU_ASSERT_EQUAL(dir_count(at("before"), PARTIALS) + dir_count(at("d"), PARTIALS), 0);
	end();
}

/* Another put to the same name, and how often both looked where their path leads. */
struct rival {
	struct fm_file *file;
	unsigned looks;
};

static const struct fm_attr plain = { .mode = 0644 };

/* The rival comes when the file has its name, and the directory goes when the rival has it. */
static void publish_rival(void *ctx, const char *name)
{
	struct rival *r = ctx;

	if (strcmp(name, "store.open") != 0)
		return;
	r->looks++;
	if (r->looks == 2)
		CU_ASSERT_EQUAL(r->file->ops->publish(r->file, 4096, &plain, true, &err), 0);
	if (r->looks == 4)
		CU_ASSERT_EQUAL(rename(at("d"), at("before")) + rename(at("next"), at("d")), 0);
}

/* Goal: two that replace the same file in a directory that is put aside both leave it what it had.
 */
static void test_dir_put_aside_by_two(void)
{
	struct fm_create how = { .size = 4096, .may_replace = true };
	struct rival r = { .looks = 0 };
	struct fm_file *file;

	for (size_t b = 0; b < BASES; b++) {
		begin(bases[b], false);
		make_next(NO_FILE);
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "d/f", &root_user, &how, &file, &err), 0);
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "d/f", &root_user, &how, &r.file, &err), 0);
		pattern(buffer(), 5, 0, 4096);
		CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 4096, 0), 4096);
		pattern(buffer(), 6, 0, 4096);
		CU_ASSERT_EQUAL(file_write(&l, r.file, buffer(), 4096, 0), 4096);
		r.looks = 0;
		fm_fault_watch(publish_rival, &r);
		CU_ASSERT_EQUAL(file->ops->publish(file, 4096, &plain, true, &err), 0);
		fm_fault_watch(NULL, NULL);
		CU_ASSERT_TRUE(r.looks > 4);
		r.file->ops->close(r.file);
		file->ops->close(file);
		CU_ASSERT_EQUAL(store_verify(&l, s, "before/f", 99, 2), 0);
		CU_ASSERT_EQUAL(store_verify(&l, s, "d/f", 4096, 5), 0);
		CU_ASSERT_EQUAL(dir_count(at("before"), PARTIALS), 0);
		CU_ASSERT_EQUAL(dir_count(at("d"), PARTIALS), 0);
		end();
	}
}

/* As anybody does who may write to the directory. */
static void take_name_of_partial(void)
{
	glob_t found;

	CU_ASSERT_EQUAL_FATAL(glob(at(".fmove.*.part"), 0, NULL, &found), 0);
	CU_ASSERT_EQUAL(rename(found.gl_pathv[0], at("theirs")), 0);
	CU_ASSERT_EQUAL(symlink("/etc/passwd", found.gl_pathv[0]), 0);
	globfree(&found);
}

/* Goal: what somebody gave the name of the partial file is not published in its place. */
static void test_partial_exchanged(void)
{
	const struct fm_attr attr = { .mode = 0644 };
	struct fm_create how = { .size = 4096, .may_replace = true };
	struct fm_file *file;

	for (unsigned i = 0; i < 4; i++) {
		begin(bases[i % 2], false);
		if (i >= 2)
			CU_ASSERT_EQUAL(put("f", 77, 1, false), 0);
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "f", &root_user, &how, &file, &err), 0);
		pattern(buffer(), 5, 0, 4096);
		CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 4096, 0), 4096);
		take_name_of_partial();
		CU_ASSERT_EQUAL(file->ops->publish(file, 4096, &attr, true, &err), -ESTALE);
		file->ops->discard(file);
		file->ops->close(file);
		CU_ASSERT_EQUAL(store_verify(&l, s, "f", 77, 1), i >= 2 ? 0 : -ENOENT);
		end();
	}
}

static void remove_partial(void)
{
	glob_t found;

	CU_ASSERT_EQUAL_FATAL(glob(at(".fmove.*.part"), 0, NULL, &found), 0);
	CU_ASSERT_EQUAL(unlink(found.gl_pathv[0]), 0);
	globfree(&found);
}

/* Goal: where somebody removed the partial file, the error says so, and is none after which the
 * next try would find something. */
static void test_partial_removed(void)
{
	const struct fm_attr attr = { .mode = 0644 };
	struct fm_create how = { .size = 4096 };
	struct fm_file *file;

	for (unsigned i = 0; i < BASES; i++) {
		begin(bases[i], false);
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "f", &root_user, &how, &file, &err), 0);
		pattern(buffer(), 5, 0, 4096);
		CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 4096, 0), 4096);
		remove_partial();
		CU_ASSERT_EQUAL(file->ops->publish(file, 4096, &attr, true, &err), -ESTALE);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "\"f\": somebody removed .fmove."));
		CU_ASSERT_FALSE(fm_errno_keeps_partial(err.code));
		file->ops->discard(file);
		file->ops->close(file);
		CU_ASSERT_EQUAL(store_verify(&l, s, "f", 0, 1), -ENOENT);
		end();
	}
}

/* Goal: a file whose directory went makes it again; if that cannot be, it is not published. */
static void test_dir_gone(void)
{
	const struct fm_attr attr = { .mode = 0644 };
	struct fm_file *file;

	for (unsigned i = 0; i < 4; i++) {
		struct fm_create how = { .size = 4096 };
		bool is_in_the_way = i >= 2;
		unsigned fds;

		begin(bases[i % 2], false);
		fds = fds_open();
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "d/e/f", &root_user, &how, &file, &err), 0);
		pattern(buffer(), 5, 0, 4096);
		CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 4096, 0), 4096);
		CU_ASSERT_EQUAL(rename(at("d"), at("before")), 0);
		if (is_in_the_way)
			CU_ASSERT_EQUAL(put("d", 77, 1, false), 0);
		CU_ASSERT_EQUAL(file->ops->publish(file, 4096, &attr, true, &err),
				is_in_the_way ? -ENOTDIR : 0);
		if (is_in_the_way)
			file->ops->discard(file);
		file->ops->close(file);
		CU_ASSERT_EQUAL(store_verify(&l, s, is_in_the_way ? "d" : "d/e/f",
					     is_in_the_way ? 77 : 4096, is_in_the_way ? 1 : 5),
				0);
		CU_ASSERT_EQUAL(dir_count(at("before/e"), ""), 2);
		CU_ASSERT_EQUAL(fds_open(), fds);
		end();
	}
}

/* Goal: what is neither file nor free is refused before anything is begun, with or without
 * leave. */
static void test_bad_targets(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(mkdir(at("dir"), 0755), 0);
	CU_ASSERT_EQUAL(symlink("/etc/passwd", at("out")), 0);
	CU_ASSERT_EQUAL(symlink("none", at("dangling")), 0);
	CU_ASSERT_EQUAL(mkfifo(at("fifo"), 0600), 0);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", at("sock"));
	CU_ASSERT_EQUAL(bind(sock, (struct sockaddr *)&sun, sizeof(sun)), 0);
	close(sock);
	for (int force = 0; force < 2; force++) {
		CU_ASSERT_EQUAL(put("dir", 1, 1, force), -EISDIR);
		CU_ASSERT_EQUAL(put("", 1, 1, force), -EISDIR);
		CU_ASSERT_EQUAL(put("out", 1, 1, force), -EEXIST);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "symbolic link"));
		CU_ASSERT_EQUAL(put("dangling", 1, 1, force), -EEXIST);
		CU_ASSERT_EQUAL(put("fifo", 1, 1, force), -EEXIST);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "named pipe"));
		CU_ASSERT_EQUAL(put("sock", 1, 1, force), -EEXIST);
		CU_ASSERT_EQUAL(put("fifo/f", 1, 1, force), -ENOTDIR);
	}
	end();
}

/* ------------------------------------------------------------------------------------ bad input */

/* Goal: each operation refuses each path that does not stay inside, and nothing happens outside. */
static void test_refused_paths(void)
{
	static const struct {
		const char *path;
		int ret;
	} cases[] = {
		{"/etc/passwd", -EXDEV}, {"../x", -EXDEV},	  {"a/../../x", -EXDEV},
		{"./x", -EINVAL},	 {"x/", -EINVAL},	  {"a//x", -EINVAL},
		{".fmove.x", -EINVAL},	 {"a/.fmove.x", -EINVAL}, {"out/x", -EXDEV},
		{"up/x", -EXDEV},
	};
	struct fm_create how = { .size = 1 };
	struct fm_list_opts page = { .after = "", .max = 1 };
	char says[FM_PATH_LEN_MAX + 1];
	struct fm_entry entry;
	struct fm_file *file;
	struct fm_attr attr;
	size_t count;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(symlink("/var/tmp", at("out")), 0);
	CU_ASSERT_EQUAL(symlink("..", at("up")), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *path = cases[i].path;
		int ret = cases[i].ret;

		CU_ASSERT_EQUAL(s->ops->open_source(s, path, &a_peer, &file, &attr, &err), ret);
		CU_ASSERT_EQUAL(s->ops->create(s, path, &a_peer, &how, &file, &err), ret);
		CU_ASSERT_EQUAL(s->ops->stat(s, path, &a_peer, &attr, &err), ret);
		CU_ASSERT_EQUAL(s->ops->look(s, path, &a_peer, &attr, says, &err), ret);
		CU_ASSERT_EQUAL(s->ops->list(s, path, &a_peer, &page, &entry, &count, &err), ret);
		CU_ASSERT_EQUAL(s->ops->remove(s, path, &a_peer, true, &err), ret);
		CU_ASSERT_EQUAL(s->ops->mkdir(s, path, &a_peer, &err), ret);
		CU_ASSERT_EQUAL(strncmp(err.text, "store s: ", 9), 0);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, path));
	}
	CU_ASSERT_EQUAL(dir_count(dir, ""), 4);		/* out up . .. */
	end();
}

/* Goal: a look does not follow a link, also one that leads out of the store or to nothing. */
static void test_look(void)
{
	static const struct {
		const char *path, *says;
		enum fm_node_type type;
	} cases[] = {
		{"out", "/var/tmp", FM_NODE_LINK}, {"gone", "nothing", FM_NODE_LINK},
		{"dir", "", FM_NODE_DIR}, {"", "", FM_NODE_DIR}, {"to/f", "", FM_NODE_FILE},
	};
	char says[FM_PATH_LEN_MAX + 1];
	struct fm_attr attr;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(symlink("/var/tmp", at("out")), 0);
	CU_ASSERT_EQUAL(symlink("nothing", at("gone")), 0);
	CU_ASSERT_EQUAL(symlink("dir", at("to")), 0);
	CU_ASSERT_EQUAL(mkdir(at("dir"), 0755), 0);
	CU_ASSERT_EQUAL(mknod(at("dir/f"), S_IFREG | 0644, 0), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CU_ASSERT_EQUAL(s->ops->look(s, cases[i].path, &a_peer, &attr, says, &err), 0);
		CU_ASSERT_EQUAL(attr.type, cases[i].type);
		CU_ASSERT_STRING_EQUAL(says, cases[i].says);
	}
	CU_ASSERT_EQUAL(s->ops->look(s, "none", &a_peer, &attr, says, &err), -ENOENT);
#ifdef FM_FAULTS
	fm_fault_arm("store.read_link", 1);
	CU_ASSERT_EQUAL(s->ops->look(s, "out", &a_peer, &attr, says, &err), -EIO);
	CU_ASSERT_STRING_EQUAL(says, "");
	fm_fault_arm(NULL, 0);
#endif
	end();
}

static void test_odd_names(void)
{
	static const char *const names[] = {
		" ",	 "a b", "\xc3\xa4\xe2\x82\xac", "new\nline", "\xff\xfe", "-rf", "*", "\\",
		"d/e/f", "..."};
	char longest[256];

	memset(longest, 'n', 255);
	longest[255] = '\0';
	for (size_t b = 0; b < BASES; b++) {
		begin(bases[b], false);
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			CU_ASSERT_EQUAL(put(names[i], 10, i, false), 0);
			CU_ASSERT_EQUAL(store_verify(&l, s, names[i], 10, i), 0);
		}
		CU_ASSERT_EQUAL(put(longest, 10, 1, false), 0);
		CU_ASSERT_EQUAL(store_verify(&l, s, longest, 10, 1), 0);
		end();
	}
}

static void test_bad_sources(void)
{
	struct fm_file *file;
	struct fm_attr attr;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(mkdir(at("dir"), 0755), 0);
	CU_ASSERT_EQUAL(mkfifo(at("fifo"), 0600), 0);
	CU_ASSERT_EQUAL(s->ops->open_source(s, "none", &a_peer, &file, &attr, &err), -ENOENT);
	CU_ASSERT_EQUAL(s->ops->open_source(s, "dir", &a_peer, &file, &attr, &err), -EISDIR);
	CU_ASSERT_STRING_EQUAL(err.text, "store s: read \"dir\": is a directory");
	CU_ASSERT_EQUAL(s->ops->open_source(s, "", &a_peer, &file, &attr, &err), -EISDIR);
	/* Opening it must not wait for a writer. */
	CU_ASSERT_EQUAL(s->ops->open_source(s, "fifo", &a_peer, &file, &attr, &err), -EINVAL);
	end();
}

/* Goal: more bytes than were announced, or an offset beyond any file, are refused; the file is not
 * harmed. */
static void test_writes_beyond(void)
{
	struct fm_create how = { .size = 5000, .is_dense = true };
	struct fm_file *file;

	for (size_t b = 0; b < BASES; b++) {
		begin(bases[b], false);
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "f", &root_user, &how, &file, &err), 0);
		CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 4096, 0), 4096);
		CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 4096, 4096), -EFBIG);
		CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 904, 4096), 904);
		CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 4096, UINT64_MAX - 4095), -EFBIG);
		CU_ASSERT_EQUAL(file_write(&l, file, buffer(), 4096, INT64_MAX), -EFBIG);
		file->ops->close(file);
		CU_ASSERT_EQUAL(dir_count(dir, ""), 2);
		end();
	}
}

static void test_bad_store(void)
{
	struct fm_store_opts opts = {.name = "s",
				     .directory = "/var/tmp/fm-store-no-such-directory"};
	static const char *const bad[] = { "user:no-such-user-here", NULL };
	struct fm_store *store;

	CU_ASSERT_EQUAL(fm_store_open(&opts, &store, &err), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(err.text, "store s: directory /var/tmp/fm-store-no-such-directory: "));
	opts.directory = "/etc/passwd";
	CU_ASSERT_EQUAL(fm_store_open(&opts, &store, &err), -ENOTDIR);
	opts.directory = "/var/tmp";
	opts.write = bad;
	CU_ASSERT_EQUAL(fm_store_open(&opts, &store, &err), -EINVAL);
	CU_ASSERT_STRING_EQUAL(err.text,
			       "store s: write: rule \"user:no-such-user-here\": this machine has "
			       "no such user");
	opts.directory = "null:";
	CU_ASSERT_EQUAL(fm_store_open(&opts, &store, &err), -EINVAL);
	memset(buffer(), 'n', 300);
	buffer()[300] = '\0';
	opts.name = (char *)buffer();
	CU_ASSERT_EQUAL(fm_store_open(&opts, &store, &err), -ENAMETOOLONG);
}

/* ----------------------------------------------------------------------------- changing sources */

static int open_and(void (*change)(void))
{
	struct fm_file *file;
	struct fm_attr attr;
	int ret;

	CU_ASSERT_EQUAL_FATAL(s->ops->open_source(s, "f", &root_user, &file, &attr, &err), 0);
	CU_ASSERT_EQUAL(file->ops->check_unchanged(file, &err), 0);
	usleep(20000);		/* a file's time may move in steps of 4 to 10 ms */
	change();
	ret = file->ops->check_unchanged(file, &err);
	CU_ASSERT_TRUE(file_read(&l, file, buffer(), 4096, 0) >= 0);
	file->ops->close(file);
	return ret;
}

static void change_nothing(void)
{
}

static void change_byte(void)
{
	int fd = open(at("f"), O_WRONLY);

	CU_ASSERT_EQUAL(pwrite(fd, "z", 1, 0), 1);
	close(fd);
}

static void change_byte_and_time_back(void)
{
	struct timespec times[2];
	struct stat st;

	CU_ASSERT_EQUAL(stat(at("f"), &st), 0);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	change_byte();
	CU_ASSERT_EQUAL(utimensat(AT_FDCWD, at("f"), times, 0), 0);
}

static void change_size(void)
{
	CU_ASSERT_EQUAL(truncate(at("f"), 99), 0);
}

static void change_by_put(void)
{
	CU_ASSERT_EQUAL(put("f", 100, 2, true), 0);
}

#define PUT_ASIDE ".fmove.0123456789abcdef.part"

/* As far as a put that replaces gets before it unlinks the old version. */
static void change_by_half_a_put(void)
{
	CU_ASSERT_EQUAL(rename(at("f"), at(PUT_ASIDE)), 0);
}

/* Somebody else's rename tells nothing from a write whose time was put back. */
static void change_by_rename(void)
{
	CU_ASSERT_EQUAL(rename(at("f"), at("g")), 0);
}

static void change_by_remove(void)
{
	CU_ASSERT_EQUAL(s->ops->remove(s, "f", &a_peer, false, &err), 0);
}

/* Goal: a source that changed is found out; one that was only replaced or removed by name is still
 * good. */
static void test_changes(void)
{
	static const struct {
		void (*change)(void);
		int ret;
	} cases[] = {
		{change_nothing, 0},
		{change_byte, -ESTALE},
		{change_byte_and_time_back, -ESTALE},
		{change_size, -ESTALE},
		{change_by_put, 0},
		{change_by_remove, 0},
		{change_by_half_a_put, 0},
		{change_by_rename, -ESTALE},
	};

	for (size_t b = 0; b < BASES; b++) {
		begin(bases[b], false);
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			CU_ASSERT_EQUAL(put("f", 5000, 1, true), 0);
			CU_ASSERT_EQUAL(open_and(cases[i].change), cases[i].ret);
			if (cases[i].ret < 0)
				CU_ASSERT_PTR_NOT_NULL(
					strstr(err.text, "changed while it was read"));
		}
		CU_ASSERT_EQUAL(unlink(at(PUT_ASIDE)), 0);
		CU_ASSERT_EQUAL(unlink(at("g")), 0);
		end();
	}
}

/* Goal: whoever has the old file open goes on reading the old file while a new one takes its
 * name. */
static void test_get_during_put(void)
{
	struct fm_file *file;
	struct fm_attr attr;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("f", 2 * CHUNK, 1, false), 0);
	CU_ASSERT_EQUAL_FATAL(s->ops->open_source(s, "f", &root_user, &file, &attr, &err), 0);
	CU_ASSERT_EQUAL(file_read(&l, file, buffer(), CHUNK, 0), CHUNK);
	CU_ASSERT_EQUAL(put("f", CHUNK, 2, true), 0);
	CU_ASSERT_EQUAL(file_read(&l, file, buffer(), CHUNK, CHUNK), CHUNK);
	CU_ASSERT_TRUE(is_pattern(buffer(), 1, CHUNK, CHUNK));
	CU_ASSERT_EQUAL(file->ops->check_unchanged(file, &err), 0);
	file->ops->close(file);
	CU_ASSERT_EQUAL(store_verify(&l, s, "f", CHUNK, 2), 0);
	end();
}

/* ------------------------------------------------------------------------------------- lifetime */

/* Goal: however a sink ends without being published, nothing is left but the directories that were
 * made. */
static void test_abandoned(void)
{
	struct fm_create how = { .size = 1 << 20, .is_dense = true };
	struct fm_file *file;
	unsigned fds;

	begin(ON_DISK, false);
	fds = fds_open();
	for (int i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "d/f", &root_user, &how, &file, &err), 0);
		CU_ASSERT_EQUAL(dir_count(at("d"), PARTIALS), 1);
		if (i > 0)
			CU_ASSERT_EQUAL(file_write(&l, file, buffer(), CHUNK, 0), CHUNK);
		if (i > 1)
			file->ops->discard(file);
		file->ops->close(file);
		CU_ASSERT_EQUAL(dir_count(at("d"), ""), 2);
	}
	/* The directory goes under its feet. */
	CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "d/f", &root_user, &how, &file, &err), 0);
	CU_ASSERT_EQUAL(s->ops->remove(s, "d", &root_user, true, &err), 0);
	CU_ASSERT_EQUAL(file->ops->publish(file, 0, &(struct fm_attr){.mode = 0600}, true, &err),
			-ESTALE);
	file->ops->discard(file);
	file->ops->close(file);
	CU_ASSERT_EQUAL(fds_open(), fds);
	end();
}

/* Goal: files opened from a store may be used after it was freed (a reload of the configuration
 * does that). */
static void test_freed_early(void)
{
	struct fm_create how = { .size = 4096 };
	struct fm_file *src, *dst;
	struct fm_attr attr;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("f", 4096, 1, false), 0);
	CU_ASSERT_EQUAL_FATAL(s->ops->open_source(s, "f", &root_user, &src, &attr, &err), 0);
	CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "new/g", &root_user, &how, &dst, &err), 0);
	s->ops->free(s);
	CU_ASSERT_EQUAL(file_read(&l, src, buffer(), 4096, 0), 4096);
	CU_ASSERT_EQUAL(file_write(&l, dst, buffer(), 4096, 0), 4096);
	CU_ASSERT_EQUAL(dst->ops->publish(dst, 4096, &attr, true, &err), 0);
	dst->ops->close(dst);
	src->ops->close(src);
	s = store_open(dir);
	CU_ASSERT_EQUAL(store_verify(&l, s, "new/g", 4096, 1), 0);
	end();
}

struct asked {
	unsigned reads;			/* of directories */
	unsigned reads_inside;		/* while it was asked a second time */
	bool is_inside;
	struct fm_store_space seen;
};

/* In the midst of the first answer: the same is asked. */
static void ask_again(void *ctx, const char *name)
{
	struct asked *a = ctx;

	if (strcmp(name, "store.readdir") != 0)
		return;
	a->reads++;
	a->reads_inside += a->is_inside;
	if (a->reads > 1)
		return;
	a->is_inside = true;
	CU_ASSERT_EQUAL(s->ops->space(s, &root_user, &a->seen, NULL), 0);
	a->is_inside = false;
}

/* As a daemon that was started just now. */
static void reopen_unseen(void)
{
	s->ops->free(s);
	CU_ASSERT_EQUAL_FATAL(fm_store_open(&(struct fm_store_opts){.name = "s",
								    .directory = dir,
								    .read = everybody,
								    .write = everybody,
								    .old_keep_ns = UINT64_MAX},
					    &s, &err),
			      0);
}

/* The store anew, one that keeps what was replaced: it knows what was there before at once. */
static void reopen_keeping(void)
{
	atomic_bool is_over = false;

	reopen_unseen();
	s->ops->sweep(s, &is_over);
}

/* Goal: who asks for the room of a store while another's question is still looked into has his
 * answer at once: many cannot take all workers. */
static void test_space_asked_by_many(void)
{
	struct fm_store_space space;
	struct asked a = { .reads = 0 };

	begin(bases[0], false);
	CU_ASSERT_EQUAL(mkdir(at("v"), 0755), 0);
	CU_ASSERT_EQUAL(mkdir(at("v/d"), 0755), 0);
	(void)hold("v", FM_STAGING_OLD);
	reopen_keeping();
	fm_fault_watch(ask_again, &a);
	CU_ASSERT_EQUAL(s->ops->space(s, &root_user, &space, &err), 0);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_TRUE(a.reads > 1 && a.reads_inside == 0);
	CU_ASSERT_TRUE(a.seen.is_counting && a.seen.trees == 1);
	CU_ASSERT_TRUE(!space.is_counting && space.trees == 1 && space.aside > 0);
	CU_ASSERT_EQUAL(
		s->ops->purge(s, "", &root_user, false, &(struct fm_space_page){.count = 0}, &err),
		0);
	CU_ASSERT_EQUAL(s->ops->space(s, &root_user, &space, &err), 0);
	CU_ASSERT_TRUE(space.trees == 0 && space.aside == 0);
	end();
}

/* Goal: a directory that the disk does not give ends neither a sweep nor a list of what is
 * unfinished, or of groups: they go on behind it. */
static void test_unread(void)
{
	static struct fm_space_page left;
	static struct fm_group_page groups;
	struct fm_store_space space;

	begin(bases[1], false);
	CU_ASSERT_EQUAL(mkdir(at("d"), 0755), 0);
	fm_fault_arm("store.readdir", 2);
	reopen_keeping();
	CU_ASSERT_TRUE(fm_fault_fired());
	/* the sweep came to the end, though it has not seen all */
	CU_ASSERT_TRUE(fm_container_of(s, struct fm_store_dir, store)->aside.is_looked);
	CU_ASSERT_EQUAL(s->ops->space(s, &root_user, &space, &err), 0);
	CU_ASSERT_TRUE(space.is_counting);
	fm_fault_arm("store.readdir", 2);
	CU_ASSERT_EQUAL(s->ops->purge_partials(s, "", &root_user, true, &left, &err), 0);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm("store.readdir", 2);
	CU_ASSERT_EQUAL(s->ops->groups(s, "", &root_user, &groups, &err), 0);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	end();
}

static void write_some(const char *name, size_t len)
{
	char *buf = calloc(1, len);
	FILE *f = fopen(at(name), "w");

	CU_ASSERT_FATAL(buf && f);
	memset(buf, 'x', len);
	CU_ASSERT_EQUAL(fwrite(buf, 1, len, f), len);
	CU_ASSERT_EQUAL(fclose(f), 0);
	free(buf);
}

static void link_as(const char *name, const char *other)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s", at(name));
	CU_ASSERT_EQUAL(link(path, at(other)), 0);
}

/*
 * Goal: what is said to be kept aside is what a purge makes free: a file that several versions
 * share too, but not one that has a name elsewhere. Method: one name twice in one version, one in
 * two of them, one also outside; what a purge then says of each is added up.
 */
static void test_aside_counts_shared_files(void)
{
	enum { LEN = 1 << 18 };
	struct fm_space_page page = { .count = 0 };
	struct fm_store_space space;
	uint64_t went = 0;

	begin(bases[0], false);
	CU_ASSERT_EQUAL(mkdir(at("v1"), 0755), 0);
	CU_ASSERT_EQUAL(mkdir(at("v2"), 0755), 0);
	write_some("v1/twice", LEN);
	link_as("v1/twice", "v1/again");
	write_some("v1/both", LEN);
	link_as("v1/both", "v2/both");
	write_some("mine", LEN);
	link_as("mine", "v2/mine");
	(void)hold("v1", FM_STAGING_OLD);
	(void)hold("v2", FM_STAGING_OLD);
	reopen_keeping();
	CU_ASSERT_EQUAL(s->ops->space(s, &root_user, &space, &err), 0);
	CU_ASSERT_TRUE(!space.is_counting && space.trees == 2);
	CU_ASSERT_TRUE(space.aside >= 2 * LEN && space.aside < 3 * LEN);
	CU_ASSERT_EQUAL(s->ops->purge(s, "", &root_user, false, &page, &err), 0);
	CU_ASSERT_EQUAL(page.count, 2);
	for (size_t i = 0; i < page.count; i++)
		went += page.aside[i].bytes;
	CU_ASSERT_EQUAL(went, space.aside);
	CU_ASSERT_EQUAL(access(at("mine"), F_OK), 0);
	CU_ASSERT_EQUAL(unlink(at("mine")), 0);
	end();
}

static void sweep_meanwhile(void *ctx, const char *name)
{
	atomic_bool is_over = false;

	(void)ctx;
	if (strcmp(name, "aside.await") == 0)
		s->ops->sweep(s, &is_over);
}

/* Goal: who purges a store while it is looked through for the first time waits for that, and hears
 * what was found. */
static void test_purge_awaits_the_first_look(void)
{
	static struct fm_space_page page;

	begin(bases[0], false);
	CU_ASSERT_EQUAL(mkdir(at(".fmove.0123456789abcdef.old"), 0755), 0);
	reopen_unseen();
	fm_fault_watch(sweep_meanwhile, NULL);
	CU_ASSERT_EQUAL(s->ops->purge(s, "", &root_user, false, &page, &err), 0);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_TRUE(page.count == 1 && !page.is_more);
	end();
}

/* Goal: who purges a store that was not looked through yet hears that there may be more; that
 * nothing is there nobody says. */
static void test_purge_before_it_is_known(void)
{
	static struct fm_space_page page;
	atomic_bool is_over = false;

	begin(bases[0], false);
	CU_ASSERT_EQUAL(mkdir(at("v"), 0755), 0);
	(void)hold("v", FM_STAGING_OLD);
	reopen_unseen();
	for (int is_dry = 0; is_dry < 2; is_dry++) {
		fm_fault_arm("aside.await", 1);		/* it waited for that in vain */
		CU_ASSERT_EQUAL(s->ops->purge(s, "", &root_user, is_dry, &page, &err), -EBUSY);
	}
	fm_fault_arm(NULL, 0);
	s->ops->sweep(s, &is_over);
	CU_ASSERT_EQUAL(s->ops->purge(s, "", &root_user, false, &page, &err), 0);
	CU_ASSERT_TRUE(page.count == 1 && !page.is_more);
	CU_ASSERT_EQUAL(s->ops->purge(s, "", &root_user, false, &page, &err), 0);
	CU_ASSERT_EQUAL(page.count, 0);
	end();
}

static void sweep_failing(const char *point, unsigned n)
{
	const atomic_bool is_over = false;

	fm_fault_arm(point, n);
	s->ops->sweep(s, &is_over);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
}

/* Goal: so does who purges one of which a directory could not be read, at once; of what is nested
 * too deep, or closed, as anybody may make it, nobody waits. */
static void test_purge_after_a_failure(void)
{
	static struct fm_space_page page;
	struct fm_store_space space;

	if (fm_test_lacks_faults())
		return;
	begin(bases[0], false);
	CU_ASSERT_EQUAL(mkdir(at("d"), 0755), 0);
	reopen_unseen();
	sweep_failing("store.readdir", 2);
	fm_fault_arm("aside.await", 1);		/* that it does not wait for more */
	CU_ASSERT_EQUAL(s->ops->purge(s, "", &root_user, false, &page, &err), -EBUSY);
	CU_ASSERT_FALSE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "look in the node's log for a directory that"));
	CU_ASSERT_EQUAL(s->ops->space(s, &root_user, &space, &err), 0);
	CU_ASSERT_TRUE(space.is_counting);
	sweep_failing("store.walk_deep", 2);
	CU_ASSERT_EQUAL(s->ops->purge(s, "", &root_user, false, &page, &err), 0);
	CU_ASSERT_EQUAL(s->ops->space(s, &root_user, &space, &err), 0);
	CU_ASSERT_FALSE(space.is_counting);
	end();
}

/* Goal: who gives what is wanted the name of what is not, while that is purged, gets nothing
 * removed by it. */
static void test_purge_exchanged(void)
{
	static struct fm_space_page page;
	char one[FM_STAGING_NAME_LEN + 1], two[FM_STAGING_NAME_LEN + 1], command[256];
	struct exchange x = { .one = one, .two = two };

	do {
		begin(IN_MEMORY, false);
		CU_ASSERT_TRUE(mkdir(at("v"), 0755) == 0 && mkdir(at("v/d"), 0755) == 0);
		(void)snprintf(one, sizeof(one), "%s", hold("v", FM_STAGING_OLD));
		reopen_keeping();
		CU_ASSERT_TRUE(mkdir(at("w"), 0755) == 0 &&
			       mkdir(at("w/.fmove.0123456789abcdef.kept"), 0755) == 0);
		(void)snprintf(two, sizeof(two), "%s", hold("w", FM_STAGING_OLD));
		x.calls = 0;
		x.turn++;
		fm_fault_watch(exchange_at, &x);
		(void)s->ops->purge(s, "", &root_user, false, &page, &err);
		fm_fault_watch(NULL, NULL);
		(void)snprintf(command, sizeof(command),
			       "find '%s' -name .fmove.0123456789abcdef.kept | grep -q .", dir);
		CU_ASSERT_EQUAL(system(command), 0);
		(void)snprintf(command, sizeof(command), "rm -rf '%s'/.fmove.*", dir);
		CU_ASSERT_EQUAL(system(command), 0);
		end();
	} while (x.calls >= x.turn && x.turn < 200);
	CU_ASSERT_TRUE(x.turn > 10 && x.turn < 200);
}

/* Goal: what is nowhere else is not purged, whatever its name is by now. */
static void test_purge_kept_renamed(void)
{
	static struct fm_space_page page;
	char command[256];

	begin(IN_MEMORY, false);
	CU_ASSERT_TRUE(mkdir(at("v"), 0755) == 0 && mkdir(at("v/d"), 0755) == 0);
	CU_ASSERT_EQUAL(rename(at(hold("v", FM_STAGING_KEPT)), at(".fmove.0123456789abcdef.old")),
			0);
	reopen_keeping();
	CU_ASSERT_EQUAL(s->ops->purge(s, "", &root_user, true, &page, &err), -EBUSY);
	CU_ASSERT_EQUAL(s->ops->purge(s, "", &root_user, false, &page, &err), -EBUSY);
	/* it is there */
	CU_ASSERT_EQUAL(rename(at(".fmove.0123456789abcdef.old/v"), at("v")), 0);
	(void)snprintf(command, sizeof(command), "rm -r '%s'/.fmove.*", dir);
	CU_ASSERT_EQUAL(system(command), 0);
	end();
}

/* Goal: what cannot be removed keeps nothing else, is said when the rest is gone, and is still
 * known then. */
static void test_purge_goes_on(void)
{
	static struct fm_space_page page;
	static const char *const names[] = { "v1", "v2", "v3" };
	char below[128], where[3][FM_STAGING_NAME_LEN + 1];

	if (!may_mount())
		return;
	for (unsigned i = 0; i < 3; i++) {
		begin(bases[0], false);
		for (unsigned j = 0; j < 3; j++) {
			(void)snprintf(below, sizeof(below), "%s/d", names[j]);
			CU_ASSERT_TRUE(mkdir(at(names[j]), 0755) == 0 &&
				       mkdir(at(below), 0755) == 0);
			(void)snprintf(where[j], sizeof(where[j]), "%s",
				       hold(names[j], FM_STAGING_OLD));
		}
		reopen_keeping();
		(void)snprintf(below, sizeof(below), "%s/%s/d", where[i], names[i]);
		CU_ASSERT_EQUAL_FATAL(mount("none", at(below), "tmpfs", 0, NULL), 0);
		CU_ASSERT_EQUAL(s->ops->purge(s, "", &root_user, false, &page, &err), 0);
		CU_ASSERT_TRUE(page.count == 2 && page.is_more);
		CU_ASSERT_TRUE(s->ops->purge(s, "", &root_user, false, &page, &err) < 0);
		CU_ASSERT_TRUE(page.count == 0 && !page.is_more);
		CU_ASSERT_EQUAL(umount(at(below)), 0);
		CU_ASSERT_EQUAL(s->ops->purge(s, "", &root_user, false, &page, &err), 0);
		CU_ASSERT_TRUE(page.count == 1 && !page.is_more);
		end();
	}
}

/* So many directories of that user, with that name, lie aside. */
static void hold_many(const char *name, uid_t uid, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		CU_ASSERT_EQUAL_FATAL(mkdir(at(name), 0755), 0);
		CU_ASSERT_EQUAL_FATAL(chown(at(name), uid, uid), 0);
		(void)hold(name, FM_STAGING_OLD);
	}
}

/* All that is known goes. How many of that were not of who has very many. */
static unsigned purge_counting(void)
{
	static struct fm_space_page page;
	unsigned found = 0;

	do {
		CU_ASSERT_EQUAL_FATAL(s->ops->purge(s, "", &root_user, false, &page, &err), 0);
		for (uint32_t i = 0; i < page.count; i++)
			found += !strstr(page.aside[i].path, "/many");
	} while (page.is_more);
	return found;
}

/* Goal: who replaces very many directories leaves places for those of others. */
static void test_aside_shares(void)
{
	if (geteuid() != 0) {
		printf("SKIP: directories of two users take root\n");
		return;
	}
	begin(IN_MEMORY, false);
	hold_many("other", 1002, 3);	/* the last that a sweep of this file system meets */
	hold_many("roots", 0, 3);
	hold_many("many", 1001, FM_ASIDE_MAX + 8);
	reopen_keeping();
	CU_ASSERT_EQUAL(purge_counting(), 6);
	reopen_keeping();
	(void)purge_counting();		/* what had no place */
	end();
}

static const struct fm_test tests[] = {
	{"every length arrives as it is", test_sizes},
	{"mode and time come along, set-id bits do not", test_metadata},
	{"O_DIRECT is used on disk, or it says why not", test_direct},
	{"a buffered store says so", test_buffered},
	{"an odd length is padded with zeros", test_odd_writes},
	{"holes stay holes", test_holes},
	{"files of nothing but holes, and without any", test_next_data_ends},
	{"an existing file is replaced with leave only", test_replace},
	{"the store's leave to replace is enough", test_store_replaces},
	{"a target that changes meanwhile counts as it is at the end", test_target_changes},
	{"a file follows its directory's name", test_dir_replaced},
	{"what replaces a file leaves it in a directory that is put aside", test_dir_put_aside},
	{"what got the file's name in a directory that is put aside stays",
	 test_dir_put_aside_and_replaced},
	{"two that replace a file leave it in a directory that is put aside",
	 test_dir_put_aside_by_two},
	{"a file makes its directory again", test_dir_gone},
	{"what has the name of a partial file is not published for that", test_partial_exchanged},
	{"who removed a partial file hears that nothing is kept", test_partial_removed},
	{"directories, links, pipes and sockets are never replaced", test_bad_targets},
	{"each operation refuses each path that leaves the store", test_refused_paths},
	{ "a look does not follow a link", test_look },
	{"names with any other bytes work", test_odd_names},
	{"what is no regular file cannot be read", test_bad_sources},
	{"more than was announced is not written", test_writes_beyond},
	{"a store that cannot be is refused by name", test_bad_store},
	{"a source that changed is found out", test_changes},
	{"a get goes on while a put replaces its file", test_get_during_put},
	{"an abandoned sink leaves nothing", test_abandoned},
	{"many who ask for the room of a store do not wait for each other",
	 test_space_asked_by_many},
	{"what cannot be read ends no sweep and no list", test_unread},
	{"what is kept aside is counted as what a purge makes free",
	 test_aside_counts_shared_files},
	{"what cannot be purged is said when all else is gone", test_purge_goes_on},
	{"what is wanted does not go under the name of what is not", test_purge_exchanged},
	{"what is nowhere else does not go under another name", test_purge_kept_renamed},
	{"who has very much aside leaves places for others", test_aside_shares},
	{"a purge awaits the first look", test_purge_awaits_the_first_look},
	{"a purge says that the store was not looked through yet", test_purge_before_it_is_known},
	{"or that not all of it could be read", test_purge_after_a_failure},
	{"files outlive their store", test_freed_early},
};
FM_TEST_MAIN("store file", tests)
