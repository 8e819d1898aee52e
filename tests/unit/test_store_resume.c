/* SPDX-License-Identifier: MIT */
/*
 * Transfers that were interrupted, and go on. links: fm_store
 *
 * A killed process is a child that ends without closing anything.
 */
#include <sys/wait.h>
#include <sys/xattr.h>

#include "mover/base/crc32c.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/journal/partial.h"
#include "mover/store/store_dir.h"
#include "mover/tree/digest.h"
#include "tests/unit/store_scene.h"

#define SIZE (4 * (uint64_t)CHUNK + 13)		/* over what is worth going on with */
#define SALT 3
#define POINTS_MAX 200

static const struct fm_attr written = {
	.type = FM_NODE_FILE, .size = SIZE, .mode = 0444, .mtime_ns = 5};

static struct fm_identity source_of(int version)
{
	return (struct fm_identity){.node = "n1",
				    .dev = 1,
				    .ino = 2,
				    .size = SIZE,
				    .mtime_ns = version,
				    .ctime_ns = version};
}

/* ------------------------------------------------------------------------- one transfer's steps */

struct xfer {
	struct fm_file *file;
	struct fm_have have;
};

static int open_sink(struct fm_store *store, const char *path, bool is_synced, struct xfer *out)
{
	struct fm_create how = {.size = SIZE,
				.is_dense = true,
				.may_replace = true,
				.is_resumable = true,
				.is_synced = is_synced};

	*out = (struct xfer){ 0 };
	return store->ops->create(store, path, &root_user, &how, &out->file, &err);
}

static int begin_sink(struct xfer *x, int version)
{
	struct fm_identity source = source_of(version);

	return x->file->ops->begin ? x->file->ops->begin(x->file, &source, &x->have, &err) : 0;
}

/* Chunks [from, to) of the content `salt`, and what the engine would log of them. */
static int write_chunks(struct lane *lane, struct fm_file *file, unsigned from, unsigned to,
			uint64_t salt, bool is_logged)
{
	struct fm_written w = { .offset = from * (uint64_t)CHUNK };

	for (unsigned i = from; i < to; i++) {
		uint64_t offset = i * (uint64_t)CHUNK;
		uint32_t len = SIZE - offset < CHUNK ? (uint32_t)(SIZE - offset) : CHUNK;
		int64_t res;

		pattern(buffer(), salt, offset, len);
		w.crc ^= fm_crc32c_part(fm_crc32c(0, buffer(), len), offset, len);
		w.len += len;
		res = file_write(lane, file, buffer(), len, offset);
		if (res != len)
			return res < 0 ? fm_err_set(&err, (int)res, "write") : -EPROTO;
	}
	return is_logged && file->ops->log ? file->ops->log(file, &w, 1, &err) : 0;
}

static uint32_t crc_of(unsigned from, unsigned to)
{
	uint32_t crc = 0;

	for (unsigned i = from; i < to; i++) {
		pattern(buffer(), SALT, i * (uint64_t)CHUNK, CHUNK);
		crc ^= fm_crc32c_part(fm_crc32c(0, buffer(), CHUNK), i * (uint64_t)CHUNK, CHUNK);
	}
	return crc;
}

static void end_sink(struct xfer *x, void (*how)(struct fm_file *file))
{
	if (how)
		how(x->file);
	x->file->ops->close(x->file);
	fm_have_free(&x->have);
}

/* As fork(2), without the lane: what another thread of a process has locked stays so in its
 * child. */
static pid_t fork_alone(void)
{
	pid_t child;

	lane_close(&l);
	fflush(stdout);
	child = fork();
	if (child != 0)
		lane_open(&l, true);
	return child;
}

/* In a child that is killed: the first `logged` chunks count, one more is there and does not. */
static void interrupted_put(const char *path, unsigned logged, bool is_synced)
{
	struct lane lane;
	struct xfer x;
	int status = -1;
	pid_t child;

	child = fork_alone();
	if (child == 0) {
		lane_open(&lane, true);
		if (open_sink(s, path, is_synced, &x) < 0 || begin_sink(&x, 1) < 0)
			_exit(1);
		if (x.have.ranges.count > 0 ||
		    write_chunks(&lane, x.file, 0, logged, SALT, logged > 0) < 0 ||
		    write_chunks(&lane, x.file, logged, logged + 1, SALT + 1, false) < 0)
			_exit(2);
		_exit(0);
	}
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
}

/* The rest of it, from chunk `from` on, and its end. */
static void finish_put(struct xfer *x, const char *path, unsigned from, uint64_t salt)
{
	CU_ASSERT_EQUAL(write_chunks(&l, x->file, from, 5, salt, false), 0);
	CU_ASSERT_EQUAL(x->file->ops->publish(x->file, SIZE, &written, true, &err), 0);
	end_sink(x, NULL);
	CU_ASSERT_EQUAL(store_verify(&l, s, path, SIZE, salt), 0);
	CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 0);
}

static void quota_store(uint64_t quota)
{
	struct fm_store_opts opts = {.name = "s",
				     .directory = dir,
				     .read = everybody,
				     .write = everybody,
				     .is_durable = true,
				     .quota_bytes = quota};

	s->ops->free(s);
	CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &s, &err), 0);
}

/* The nth point of it fails (0: none). Whether that came. */
static bool sweep_failing(uint64_t keep_ns, unsigned nth)
{
	struct fm_store_opts opts = {.name = "s",
				     .directory = dir,
				     .read = everybody,
				     .write = everybody,
				     .is_durable = true,
				     .partial_keep_ns = keep_ns};
	static const atomic_bool not_over;
	struct fm_store *store;
	bool has_fired = false;

	CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &store, &err), 0);
	if (nth > 0)
		fm_fault_arm(NULL, nth);
	store->ops->sweep(store, &not_over);
	if (nth > 0) {
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
	}
	store->ops->free(store);
	return has_fired;
}

static void sweep(uint64_t keep_ns)
{
	(void)sweep_failing(keep_ns, 0);
}

/* Paths of the partial file and its journal, of name `f` in the store. */
static const char *partial_of(enum fm_partial_kind kind)
{
	char name[FM_PARTIAL_NAME_MAX + 1];

	fm_partial_name(fm_partial_hash("f"), kind, name);
	return at(name);
}

static int64_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? -1 : (int64_t)st.st_size;
}

/* ------------------------------------------------------------------------------------- going on */

/* Goal: what was logged before the process was killed is there, exactly that, and the file is whole
 * in the end. */
static void test_killed(void)
{
	struct xfer x;

	for (unsigned n = 0; n < 4; n++) {
		begin(bases[n / 2], n % 2);
		interrupted_put("f", 2, n % 2);
		CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 2);
		CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", n % 2, &x), 0);
		CU_ASSERT_TRUE(x.file->has_partial);
		CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
		CU_ASSERT_PTR_NULL(x.file->resume_note);
		CU_ASSERT_EQUAL_FATAL(x.have.ranges.count, 1);
		CU_ASSERT_EQUAL(x.have.ranges.at[0].offset, 0);
		CU_ASSERT_EQUAL(x.have.ranges.at[0].len, 2 * CHUNK);
		CU_ASSERT_EQUAL(x.have.crc, crc_of(0, 2));
		finish_put(&x, "f", 2, SALT);
		end();
	}
}

/* Goal: nothing was logged: the next try begins with nothing, and the journal that was left says
 * so. */
static void test_killed_early(void)
{
	struct xfer x;

	begin(ON_DISK, false);
	interrupted_put("f", 0, true);
	CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 2);
	CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", true, &x), 0);
	CU_ASSERT_FALSE(x.file->has_partial);
	CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
	CU_ASSERT_EQUAL(x.have.ranges.count, 0);
	CU_ASSERT_PTR_NULL(x.file->resume_note);
	finish_put(&x, "f", 0, SALT);
	end();
}

