/* SPDX-License-Identifier: MIT */
/*
 * Directory stores: a publication group whose commit is asked for again; how many a user has open.
 * What users see of groups is tested by cli.group. links: fm_store
 */
#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "mover/base/fault.h"
#include "mover/store/group.h"
#include "mover/store/group_dir.h"
#include "mover/store/group_list.h"
#include "mover/store/group_record.h"
#include "mover/store/group_use.h"
#include "mover/store/store_dir.h"
#include "tests/unit/store_scene.h"

static int group(enum fm_group_op op)
{
	const struct fm_group_ask ask = {.op = op, .id = {1}, .members = 1};

	fm_err_clear(&err);
	return s->ops->group(s, "run", &root_user, &ask, &err);
}

/* Makes a member behind the store's back: of the one group that is open. */
static void make_named(const char *name)
{
	char path[512];
	glob_t found;

	CU_ASSERT_EQUAL_FATAL(glob(at(".fmove.*.group/members"), 0, NULL, &found), 0);
	snprintf(path, sizeof(path), "%s/%s", found.gl_pathv[0], name);
	globfree(&found);
	CU_ASSERT_EQUAL(mkdir(path, 0700), 0);
}

static void make_member(void)
{
	make_named("m");
}

/* Removes what a group that was committed keeps until its time is over. */
static void forget(void)
{
	glob_t found;

	CU_ASSERT_EQUAL_FATAL(glob(at(".fmove.*.group/.fmove.record"), 0, NULL, &found), 0);
	CU_ASSERT_EQUAL(unlink(found.gl_pathv[0]), 0);
	CU_ASSERT_EQUAL(rmdir(dirname(found.gl_pathv[0])), 0);
	globfree(&found);
}

/*
 * A daemon that was killed behind the rename has synced nothing, so the commit that follows does.
 */
static void test_again_is_synced(void)
{
	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
	make_member();
	CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_COMMIT), 0);
	CU_ASSERT_EQUAL(access(at("run/m"), F_OK), 0);
	fm_fault_arm("tree.fsync", 1);
	CU_ASSERT_EQUAL(group(FM_GROUP_COMMIT), -EIO);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(group(FM_GROUP_COMMIT), 0);
	CU_ASSERT_EQUAL(access(at("run/m"), F_OK), 0);
	forget();
	end();
}

static void sweep(void)
{
	const atomic_bool is_over = false;

	s->ops->sweep(s, &is_over);
}

/* ---- a sync that failed ---- */

/*
 * The kernel's part of an error of writing: each file that was open when it came hears of it once;
 * who opens one later only if nobody has heard of it before.
 */
static struct {
	bool is_open[1024];		/* descriptors that have not heard of it */
	bool is_unheard;
} broken;

static void break_writing(void)
{
	memset(broken.is_open, 0, sizeof(broken.is_open));
	for (int fd = 0; fd < 1024; fd++)
		broken.is_open[fd] = fcntl(fd, F_GETFD) >= 0;
	broken.is_unheard = true;
}

int syncfs(int fd)
{
	bool is_told = fd >= 0 && fd < 1024 && (broken.is_open[fd] || broken.is_unheard);

	if (!is_told)
		return 0;
	broken.is_open[fd] = broken.is_unheard = false;
	errno = EIO;
	return -1;
}

static int commit_is_refused(void)
{
	int ret = group(FM_GROUP_COMMIT);

	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "fmove group discard"));
	CU_ASSERT_NOT_EQUAL(access(at("run"), F_OK), 0);
	return ret;
}

static int enter_as(const char *path, bool is_synced)
{
	const struct fm_group_member m = {path, &root_user, (const uint8_t[FM_GROUP_ID_LEN]){1},
					  is_synced};
	char place[FM_PATH_LEN_MAX + 1];
	struct fm_group_use *use;
	int ret = fm_group_enter(fm_container_of(s, struct fm_store_dir, store), &m, place, &use,
				 &err);

	if (ret == 0)
		fm_group_let_go(use);
	return ret;
}

static int enter(const char *path)
{
	return enter_as(path, true);
}

/* A member that came with --durability memory. */
static void make_unsynced(void)
{
	CU_ASSERT_EQUAL(enter_as("run/m", false), 0);
	make_member();
}

static void discard_and_put_again(void)
{
	CU_ASSERT_EQUAL(group(FM_GROUP_DISCARD), 0);
	CU_ASSERT_EQUAL(group(FM_GROUP_BEGIN), 0);
	CU_ASSERT_EQUAL(enter("run/m"), 0);
	make_member();
	CU_ASSERT_EQUAL(group(FM_GROUP_CHECK), 0);
	CU_ASSERT_EQUAL(group(FM_GROUP_COMMIT), 0);
	CU_ASSERT_EQUAL(access(at("run/m"), F_OK), 0);
	forget();
}

/*
 * Goal:   members that a failed sync did not bring to the disk are never published: not by the same
 *         commit again, of which the kernel says nothing any more, and not by another daemon. The
 *         group takes no member either.
 */
static void test_failed_sync_is_not_forgotten(void)
{
	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
	make_unsynced();
	break_writing();
	CU_ASSERT_EQUAL(commit_is_refused(), -EIO);
	CU_ASSERT_EQUAL(commit_is_refused(), -EIO);
	s->ops->free(s);
	s = store_open(dir);
	CU_ASSERT_EQUAL(commit_is_refused(), -EIO);
	CU_ASSERT_EQUAL(group(FM_GROUP_CHECK), -EIO);
	CU_ASSERT_EQUAL(enter("run/m"), -EIO);
	discard_and_put_again();
	end();
}

/* As after a start of the machine: the note is of an earlier one. false: there is no note. */
static bool start_anew(void)
{
	uint8_t byte;
	glob_t found;
	int fd;

	if (glob(at(".fmove.*.group/" FM_GROUP_UNSYNCED), 0, NULL, &found) != 0)
		return false;
	fd = open(found.gl_pathv[0], O_RDWR);
	globfree(&found);
	CU_ASSERT_EQUAL(pread(fd, &byte, 1, 5), 1);
	byte ^= 1;
	CU_ASSERT_EQUAL(pwrite(fd, &byte, 1, 5), 1);
	close(fd);
	return true;
}

/*
 * Goal:   of a member that came without a sync the name may be there after a power cut, and not its
 *         bytes: its group is not committed, and takes no members. One that was synced is there.
 */
static void test_unsynced_before_boot(void)
{
	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
	CU_ASSERT_EQUAL(enter("run/m"), 0);
	make_member();
	CU_ASSERT_FALSE(start_anew());
	for (int i = 0; i < 2; i++)
		CU_ASSERT_EQUAL(enter_as("run/m", false), 0);
	CU_ASSERT_EQUAL(group(FM_GROUP_CHECK), 0);
	CU_ASSERT_TRUE(start_anew());
	CU_ASSERT_EQUAL(group(FM_GROUP_CHECK), -EIO);
	CU_ASSERT_EQUAL(commit_is_refused(), -EIO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "--durability memory"));
	CU_ASSERT_EQUAL(enter_as("run/m", false), -EIO);
	CU_ASSERT_EQUAL(enter("run/m"), -EIO);
	discard_and_put_again();
	end();
}

