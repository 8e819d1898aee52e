/* SPDX-License-Identifier: MIT */
/*
 * Directory stores: of what a link led to by turns the last ones stay. links: fm_store
 */
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "mover/base/fault.h"
#include "mover/store/rotation_record.h"
#include "mover/store/store_dir.h"
#include "tests/unit/store_scene.h"

static struct fm_entry gone[FM_ROTATED_MAX];
static size_t gone_count;

/* As a put with --latest l --keep-last keep ends, of what has that name already. */
static int rotate(const char *name, uint32_t keep)
{
	fm_err_clear(&err);
	CU_ASSERT_EQUAL(s->ops->link(s, "l", name, &a_peer, true, &err), 0);
	return s->ops->rotate(s, "l", name, &a_peer, keep, gone, &gone_count, &err);
}

static void make_tree(const char *name)
{
	char path[64];

	CU_ASSERT_EQUAL(s->ops->mkdir(s, name, &a_peer, &err), 0);
	(void)snprintf(path, sizeof(path), "%s/f", name);
	CU_ASSERT_EQUAL(put(path, 1000, 1, false), 0);
}

/* Trees t0 .. tn-1, published one after the other, of which the last `keep` stay. */
static void publish(unsigned count, uint32_t keep)
{
	char name[16];

	for (unsigned i = 0; i < count; i++) {
		(void)snprintf(name, sizeof(name), "t%u", i);
		make_tree(name);
		CU_ASSERT_EQUAL(rotate(name, keep), 0);
	}
}

static bool is_whole(const char *name)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "%s/f", name);
	return store_verify(&l, s, path, 1000, 1) == 0;
}

static bool is_there(const char *name)
{
	return access(at(name), F_OK) == 0;
}

/* The record stays as long as the directory does. */
static void end_with_record(void)
{
	glob_t found;

	CU_ASSERT_EQUAL(glob(at(".fmove.*.rotation"), 0, NULL, &found), 0);
	CU_ASSERT_EQUAL(found.gl_pathc, 1);
	CU_ASSERT_EQUAL(unlink(found.gl_pathv[0]), 0);
	globfree(&found);
	end();
}

static void test_last_ones_stay(void)
{
	for (size_t i = 0; i < BASES; i++) {
		begin(bases[i], false);
		make_tree("foreign");
		publish(4, 2);
		CU_ASSERT_EQUAL(gone_count, 1);
		CU_ASSERT_STRING_EQUAL(gone[0].name, "t1");
		CU_ASSERT_EQUAL(gone[0].attr.type, FM_NODE_DIR);
		CU_ASSERT_FALSE(is_there("t0") || is_there("t1"));
		CU_ASSERT_TRUE(is_whole("t2") && is_whole("t3") && is_whole("foreign"));
		CU_ASSERT_EQUAL(rotate("t2", 1), 0);	/* the youngest again */
		CU_ASSERT_TRUE(is_whole("t2") && !is_there("t3"));
		end_with_record();
	}
}

static int sync_error;		/* of every fsync, or 0 */
static ino_t synced_file;	/* the last one under no record's name */

static bool is_named_record(ino_t ino)
{
	struct stat st;
	glob_t found;
	bool is = glob(at(".fmove.*.rotation"), 0, NULL, &found) == 0 &&
		  stat(found.gl_pathv[0], &st) == 0 && st.st_ino == ino;

	globfree(&found);
	return is;
}

int fsync(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && !is_named_record(st.st_ino))
		synced_file = st.st_ino;
	if (sync_error == 0)
		return (int)syscall(SYS_fsync, fd);
	errno = sync_error;
	return -1;
}

/*
 * Goal: nothing goes before the link that led to it is on the disk, in any store, nor for the room
 *       that a disk lacks for that.
 */