/* Goal: several tries, each going on with the last; stretches that do not touch. */
static void test_many_tries(void)
{
	static const unsigned order[] = { 3, 0, 2 };
	struct xfer x;

	begin(ON_DISK, false);
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", true, &x), 0);
		CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
		CU_ASSERT_EQUAL(fm_ranges_bytes(&x.have.ranges), i * (uint64_t)CHUNK);
		CU_ASSERT_EQUAL(write_chunks(&l, x.file, order[i], order[i] + 1, SALT, true), 0);
		end_sink(&x, x.file->ops->keep);
	}
	CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", true, &x), 0);
	CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
	CU_ASSERT_EQUAL(x.have.ranges.count, 2);
	CU_ASSERT_EQUAL(x.have.crc, crc_of(0, 1) ^ crc_of(2, 4));
	CU_ASSERT_EQUAL(write_chunks(&l, x.file, 1, 2, SALT, true), 0);
	finish_put(&x, "f", 4, SALT);
	end();
}

/* Goal: what is there is read again from the disk, and a bit that changed there is seen. */
static void test_reread(void)
{
	char byte;
	uint32_t part;
	struct xfer x;
	int fd;

	for (unsigned n = 0; n < 4; n++) {
		begin(bases[n / 2], n % 2);
		interrupted_put("f", 2, n % 2);
		CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", n % 2, &x), 0);
		CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
		CU_ASSERT_EQUAL_FATAL(x.have.count, 1);
		CU_ASSERT_TRUE(x.have.pieces[0].offset == 0 && x.have.pieces[0].len == 2 * CHUNK);
		CU_ASSERT_EQUAL(x.file->ops->reread(x.file, 0, 2 * CHUNK, &part), 0);
		CU_ASSERT_EQUAL(part, x.have.pieces[0].crc);
		fd = open(partial_of(FM_PARTIAL_FILE), O_RDWR);
		CU_ASSERT_EQUAL(pread(fd, &byte, 1, CHUNK + 5), 1);
		byte ^= 4;
		CU_ASSERT_EQUAL(pwrite(fd, &byte, 1, CHUNK + 5), 1);
		close(fd);
		CU_ASSERT_EQUAL(x.file->ops->reread(x.file, 0, 2 * CHUNK, &part), 0);
		CU_ASSERT_NOT_EQUAL(part, x.have.pieces[0].crc);
		CU_ASSERT_EQUAL(x.file->ops->reread(x.file, 0, CHUNK, &part), 0);
		CU_ASSERT_EQUAL(part, crc_of(0, 1));
		CU_ASSERT_EQUAL(x.file->ops->reread(x.file, 16 * (uint64_t)CHUNK, CHUNK, &part),
				-ENODATA);
		end_sink(&x, x.file->ops->discard);
		end();
	}
}

/* --------------------------------------------------------------------------- a sync that failed */

/* A caller's file, as its command opens and passes it. */
static int open_caller_sink(struct xfer *out)
{
	struct fm_create how = { .size = SIZE, .is_resumable = true, .is_synced = true };
	int fd = open(at("c"), O_CREAT | O_RDWR, 0600),
	    journal = open(at("c.journal"), O_CREAT | O_RDWR, 0600);

	*out = (struct xfer){ 0 };
	return fm_caller_sink(fd, journal, &how, &out->file, &err);
}

/* The kernel tells it once: each of these succeeds the next time. */
static const struct {
	const char *fault;
	unsigned nth;
	bool is_log, is_callers;
} syncs[] = {
	{ "store.fdatasync", 1, true, false },	/* the file */
	{ "store.fsync", 1, true, false },	/* its name */
	{ "store.fdatasync", 1, false, false },	/* the file */
	{ "store.fsync", 1, false, false },	/* mode and time */
	{ "store.fsync", 2, false, false },	/* its name */
	{ "store.fdatasync", 1, true, true },
	{ "store.fdatasync", 1, false, true },
	{ "store.fsync", 1, false, true },
};

/* Goal: after a sync that failed nothing is logged, published or kept, and the next try begins with
 * nothing. */
static void test_failed_sync(void)
{
	struct xfer x;

	if (fm_test_lacks_faults())
		return;
	for (size_t i = 0; i < sizeof(syncs) / sizeof(syncs[0]); i++) {
		begin(ON_DISK, false);
		CU_ASSERT_EQUAL_FATAL(syncs[i].is_callers ? open_caller_sink(&x)
							  : open_sink(s, "f", true, &x),
				      0);
		CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
		CU_ASSERT_EQUAL(syncs[i].is_log ? 0 : write_chunks(&l, x.file, 0, 2, SALT, true),
				0);
		fm_fault_arm(syncs[i].fault, syncs[i].nth);
		CU_ASSERT_EQUAL(syncs[i].is_log
					? write_chunks(&l, x.file, 0, 2, SALT, true)
					: x.file->ops->publish(x.file, SIZE, &written, true, &err),
				-EIO);
		CU_ASSERT_TRUE(fm_fault_fired());
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(fm_file_sync_error(x.file), -EIO);
		CU_ASSERT_EQUAL(syncs[i].is_log ? write_chunks(&l, x.file, 2, 3, SALT, true) : -EIO,
				-EIO);
		CU_ASSERT_EQUAL(x.file->ops->publish(x.file, SIZE, &written, true, &err), -EIO);
		end_sink(&x, x.file->ops->keep);
		CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 0);
		CU_ASSERT_TRUE(!syncs[i].is_callers ||
			       (size_of(at("c")) == 0 && size_of(at("c.journal")) == 0));
		end();
	}
}

/* ----------------------------------------------------------------------------- beginning afresh */

static void garbage_behind_journal(void)
{
	int fd = open(partial_of(FM_PARTIAL_JOURNAL), O_WRONLY | O_APPEND);

	CU_ASSERT_EQUAL(write(fd, "torn", 4), 4);
	close(fd);
}

static void half_a_record(void)
{
	CU_ASSERT_EQUAL(truncate(partial_of(FM_PARTIAL_JOURNAL),
				 size_of(partial_of(FM_PARTIAL_JOURNAL)) - 10),
			0);
}

static void damaged_head(void)
{
	int fd = open(partial_of(FM_PARTIAL_JOURNAL), O_WRONLY);

	CU_ASSERT_EQUAL(pwrite(fd, "x", 1, 50), 1);
	close(fd);
}

static void shorter_file(void)
{
	CU_ASSERT_EQUAL(truncate(partial_of(FM_PARTIAL_FILE), CHUNK + 4096), 0);
}

static void no_file(void)
{
	CU_ASSERT_EQUAL(unlink(partial_of(FM_PARTIAL_FILE)), 0);
}

static void empty_file(void)
{
	CU_ASSERT_EQUAL(truncate(partial_of(FM_PARTIAL_FILE), 0), 0);
}

static void no_journal(void)
{
	CU_ASSERT_EQUAL(unlink(partial_of(FM_PARTIAL_JOURNAL)), 0);
}

/* As a crash between the exchange of names and the end of the old file leaves it. */
static void another_file(void)
{
	char *old = strdup(at("old"));
	int fd = open(old, O_CREAT | O_RDWR, 0600);

	CU_ASSERT_EQUAL(ftruncate(fd, SIZE), 0);
	close(fd);
	CU_ASSERT_EQUAL(rename(old, partial_of(FM_PARTIAL_FILE)), 0);
	free(old);
}

static void foreign_file(void)
{
	CU_ASSERT_EQUAL(unlink(partial_of(FM_PARTIAL_FILE)), 0);
	CU_ASSERT_EQUAL(symlink("victim", partial_of(FM_PARTIAL_FILE)), 0);
}

static void further_name(void)
{
	CU_ASSERT_EQUAL(unlink(partial_of(FM_PARTIAL_FILE)), 0);
	CU_ASSERT_EQUAL(link(at("victim"), partial_of(FM_PARTIAL_FILE)), 0);
}