static const char *glob_group(void)
{
	static char path[512];
	glob_t found;

	path[0] = '\0';
	if (glob(at(".fmove.*.group"), 0, NULL, &found) == 0) {
		snprintf(path, sizeof(path), "%s", found.gl_pathv[0]);
		globfree(&found);
	}
	return path;
}

/* As a crash may leave it. */
static void cut_note(void)
{
	char path[600];

	snprintf(path, sizeof(path), "%s/" FM_GROUP_UNSYNCED, glob_group());
	CU_ASSERT_EQUAL(truncate(path, 0), 0);
}

static struct fm_group_record taken;

/* The directory of the one group, whose record is to be written anew. */
static int take_record(void)
{
	int fd = open(glob_group(), O_RDONLY | O_DIRECTORY);

	CU_ASSERT_EQUAL(fm_group_record_read(fd, &taken, &err), 0);
	CU_ASSERT_EQUAL(unlinkat(fd, FM_GROUP_RECORD_NAME, 0), 0);
	return fd;
}

static void write_record(int fd)
{
	CU_ASSERT_EQUAL(fm_group_record_write(fd, &taken, false), 0);
	close(fd);
}

/* As if an older service had begun it. */
static void say_no_notes(void)
{
	int fd = take_record();

	CU_ASSERT_TRUE(taken.has_notes);
	taken.has_notes = false;
	write_record(fd);
}

static bool has_note(void)
{
	glob_t found;
	bool is = glob(at(".fmove.*.group/" FM_GROUP_UNSYNCED), 0, NULL, &found) == 0;

	if (is)
		globfree(&found);
	return is;
}

static unsigned syncs;

static void count_syncs(void *ctx, const char *point)
{
	(void)ctx;
	syncs += strcmp(point, "store.fsync") == 0 || strcmp(point, "tree.fsync") == 0;
}

static unsigned syncs_of_entering(void)
{
	syncs = 0;
	fm_fault_watch(count_syncs, NULL);
	CU_ASSERT_EQUAL(enter_as("run/m", false), 0);
	fm_fault_watch(NULL, NULL);
	return syncs;
}

/*
 * Goal:   that a member comes without a sync counts as written down only once the disk has taken
 *         it: a note that is in the page cache alone is gone after a power cut, and the names of
 *         members need not be. Nobody takes another's note for written, and it is whole or absent.
 */
static void test_note_is_on_the_disk(void)
{
	static const char *const points[] = {"store.fsync", "tree.fsync"};

	begin(ON_DISK, false);
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
		fm_fault_arm(points[i], 1);
		CU_ASSERT_EQUAL(enter_as("run/m", false), -EIO);
		CU_ASSERT_TRUE(fm_fault_fired());
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(has_note(), i == 1);	/* in the page cache */
		CU_ASSERT_EQUAL(syncs_of_entering(), 2);
		CU_ASSERT_EQUAL(syncs_of_entering(), 0);
		s->ops->free(s);
		s = store_open(dir);	/* which knows of no sync of the one before */
		CU_ASSERT_EQUAL(syncs_of_entering(), 2);
		CU_ASSERT_EQUAL(syncs_of_entering(), 0);
		CU_ASSERT_EQUAL(dir_count(glob_group(), FM_GROUP_UNSYNCED), 1);
		CU_ASSERT_EQUAL(group(FM_GROUP_DISCARD), 0);
	}
	CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
	make_unsynced();
	cut_note();
	CU_ASSERT_EQUAL(commit_is_refused(), -EIO);
	discard_and_put_again();
	end();
}

/*
 * Goal: somebody else's file that cannot be written is no reason to refuse members that were on the
 *       disk before they had their names. Of a group of an older service nobody knows that.
 */
static void test_others_cannot_write(void)
{
	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
	CU_ASSERT_EQUAL(enter("run/m"), 0);
	make_member();
	break_writing();
	CU_ASSERT_EQUAL(group(FM_GROUP_COMMIT), 0);
	CU_ASSERT_EQUAL(access(at("run/m"), F_OK), 0);
	forget();
	CU_ASSERT_EQUAL(remove(at("run/m")) + remove(at("run")), 0);
	CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
	make_member();
	say_no_notes();
	break_writing();
	CU_ASSERT_EQUAL(commit_is_refused(), -EIO);
	discard_and_put_again();
	end();
}

/* Goal: the same if somebody else, as a tree that comes, was told of the error first. */
static void test_others_hear_first(void)
{
	int other = -1;

	begin(ON_DISK, false);
	for (int is_found = 0; is_found <= 1; is_found++) {
		CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
		make_unsynced();
		if (is_found) { /* of an earlier daemon; a member comes before a sweep does */
			s->ops->free(s);
			s = store_open(dir);
			CU_ASSERT_EQUAL(enter("run/m"), 0);
		}
		other = open(dir, O_RDONLY | O_DIRECTORY);
		break_writing();
		CU_ASSERT_EQUAL(syncfs(other), -1);
		CU_ASSERT_EQUAL(syncfs(other), 0);
		close(other);
		CU_ASSERT_EQUAL(commit_is_refused(), -EIO);
		CU_ASSERT_EQUAL(commit_is_refused(), -EIO);
		discard_and_put_again();
		CU_ASSERT_EQUAL(remove(at("run/m")) + remove(at("run")), 0);
	}
	end();
}

static time_t ahead_s;		/* of the machine's clock */

int clock_gettime(clockid_t id, struct timespec *now)
{
	int ret = (int)syscall(SYS_clock_gettime, id, now);

	if (id == CLOCK_REALTIME)
		now->tv_sec += ahead_s;
	return ret;
}

/* The time of the group is over, and what is known of it forgotten, while its members are looked
 * at. */
static void expire_amid_commit(void *ctx, const char *point)
{
	struct fm_group_count *groups = &fm_container_of(s, struct fm_store_dir, store)->groups;
	bool *has_expired = ctx;

	if (*has_expired || strcmp(point, "store.readdir") != 0)
		return;
	*has_expired = true;
	ahead_s = 3601;
	fm_group_count_looked(groups, false);
	CU_ASSERT_EQUAL(groups->count, 0);
}

/* Goal: a group that expires amid its commit is not published where that hears no errors. */
static void test_expires_amid_commit(void)
{
	const struct fm_group_ask ask = {
		.op = FM_GROUP_BEGIN, .id = {1}, .members = 1, .expires_s = 3600};
	bool has_expired = false;
	int other;

	if (fm_test_lacks_faults())
		return;
	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(s->ops->group(s, "run", &root_user, &ask, &err), 0);
	make_unsynced();
	other = open(dir, O_RDONLY | O_DIRECTORY);
	break_writing();
	CU_ASSERT_EQUAL(syncfs(other), -1);
	close(other);
	fm_fault_watch(expire_amid_commit, &has_expired);
	CU_ASSERT_EQUAL(group(FM_GROUP_COMMIT), -ENOENT);
	fm_fault_watch(NULL, NULL);
	ahead_s = 0;
	CU_ASSERT_TRUE(has_expired);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "has expired while it was committed"));
	CU_ASSERT_NOT_EQUAL(access(at("run"), F_OK), 0);
	remove_all(glob_group());
	end();
}