static void test_link_is_on_disk(void)
{
	begin(ON_DISK, false);
	s->is_durable = false;
	publish(2, 2);
	make_tree("t2");
	fm_fault_arm("tree.fsync", 1);
	CU_ASSERT_EQUAL(rotate("t2", 2), -EIO);
	CU_ASSERT_TRUE(fm_fault_fired());
	CU_ASSERT_TRUE(is_whole("t0") && is_whole("t1") && is_whole("t2"));
	fm_fault_arm(NULL, 0);
	sync_error = ENOSPC;
	CU_ASSERT_EQUAL(rotate("t2", 2), -ENOSPC);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "sync the directory of the link \"l\""));
	CU_ASSERT_TRUE(is_whole("t0") && is_whole("t1") && is_whole("t2"));
	sync_error = 0;
	CU_ASSERT_EQUAL(rotate("t2", 2), 0);
	CU_ASSERT_TRUE(!is_there("t0") && is_whole("t1") && is_whole("t2"));
	end_with_record();
}

/* Where the one record is. */
static void find_record(char path[static PATH_MAX])
{
	glob_t found;

	CU_ASSERT_EQUAL_FATAL(glob(at(".fmove.*.rotation"), 0, NULL, &found), 0);
	CU_ASSERT_EQUAL(found.gl_pathc, 1);
	(void)snprintf(path, PATH_MAX, "%s", found.gl_pathv[0]);
	globfree(&found);
}

/*
 * Goal: a power cut leaves the old record or the new one, also where what was published need not be
 *       on the disk: without a record, what it named stays for good.
 */
static void test_record_is_on_disk(void)
{
	for (unsigned is_durable = 0; is_durable < 2; is_durable++) {
		char path[PATH_MAX];
		struct stat st;

		begin(ON_DISK, false);
		s->is_durable = is_durable;
		synced_file = 0;
		publish(1, 1);
		find_record(path);
		CU_ASSERT_EQUAL(stat(path, &st), 0);
		CU_ASSERT_EQUAL(synced_file, st.st_ino);
		end_with_record();
	}
}

/* What is written to standard error while a rotation leads to t2. */
static void rotate_heard(char *heard, size_t len)
{
	int saved = dup(STDERR_FILENO), ends[2];
	ssize_t got;

	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	CU_ASSERT_TRUE(dup2(ends[1], STDERR_FILENO) >= 0);
	CU_ASSERT_EQUAL(close(ends[1]), 0);
	CU_ASSERT_EQUAL(rotate("t2", 1), 0);
	CU_ASSERT_TRUE(dup2(saved, STDERR_FILENO) >= 0);
	CU_ASSERT_EQUAL(close(saved), 0);
	got = read(ends[0], heard, len - 1);
	heard[got > 0 ? got : 0] = '\0';
	CU_ASSERT_EQUAL(close(ends[0]), 0);
}

/* Goal: a record that a power cut emptied, or left full of zeros, is told of, and begun anew. */
static void test_record_is_lost(void)
{
	for (unsigned i = 0; i < 2; i++) {
		char path[PATH_MAX], heard[1000];

		begin(ON_DISK, false);
		publish(2, 2);
		find_record(path);
		CU_ASSERT_EQUAL(truncate(path, 0), 0);
		CU_ASSERT_EQUAL(truncate(path, i ? 100 : 0), 0);
		make_tree("t2");
		rotate_heard(heard, sizeof(heard));
		CU_ASSERT_PTR_NOT_NULL(strstr(heard, "what \"l\" led to with --keep-last is not"));
		CU_ASSERT_TRUE(is_whole("t0") && is_whole("t1"));
		make_tree("t3");
		CU_ASSERT_EQUAL(rotate("t3", 1), 0);
		CU_ASSERT_TRUE(!is_there("t2") && is_whole("t3"));
		end_with_record();
	}
}

/* Fails each point that the text says, one blank behind the other. */
static void fail_always(void *ctx, const char *point)
{
	if (strstr(ctx, point))
		fm_fault_arm(point, 1);
}

/*
 * Goal: where no time of birth is told, an inode's number that was given again does not make
 * somebody's own directory one that was published. Not every file system gives one so soon.
 */