static void final_mode(void)
{
	CU_ASSERT_EQUAL(chmod(partial_of(FM_PARTIAL_FILE), 0444), 0);
}

static void nothing(void)
{
}

/* Goal: what cannot be trusted is not gone on with, is said where it can be, and harms nobody. */
static void test_of_no_use(void)
{
	static const struct {
		void (*spoil)(void);
		int version;
		uint64_t bytes;		/* that count in spite of it */
		const char *note;
	} cases[] = {
		{ nothing, 1, 2 * CHUNK, NULL },
		{ nothing, 2, 0, "the source has changed since" },
		{ garbage_behind_journal, 1, 2 * CHUNK, NULL },
		{ final_mode, 1, 2 * CHUNK, NULL },
		{ half_a_record, 1, 0, "nothing of it is complete" },
		{ damaged_head, 1, 0, "its head is damaged" },
		{ shorter_file, 1, 0, "it is shorter than its journal says" },
		{ no_file, 1, 0, NULL },
		{ empty_file, 1, 0, NULL },
		{ no_journal, 1, 0, NULL },
		{ another_file, 1, 0, NULL },
		{ foreign_file, 1, 0, NULL },
		{ further_name, 1, 0, NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct xfer x;

		begin(bases[i % BASES], false);
		CU_ASSERT_EQUAL(put("victim", 10, 1, false), 0);
		interrupted_put("f", 2, true);
		cases[i].spoil();
		CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", true, &x), 0);
		CU_ASSERT_EQUAL(begin_sink(&x, cases[i].version), 0);
		CU_ASSERT_EQUAL(fm_ranges_bytes(&x.have.ranges), cases[i].bytes);
		CU_ASSERT_EQUAL(x.file->resume_note != NULL, cases[i].note != NULL);
		if (x.file->resume_note && cases[i].note)
			CU_ASSERT_PTR_NOT_NULL(strstr(x.file->resume_note, cases[i].note));
		finish_put(&x, "f", cases[i].bytes > 0 ? 2 : 0,
			   cases[i].bytes > 0 ? SALT : SALT + 9);
		CU_ASSERT_EQUAL(store_verify(&l, s, "victim", 10, 1), 0);
		end();
	}
}

/* Goal: a source that nothing tells from others is not gone on with, nor is anything kept of it. */
static void test_unknown_source(void)
{
	const struct fm_identity unknown = { .size = SIZE };
	struct xfer x;

	begin(ON_DISK, false);
	interrupted_put("f", 2, true);
	CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", true, &x), 0);
	CU_ASSERT_EQUAL(x.file->ops->begin(x.file, &unknown, &x.have, &err), 0);
	CU_ASSERT_EQUAL(x.have.ranges.count, 0);
	CU_ASSERT_EQUAL(write_chunks(&l, x.file, 0, 3, SALT, true), 0);
	end_sink(&x, x.file->ops->keep);
	CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 0);
	end();
}

/* ----------------------------------------------------------------------------------------- ends */

/* Goal: each end leaves what it should, and room is given back. */
static void test_ends(void)
{
	struct stat st;
	struct xfer x;

	begin(ON_DISK, false);
	for (int i = 0; i < 5; i++) {
		CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", true, &x), 0);
		CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
		CU_ASSERT_EQUAL(write_chunks(&l, x.file, 0, 3, SALT, i > 0), 0);
		if (i == 4)
			CU_ASSERT_EQUAL(x.file->ops->prepare(x.file, SIZE, &written, true, &err),
					0);
		end_sink(&x, i == 2 ? x.file->ops->discard : i == 1 ? NULL : x.file->ops->keep);
		CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), i < 3 ? 0 : 2);
		if (i < 3)
			continue;
		/* The room that was reserved for the rest is free again; the mode is not the final
		 * one. */
		CU_ASSERT_EQUAL(stat(partial_of(FM_PARTIAL_FILE), &st), 0);
		CU_ASSERT_EQUAL(st.st_size, 3 * CHUNK);
		CU_ASSERT_EQUAL(st.st_mode & 07777, 0600);
		CU_ASSERT_TRUE(st.st_blocks * 512 < (int64_t)SIZE);
		CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", true, &x), 0);
		CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
		CU_ASSERT_EQUAL(fm_ranges_bytes(&x.have.ranges), 3 * (uint64_t)CHUNK);
		finish_put(&x, "f", 3, SALT);
	}
	end();
}

/* Goal: what was given to its owner is not gone on with: he may have it open, and the next try may
 * be another's. */
static void test_given_away(void)
{
	struct fm_create how = { .size = SIZE, .may_replace = true, .is_resumable = true };
	const struct fm_who who = { .uid = 1234, .gid = 2345 };
	struct xfer x = { 0 };
	struct stat st;

	if (geteuid() != 0) {
		printf("SKIP: not root; ");
		return;
	}
	begin(ON_DISK, false);
	fm_container_of(s, struct fm_store_dir, store)->owner = FM_OWNER_CALLER;
	CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "f", &who, &how, &x.file, &err), 0);
	CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
	CU_ASSERT_EQUAL(write_chunks(&l, x.file, 0, 5, SALT, true), 0);
	CU_ASSERT_EQUAL(x.file->ops->prepare(x.file, SIZE, &written, false, &err), 0);
	CU_ASSERT_EQUAL(stat(partial_of(FM_PARTIAL_FILE), &st), 0);
	CU_ASSERT_EQUAL(st.st_uid, 1234);
	end_sink(&x, x.file->ops->keep);
	CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 0);
	end();
}

/* Goal: prepare() does all but the name; publish() then only gives it. */
static void test_prepare(void)
{
	struct xfer x;

	for (int n = 0; n < 4; n++) {
		begin(bases[n / 2], false);
		if (n % 2)
			CU_ASSERT_EQUAL(put("f", 100, 1, false), 0);
		CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", true, &x), 0);
		CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
		CU_ASSERT_EQUAL(write_chunks(&l, x.file, 0, 5, SALT, true), 0);
		CU_ASSERT_EQUAL(x.file->ops->prepare(x.file, SIZE, &written, true, &err), 0);
		CU_ASSERT_EQUAL(store_verify(&l, s, "f", 100, 1), n % 2 ? 0 : -ENOENT);
		CU_ASSERT_EQUAL(size_of(partial_of(FM_PARTIAL_FILE)), (int64_t)SIZE);
		finish_put(&x, "f", 5, SALT);
		end();
	}
}

/* Goal: a target that appeared meanwhile fails the end; all that came is there for the next try. */
static void test_target_appears(void)
{
	struct fm_create how = { .size = SIZE, .is_resumable = true, .is_synced = true };
	struct xfer x = { 0 };

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "f", &root_user, &how, &x.file, &err), 0);
	CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
	CU_ASSERT_EQUAL(write_chunks(&l, x.file, 0, 5, SALT, true), 0);
	CU_ASSERT_EQUAL(put("f", 10, 1, false), 0);
	CU_ASSERT_EQUAL(x.file->ops->publish(x.file, SIZE, &written, true, &err), -EEXIST);
	end_sink(&x, x.file->ops->keep);
	CU_ASSERT_EQUAL(store_verify(&l, s, "f", 10, 1), 0);
	CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", true, &x), 0);
	CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
	CU_ASSERT_EQUAL(fm_ranges_bytes(&x.have.ranges), SIZE);
	finish_put(&x, "f", 5, SALT);
	end();
}

/* Goal: two transfers to one name at once: both arrive whole, the second one cannot be resumed and
 * says so. */