static void test_again_is_there(void)
{
	char path[512];
	glob_t found;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
	make_member();
	CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_COMMIT), 0);
	snprintf(path, sizeof(path), "%s", at("away"));
	CU_ASSERT_EQUAL(rename(at("run"), path), 0);
	CU_ASSERT_EQUAL(group(FM_GROUP_COMMIT), -ESTALE);
	CU_ASSERT_EQUAL(mkdir(at("run"), 0700), 0);
	CU_ASSERT_EQUAL(group(FM_GROUP_COMMIT), -ESTALE);
	CU_ASSERT_EQUAL(rmdir(at("run")), 0);
	CU_ASSERT_EQUAL(rename(path, at("run")), 0);
	CU_ASSERT_EQUAL(group(FM_GROUP_COMMIT), 0);
	forget();
	/* The members were removed before they were committed. */
	CU_ASSERT_EQUAL(rmdir(at("run/m")) + rmdir(at("run")), 0);
	CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
	CU_ASSERT_EQUAL_FATAL(glob(at(".fmove.*.group/members"), 0, NULL, &found), 0);
	CU_ASSERT_EQUAL(rmdir(found.gl_pathv[0]), 0);
	globfree(&found);
	CU_ASSERT_EQUAL(group(FM_GROUP_COMMIT), -ESTALE);
	forget();
	end();
}

/* Nobody but the service can have put it there, but a disk may: it is in nobody's way for ever. */
static void test_record_is_something_else(void)
{
	char record[512];
	glob_t found;

	begin(ON_DISK, false);
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
		CU_ASSERT_EQUAL_FATAL(glob(at(".fmove.*.group/.fmove.record"), 0, NULL, &found), 0);
		snprintf(record, sizeof(record), "%s", found.gl_pathv[0]);
		globfree(&found);
		CU_ASSERT_EQUAL(unlink(record), 0);
		CU_ASSERT_EQUAL(i == 0 ? mkdir(record, 0700) : symlink("m", record), 0);
		CU_ASSERT_EQUAL(group(FM_GROUP_COMMIT), -ENOENT);
	}
	CU_ASSERT_EQUAL(group(FM_GROUP_BEGIN), 0);
	make_member();
	CU_ASSERT_EQUAL(group(FM_GROUP_COMMIT), 0);
	forget();
	end();
}

/* Hits a bit of a number in the record of the one group that there is; again to mend it. */
static void hit_record(const char *behind)
{
	static char text[FM_GROUP_RECORD_MAX + 1];
	glob_t found;
	char *digit;
	FILE *f;

	CU_ASSERT_EQUAL_FATAL(glob(at(".fmove.*.group/.fmove.record"), 0, NULL, &found), 0);
	f = fopen(found.gl_pathv[0], "r+");
	globfree(&found);
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	digit = strstr(text, behind);
	CU_ASSERT_PTR_NOT_NULL_FATAL(digit);
	digit += strlen(behind);
	digit += strspn(digit, "0123456789") - 1;
	*digit = (char)(*digit ^ 1);
	CU_ASSERT_EQUAL(fseek(f, 0, SEEK_SET), 0);
	CU_ASSERT_EQUAL(fwrite(text, 1, strlen(text), f), strlen(text));
	CU_ASSERT_EQUAL(fclose(f), 0);
}

/* A disk that hits the inode of the members makes an open group no committed one, and back. */
static void test_record_is_damaged(void)
{
	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
	make_member();
	hit_record(",\"ino\":");
	CU_ASSERT_EQUAL(group(FM_GROUP_COMMIT), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "its record is damaged"));
	hit_record(",\"ino\":");
	CU_ASSERT_EQUAL(group(FM_GROUP_COMMIT), 0);
	hit_record(",\"ino\":");
	CU_ASSERT_EQUAL(group(FM_GROUP_DISCARD), -ENOENT);
	CU_ASSERT_EQUAL(access(at("run/m"), F_OK), 0);
	forget();
	end();
}

/* Who did not hear of the first time begins it again; anything else is another group. */
static void test_begun_again(void)
{
	struct fm_group_ask ask = {.op = FM_GROUP_BEGIN, .id = {1}, .members = 1};

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(group(FM_GROUP_BEGIN), 0);
	make_member();
	CU_ASSERT_EQUAL(group(FM_GROUP_BEGIN), 0);
	CU_ASSERT_EQUAL(dir_count(dir, ".fmove."), 1);
	CU_ASSERT_EQUAL(s->ops->group(s, "run", &a_peer, &ask, &err), -EEXIST);
	ask.members = 2;
	CU_ASSERT_EQUAL(s->ops->group(s, "run", &root_user, &ask, &err), -EEXIST);
	ask = (struct fm_group_ask){.op = FM_GROUP_BEGIN, .id = {2}, .members = 1};
	CU_ASSERT_EQUAL(s->ops->group(s, "run", &root_user, &ask, &err), -EEXIST);
	CU_ASSERT_EQUAL(group(FM_GROUP_COMMIT), 0);
	CU_ASSERT_EQUAL(access(at("run/m"), F_OK), 0);
	CU_ASSERT_EQUAL(group(FM_GROUP_DISCARD), -EEXIST);
	forget();
	end();
}

static int check_expected(const char *names)
{
	const struct fm_group_ask ask = {
		.op = FM_GROUP_CHECK, .id = {1}, .expect = names, .expect_len = strlen(names)};

	fm_err_clear(&err);
	return s->ops->group(s, "run", &root_user, &ask, &err);
}

/* Goal: whatever their order, names that begin alike are not one another, nor what lies in one. */
static void test_expected_names(void)
{
	static const char *const names[] = {"a.b", "abc", "a", "ab", "zz", "a-"};
	char many[8192] = "";

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		make_named(names[i]);
	make_named("ab/x");
	CU_ASSERT_EQUAL(check_expected("zz\nab/x\n\nabc\na\na-\na.b\nab"), 0);
	CU_ASSERT_EQUAL(check_expected("ab/x\nabc/y\na\na.b\nzz\na-\n"), -ENODATA);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "1 of its members is missing: \"abc/y\""));
	CU_ASSERT_PTR_NULL(strstr(err.text, "not expected"));
	CU_ASSERT_EQUAL(check_expected("ab/x\nabc\na.b\nzz\na-"), -ENODATA);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "1 came that is not expected: \"a\""));
	for (unsigned i = 0; i < 1000; i++) {
		char name[16];

		snprintf(name, sizeof(name), "%u", (i * 377) % 1000);
		make_named(name);
		snprintf(many + strlen(many), sizeof(many) - strlen(many), "%u\n", i);
	}
	strcat(many, "a\nab\nabc\na.b\na-\nzz");
	CU_ASSERT_EQUAL(check_expected(many), 0);
	make_named("1000");
	CU_ASSERT_EQUAL(check_expected(many), -ENODATA);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "1 came that is not expected: \"1000\""));
	s->ops->free(s);
	dir_remove(dir);
	lane_close(&l);
}

static int replace(void)
{
	const struct fm_group_ask ask = {
		.op = FM_GROUP_COMMIT, .id = {1}, .members = 1, .may_replace = true};

	fm_err_clear(&err);
	return s->ops->group(s, "run", &root_user, &ask, &err);
}