static void test_no_birth(void)
{
	bool is_again = false;
	struct stat was, now;

	begin(ON_DISK, false);
	fm_fault_watch(fail_always, (char[]){"store.born"});
	publish(3, 2);
	CU_ASSERT_TRUE(!is_there("t0") && is_whole("t1") && is_whole("t2"));
	CU_ASSERT_EQUAL(stat(at("t1"), &was), 0);
	CU_ASSERT_EQUAL(unlink(at("t1/f")), 0);
	for (unsigned i = 0; i < 64 && !is_again; i++) {
		CU_ASSERT_EQUAL(rmdir(at("t1")), 0);
		CU_ASSERT_EQUAL(mkdir(at("t1"), 0700), 0);
		CU_ASSERT_EQUAL(stat(at("t1"), &now), 0);
		is_again = now.st_ino == was.st_ino;
	}
	CU_ASSERT_EQUAL(put("t1/f", 1000, 1, false), 0);
	make_tree("t3");
	CU_ASSERT_EQUAL(rotate("t3", 1), 0);
	CU_ASSERT_EQUAL(gone_count, 1);
	CU_ASSERT_TRUE(is_whole("t1") && !is_there("t2") && is_whole("t3"));
	fm_fault_watch(fail_always, (char[]){"store.born store.handle"});
	make_tree("t4");
	CU_ASSERT_EQUAL(rotate("t4", 1), -EOPNOTSUPP);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "nothing is removed"));
	CU_ASSERT_TRUE(is_whole("t3") && is_whole("t4"));
	/* Now it is told when they were made. */
	fm_fault_watch(NULL, NULL);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(rotate("t4", 1), 0);
	CU_ASSERT_TRUE(gone_count == 0 && is_whole("t1") && is_whole("t3") && is_whole("t4"));
	end_with_record();
}

/* Inode and birth are those of what was published, else it is somebody's. */
static void test_what_has_the_name_now(void)
{
	begin(ON_DISK, false);
	publish(2, 2);
	CU_ASSERT_EQUAL(rename(at("t0"), at("mine")), 0);
	make_tree("t0");
	CU_ASSERT_EQUAL(rename(at("t1"), at("t9")), 0);
	make_tree("t2");
	CU_ASSERT_EQUAL(rotate("t2", 1), 0);
	CU_ASSERT_EQUAL(gone_count, 0);
	CU_ASSERT_TRUE(is_whole("mine") && is_whole("t0") && is_whole("t9"));
	CU_ASSERT_EQUAL(s->ops->rotate(s, "l", "none", &a_peer, 1, gone, &gone_count, &err),
			-ENOENT);
	CU_ASSERT_EQUAL(s->ops->rotate(s, "l", "t2/f", &a_peer, 1, gone, &gone_count, &err),
			-EINVAL);
	CU_ASSERT_EQUAL(s->ops->rotate(s, "l", ".fmove.x", &a_peer, 1, gone, &gone_count, &err),
			-EINVAL);
	end_with_record();
}

/* Another one gets the name at the last look: that one stays. */
static void replace_at_look(void *ctx, const char *point)
{
	unsigned *looks = ctx;

	if (strcmp(point, "store.lease") == 0 && --*looks == 0)
		CU_ASSERT_EQUAL(rename(at("other"), at("t0")), 0);
}

static void test_replaced_at_last(void)
{
	unsigned looks = 1;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("t0", 1000, 1, false), 0);
	CU_ASSERT_EQUAL(rotate("t0", 1), 0);
	CU_ASSERT_EQUAL(put("other", 2000, 2, false), 0);
	CU_ASSERT_EQUAL(put("t1", 1000, 1, false), 0);
	fm_fault_watch(replace_at_look, &looks);
	CU_ASSERT_EQUAL(rotate("t1", 1), -EBUSY);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_EQUAL(looks, 0);
	CU_ASSERT_EQUAL(gone_count, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "another one got its name"));
	CU_ASSERT_EQUAL(store_verify(&l, s, "t0", 2000, 2), 0);
	CU_ASSERT_EQUAL(rotate("t1", 1), 0);
	CU_ASSERT_EQUAL(store_verify(&l, s, "t0", 2000, 2), 0);
	end_with_record();
}