static void test_two_at_once(void)
{
	struct xfer first, second;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", true, &first), 0);
	CU_ASSERT_EQUAL(begin_sink(&first, 1), 0);
	CU_ASSERT_EQUAL(write_chunks(&l, first.file, 0, 2, SALT, true), 0);
	fm_container_of(s, struct fm_store_dir, store)->lock_wait_ms = 50;
	CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", true, &second), 0);
	CU_ASSERT_FALSE(second.file->has_partial);
	CU_ASSERT_PTR_NOT_NULL(second.file->resume_note);
	CU_ASSERT_PTR_NULL(second.file->ops->keep);
	CU_ASSERT_EQUAL(write_chunks(&l, second.file, 0, 5, SALT + 1, true), 0);
	CU_ASSERT_EQUAL(second.file->ops->publish(second.file, SIZE, &written, true, &err), 0);
	end_sink(&second, NULL);
	CU_ASSERT_EQUAL(store_verify(&l, s, "f", SIZE, SALT + 1), 0);
	finish_put(&first, "f", 2, SALT);
	end();
}

/* A process that puts its own content again and again, and now and then gives up in one way or
 * another. */
static void race(unsigned who, unsigned rounds)
{
	struct lane lane;
	struct xfer x;

	lane_open(&lane, true);
	for (unsigned i = 0; i < rounds; i++) {
		int ret;

		if (open_sink(s, "f", i % 2, &x) < 0 || begin_sink(&x, 1 + (int)who) < 0)
			_exit(1);	/* whatever of the others' is there is of another source */
		for (unsigned n = 0; n < 5; n++)
			if (!fm_ranges_cover(&x.have.ranges, n * (uint64_t)CHUNK,
					     n < 4 ? CHUNK : 13) &&
			    write_chunks(&lane, x.file, n, n + 1, SALT + who, n % 2) < 0)
				_exit(2);
		ret = (i + who) % 3 == 0
			      ? 1
			      : x.file->ops->publish(x.file, SIZE, &written, i % 4 > 0, &err);
		if (ret < 0)
			_exit(3);
		end_sink(&x, ret == 0			  ? NULL
			     : i % 2 && x.file->ops->keep ? x.file->ops->keep
							  : x.file->ops->discard);
	}
	_exit(0);
}

/* Whether what has the name is one of the racers' content from one end to the other, as a reader
 * sees it who opened it. */
static bool is_whole(void)
{
	struct fm_file *file;
	struct fm_attr attr;
	unsigned who = 0;
	bool is_good;

	if (s->ops->open_source(s, "f", &root_user, &file, &attr, &err) < 0)
		return false;
	is_good = attr.size == SIZE;
	for (uint64_t offset = 0; offset < SIZE && is_good; offset += CHUNK) {
		uint32_t len = SIZE - offset < CHUNK ? (uint32_t)(SIZE - offset) : CHUNK;

		is_good = file_read(&l, file, buffer(), len, offset) == len;
		while (offset == 0 && who < 4 && !is_pattern(buffer(), SALT + who, 0, len))
			who++;
		is_good = is_good && who < 4 && is_pattern(buffer(), SALT + who, offset, len);
	}
	file->ops->close(file);
	return is_good;
}

/* Goal: many at once to one name, each ending as it likes: none fails, and what is there is whole,
 * all the time. */
static void test_race(void)
{
	pid_t children[4];
	unsigned done = 0;

	begin(ON_DISK, false);
	fm_log_set_level(FM_LOG_WARN);	/* sweeps tell what they removed */
	fm_container_of(s, struct fm_store_dir, store)->lock_wait_ms = 1;
	CU_ASSERT_EQUAL(put("f", SIZE, SALT, false), 0);
	for (unsigned i = 0; i < 4; i++) {
		children[i] = fork_alone();
		if (children[i] == 0)
			race(i, 40);
	}
	while (done < 4) {
		int status = 0;

		CU_ASSERT_TRUE(is_whole());
		if (waitpid(-1, &status, WNOHANG) > 0) {
			CU_ASSERT_EQUAL(status, 0);
			done++;
		}
	}
	sweep(1);
	fm_log_set_level(FM_LOG_INFO);
	end();
}

/* Goal: a small file, a stream, and one that is not asked for leave no trace that could be gone on
 * with. */
static void test_not_worth_it(void)
{
	const struct fm_create hows[] = {
		{ .size = 1 << 19, .is_resumable = true },
		{ .size = SIZE },
		{ .size = FM_SIZE_UNKNOWN },
	};
	struct fm_file *file;

	begin(ON_DISK, false);
	for (size_t i = 0; i < sizeof(hows) / sizeof(hows[0]); i++) {
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "f", &root_user, &hows[i], &file, &err), 0);
		CU_ASSERT_PTR_NULL(file->ops->log);
		CU_ASSERT_PTR_NULL(file->ops->keep);
		CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 1);
		file->ops->close(file);
	}
	end();
}

/* Goal: a sink that is told the size only by begin() goes on as well, and all of it is promised
 * from then on. */
static void test_unknown_size(void)
{
	struct fm_create how = { .size = FM_SIZE_UNKNOWN, .is_resumable = true, .is_synced = true };
	struct xfer x;

	begin(ON_DISK, false);
	quota_store(SIZE + CHUNK);
	for (unsigned i = 0; i < 3; i++) {
		x = (struct xfer){ 0 };
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "f", &root_user, &how, &x.file, &err), 0);
		CU_ASSERT_FALSE(x.file->has_fixed_size);
		CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
		CU_ASSERT_EQUAL(fm_ranges_bytes(&x.have.ranges), i * (uint64_t)CHUNK);
		CU_ASSERT_EQUAL(put("g", CHUNK + 1, 1, false), -EDQUOT);
		CU_ASSERT_EQUAL(put("g", CHUNK, 1, false), 0);
		CU_ASSERT_EQUAL(s->ops->remove(s, "g", &root_user, false, &err), 0);
		CU_ASSERT_EQUAL(write_chunks(&l, x.file, i, i + 1, SALT, true), 0);
		if (i < 2)
			end_sink(&x, x.file->ops->keep);
	}
	finish_put(&x, "f", 3, SALT);
	CU_ASSERT_EQUAL(put("g", CHUNK, 1, false), 0);
	CU_ASSERT_EQUAL(put("h", 1, 1, false), -EDQUOT);
	end();
}

/* Goal: the digest that came with the transfer is kept with the file, where that can be. */
static void test_digest(void)
{
	struct fm_digest digest = { .crc = 0x12345678, .size = SIZE, .mtime_ns = 5 }, kept = { 0 };
	struct fm_attr attr = written;
	struct xfer x;
	int fd, ret;

	begin(ON_DISK, false);
	attr.digest = &digest;
	CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", true, &x), 0);
	CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
	CU_ASSERT_EQUAL(x.file->ops->publish(x.file, SIZE, &attr, true, &err), 0);
	end_sink(&x, NULL);
	fd = open(at("f"), O_RDONLY);
	ret = fm_digest_get(fd, &kept);
	if (ret == -EOPNOTSUPP || ret == -ENODATA)
		printf("SKIP: no extended attributes under " ON_DISK "\n");
	else
		CU_ASSERT_TRUE(ret == 0 && kept.crc == digest.crc && kept.size == SIZE &&
			       kept.mtime_ns == 5);
	close(fd);
	end();
}

/* ---------------------------------------------------------------------------------------- quota */

/* Goal: what is kept counts, once; also after a crash; and its transfer may go on in a store that
 * is full because of it. */