/* No rename has flags there; what fails in it fails when nothing has the name. */
struct no_flags {
	const char *fails;
	bool has_failed;
};

static void without_flags(void *ctx, const char *point)
{
	struct no_flags *n = ctx;

	if (strcmp(point, "tree.rename_flags") == 0) {
		fm_fault_arm(point, 1);
	} else if (!n->has_failed && strcmp(point, n->fails) == 0 &&
		   dir_count(dir, ".fmove.") == 2 &&
		   (access(at("run"), F_OK) == 0) == (strcmp(point, "tree.fsync") == 0)) {
		n->has_failed = true;
		fm_fault_arm(point, 1);
	}
}

/* Where two names cannot be exchanged the old directory waits aside, and comes back. */
static void check_comes_back(const char *point)
{
	struct no_flags n = {.fails = point};

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
	make_member();
	CU_ASSERT_EQUAL(mkdir(at("run"), 0755), 0);
	CU_ASSERT_EQUAL(mkdir(at("run/old"), 0755), 0);
	fm_fault_watch(without_flags, &n);
	CU_ASSERT_EQUAL(replace(), -EIO);
	CU_ASSERT_TRUE(n.has_failed);
	CU_ASSERT_EQUAL(access(at("run/old"), F_OK), 0);
	CU_ASSERT_EQUAL(dir_count(dir, ".fmove."), 1);	/* the group's */
	CU_ASSERT_EQUAL(replace(), 0);
	fm_fault_watch(NULL, NULL);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(access(at("run/m"), F_OK), 0);
	s->ops->free(s);
	dir_remove(dir);
	lane_close(&l);
}

static void test_old_one_comes_back(void)
{
	check_comes_back("tree.rename");
	check_comes_back("tree.fsync");
}

/* ---- who waits for members ---- */

#define WAIT 2u			/* so many do */

struct waiting {
	char path[8];			/* of its group */
	struct fm_group_key key;
	struct fm_group_use *member;	/* that comes */
	pthread_t thread;
	int ret;
};

static int ask_of(const char *path, enum fm_group_op op)
{
	const struct fm_group_ask ask = {.op = op, .id = {1}, .members = 1};
	struct fm_err why = {0};

	return s->ops->group(s, path, &root_user, &ask, &why);
}

static void *commit(void *arg)
{
	struct waiting *w = arg;

	w->ret = ask_of(w->path, FM_GROUP_COMMIT);
	return NULL;
}

/* A group in a directory of its own, and a member that comes. */
static void begin_group(struct waiting *w, unsigned i)
{
	char pattern[40];
	struct stat st;
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%u", i);
	CU_ASSERT_EQUAL_FATAL(mkdir(at(pattern), 0700), 0);
	snprintf(w->path, sizeof(w->path), "%u/run", i);
	CU_ASSERT_EQUAL_FATAL(ask_of(w->path, FM_GROUP_BEGIN), 0);
	snprintf(pattern, sizeof(pattern), "%u/.fmove.*.group", i);
	CU_ASSERT_EQUAL_FATAL(glob(at(pattern), 0, NULL, &found), 0);
	CU_ASSERT_EQUAL_FATAL(stat(found.gl_pathv[0], &st), 0);
	globfree(&found);
	w->key = (struct fm_group_key){st.st_dev, st.st_ino};
	CU_ASSERT_EQUAL_FATAL(fm_group_hold(&w->key, "m", 0, &w->member, &err), 0);
}

/* Each keeps a worker. Those that wait have the group as soon as its member has ended. */
static void test_few_wait(void)
{
	struct waiting all[WAIT + 1];
	struct fm_store_dir *sd;

	begin(ON_DISK, false);
	sd = fm_container_of(s, struct fm_store_dir, store);
	sd->lock_wait_ms = FM_TEST_HANG_S * 1000;
	for (unsigned i = 0; i <= WAIT; i++)
		begin_group(&all[i], i);
	for (unsigned i = 0; i < WAIT; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&all[i].thread, NULL, commit, &all[i]), 0);
	for (unsigned ms = 0; sd->waiting < WAIT && ms < FM_TEST_HANG_S * 1000; ms++)
		usleep(1000);
	CU_ASSERT_EQUAL(ask_of(all[WAIT].path, FM_GROUP_COMMIT), -EBUSY);
	for (unsigned i = 0; i <= WAIT; i++)
		fm_group_let_go(all[i].member);
	for (unsigned i = 0; i < WAIT; i++) {
		CU_ASSERT_EQUAL(pthread_join(all[i].thread, NULL), 0);
		/* it did not come whole; had the last one waited, these had heard that it comes */
		CU_ASSERT_NOT_EQUAL(all[i].ret, -EBUSY);
	}
	end();
}

/* Who asked was killed, and asks again while its first commit is under way. */
static void test_again_waits(void)
{
	struct fm_group_use *first;
	struct fm_store_dir *sd;
	struct waiting w;

	begin(ON_DISK, false);
	sd = fm_container_of(s, struct fm_store_dir, store);
	begin_group(&w, 0);
	fm_group_let_go(w.member);
	CU_ASSERT_EQUAL_FATAL(fm_group_close(&w.key, 0, &first, &err), 0);
	sd->lock_wait_ms = 1;
	CU_ASSERT_EQUAL(ask_of(w.path, FM_GROUP_COMMIT), -EBUSY);
	sd->lock_wait_ms = FM_TEST_HANG_S * 1000;
	CU_ASSERT_EQUAL_FATAL(pthread_create(&w.thread, NULL, commit, &w), 0);
	for (unsigned ms = 0; sd->waiting < 1 && ms < FM_TEST_HANG_S * 1000; ms++)
		usleep(1000);
	fm_group_let_go(first);
	CU_ASSERT_EQUAL(pthread_join(w.thread, NULL), 0);
	CU_ASSERT_NOT_EQUAL(w.ret, -EBUSY);	/* its member did not come */
	end();
}

/* ---- how many are open ---- */

#define LIMIT 2

static void open_limited(uint32_t limit)
{
	const struct fm_store_opts opts = {.name = "test",
					   .directory = dir,
					   .read = everybody,
					   .write = everybody,
					   .is_durable = true,
					   .group_limit = limit};

	CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &s, &err), 0);
}

static void begin_limited(const char *base, uint32_t limit)
{
	fm_err_clear(&err);
	lane_open(&l, false);
	dir_make(base, dir);
	open_limited(limit);
}

static int group_at(const char *path, enum fm_group_op op, const struct fm_who *who)
{
	const struct fm_group_ask ask = {.op = op, .id = {1}, .members = 1};

	fm_err_clear(&err);
	return s->ops->group(s, path, who, &ask, &err);
}

static int begin_at(const char *path)
{
	return group_at(path, FM_GROUP_BEGIN, &root_user);
}

static int commit_at(const char *path)
{
	make_named("m");
	return group_at(path, FM_GROUP_COMMIT, &root_user);
}

/* A group for "a" whose member came with --durability memory, or disk. */
static void begin_a(bool is_synced)
{
	CU_ASSERT_EQUAL_FATAL(begin_at("a"), 0);
	CU_ASSERT_EQUAL_FATAL(enter_as("a/m", is_synced), 0);
}