/* However a link says it, and from wherever: that one stays. */
static void test_links_beside(void)
{
	static const char *const texts[] = {
		"t0/f", "./t0", "../x/t0", "/elsewhere/t0/", "../../other/s/t0/f"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		begin(ON_DISK, false);
		publish(1, 1);
		CU_ASSERT_EQUAL(symlink(texts[i], at("best")), 0);
		make_tree("t1");
		CU_ASSERT_EQUAL(rotate("t1", 1), -EBUSY);
		CU_ASSERT_TRUE(is_whole("t0"));
		CU_ASSERT_EQUAL(unlink(at("best")), 0);
		CU_ASSERT_EQUAL(symlink("/elsewhere/t00", at("best")), 0);
		CU_ASSERT_EQUAL(rotate("t1", 1), 0);
		CU_ASSERT_FALSE(is_there("t0"));
		end_with_record();
	}
}

/* Another rule goes on meanwhile, and somebody has removed one: that one does not count. */
static void rotate_beside(void *ctx, const char *point)
{
	unsigned *looks = ctx;

	if (strcmp(point, "store.lease") != 0 || *looks == 0 || --*looks != 0)
		return;
	CU_ASSERT_EQUAL(rename(at("t1"), at("away")), 0);
	CU_ASSERT_EQUAL(rotate("t2", 2), 0);
}

static void test_last_ones_are_there(void)
{
	unsigned looks = 1;

	begin(ON_DISK, false);
	publish(2, 2);
	make_tree("t2");
	CU_ASSERT_EQUAL(s->ops->mkdir(s, "d", &a_peer, &err), 0);
	for (unsigned i = 0; i < 2; i++) {
		make_tree(i == 0 ? "d/a" : "d/b");
		if (i > 0)
			fm_fault_watch(rotate_beside, &looks);
		CU_ASSERT_EQUAL(s->ops->rotate(s, "d/l", i == 0 ? "a" : "b", &a_peer, 1, gone,
					       &gone_count, &err),
				0);
	}
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_EQUAL(looks, 0);
	CU_ASSERT_TRUE(is_whole("t0") && is_whole("t2") && is_whole("away"));
	end_with_record();
}

/* What others could have written says nothing. */
static void test_record_of_others(void)
{
	glob_t found;

	begin(ON_DISK, false);
	publish(2, 2);
	CU_ASSERT_EQUAL_FATAL(glob(at(".fmove.*.rotation"), 0, NULL, &found), 0);
	CU_ASSERT_EQUAL(chmod(found.gl_pathv[0], 0666), 0);
	make_tree("t2");
	CU_ASSERT_EQUAL(rotate("t2", 1), 0);
	CU_ASSERT_TRUE(is_whole("t0") && is_whole("t1"));
	CU_ASSERT_EQUAL(rename(found.gl_pathv[0], at("record")), 0);
	CU_ASSERT_EQUAL(symlink("record", found.gl_pathv[0]), 0);
	make_tree("t3");
	CU_ASSERT_EQUAL(rotate("t3", 1), 0);
	CU_ASSERT_TRUE(is_whole("t2"));
	/* The record of another link, under this one's name. */
	CU_ASSERT_EQUAL(s->ops->link(s, "m", "t2", &a_peer, true, &err), 0);
	CU_ASSERT_EQUAL(s->ops->rotate(s, "m", "t2", &a_peer, 1, gone, &gone_count, &err), 0);
	for (size_t i = 0; i < 2; i++) {
		glob_t all;

		CU_ASSERT_EQUAL(glob(at(".fmove.*.rotation"), 0, NULL, &all), 0);
		if (i == 0 && all.gl_pathc == 2)
			CU_ASSERT_EQUAL(rename(strcmp(all.gl_pathv[0], found.gl_pathv[0]) == 0
						       ? all.gl_pathv[1]
						       : all.gl_pathv[0],
					       found.gl_pathv[0]),
					0);
		globfree(&all);
	}
	CU_ASSERT_EQUAL(unlink(at("m")), 0);
	make_tree("t4");
	CU_ASSERT_EQUAL(rotate("t4", 1), 0);
	CU_ASSERT_TRUE(is_whole("t2") && is_whole("t3"));
	globfree(&found);
	end_with_record();
}

/* ---- who reads ---- */

static int reader = -1;