static void test_quota(void)
{
	struct xfer x;

	begin(ON_DISK, false);
	quota_store(SIZE + CHUNK);
	interrupted_put("f", 2, true);
	for (int i = 0; i < 2; i++) {
		quota_store(SIZE + CHUNK);
		CU_ASSERT_EQUAL(put("g", i == 0 ? SIZE : 3 * CHUNK, 1, false), -EDQUOT);
		CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", true, &x), 0);
		CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
		/* all of f is promised */
		CU_ASSERT_EQUAL(put("g", 2 * CHUNK, 1, false), -EDQUOT);
		if (i == 0)
			CU_ASSERT_EQUAL(write_chunks(&l, x.file, 2, 3, SALT, true), 0);
		end_sink(&x, x.file->ops->keep);
	}
	CU_ASSERT_EQUAL(size_of(partial_of(FM_PARTIAL_FILE)), 3 * CHUNK);
	CU_ASSERT_EQUAL(put("g", 2 * CHUNK, 1, false), 0);
	/* Now f would be too much; what is there of it stays. */
	CU_ASSERT_EQUAL(open_sink(s, "f", true, &x), -EDQUOT);
	CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 2);
	CU_ASSERT_EQUAL(s->ops->remove(s, "g", &root_user, false, &err), 0);
	CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", true, &x), 0);
	CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
	finish_put(&x, "f", 3, SALT);
	CU_ASSERT_EQUAL(put("g", CHUNK, 1, false), 0);
	CU_ASSERT_EQUAL(put("h", 1, 1, false), -EDQUOT);
	end();
}

/* ------------------------------------------------------------------------------- callers' files */

static int caller_open(struct xfer *x, int *fd, int *journal)
{
	struct fm_create how = { .size = FM_SIZE_UNKNOWN, .is_synced = true };

	*x = (struct xfer){ 0 };
	*fd = open(at("c"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	*journal = open(at("c.journal"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	return fm_caller_sink(dup(*fd), dup(*journal), &how, &x->file, &err);
}

/* Goal: a caller's file goes on with its journal; what is of no use is emptied; nothing is
 * removed. */
static void test_caller(void)
{
	int fd, journal, flags;
	struct xfer x;

	for (size_t b = 0; b < BASES; b++) {
		begin(bases[b], false);
		CU_ASSERT_EQUAL_FATAL(caller_open(&x, &fd, &journal), 0);
		flags = fcntl(fd, F_GETFL);
		CU_ASSERT_FALSE(x.file->has_partial);
		CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
		CU_ASSERT_EQUAL(write_chunks(&l, x.file, 0, 2, SALT, true), 0);
		end_sink(&x, x.file->ops->keep);
		close(fd);
		close(journal);
		CU_ASSERT_TRUE(size_of(at("c.journal")) > 0);

		CU_ASSERT_EQUAL_FATAL(caller_open(&x, &fd, &journal), 0);
		CU_ASSERT_TRUE(x.file->has_partial);
		CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
		CU_ASSERT_EQUAL(fm_ranges_bytes(&x.have.ranges), 2 * (uint64_t)CHUNK);
		CU_ASSERT_EQUAL(write_chunks(&l, x.file, 2, 5, SALT, true), 0);
		CU_ASSERT_EQUAL(x.file->ops->publish(x.file, SIZE, &written, true, &err), 0);
		end_sink(&x, NULL);
		CU_ASSERT_EQUAL(fcntl(fd, F_GETFL) & O_ACCMODE, flags & O_ACCMODE);
		close(fd);
		close(journal);
		CU_ASSERT_EQUAL(store_verify(&l, s, "c", SIZE, SALT), 0);

		/* The same once more, as if its caller had died before the rename: all is there,
		 * but of another source. */
		CU_ASSERT_EQUAL(chmod(at("c"), 0600), 0);
		CU_ASSERT_EQUAL_FATAL(caller_open(&x, &fd, &journal), 0);
		CU_ASSERT_EQUAL(begin_sink(&x, 2), 0);
		CU_ASSERT_EQUAL(x.have.ranges.count, 0);
		CU_ASSERT_PTR_NOT_NULL(x.file->resume_note);
		CU_ASSERT_EQUAL(size_of(at("c")), 0);
		CU_ASSERT_EQUAL(write_chunks(&l, x.file, 0, 1, SALT, true), 0);
		end_sink(&x, x.file->ops->discard);
		CU_ASSERT_EQUAL(size_of(at("c")), 0);
		CU_ASSERT_EQUAL(size_of(at("c.journal")), 0);
		close(fd);
		close(journal);
		end();
	}
}

/* Goal: what a caller passes is looked at before it is used. */
static void test_caller_refused(void)
{
	static const struct {
		int flags, journal_flags;
		bool is_full;		/* the target holds something, the journal nothing */
		int ret;
	} cases[] = {
		{ O_RDWR, O_RDWR, false, 0 },
		{ O_WRONLY, O_RDWR, false, -EBADF },
		{ O_RDWR, O_RDONLY, false, -EINVAL },
		{ O_RDWR, O_WRONLY, false, -EINVAL },
		{ O_RDWR, O_RDWR | O_APPEND, false, -EINVAL },
		{ O_RDWR, O_PATH, false, -EINVAL },
		{ O_RDWR, O_RDONLY | O_DIRECTORY, false, -EINVAL },
		{ O_RDWR, O_RDWR, true, -EEXIST },
	};
	const struct fm_create how = { .size = SIZE };
	struct fm_file *file;
	unsigned fds;
	int ends[2];

	begin(ON_DISK, false);
	close(open(at("t"), O_CREAT | O_RDWR, 0600));
	close(open(at("j"), O_CREAT | O_RDWR, 0600));
	fds = fds_open();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int ret;

		CU_ASSERT_EQUAL(truncate(at("t"), cases[i].is_full ? 10 : 0), 0);
		ret = fm_caller_sink(open(at("t"), cases[i].flags),
				     open(cases[i].journal_flags & O_DIRECTORY ? dir : at("j"),
					  cases[i].journal_flags),
				     &how, &file, &err);
		CU_ASSERT_EQUAL(ret, cases[i].ret);
		if (ret == 0)
			file->ops->close(file);
		CU_ASSERT_EQUAL(fds_open(), fds);
	}
	/* A pipe takes none. */
	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	CU_ASSERT_EQUAL(fm_caller_sink(ends[1], open(at("j"), O_RDWR), &how, &file, &err), 0);
	CU_ASSERT_PTR_NULL(file->ops->log);
	file->ops->close(file);
	close(ends[0]);
	CU_ASSERT_EQUAL(fds_open(), fds);
	end();
}

/* ----------------------------------------------------------------------------- lists and sweeps */

static void test_listed(void)
{
	struct fm_list_opts opts = { .after = "", .max = 10 };
	struct fm_entry entries[10];
	size_t count;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("d/whole", SIZE, 1, false), 0);
	interrupted_put("d/f", 2, true);
	interrupted_put("d/e", 1, false);
	interrupted_put("d/early", 0, false);
	CU_ASSERT_EQUAL(s->ops->partials(s, "d", &a_peer, &opts, entries, &count, &err), 0);
	CU_ASSERT_EQUAL_FATAL(count, 2);
	CU_ASSERT_STRING_EQUAL(entries[0].name, "e");
	CU_ASSERT_EQUAL(entries[0].attr.size, CHUNK);
	CU_ASSERT_STRING_EQUAL(entries[1].name, "f");
	CU_ASSERT_EQUAL(entries[1].attr.size, 2 * CHUNK);
	CU_ASSERT_EQUAL(entries[1].attr.type, FM_NODE_FILE);
	CU_ASSERT_EQUAL(entries[1].whole, SIZE);
	CU_ASSERT_TRUE(entries[1].attr.mtime_ns > INT64_C(1500000000) * NS_PER_S);
	opts.max = 1;
	CU_ASSERT_EQUAL(s->ops->partials(s, "d", &a_peer, &opts, entries, &count, &err), 0);
	CU_ASSERT_EQUAL(count, 1);
	opts.after = "e";
	CU_ASSERT_EQUAL(s->ops->partials(s, "d", &a_peer, &opts, entries, &count, &err), 0);
	CU_ASSERT_EQUAL(count, 1);
	CU_ASSERT_STRING_EQUAL(entries[0].name, "f");
	opts.after = "f";
	CU_ASSERT_EQUAL(s->ops->partials(s, "d", &a_peer, &opts, entries, &count, &err), 0);
	CU_ASSERT_EQUAL(count, 0);
	CU_ASSERT_EQUAL(s->ops->partials(s, "none", &a_peer, &opts, entries, &count, &err),
			-ENOENT);
	CU_ASSERT_EQUAL(s->ops->partials(s, "../d", &a_peer, &opts, entries, &count, &err), -EXDEV);
	end();
}

/* Goal: what nobody has gone on with for long enough goes, and nothing else. */
static void test_swept(void)
{
	static const char *const names[] = {".fmove.0123456789abcdef.part",
					    "d/.fmove.fedcba9876543210.journal", "d/.fmove.notes",
					    "d/file", "d/.fmove.0123456789abcdef.part.x"};
	unsigned fds;
	struct xfer x;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(mkdir(at("d"), 0755), 0);
	for (size_t i = 0; i < 5; i++)
		close(open(at(names[i]), O_CREAT | O_WRONLY, 0600));
	CU_ASSERT_EQUAL(put("victim", 10, 1, false), 0);
	CU_ASSERT_EQUAL(symlink("victim", at(".fmove.aaaaaaaaaaaaaaaa.part")), 0);
	CU_ASSERT_EQUAL(symlink("d", at("link")), 0);
	interrupted_put("f", 2, true);
	interrupted_put("d/f", 2, true);
	CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", true, &x), 0);
	fds = fds_open();
	sweep(UINT64_C(3600) * NS_PER_S);
	CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 4);
	CU_ASSERT_EQUAL(dir_count(at("d"), PARTIALS), 5);
	sweep(1);
	CU_ASSERT_EQUAL(fds_open(), fds);
	/* f is being gone on with; the link is not ours */
	CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 3);
	CU_ASSERT_EQUAL(dir_count(at("d"), PARTIALS), 2);
	CU_ASSERT_EQUAL(access(at("d/file"), F_OK), 0);
	CU_ASSERT_EQUAL(store_verify(&l, s, "victim", 10, 1), 0);
	CU_ASSERT_EQUAL(begin_sink(&x, 1), 0);
	CU_ASSERT_EQUAL(fm_ranges_bytes(&x.have.ranges), 2 * (uint64_t)CHUNK);
	end_sink(&x, x.file->ops->keep);
	sweep(1);
	CU_ASSERT_EQUAL(unlink(at(".fmove.aaaaaaaaaaaaaaaa.part")), 0);
	end();
}