static int lead_to(const char *name)
{
	return s->ops->lead(s, "latest", name, &root_user, &err);
}

/* As if the link, and all that was published, were made before the clock was set back an hour. */
static void set_clock_back(void)
{
	const time_t then = time(NULL) + 3600;
	const struct timespec times[2] = {{.tv_sec = then}, {.tv_sec = then}};
	glob_t found;

	CU_ASSERT_EQUAL_FATAL(glob(at(".fmove.*.group"), 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++)
		CU_ASSERT_EQUAL(utimensat(AT_FDCWD, found.gl_pathv[i], times, 0), 0);
	globfree(&found);
	CU_ASSERT_EQUAL(utimensat(AT_FDCWD, at("latest"), times, AT_SYMLINK_NOFOLLOW), 0);
}

/*
 * Goal:   the latest is what was published last, and not what the clock says; what was published
 *         before does not come back.
 */
static void test_latest_by_order(void)
{
	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(begin_at("a"), 0);
	CU_ASSERT_EQUAL_FATAL(commit_at("a"), 0);
	CU_ASSERT_EQUAL(lead_to("a"), 0);
	set_clock_back();
	CU_ASSERT_EQUAL_FATAL(begin_at("b"), 0);
	CU_ASSERT_EQUAL_FATAL(commit_at("b"), 0);
	CU_ASSERT_EQUAL(lead_to("b"), 0);
	CU_ASSERT_EQUAL(lead_to("a"), -ESTALE);
	CU_ASSERT_EQUAL_FATAL(begin_at("c"), 0);
	CU_ASSERT_EQUAL_FATAL(commit_at("c"), 0);
	CU_ASSERT_EQUAL(lead_to("c"), 0);
	CU_ASSERT_EQUAL(lead_to("b"), -ESTALE);
	/* What it leads to is known by the link's time alone. */
	CU_ASSERT_EQUAL(mkdir(at("d"), 0755), 0);
	CU_ASSERT_EQUAL(s->ops->link(s, "latest", "d", &root_user, true, &err), 0);
	set_clock_back();
	CU_ASSERT_EQUAL_FATAL(begin_at("e"), 0);
	CU_ASSERT_EQUAL_FATAL(commit_at("e"), 0);
	CU_ASSERT_EQUAL(lead_to("e"), 0);
	for (unsigned i = 0; i < 4; i++)
		forget();
	end();
}

/*
 * Goal:   the link leads to what is on the disk in a store that is not durable, too, and is not led
 *         where that is not known.
 */
static void test_latest_is_on_disk(void)
{
	begin(ON_DISK, false);
	s->is_durable = false;
	begin_a(false);
	CU_ASSERT_EQUAL_FATAL(commit_at("a"), 0);
	fm_fault_arm("store.syncfs", 1);
	CU_ASSERT_EQUAL(lead_to("a"), -EIO);
	CU_ASSERT_TRUE(fm_fault_fired());
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "is known to be on the disk"));
	fm_fault_arm(NULL, 0);
	/* The same again would prove nothing. */
	CU_ASSERT_EQUAL(group_at("a", FM_GROUP_COMMIT, &root_user), 0);
	CU_ASSERT_EQUAL(lead_to("a"), -EIO);
	CU_ASSERT_EQUAL(access(at("latest"), F_OK), -1);
	remove_all(glob_group());
	CU_ASSERT_EQUAL_FATAL(begin_at("b"), 0);
	CU_ASSERT_EQUAL_FATAL(commit_at("b"), 0);
	CU_ASSERT_EQUAL(lead_to("b"), 0);
	CU_ASSERT_EQUAL(lead_to("b"), 0);
	forget();
	end();
}

static void tell_others(void)
{
	int other = open(dir, O_RDONLY | O_DIRECTORY);

	break_writing();
	CU_ASSERT_EQUAL(syncfs(other), -1);
	CU_ASSERT_EQUAL(syncfs(other), 0);
	close(other);
}

/*
 * Goal:   nor is it led where somebody else was told of the error first, before the commit, or
 *         behind it and a sweep that does not meet the group any more.
 */
static void test_latest_and_others(void)
{
	for (int is_behind = 0; is_behind <= 1; is_behind++) {
		begin(ON_DISK, false);
		s->is_durable = false;
		begin_a(false);
		if (!is_behind)
			tell_others();
		CU_ASSERT_EQUAL_FATAL(commit_at("a"), 0);
		if (is_behind) {
			sweep();
			tell_others();
		}
		CU_ASSERT_EQUAL(lead_to("a"), -EIO);
		CU_ASSERT_EQUAL(lead_to("a"), -EIO);
		CU_ASSERT_EQUAL(access(at("latest"), F_OK), -1);
		remove_all(glob_group());
		end();
	}
}

/*
 * Goal:   what somebody else could not write keeps no link from members that were on the disk
 *         before they had their names, now or later; only that the commit's rename is not there.
 */
static void test_latest_of_synced(void)
{
	begin(ON_DISK, false);
	s->is_durable = false;
	begin_a(true);
	tell_others();
	CU_ASSERT_EQUAL_FATAL(commit_at("a"), 0);
	for (unsigned nth = 1; nth <= 2; nth++) {
		fm_fault_arm("tree.fsync", nth);
		CU_ASSERT_EQUAL(lead_to("a"), -EIO);
		CU_ASSERT_TRUE(fm_fault_fired());
	}
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(access(at("latest"), F_OK), -1);
	CU_ASSERT_EQUAL(lead_to("a"), 0);
	CU_ASSERT_EQUAL(lead_to("a"), 0);
	CU_ASSERT_EQUAL(access(at("latest/m"), F_OK), 0);
	forget();
	end();
}