/* Somebody who found the file before its directory went away opens it at that look. */
static void open_at_look(void *ctx, const char *point)
{
	unsigned *looks = ctx;
	glob_t found;

	if (strcmp(point, "store.lease") != 0 || --*looks != 0)
		return;
	if (glob(at(".fmove.*.old/t0/f"), 0, NULL, &found) == 0)
		reader = open(found.gl_pathv[0], O_RDONLY);
	else
		reader = open(at("t0/f"), O_RDONLY);
	globfree(&found);
}

static void check_reader(unsigned look)
{
	begin(ON_DISK, false);
	publish(1, 1);
	CU_ASSERT_EQUAL(chmod(at("t0"), 0500), 0);
	make_tree("t1");
	fm_fault_watch(open_at_look, &look);
	CU_ASSERT_EQUAL(rotate("t1", 1), -EBUSY);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_EQUAL(look, 0);
	CU_ASSERT_TRUE(reader >= 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "\"t0\" stays: a file of it is open"));
	CU_ASSERT_TRUE(is_whole("t0"));
	CU_ASSERT_EQUAL(close(reader), 0);
	CU_ASSERT_EQUAL(rotate("t1", 1), 0);
	CU_ASSERT_EQUAL(gone_count, 1);
	CU_ASSERT_FALSE(is_there("t0"));
	end_with_record();
}

static void test_readers(void)
{
	check_reader(1);
	check_reader(2);	/* when it was away */
}

/* A tree is read as a whole, or a part of it: it is held also while none of its files is open. */
static void check_tree_reader(const char *path)
{
	struct fm_file *file;
	struct fm_attr attr;

	begin(ON_DISK, false);
	publish(1, 1);
	CU_ASSERT_EQUAL(s->ops->mkdir(s, "t0/d", &a_peer, &err), 0);
	make_tree("t1");
	CU_ASSERT_EQUAL_FATAL(s->ops->open_tree(s, path, &a_peer, NULL, &file, &attr, &err), 0);
	CU_ASSERT_EQUAL(rotate("t1", 1), -EBUSY);
	CU_ASSERT_TRUE(is_whole("t0"));
	file->ops->close(file);
	CU_ASSERT_EQUAL(rotate("t1", 1), 0);
	CU_ASSERT_FALSE(is_there("t0"));
	end_with_record();
}

static void test_tree_readers(void)
{
	check_tree_reader("t0");
	check_tree_reader("t0/d");
}

/* Where there are no leases, or no locks, it waits aside, as a replaced tree does. */
static void check_not_told(const char *point)
{
	struct fm_store_space space;

	for (unsigned look = 1; look <= 2; look++) {
		begin(ON_DISK, false);
		publish(1, 1);
		make_tree("t1");
		fm_fault_arm(point, look);
		CU_ASSERT_EQUAL(rotate("t1", 1), 0);
		CU_ASSERT_TRUE(fm_fault_fired());
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(gone_count, 1);
		CU_ASSERT_FALSE(is_there("t0"));
		/* a look that says nothing is not the last one */
		CU_ASSERT_EQUAL(dir_count(dir, ".fmove."), look == 1 ? 1 : 2);
		CU_ASSERT_EQUAL(s->ops->space(s, &a_peer, &space, &err), 0);
		CU_ASSERT_EQUAL(space.trees, look - 1);
		s->ops->free(s);
		dir_remove(dir);
		lane_close(&l);
	}
}

static void test_not_told(void)
{
	check_not_told("store.lease");
	check_not_told("store.flock");
}

/* What is below is looked at all the same. */
static void test_used_below(void)
{
	int fd;

	begin(ON_DISK, false);
	publish(1, 1);
	make_tree("t1");
	fd = open(at("t0/f"), O_RDONLY);
	CU_ASSERT_TRUE(fd >= 0);
	fm_fault_arm("store.flock", 1);
	CU_ASSERT_EQUAL(rotate("t1", 1), -EBUSY);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(is_whole("t0"));
	CU_ASSERT_EQUAL(close(fd), 0);
	CU_ASSERT_EQUAL(rotate("t1", 1), 0);
	end_with_record();
}

/* ---- what fails ---- */