/* Goal: a replaced version of which something is nowhere else stays as long as what is unfinished
 * does. */
static void test_swept_kept(void)
{
	static const enum fm_staging_kind kinds[] = { FM_STAGING_KEPT, FM_STAGING_OLD };
	char dirs[2][FM_STAGING_NAME_LEN + 1];

	begin(ON_DISK, false);
	for (size_t i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(mkdir(at("v"), 0755), 0);
		(void)snprintf(dirs[i], sizeof(dirs[i]), "%s", hold("v", kinds[i]));
	}
	usleep(50000);	/* times of files are those of the last tick */
	sweep(UINT64_C(3600) * NS_PER_S);
	CU_ASSERT_EQUAL(access(at(dirs[0]), F_OK), 0);
	CU_ASSERT_NOT_EQUAL(access(at(dirs[1]), F_OK), 0);
	sweep(1);
	CU_ASSERT_NOT_EQUAL(access(at(dirs[0]), F_OK), 0);
	end();
}

/* A pair of name `f` as a crash leaves it behind the exchange: an older version in place of the
 * file. */
static void leave_replaced(bool has_head)
{
	CU_ASSERT_EQUAL(put("older", 5 * (size_t)CHUNK, 1, false), 0);
	interrupted_put("f", 2, true);
	CU_ASSERT_EQUAL(rename(at("older"), partial_of(FM_PARTIAL_FILE)), 0);
	if (!has_head)
		CU_ASSERT_EQUAL(truncate(partial_of(FM_PARTIAL_JOURNAL), 0), 0);
}

/* As after a power cut: everything there is older than the running kernel. */
static void sweep_after_boot(void)
{
	fm_fault_arm("sweep.boot", 1);
	sweep(UINT64_C(3600) * NS_PER_S);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
}

/* Goal: what nobody could go on with goes when the machine is started again, however young; what
 * somebody can, or does, stays. */
static void test_swept_at_boot(void)
{
	struct xfer x;

	if (fm_test_lacks_faults())
		return;
	for (unsigned n = 0; n < 4; n++) {
		begin(bases[n / 2], false);
		leave_replaced(n % 2);
		sweep(UINT64_C(3600) * NS_PER_S);
		CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 2);	/* another machine's, perhaps */
		sweep_after_boot();
		CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 0);
		interrupted_put("f", 2, true);
		sweep_after_boot();
		CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 2);
		CU_ASSERT_EQUAL_FATAL(open_sink(s, "f", true, &x), 0);
		CU_ASSERT_EQUAL(truncate(partial_of(FM_PARTIAL_JOURNAL), 0), 0);
		sweep_after_boot();
		CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 2);
		end_sink(&x, x.file->ops->discard);
		CU_ASSERT_EQUAL(
			close(open(partial_of(FM_PARTIAL_JOURNAL), O_CREAT | O_WRONLY, 0600)), 0);
		sweep_after_boot();
		CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 0);
		end();
	}
}

/* Goal: what a stream left, nobody can go on with: it goes when the machine is started again, and
 * one under way stays. */
static void test_streams_swept_at_boot(void)
{
#ifdef FM_FAULTS
	struct fm_create how = { .size = FM_SIZE_UNKNOWN };
	struct fm_file *running;

	for (unsigned n = 0; n < 2; n++) {
		begin(bases[n], false);
		CU_ASSERT_EQUAL(
			close(open(at(".fmove.0123456789abcdef.part"), O_CREAT | O_WRONLY, 0600)),
			0);
		sweep(UINT64_C(3600) * NS_PER_S);
		CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 1);	/* another machine's, perhaps */
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "f", &root_user, &how, &running, &err), 0);
		CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 2);
		sweep_after_boot();
		CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 1);
		CU_ASSERT_EQUAL(access(at(".fmove.0123456789abcdef.part"), F_OK), -1);
		running->ops->discard(running);
		running->ops->close(running);
		CU_ASSERT_EQUAL(dir_count(dir, PARTIALS), 0);
		end();
	}
#else
	printf("SKIP: built without fault points\n");
#endif
}

enum found_new { NEW_UNFINISHED, NEW_REPLACED, NEW_MERGED, NEW_STRANGE, NEW_COUNT };