/* Another directory gets the name, and the inode's number of the one that was published. */
static void give_again(void)
{
	struct timespec was, now;
	struct stat st;
	int fd;

	remove_all(at("a"));
	(void)clock_gettime(CLOCK_REALTIME_COARSE, &was);
	do
		(void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
	while (now.tv_sec == was.tv_sec && now.tv_nsec == was.tv_nsec);
	CU_ASSERT_EQUAL(mkdir(at("a"), 0700), 0);
	CU_ASSERT_EQUAL(stat(at("a"), &st), 0);
	fd = take_record();
	taken.ino = st.st_ino;
	write_record(fd);
}

/*
 * Goal:   what a group could not write keeps no link from what gets the name when that is removed,
 *         in the store or behind its back: the file system may give the inode's number again. Nor
 *         is such a directory what the group was committed as.
 */
static void test_latest_of_another(void)
{
	for (int is_behind = 0; is_behind <= 1; is_behind++) {
		begin(ON_DISK, false);
		s->is_durable = false;
		begin_a(false);
		tell_others();
		CU_ASSERT_EQUAL_FATAL(commit_at("a"), 0);
		CU_ASSERT_EQUAL(lead_to("a"), -EIO);
		if (is_behind) {
			give_again();
			CU_ASSERT_EQUAL(group_at("a", FM_GROUP_COMMIT, &root_user), -ESTALE);
		} else {
			CU_ASSERT_EQUAL(s->ops->remove(s, "a", &root_user, true, &err), 0);
			CU_ASSERT_STRING_EQUAL(glob_group(), "");
			CU_ASSERT_EQUAL(mkdir(at("a"), 0700), 0);
		}
		CU_ASSERT_EQUAL(lead_to("a"), 0);
		CU_ASSERT_EQUAL(access(at("latest/."), F_OK), 0);
		if (is_behind)
			remove_all(glob_group());
		end();
	}
}

/* Fails each point that the text says, one blank behind the other. */
static void fail_always(void *ctx, const char *point)
{
	if (strstr(ctx, point))
		fm_fault_arm(point, 1);
}

/*
 * Goal:   where a file system of FUSE tells no birth, a directory that stayed is taken for what the
 *         group was committed as, though its handle is another one by now: what could not be
 *         written stays so.
 * Method: the record gets such an origin, as older ones have.
 */
static void test_latest_of_fuse(void)
{
	int fd;

	begin(ON_DISK, false);
	s->is_durable = false;
	fm_fault_watch(fail_always, (char[]){"store.born store.fuse"});
	begin_a(false);
	tell_others();
	CU_ASSERT_EQUAL_FATAL(commit_at("a"), 0);
	fd = take_record();
	CU_ASSERT_EQUAL(taken.origin, 0);
	taken.origin = UINT64_C(1) << 63 | 1;
	write_record(fd);
	CU_ASSERT_EQUAL(group_at("a", FM_GROUP_COMMIT, &root_user), 0);
	CU_ASSERT_EQUAL(lead_to("a"), -EIO);
	CU_ASSERT_EQUAL(lead_to("a"), -EIO);
	fm_fault_watch(NULL, NULL);
	fm_fault_arm(NULL, 0);
	remove_all(glob_group());
	end();
}

/*
 * Goal:   what came before the machine was started anew is not published in a store that is not
 *         durable either, nor led to where it was published; but a link that leads there says that
 *         a sync was made.
 */
static void test_latest_before_boot(void)
{
	begin(ON_DISK, false);
	s->is_durable = false;
	CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
	make_unsynced();
	CU_ASSERT_TRUE(start_anew());
	CU_ASSERT_EQUAL(commit_is_refused(), -EIO);
	CU_ASSERT_TRUE(start_anew());	/* and back */
	CU_ASSERT_EQUAL(group(FM_GROUP_COMMIT), 0);
	CU_ASSERT_TRUE(start_anew());
	CU_ASSERT_EQUAL(lead_to("run"), -EIO);
	CU_ASSERT_TRUE(start_anew());
	CU_ASSERT_EQUAL(lead_to("run"), 0);
	CU_ASSERT_TRUE(start_anew());
	CU_ASSERT_EQUAL(lead_to("run"), 0);
	remove_all(glob_group());
	end();
}

static unsigned names_read;

static void count_reads(void *ctx, const char *point)
{
	(void)ctx;
	names_read += strcmp(point, "store.readdir") == 0;
}

/* Asks for all pages behind `after`. How many groups they tell of, in order, each once. */
static unsigned list_groups(const char *after)
{
	static struct fm_group_page page;
	char last[FM_PATH_LEN_MAX + 1];
	unsigned count = 0;

	snprintf(last, sizeof(last), "%s", after);
	do {
		CU_ASSERT_EQUAL_FATAL(s->ops->groups(s, last, &root_user, &page, &err), 0);
		for (size_t i = 0; i < page.count; i++, count++) {
			CU_ASSERT_TRUE(strcmp(page.group[i].path, last) > 0);
			snprintf(last, sizeof(last), "%s", page.group[i].path);
		}
	} while (page.is_more);
	return count;
}

/*
 * Goal:   a list of all groups looks through the store once, not once for each page; and a page of
 *         it tells of none that has ended.
 * Method: count the names that the walks read.
 */
static void test_list_walks_once(void)
{
	static struct fm_group_page page;
	char path[64], last[FM_PATH_LEN_MAX + 1];
	unsigned first;

	begin(ON_DISK, false);
	for (unsigned i = 0; i < 40; i++) {
		snprintf(path, sizeof(path), "d%u", i);
		CU_ASSERT_EQUAL(mkdir(at(path), 0755), 0);
		snprintf(path, sizeof(path), "d%u/g", i);
		CU_ASSERT_EQUAL_FATAL(begin_at(path), 0);
	}
	names_read = 0;
	fm_fault_watch(count_reads, NULL);
	CU_ASSERT_EQUAL(s->ops->groups(s, "", &root_user, &page, &err), 0);
	CU_ASSERT_EQUAL_FATAL(page.count, FM_GROUP_PAGE_MAX);
	first = names_read;
	CU_ASSERT_TRUE(first > 40);
	snprintf(last, sizeof(last), "%s", page.group[page.count - 1].path);
	CU_ASSERT_EQUAL(list_groups(last), 40 - FM_GROUP_PAGE_MAX);
	/* the members of each group are looked for once, too, and there are none */
	CU_ASSERT_EQUAL(names_read - first, 40 - FM_GROUP_PAGE_MAX);
	first = names_read;
	CU_ASSERT_EQUAL(list_groups("d9/f"), 1);
	CU_ASSERT_TRUE(names_read > first + 40);	/* what was kept was used up */
	CU_ASSERT_EQUAL(s->ops->groups(s, "", &root_user, &page, &err), 0);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_EQUAL(group_at("d9/g", FM_GROUP_DISCARD, &root_user), 0);
	CU_ASSERT_EQUAL(list_groups(page.group[page.count - 1].path), 39 - FM_GROUP_PAGE_MAX);
	end();
}

/*
 * Goal:   a list that was cut does not end because all that one walk found have ended.
 * Method: one more than a walk keeps; after the first page only the last one is there.
 */
static void test_list_goes_on(void)
{
	static struct fm_group_page page;
	char path[64];

	begin_limited(IN_MEMORY, FM_GROUP_PATHS_MAX + 1);
	CU_ASSERT_EQUAL(mkdir(at("d"), 0755), 0);
	for (unsigned i = 0; i < FM_GROUP_PATHS_MAX; i++) {
		snprintf(path, sizeof(path), "d/g%04u", i);
		CU_ASSERT_EQUAL_FATAL(begin_at(path), 0);
	}
	CU_ASSERT_EQUAL_FATAL(begin_at("e"), 0);
	CU_ASSERT_EQUAL(list_groups("d/g4094"), 2);
	CU_ASSERT_EQUAL(s->ops->groups(s, "", &root_user, &page, &err), 0);
	remove_all(at("d"));
	CU_ASSERT_EQUAL(list_groups(page.group[page.count - 1].path), 1);
	CU_ASSERT_EQUAL(group_at("e", FM_GROUP_DISCARD, &root_user), 0);
	end();
}

static unsigned watches(void)
{
	return fm_container_of(s, struct fm_store_dir, store)->groups.watches.count;
}

/* Goal: a group is not forgotten, nor what is known of it, by a sweep to which the file system did
 * not give a directory, or the group itself, or for which there was no memory. */
static void test_swept_unread(void)
{
	static const char *const points[] = {"store.readdir", "store.open",    "store.alloc",
					     "store.fstat",   "store.fstatat", "tree.open"};
	bool has_fired;

	if (fm_test_lacks_faults())
		return;
	begin_limited(ON_DISK, LIMIT);
	CU_ASSERT_EQUAL(mkdir(at("d"), 0755), 0);
	CU_ASSERT_EQUAL(begin_at("a"), 0);
	CU_ASSERT_EQUAL(begin_at("d/b"), 0);
	for (unsigned i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		has_fired = true;
		for (unsigned n = 1; has_fired; n++) {
			fm_fault_arm(points[i], n);
			sweep();
			has_fired = fm_fault_fired();
			fm_fault_arm(NULL, 0);
			CU_ASSERT_EQUAL(begin_at("c"), -EDQUOT);
			CU_ASSERT_EQUAL(watches(), 2);
		}
	}
	s->ops->free(s);
	dir_remove(dir);
	lane_close(&l);
}

/* Goal: no member comes to a group whose file system nobody watches. */
static void test_member_unwatched(void)
{
	bool has_fired = true;

	if (fm_test_lacks_faults())
		return;
	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
	for (unsigned n = 1; has_fired; n++) {
		s->ops->free(s);
		s = store_open(dir);	/* which has not looked through it */
		fm_fault_arm("store.alloc", n);
		if (enter_as("run/m", false) == 0)
			CU_ASSERT_EQUAL(watches(), 1);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
	}
	CU_ASSERT_EQUAL(group(FM_GROUP_DISCARD), 0);
	end();
}

/* Goal: nor to one that the store has no room to watch; the sweep passes over it. */
static void test_member_no_room(void)
{
	struct fm_group_count *groups;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
	s->ops->free(s);
	s = store_open(dir);	/* which has not looked through it */
	groups = &fm_container_of(s, struct fm_store_dir, store)->groups;
	groups->count += FM_GROUPS_OPEN_MAX;
	CU_ASSERT_EQUAL(enter_as("run/m", false), -EDQUOT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "65536 groups are open in this store"));
	sweep();
	CU_ASSERT_EQUAL(watches(), 0);
	groups->count -= FM_GROUPS_OPEN_MAX;
	CU_ASSERT_EQUAL(enter_as("run/m", false), 0);
	CU_ASSERT_EQUAL(watches(), 1);
	CU_ASSERT_EQUAL(group(FM_GROUP_DISCARD), 0);
	end();
}