/* No record can be written before something went. */
static void test_full_disk(void)
{
	begin(ON_DISK, false);
	publish(2, 2);
	make_tree("t2");
	CU_ASSERT_EQUAL(s->ops->link(s, "l", "t2", &a_peer, true, &err), 0);
	fm_fault_arm("store.mkdir", 1);
	CU_ASSERT_EQUAL(s->ops->rotate(s, "l", "t2", &a_peer, 1, gone, &gone_count, &err), 0);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(gone_count, 2);
	make_tree("t3");
	CU_ASSERT_EQUAL(rotate("t3", 1), 0);
	CU_ASSERT_FALSE(is_there("t2"));
	end_with_record();
}

/* Whatever fails, what has a name is whole, and the next rotation does what this one left. */
static void test_each_failure(void)
{
	bool has_fired = true;

	for (unsigned n = 1; has_fired; n++) {
		begin(IN_MEMORY, false);
		make_tree("foreign");
		publish(3, 3);
		make_tree("t3");
		CU_ASSERT_EQUAL(s->ops->link(s, "l", "t3", &a_peer, true, &err), 0);
		fm_fault_arm(NULL, n);
		(void)s->ops->rotate(s, "l", "t3", &a_peer, 2, gone, &gone_count, &err);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		for (unsigned i = 0; i < 2; i++) {
			const char *name = i == 0 ? "t0" : "t1";

			CU_ASSERT_TRUE(!is_there(name) || is_whole(name));
		}
		CU_ASSERT_TRUE(is_whole("t2") && is_whole("t3") && is_whole("foreign"));
		CU_ASSERT_EQUAL(rotate("t3", 2), 0);
		CU_ASSERT_FALSE(is_there("t0") || is_there("t1"));
		CU_ASSERT_TRUE(is_whole("t2") && is_whole("t3") && is_whole("foreign"));
		s->ops->free(s);
		dir_remove(dir);
		lane_close(&l);
	}
}

/* ---- the record ---- */

static void test_record_is_bounded(void)
{
	static struct fm_rotation_record r, again;
	static char text[FM_ROTATION_RECORD_MAX];
	struct fm_rotation_entry e = {.ino = UINT64_MAX, .origin = UINT64_MAX};

	memset(r.link, 'l', FM_NAME_LEN_MAX);
	for (unsigned i = 0; i < FM_ROTATION_ENTRIES_MAX + 5; i++) {
		memset(e.name, 'n', FM_NAME_LEN_MAX);
		e.name[snprintf(e.name, sizeof(e.name), "%u", i)] = '-';
		fm_rotation_record_add(&r, &e);
	}
	CU_ASSERT_EQUAL(r.count, FM_ROTATION_ENTRIES_MAX);
	CU_ASSERT_EQUAL(strncmp(r.entry[0].name, "5-", 2), 0);
	CU_ASSERT_EQUAL(fm_rotation_record_parse(text, fm_rotation_record_print(&r, text), &again),
			0);
	CU_ASSERT_EQUAL(again.count, r.count);
	CU_ASSERT_EQUAL(memcmp(&again.entry[7], &r.entry[7], sizeof(e)), 0);
	fm_rotation_record_add(&r, &again.entry[7]);
	CU_ASSERT_EQUAL(r.count, FM_ROTATION_ENTRIES_MAX);
	CU_ASSERT_STRING_EQUAL(r.entry[r.count - 1].name, again.entry[7].name);
}

/* ---- races ---- */

#define RACERS 4u
#define EACH   12u		/* trees of a racer */

struct racer {
	pthread_t thread;
	unsigned number;
};

/* Publishes its trees by a rule that it shares with another one. Some have been removed by then. */
static void *race_to_rotate(void *arg)
{
	const struct racer *r = arg;
	const char *link = r->number % 2 ? "l" : "k";
	struct fm_entry *went = calloc(FM_ROTATED_MAX, sizeof(*went));
	struct fm_err why;
	char name[16];
	size_t count;

	for (unsigned i = 0; i < EACH; i++) {
		(void)snprintf(name, sizeof(name), "t%u-%u", r->number, i);
		if (s->ops->link(s, link, name, &a_peer, true, &why) == 0)
			(void)s->ops->rotate(s, link, name, &a_peer, 2, went, &count, &why);
	}
	free(went);
	return NULL;
}