/* As a process left it that died: a .new with something in it, and the lock of its .tree. */
static void leave_new(enum found_new how)
{
	struct stat st;
	FILE *lock;

	CU_ASSERT_EQUAL(mkdir(at(".fmove.0123456789abcdef.tree"), 0700), 0);
	CU_ASSERT_EQUAL(mkdir(at(".fmove.0123456789abcdef.new"), 0700), 0);
	CU_ASSERT_EQUAL(mkdir(at(".fmove.0123456789abcdef.new/d"), 0700), 0);
	CU_ASSERT_EQUAL(stat(at(".fmove.0123456789abcdef.new"), &st), 0);
	lock = fopen(at(".fmove.0123456789abcdef.tree/lock"), "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(lock);
	fprintf(lock, "%016llx%c%016llx", (unsigned long long)st.st_ino + (how != NEW_UNFINISHED),
		how == NEW_MERGED ? 'm' : '-',
		(unsigned long long)st.st_ino + (how == NEW_STRANGE ? 2 : 0));
	CU_ASSERT_EQUAL(fclose(lock), 0);
	usleep(50000);	/* times of files are those of the last tick */
}

static bool has_new(void)
{
	return access(at(".fmove.0123456789abcdef.new/d"), F_OK) == 0;
}

/*
 * Goal: a .new that the lock file knows as the version that was replaced is put aside, and kept as
 * long as those, after a merge as long as what is unfinished; the new one goes with its .tree; what
 * the lock file does not know stays.
 */
static void test_swept_replaced_tree(void)
{
	for (enum found_new how = 0; how < NEW_COUNT; how++) {
		begin(ON_DISK, false);
		leave_new(how);
		sweep(UINT64_C(3600) * NS_PER_S);
		CU_ASSERT_EQUAL(has_new(), how == NEW_UNFINISHED || how == NEW_STRANGE);
		usleep(50000);
		sweep(UINT64_C(3600) * NS_PER_S);	/* replaced ones are not kept here */
		CU_ASSERT_EQUAL(dir_count(dir, ".fmove."), how == NEW_REPLACED ? 1 : 2);
		sweep(1);
		sweep(1);
		CU_ASSERT_EQUAL(has_new(), how == NEW_STRANGE);
		CU_ASSERT_EQUAL(dir_count(dir, ".fmove."), how == NEW_STRANGE ? 1 : 0);
		if (how == NEW_STRANGE)
			CU_ASSERT_TRUE(rmdir(at(".fmove.0123456789abcdef.new/d")) == 0 &&
				       rmdir(at(".fmove.0123456789abcdef.new")) == 0);
		end();
	}
}

/* Counts the names that are met in a walk through a directory that was replaced. */
static void count_met(void *ctx, const char *point)
{
	*(unsigned *)ctx += strcmp(point, "descent.readdir") == 0;
}

/* A directory of that name in which others may write, with something in it. */
static void leave_foreign(const char *name)
{
	char file[64];

	CU_ASSERT_EQUAL(mkdir(at(name), 0755), 0);
	CU_ASSERT_EQUAL(chmod(at(name), 0777), 0);
	for (unsigned i = 0; i < 100; i++) {
		(void)snprintf(file, sizeof(file), "%s/f%u", name, i);
		CU_ASSERT_EQUAL(close(open(at(file), O_CREAT | O_WRONLY, 0600)), 0);
	}
}

static const char *sought;

static int is_sought(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	return strcmp(path + where->base, sought) == 0;
}

/* Whether something of that name is anywhere in the store. */
static bool is_anywhere(const char *name)
{
	sought = name;
	return nftw(dir, is_sought, 50, FTW_PHYS) == 1;
}

#ifdef FM_FAULTS
static void remove_all_aside(void)
{
	DIR *d = opendir(dir);
	const struct dirent *entry;

	CU_ASSERT_PTR_NOT_NULL_FATAL(d);
	while ((entry = readdir(d)))
		if (strncmp(entry->d_name, PARTIALS, strlen(PARTIALS)) == 0)
			remove_all(at(entry->d_name));
	closedir(d);
}
#endif

/* Goal: who gives what must stay the name of what is old enough, while that is swept, gets nothing
 * removed by it. */
static void test_sweep_exchanged(void)
{
#ifdef FM_FAULTS
	char one[FM_STAGING_NAME_LEN + 1], two[FM_STAGING_NAME_LEN + 1];
	struct exchange x = { .one = one, .two = two };

	do {
		begin(IN_MEMORY, false);
		CU_ASSERT_TRUE(mkdir(at("v"), 0755) == 0 && mkdir(at("v/d"), 0755) == 0);
		(void)snprintf(one, sizeof(one), "%s", hold("v", FM_STAGING_OLD));
		CU_ASSERT_TRUE(mkdir(at("w"), 0755) == 0 &&
			       mkdir(at("w/.fmove.0123456789abcdef.kept"), 0755) == 0);
		(void)snprintf(two, sizeof(two), "%s", hold("w", FM_STAGING_OLD));
		usleep(20000);	/* times of files are those of the last tick */
		x.calls = 0;
		x.turn++;
		fm_fault_watch(exchange_at, &x);
		sweep(UINT64_C(3600) * NS_PER_S);
		fm_fault_watch(NULL, NULL);
		CU_ASSERT_TRUE(is_anywhere(".fmove.0123456789abcdef.kept"));
		remove_all_aside();
		end();
	} while (x.calls >= x.turn && x.turn < 300);
	CU_ASSERT_TRUE(x.turn > 10 && x.turn < 300);
#else
	printf("SKIP: built without fault points\n");
#endif
}

/* Goal: what was kept for what is nowhere else is that, whatever name it has by now: no sweep takes
 * it before its time. */
static void test_kept_renamed(void)
{
	static const char old[] = ".fmove.0123456789abcdef.old";

	begin(IN_MEMORY, false);
	CU_ASSERT_TRUE(mkdir(at("v"), 0755) == 0 && mkdir(at("v/d"), 0755) == 0);
	CU_ASSERT_EQUAL(rename(at(hold("v", FM_STAGING_KEPT)), at(old)), 0);
	usleep(20000);	/* times of files are those of the last tick */
	sweep(UINT64_C(3600) * NS_PER_S);
	CU_ASSERT_TRUE(is_anywhere("v"));
	sweep(1);
	CU_ASSERT_FALSE(is_anywhere("v"));
	CU_ASSERT_EQUAL(dir_count(dir, ".fmove."), 0);
	end();
}

/* Goal: a sweep does not walk through what has the name of a replaced version and is none, and
 * leaves it. */
static void test_foreign_not_walked(void)
{
#ifdef FM_FAULTS
	static const char *const names[] = {".fmove.0123456789abcdef.old",
					    ".fmove.0123456789abcdef.kept"};
	unsigned met = 0;

	begin(ON_DISK, false);
	for (unsigned i = 0; i < 2; i++)
		leave_foreign(names[i]);
	usleep(50000);	/* times of files are those of the last tick */
	fm_log_set_level(FM_LOG_ERROR);		/* it is told of */
	fm_fault_watch(count_met, &met);
	sweep(1);
	fm_fault_watch(NULL, NULL);
	fm_log_set_level(FM_LOG_WARN);
	CU_ASSERT_EQUAL(met, 0);
	for (unsigned i = 0; i < 2; i++)
		CU_ASSERT_EQUAL(rename(at(names[i]), at(i ? "old" : "kept")), 0);
	end();
#else
	printf("SKIP: built without fault points\n");
#endif
}

/* Goal: a sweep whose time is over before it has seen all makes the next one longer, and the one
 * that sees all takes what the first did not come to. */
static void test_sweep_cut(void)
{
#ifdef FM_FAULTS
	struct fm_store_opts opts = {.name = "s",
				     .directory = dir,
				     .read = everybody,
				     .write = everybody,
				     .partial_keep_ns = 1};
	static const atomic_bool not_over;
	const struct fm_store_dir *sd;
	struct fm_store *store;
	uint64_t first_ns;

	begin(ON_DISK, false);
	interrupted_put("f", 2, true);
	usleep(50000);	/* times of files are those of the last tick */
	CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &store, &err), 0);
	sd = fm_container_of(store, struct fm_store_dir, store);
	CU_ASSERT_EQUAL_FATAL(mkdir(at("only"), 0700), 0);
	fm_fault_arm("sweep.time", 1);
	store->ops->sweep(store, &not_over);
	first_ns = sd->sweep_ns;
	fm_fault_arm("sweep.time", 1);
	store->ops->sweep(store, &not_over);
	CU_ASSERT_TRUE(first_ns > 60 * NS_PER_S && sd->sweep_ns == 2 * first_ns);
	fm_fault_arm(NULL, 0);
	store->ops->sweep(store, &not_over);
	CU_ASSERT_EQUAL(sd->sweep_ns, 2 * first_ns);
	CU_ASSERT_EQUAL(dir_count(dir, ".fmove."), 0);
	CU_ASSERT_EQUAL(rmdir(at("only")), 0);
	store->ops->free(store);
	end();
#else
	printf("SKIP: built without fault points\n");
#endif
}