/*
 * Goal:   nor by one that passes over a directory which is nested too deep, or which this service
 *         may not read just now; but for the one of fsck, in which there are no groups.
 */
static void test_swept_passed_over(void)
{
	if (fm_test_lacks_faults())
		return;
	begin_limited(ON_DISK, LIMIT);
	CU_ASSERT_EQUAL(mkdir(at("d"), 0755), 0);
	CU_ASSERT_EQUAL(begin_at("d/a"), 0);
	CU_ASSERT_EQUAL(begin_at("d/b"), 0);
	fm_fault_arm("store.walk_deep", 2);	/* the first one is the store */
	sweep();
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(begin_at("c"), -EDQUOT);
	remove_all(at("d"));
	CU_ASSERT_EQUAL(mkdir(at("lost+found"), 0700), 0);
	fm_fault_arm("store.walk_deep", 2);
	sweep();
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(begin_at("c"), geteuid() == 0 ? 0 : -EDQUOT);
	s->ops->free(s);
	dir_remove(dir);
	lane_close(&l);
}

/* The longest path that there may be: that of its group's directory is longer. */
static const char *longest_path(void)
{
	static char path[FM_PATH_LEN_MAX + 1];

	memset(path, 'p', FM_PATH_LEN_MAX);
	for (size_t i = 200; i < FM_PATH_LEN_MAX - 2; i += 200)
		path[i] = '/';
	path[FM_PATH_LEN_MAX - 2] = '/';
	return path;
}

/* Goal: a group whose directory has a longer path than any counts, and ends with its time. */
static void test_swept_long_path(void)
{
	struct fm_group_ask ask = {.op = FM_GROUP_BEGIN, .id = {1}, .members = 1, .expires_s = 1};
	char command[120];

	begin_limited(ON_DISK, 1);
	CU_ASSERT_EQUAL(begin_at(longest_path()), 0);
	s->ops->free(s);
	open_limited(1);
	sweep();
	CU_ASSERT_EQUAL(begin_at("c"), -EDQUOT);
	CU_ASSERT_EQUAL(group_at(longest_path(), FM_GROUP_DISCARD, &root_user), 0);
	CU_ASSERT_EQUAL(s->ops->group(s, longest_path(), &root_user, &ask, &err), 0);
	(void)usleep(1100000);
	sweep();
	snprintf(command, sizeof(command), "find '%s' -name '.fmove.*' | grep -q .", dir);
	CU_ASSERT_NOT_EQUAL(system(command), 0);
	s->ops->free(s);
	dir_remove(dir);
	lane_close(&l);
}

/* A third one is refused, until one of the two has ended; of a user, whoever else has some. */
static void test_limit(void)
{
	begin_limited(ON_DISK, LIMIT);
	CU_ASSERT_EQUAL(begin_at("a"), 0);
	CU_ASSERT_EQUAL(begin_at("b"), 0);
	CU_ASSERT_EQUAL(begin_at("c"), -EDQUOT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "\"c\": uid 0 has 2 open groups in this store, and "
						"2 are allowed (group_limit): commit or discard"));
	CU_ASSERT_EQUAL(dir_count(dir, ".fmove."), 2);
	CU_ASSERT_EQUAL(group_at("p", FM_GROUP_BEGIN, &a_peer), 0);
	CU_ASSERT_EQUAL(begin_at("b"), 0);	/* again */
	CU_ASSERT_EQUAL(group_at("a", FM_GROUP_DISCARD, &root_user), 0);
	CU_ASSERT_EQUAL(begin_at("run"), 0);
	CU_ASSERT_EQUAL(begin_at("c"), -EDQUOT);
	CU_ASSERT_EQUAL(group_at("b", FM_GROUP_DISCARD, &root_user), 0);
	CU_ASSERT_EQUAL(group_at("p", FM_GROUP_DISCARD, &a_peer), 0);
	make_member();
	CU_ASSERT_EQUAL(group(FM_GROUP_COMMIT), 0);
	CU_ASSERT_EQUAL(begin_at("a"), 0);
	CU_ASSERT_EQUAL(begin_at("b"), 0);
	CU_ASSERT_EQUAL(begin_at("c"), -EDQUOT);
	s->ops->free(s);
	dir_remove(dir);
	lane_close(&l);
}

/* Nor does one that was published count where it is watched on. */
static void test_limit_published(void)
{
	const struct fm_store_dir *sd;

	begin_limited(ON_DISK, 1);
	sd = fm_container_of(s, struct fm_store_dir, store);
	s->is_durable = false;
	CU_ASSERT_EQUAL(group(FM_GROUP_BEGIN), 0);
	make_member();
	CU_ASSERT_EQUAL(group(FM_GROUP_COMMIT), 0);
	CU_ASSERT_EQUAL(watches(), 1);
	CU_ASSERT_EQUAL(begin_at("a"), 0);
	CU_ASSERT_EQUAL(begin_at("b"), -EDQUOT);
	CU_ASSERT_EQUAL(sd->groups.published, 1);
	sweep();
	CU_ASSERT_EQUAL(watches(), 2);
	sweep();
	CU_ASSERT_EQUAL(watches(), 1);
	CU_ASSERT_EQUAL(sd->groups.published, 0);
	CU_ASSERT_EQUAL(begin_at("b"), -EDQUOT);
	s->ops->free(s);
	dir_remove(dir);
	lane_close(&l);
}