/* Removes each third tree; groups that have a name beside them come and go. */
static void *race_to_remove(void *arg)
{
	const struct fm_group_ask begin = {.op = FM_GROUP_BEGIN, .id = {1}, .members = 1};
	const struct fm_group_ask discard = {.op = FM_GROUP_DISCARD, .id = {1}};
	struct fm_err why;
	char name[16];

	(void)arg;
	for (unsigned i = 0; i < RACERS * EACH; i++) {
		(void)snprintf(name, sizeof(name), "t%u-%u", i % RACERS, i / RACERS);
		if (i % 3 == 0)
			(void)s->ops->remove(s, name, &a_peer, true, &why);
		CU_ASSERT_EQUAL(s->ops->group(s, "g", &a_peer, &begin, &why), 0);
		CU_ASSERT_EQUAL(s->ops->group(s, "g", &a_peer, &discard, &why), 0);
	}
	return NULL;
}

static void make_racers(struct racer *racer)
{
	char name[16];

	for (unsigned i = 0; i < RACERS; i++) {
		racer[i].number = i;
		for (unsigned n = 0; n < EACH; n++) {
			(void)snprintf(name, sizeof(name), "t%u-%u", i, n);
			make_tree(name);
		}
	}
}

/* What is there is whole. */
static unsigned count_trees(void)
{
	unsigned count = 0;
	char name[16];

	for (unsigned i = 0; i < RACERS * EACH; i++) {
		(void)snprintf(name, sizeof(name), "t%u-%u", i % RACERS, i / RACERS);
		if (!is_there(name))
			continue;
		CU_ASSERT_TRUE(is_whole(name));
		count++;
	}
	return count;
}

/* Publishes once more, alone: only that and what nobody published stays. */
static void rotate_last(const char *link, const char *name)
{
	make_tree(name);
	CU_ASSERT_EQUAL(s->ops->link(s, link, name, &a_peer, true, &err), 0);
	CU_ASSERT_EQUAL(s->ops->rotate(s, link, name, &a_peer, 1, gone, &gone_count, &err), 0);
}

/*
 * Goal: rotations of one rule and of two, removals and groups at the same time: each tree is whole
 * or gone, nothing else goes, and nothing is forgotten that is to go.
 */
static void test_races(void)
{
	struct racer racer[RACERS];
	pthread_t remover;
	glob_t left;

	begin(ON_DISK, false);
	make_tree("foreign");
	make_racers(racer);
	for (unsigned i = 0; i < RACERS; i++)
		CU_ASSERT_EQUAL_FATAL(
			pthread_create(&racer[i].thread, NULL, race_to_rotate, &racer[i]), 0);
	CU_ASSERT_EQUAL_FATAL(pthread_create(&remover, NULL, race_to_remove, NULL), 0);
	for (unsigned i = 0; i < RACERS; i++)
		CU_ASSERT_EQUAL(pthread_join(racer[i].thread, NULL), 0);
	CU_ASSERT_EQUAL(pthread_join(remover, NULL), 0);
	(void)count_trees();
	rotate_last("l", "last1");
	rotate_last("k", "last2");
	CU_ASSERT_EQUAL(count_trees(), 0);
	CU_ASSERT_TRUE(is_whole("foreign") && is_whole("last1") && is_whole("last2"));
	CU_ASSERT_EQUAL(glob(at(".fmove.*"), 0, NULL, &left), 0);
	for (size_t i = 0; i < left.gl_pathc; i++) {
		CU_ASSERT_PTR_NOT_NULL(strstr(left.gl_pathv[i], ".rotation"));
		CU_ASSERT_EQUAL(unlink(left.gl_pathv[i]), 0);
	}
	globfree(&left);
	end();
}

struct leading {
	unsigned calls;
	unsigned turn;			/* in which one somebody leads the link back to t0 */
	bool is_led;			/* and t0 was there */
};

static void lead_back(void *ctx, const char *point)
{
	struct leading *lead = ctx;
	int was = errno;

	(void)point;
	if (++lead->calls != lead->turn)
		return;
	lead->is_led = is_there("t0");
	CU_ASSERT_EQUAL(unlink(at("l")), 0);
	CU_ASSERT_EQUAL(symlink("t0", at("l")), 0);
	errno = was;	/* of the call that this lies before */
}