/* The second directory cannot be read, and the time is over right behind that. */
static void fail_late(void *ctx, const char *point)
{
	unsigned *reads = ctx;

	if (strcmp(point, "store.readdir") == 0 && ++*reads == 2)
		fm_fault_arm(point, 1);
	else if (strcmp(point, "sweep.time") == 0 && *reads == 2)
		fm_fault_arm(point, 1);
}

/* Goal: directories that take their time to fail are no reason for a sweep to go on beyond its. */
static void test_sweep_cut_by_failures(void)
{
	static const atomic_bool not_over;
	unsigned reads = 0;

	if (fm_test_lacks_faults())
		return;
	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(mkdir(at("only"), 0700), 0);
	fm_fault_watch(fail_late, &reads);
	s->ops->sweep(s, &not_over);
	fm_fault_watch(NULL, NULL);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(reads, 2);
	CU_ASSERT_EQUAL(fm_container_of(s, struct fm_store_dir, store)->sweep_ns,
			120 * NS_PER_S);
	CU_ASSERT_EQUAL(rmdir(at("only")), 0);
	end();
}

/* -------------------------------------------------------------------------------- every failure */

static int step_first(void)
{
	struct xfer x;
	int ret = open_sink(s, "f", true, &x);

	if (ret < 0)
		return ret;
	ret = begin_sink(&x, 1);
	if (ret == 0)
		ret = write_chunks(&l, x.file, 0, 1, SALT, true);
	if (ret == 0)
		ret = write_chunks(&l, x.file, 1, 2, SALT, true);
	end_sink(&x, x.file->ops->keep);
	return ret;
}

static int step_second(int version)
{
	struct xfer x;
	int ret = open_sink(s, "f", true, &x);

	if (ret < 0)
		return ret;
	ret = begin_sink(&x, version);
	/* Trust what it says is there, as the engine does. */
	for (unsigned i = 0; i < 5 && ret == 0; i++)
		if (!fm_ranges_cover(&x.have.ranges, i * (uint64_t)CHUNK, i < 4 ? CHUNK : 13))
			ret = write_chunks(&l, x.file, i, i + 1, version == 1 ? SALT : SALT + 1,
					   true);
	if (ret == 0)
		ret = x.file->ops->publish(x.file, SIZE, &written, true, &err);
	end_sink(&x, ret == 0		 ? NULL
		     : x.file->ops->keep ? x.file->ops->keep
					 : x.file->ops->discard);
	return ret;
}

static int step_caller(void)
{
	int fd, journal, ret;
	struct xfer x;

	ret = caller_open(&x, &fd, &journal);
	close(fd);
	close(journal);
	if (ret < 0)
		return ret;
	ret = begin_sink(&x, 1);
	for (unsigned i = 0; i < 5 && ret == 0; i++)
		if (!fm_ranges_cover(&x.have.ranges, i * (uint64_t)CHUNK, i < 4 ? CHUNK : 13))
			ret = write_chunks(&l, x.file, i, i + 1, SALT, i < 2);
	if (ret == 0)
		ret = x.file->ops->publish(x.file, SIZE, &written, true, &err);
	end_sink(&x, ret == 0 ? NULL : x.file->ops->keep);
	return ret;
}

static int run_step(int which)
{
	switch (which) {
	case 0:
		return step_first();
	case 1:
		return step_second(1);
	case 2:
		return step_second(2);
	default:
		return step_caller();
	}
}

/*
 * Goal: whatever call fails, no descriptor is left open, and the next tries complete with the right
 * content: nothing is believed to be there that is not. Method: the n-th fault point fails, n = 1,
 * 2, 3 ... in one step, the steps after it succeed.
 */
static void test_each_failure(void)
{
	if (fm_test_lacks_faults())
		return;
	fm_log_set_level(FM_LOG_ERROR);
	for (int which = 0; which < 4; which++) {
		bool has_fired = true;
		unsigned n, fds;
		int ret;

		for (n = 1; has_fired && n < POINTS_MAX; n++) {
			begin(bases[n % BASES], true);
			if (which == 1 || which == 2)
				CU_ASSERT_EQUAL(step_first(), 0);
			fds = fds_open();
			fm_err_clear(&err);
			fm_fault_arm(NULL, n);
			ret = run_step(which);
			has_fired = fm_fault_fired();
			fm_fault_arm(NULL, 0);
			CU_ASSERT_TRUE(ret == 0 || (has_fired && err.code));
			CU_ASSERT_EQUAL(fds_open(), fds);
			/* A caller whose get is done renames its file. */
			CU_ASSERT_TRUE((which == 3 && ret == 0) || run_step(which) == 0);
			if (which == 0)
				CU_ASSERT_EQUAL(step_second(1), 0);
			CU_ASSERT_EQUAL(store_verify(&l, s, which < 3 ? "f" : "c", SIZE,
						     which == 2 ? SALT + 1 : SALT),
					0);
			sweep(1);
			end();
		}
		CU_ASSERT_TRUE(n > 15 && n < POINTS_MAX);
	}
	fm_log_set_level(FM_LOG_INFO);
}

/*
 * Goal: a sweep that cannot look, or put something aside, leaves what it does not know so that a
 * later one does; it never makes somebody else's of what was replaced.
 */
static void test_swept_while_it_fails(void)
{
	bool has_fired = true;
	unsigned n;

	if (fm_test_lacks_faults())
		return;
	for (n = 1; has_fired && n < 400; n++) {
		begin(ON_DISK, false);
		leave_new(NEW_REPLACED);
		has_fired = sweep_failing(1, n);
		for (unsigned i = 0; i < 3; i++)
			sweep(1);
		CU_ASSERT_EQUAL(dir_count(dir, ".fmove."), 0);
		end();
	}
	CU_ASSERT_TRUE(!has_fired && n > 10);
}

static const struct fm_test tests[] = {
	{ "what was logged before a kill is there", test_killed },
	{ "what was not logged is sent again", test_killed_early },
	{ "many tries go on with each other", test_many_tries },
	{ "what is there is read again from the disk", test_reread },
	{ "after a failed sync nothing counts", test_failed_sync },
	{ "what cannot be trusted is dropped", test_of_no_use },
	{ "a source that nothing tells from others begins afresh", test_unknown_source },
	{ "each end leaves what it should", test_ends },
	{ "what was given away is not gone on with", test_given_away },
	{ "what is prepared lacks only its name", test_prepare },
	{ "a target that appears fails only the end", test_target_appears },
	{ "two at once do not meet", test_two_at_once },
	{ "many at once end as they like", test_race },
	{ "what is not worth it is not kept", test_not_worth_it },
	{ "a size that is told late is no obstacle", test_unknown_size },
	{ "the digest is kept with the file", test_digest },
	{ "what is kept counts against the quota, once", test_quota },
	{ "a caller's file goes on", test_caller },
	{ "what a caller passes is looked at", test_caller_refused },
	{ "unfinished transfers are listed", test_listed },
	{ "what is left for too long is swept", test_swept },
	{ "a version that has what is nowhere else is kept longer", test_swept_kept },
	{ "what a power cut leaves is swept at the next start", test_swept_at_boot },
	{ "what a stream left is swept when the machine starts", test_streams_swept_at_boot },
	{ "a tree that was replaced is swept as such", test_swept_replaced_tree },
	{ "and is put aside by a later sweep if one fails", test_swept_while_it_fails },
	{ "what only has such a name is not walked through", test_foreign_not_walked },
	{ "one that does not come to the end makes the next one longer", test_sweep_cut },
	{"nor do directories that fail keep it beyond its time", test_sweep_cut_by_failures},
	{ "what must stay does not go under the name of what is old", test_sweep_exchanged },
	{ "what is nowhere else is kept for its time, whatever its name", test_kept_renamed },
	{ "whatever fails, the next try is right", test_each_failure },
};
FM_TEST_MAIN("store resume", tests)