/* What an earlier daemon left counts behind the first look, and what went otherwise does not. */
static void test_limit_is_looked_up(void)
{
	begin_limited(ON_DISK, LIMIT);
	CU_ASSERT_EQUAL(begin_at("a"), 0);
	CU_ASSERT_EQUAL(mkdir(at("d"), 0755), 0);
	CU_ASSERT_EQUAL(begin_at("d/b"), 0);
	s->ops->free(s);
	open_limited(LIMIT);
	sweep();
	CU_ASSERT_EQUAL(begin_at("c"), -EDQUOT);
	sweep();
	CU_ASSERT_EQUAL(begin_at("c"), -EDQUOT);
	remove_all(at("d"));
	sweep();
	CU_ASSERT_EQUAL(begin_at("c"), 0);
	CU_ASSERT_EQUAL(begin_at("e"), -EDQUOT);
	s->ops->free(s);
	dir_remove(dir);
	lane_close(&l);
}

/* false: the first one's time was over before the third one was begun, as on a busy machine. */
static bool is_limited_until(uint64_t expires_s)
{
	const struct fm_group_ask ask = {
		.op = FM_GROUP_BEGIN, .id = {1}, .members = 1, .expires_s = expires_s};
	bool is_limited;

	begin_limited(ON_DISK, LIMIT);
	CU_ASSERT_EQUAL(s->ops->group(s, "a", &root_user, &ask, &err), 0);
	CU_ASSERT_EQUAL(begin_at("b"), 0);
	is_limited = begin_at("c") == -EDQUOT;
	if (is_limited) {
		(void)usleep((useconds_t)expires_s * 1000000 + 100000);
		CU_ASSERT_EQUAL(begin_at("c"), 0);
	}
	s->ops->free(s);
	dir_remove(dir);
	lane_close(&l);
	return is_limited;
}

/* A group whose time is over is nobody's any more. */
static void test_limit_and_time(void)
{
	bool is_limited = false;

	for (uint64_t expires_s = 1; !is_limited && expires_s <= 64; expires_s *= 4)
		is_limited = is_limited_until(expires_s);
	CU_ASSERT_TRUE(is_limited);
}

/* A begin that fails at any point does not count. */
static void test_limit_and_faults(void)
{
	static const char *const points[] = {"store.alloc", "tree.fsync", "tree.rename"};

	begin_limited(ON_DISK, LIMIT);
	CU_ASSERT_EQUAL(begin_at("a"), 0);
	for (unsigned i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		int ret = -1;

		for (unsigned nth = 1; ret != 0 && nth < 100; nth++) {
			fm_fault_arm(points[i], nth);
			ret = begin_at("b");
			fm_fault_arm(NULL, 0);
		}
		CU_ASSERT_EQUAL(ret, 0);
		CU_ASSERT_EQUAL(group_at("b", FM_GROUP_DISCARD, &root_user), 0);
	}
	CU_ASSERT_EQUAL(begin_at("b"), 0);
	CU_ASSERT_EQUAL(begin_at("c"), -EDQUOT);
	s->ops->free(s);
	dir_remove(dir);
	lane_close(&l);
}

/* Which members are missing is told by their names, or as a number. */
static void test_missing(void)
{
	struct fm_group_names missing = {.count = 7};
	struct fm_group_ask ask = {.op = FM_GROUP_COMMIT,
				   .id = {1},
				   .expect = "a\nm\nz/y",
				   .expect_len = 7,
				   .missing = &missing};

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL_FATAL(group(FM_GROUP_BEGIN), 0);
	make_member();
	missing = (struct fm_group_names){.count = 0};
	CU_ASSERT_EQUAL(s->ops->group(s, "run", &root_user, &ask, &err), -ENODATA);
	CU_ASSERT_EQUAL(missing.count, 2);
	CU_ASSERT_STRING_EQUAL(missing.text, "a\nz/y");
	ask.expect_len = 0;
	ask.members = 5;
	missing = (struct fm_group_names){.count = 0};
	CU_ASSERT_EQUAL(s->ops->group(s, "run", &root_user, &ask, &err), -ENODATA);
	CU_ASSERT_EQUAL(missing.count, 4);
	CU_ASSERT_STRING_EQUAL(missing.text, "");
	CU_ASSERT_EQUAL(group(FM_GROUP_DISCARD), 0);
	end();
}

static const struct fm_test tests[] = {
	{ "a user has so many groups open, and no more", test_limit },
	{ "one that was published is watched, and does not count", test_limit_published },
	{"a sweep that cannot read forgets none", test_swept_unread},
	{"nor one that passes a directory over", test_swept_passed_over},
	{"a member comes to a group that is watched", test_member_unwatched},
	{ "nor to one for which there is no room", test_member_no_room },
	{"a group below a path that is long is swept, too", test_swept_long_path},
	{ "groups that are found count, and those that went do not", test_limit_is_looked_up },
	{ "a group whose time is over does not count", test_limit_and_time },
	{ "a begin that failed does not count", test_limit_and_faults },
	{ "who is missing is told by name", test_missing },
	{ "a commit again is refused if what was committed is not there", test_again_is_there },
	{ "a record that is a directory or a link is none", test_record_is_something_else },
	{ "a record with a damaged bit is none", test_record_is_damaged },
	{ "the latest is what was published last, and not by the clock", test_latest_by_order },
	{ "the latest is on the disk", test_latest_is_on_disk },
	{ "whoever was told that it is not", test_latest_and_others },
	{ "whatever else cannot be written", test_latest_of_synced },
	{ "or could not of what had the name before", test_latest_of_another },
	{ "nor could where no handle lasts", test_latest_of_fuse },
	{ "nor is it of an earlier boot", test_latest_before_boot },
	{ "a list of all groups looks through the store once", test_list_walks_once },
	{ "a list goes on behind what ended meanwhile", test_list_goes_on },
	{ "those that are expected, by their names", test_expected_names },
	{ "a begin that is repeated begins nothing else", test_begun_again },
	{ "what cannot be replaced comes back, without exchanges, too", test_old_one_comes_back },
	{ "a commit of what was committed is on the disk, too", test_again_is_synced },
	{ "what a failed sync left unknown is never published", test_failed_sync_is_not_forgotten },
	{ "whoever was told of the error first", test_others_hear_first },
	{ "but what was on the disk is, whatever cannot be written", test_others_cannot_write },
	{"nor what expires while it is committed", test_expires_amid_commit},
	{ "that some came without a sync is on the disk before them", test_note_is_on_the_disk },
	{ "what came without a sync is not published after a reboot", test_unsynced_before_boot },
	{ "few commits wait for members, and others hear at once that they come", test_few_wait },
	{ "a commit again waits for the first one, which is under way", test_again_waits },
};
FM_TEST_MAIN("store group", tests)