/* Goal: what a link is led back to, just when it is its turn to go, stays. */
static void test_led_back(bool is_file)
{
	struct leading lead = {.turn = 0};

	do {
		lead = (struct leading){.turn = lead.turn + 1};
		begin(IN_MEMORY, false);
		for (unsigned i = 0; i < 2; i++) {
			const char *name = i ? "t1" : "t0";

			if (is_file) {
				CU_ASSERT_EQUAL(put(name, 1000, 1, false), 0);
			} else {
				make_tree(name);
			}
			CU_ASSERT_EQUAL(rotate(name, 2), 0);
		}
		fm_fault_watch(lead_back, &lead);
		(void)s->ops->rotate(s, "l", "t1", &a_peer, 1, gone, &gone_count, &err);
		fm_fault_watch(NULL, NULL);
		CU_ASSERT_TRUE(!lead.is_led || is_there("t0"));
		(void)unlink(at("l"));
		(void)s->ops->remove(s, "t0", &a_peer, true, &err);
		end_with_record();
	} while (lead.calls >= lead.turn && lead.turn < 200);
	CU_ASSERT_TRUE(lead.turn > 10 && lead.turn < 200);
}

static void test_tree_led_back(void)
{
	test_led_back(false);
}

static void test_file_led_back(void)
{
	test_led_back(true);
}

/* ---- the record ---- */

static unsigned parsed(const char *text, size_t len)
{
	static struct fm_rotation_record out;

	return fm_rotation_record_parse(text, len, &out) == 0 ? out.count : UINT_MAX;
}

/* A bit that is another one could make somebody's own directory one that was published. */
static void test_record_is_damaged(void)
{
	static const char before[] = "fmove rotation 1\nl\0"
				     "0000000000000007 0000000000000009 t0";
	static struct fm_rotation_record r = {
		.link = "l", .count = 2, .entry = {{7, 9, "t0"}, {8, 10, "t1"}}};
	static char text[FM_ROTATION_RECORD_MAX];
	size_t len = fm_rotation_record_print(&r, text);

	CU_ASSERT_EQUAL(parsed(before, sizeof(before)), 1);
	CU_ASSERT_EQUAL(parsed(text, len), 2);
	for (size_t bit = 0; bit < 8 * len; bit++) {
		text[bit / 8] ^= (char)(1 << (bit % 8));
		CU_ASSERT_EQUAL(parsed(text, len), UINT_MAX);
		text[bit / 8] ^= (char)(1 << (bit % 8));
	}
	for (size_t cut = 0; cut < len; cut++)
		CU_ASSERT_EQUAL(parsed(text, cut), UINT_MAX);
}

static const struct fm_test tests[] = {
	{ "the last ones stay, and what is nobody's turn", test_last_ones_stay },
	{ "nothing goes before the link is on the disk", test_link_is_on_disk },
	{ "what is written down of it is on the disk", test_record_is_on_disk },
	{ "what a power cut left of that is told of", test_record_is_lost },
	{ "what has a name by now is looked at", test_what_has_the_name_now },
	{ "an inode's number that is given again is not it", test_no_birth },
	{ "what gets the name at the last look stays", test_replaced_at_last },
	{ "links beside hold what they say", test_links_beside },
	{ "what is not there is none of the last", test_last_ones_are_there },
	{ "a record that others could write says nothing", test_record_of_others },
	{ "what somebody reads stays, and gets its name back", test_readers },
	{ "a tree that is read is held", test_tree_readers },
	{ "without leases or locks it waits aside", test_not_told },
	{ "where a lock is not known, what is open below counts", test_used_below },
	{ "on a full disk room is made first", test_full_disk },
	{ "each failure leaves whole what has a name", test_each_failure },
	{ "rotations, removals and groups at the same time", test_races },
	{ "a tree that a link is led back to meanwhile stays", test_tree_led_back },
	{ "a file that a link is led back to meanwhile stays", test_file_led_back },
	{ "the record is bounded, and says what was written", test_record_is_bounded },
	{ "a record with a damaged bit, or cut off, is none", test_record_is_damaged },
};
FM_TEST_MAIN("store_rotation", tests)
