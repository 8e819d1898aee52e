/* SPDX-License-Identifier: MIT */
/*
 * The n-th-failure loop over the sink of a tree. links: fm_tree
 *
 * Goal:   whatever call fails, the final name has the old or the new version, whole; there is one
 *         error with a text, no descriptor
 * stays open, and the same transfer without the failure succeeds.
 * Method: fail the n-th fault point, n = 1, 2, 3 ... until a transfer ends without the fault: then
 * every point was tried.
 */
#include <glob.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "mover/base/fault.h"
#include "mover/tree/wanted.h"
#include "tests/unit/may_mount.h"
#include "tests/unit/sink_scene.h"

#define POINTS_MAX 600
#define LARGE_SIZE 10000u

struct step {
	const char *name;
	struct fm_tree_sink_opts (*options)(void);
	bool has_old;
	bool is_resumed;	/* something of an earlier try is there */
	unsigned points_min;
};

/* What fails may leave something for a sweep; nothing but that. */
static unsigned left(void)
{
	unsigned count = 0;
	DIR *d = opendir(dir);
	const struct dirent *entry;

	while (d && (entry = readdir(d)))
		count += strcmp(entry->d_name, "tree") != 0 && entry->d_name[0] == '.' &&
			 entry->d_name[1] == 'f' &&
			 fm_staging_kind(entry->d_name) != FM_STAGING_OLD &&
			 fm_staging_kind(entry->d_name) != FM_STAGING_KEPT &&
			 !fm_manifest_is_name(entry->d_name);
	if (d)
		closedir(d);
	return count;
}

static int put_large(void)
{
	struct fm_tree_large how = {.path = "d/large",
				    .size = LARGE_SIZE,
				    .mode = 0640,
				    .mtime_ns = A_TIME,
				    .id = {.ino = 5}};
	struct fm_digest digest = {
		.crc = crc_of(9, LARGE_SIZE), .size = LARGE_SIZE, .mtime_ns = A_TIME};
	struct fm_journal_entry e = {.path = how.path,
				     .path_len = 7,
				     .size = LARGE_SIZE,
				     .mtime_ns = A_TIME,
				     .identity = fm_identity_hash(&how.id),
				     .len = LARGE_SIZE};
	struct fm_have have;
	uint8_t *buf;
	int fd, ret = t->ops->create_large(t, &how, &fd, &have, &err);

	if (ret < 0)
		return ret;
	fm_have_free(&have);
	buf = malloc(LARGE_SIZE);
	fill(buf, 9, 0, LARGE_SIZE);
	CU_ASSERT_EQUAL(pwrite(fd, buf, LARGE_SIZE, 0), LARGE_SIZE);
	e.crc = fm_crc32c_part(fm_crc32c(0, buf, LARGE_SIZE), 0, LARGE_SIZE);
	free(buf);
	ret = t->ops->wrote_large(t, &e, &err);
	if (ret == 0)
		ret = t->ops->seal_large(t, &how, fd, &digest, &err);
	close(fd);
	return ret;
}

/* Offers, then what is needed of them and all the rest. */
static int send_all(void)
{
	bool is_needed_f, is_needed_g;
	int ret;

	pack_begin(FM_PACK_OFFER);
	add_offer("f", 2, 5000);
	add_offer("d/g", 2, 300);
	add_dir("d", 0750);
	add_link("l", "f");
	ret = apply();
	if (ret < 0)
		return ret;
	is_needed_f = is_needed(0);
	is_needed_g = is_needed(1);
	pack_begin(0);
	add_dir("", 0755);
	if (is_needed_f)
		add_file("f", 2, 5000);
	if (is_needed_g) {
		add_piece("d/g", 2, 300, 200, 100);
		add_piece("d/g", 2, 300, 0, 200);
	}
	add_dir("closed", 0);
	add_hard("d/h", "d/g");
	add_attr("d/large", 0600, A_TIME);
	ret = apply();
	if (ret == 0)
		ret = apply();	/* twice */
	if (ret == 0)
		ret = put_large();
	if (ret == 0)
		ret = t->ops->log(t, &err);
	return ret;
}

/* One transfer; how it ends when it failed differs with n. */
static int run(const struct step *step, unsigned n)
{
	int ret = sink_new(step->options());

	if (ret < 0)
		return ret;
	ret = send_all();
	if (ret == 0)
		ret = finish();
	if (ret < 0 && n % 3 == 0)
		t->ops->keep(t);
	else if (ret < 0 && n % 3 == 1)
		t->ops->discard(t);
	t->ops->close(t);
	return ret;
}

/* What only the old version has, at some depth and of several kinds. */
static bool has_kept(void)
{
	return has_content("tree/only here", 3, 10) && has_content("tree/kept/deep/x", 4, 20) &&
	       has_stat("tree/kept/deep/x", 0644, A_TIME + 4) && is_there("tree/kept/l") &&
	       has_content("tree/d/kept", 5, 30);
}

static bool is_new(const struct step *step)
{
	bool is_merged = step->has_old && step->options().is_update && !step->options().is_delete;

	return is_version("tree", 2) && has_content("tree/d/h", 2, 300) &&
	       has_content("tree/d/large", 9, LARGE_SIZE) &&
	       has_stat("tree/d", 0750, A_TIME + 50) && has_stat("tree/closed", 0, A_TIME + 50) &&
	       is_there("tree/l") && has_stat("tree/d/large", 0600, A_TIME) &&
	       has_stat("tree/f", 0644, A_TIME + 2) && (!is_merged || has_kept()) &&
	       names_in(at("tree"), "") == (is_merged ? 6 : 4) &&
	       names_in(at("tree/d"), "") == (is_merged ? 4 : 3);
}

static bool is_old(const struct step *step)
{
	if (!step->has_old)
		return !is_there("tree");
	return has_content("tree/f", 2, 5000) && has_content("tree/d/g", 1, 300) &&
	       names_in(at("tree"), "") == 4 && has_kept() && has_stat("tree/f", 0644, A_TIME + 2);
}

static void make_old(void)
{
	MUST(sink_new(options()));
	pack_begin(0);
	add_file("f", 2, 5000);
	add_file("d/g", 1, 300);
	add_file("only here", 3, 10);
	add_file("kept/deep/x", 4, 20);
	add_file("d/kept", 5, 30);
	add_link("kept/l", "x");
	OK(apply());
	OK(finish());
	t->ops->close(t);
}

/* An earlier try, of which one file is in the journal. */
static void make_partial(const struct step *step)
{
	MUST(sink_new(step->options()));
	pack_begin(0);
	add_file("f", 2, 5000);
	add_file("d/not any more", 2, 50);
	OK(apply());
	t->ops->keep(t);
	t->ops->close(t);
}

static void check(const struct step *step, int ret, unsigned n)
{
	bool is_removed = ret < 0 && n % 3 != 0 && !step->is_resumed;

	CU_ASSERT_TRUE(ret == 0 ? is_new(step) : is_old(step));
	CU_ASSERT_TRUE(!is_removed || left() <= 1);	/* removing may be what failed */
	/* The same again, now that nothing fails. */
	MUST(run(step, 0));
	CU_ASSERT_TRUE(is_new(step));
	CU_ASSERT_EQUAL(left(), 0);
}

static struct fm_tree_sink_opts replacing_step(void)
{
	struct fm_tree_sink_opts opts = replacing();

	opts.grace_ns = 1;
	return opts;
}

static struct fm_tree_sink_opts updating_step(void)
{
	struct fm_tree_sink_opts opts = replacing();

	opts.is_update = opts.is_delete = true;
	return opts;
}

static struct fm_tree_sink_opts merging_step(void)
{
	struct fm_tree_sink_opts opts = replacing();

	opts.is_update = true;
	return opts;
}

static struct fm_tree_sink_opts fleeting_step(void)
{
	struct fm_tree_sink_opts opts = replacing();

	opts.is_synced = false;
	opts.has_digests = false;
	opts.used = NULL;
	opts.take = NULL;
	return opts;
}

static void loop_over(const struct step *step)
{
	bool has_fired = true;
	unsigned n, fds;
	int ret = 0;

	for (n = 1; has_fired && n < POINTS_MAX; n++) {
		unsigned failures = CU_get_number_of_failures();

		scene_begin(IN_MEMORY);
		if (step->has_old)
			make_old();
		if (step->is_resumed)
			make_partial(step);
		fds = fds_open();
		fm_err_clear(&err);
		fm_fault_arm(NULL, n);
		ret = run(step, n);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(fds_open(), fds);
		CU_ASSERT_TRUE(ret == 0 || (has_fired && err.code == ret && strlen(err.text) > 10));
		check(step, ret, n);
		CU_ASSERT_EQUAL(fds_open(), fds);
		scene_end();
		if (CU_get_number_of_failures() > failures)
			printf("in: %s, point %u: %d %s\n", step->name, n, ret, err.text);
	}
	CU_ASSERT_EQUAL(ret, 0);
	CU_ASSERT_FALSE(has_fired);
	CU_ASSERT_TRUE(n > step->points_min);
}

static void test_each_failure(void)
{
	static const struct step steps[] = {
		{ "a new tree", replacing_step, false, false, 70 },
		{ "over an old one", replacing_step, true, false, 70 },
		{ "an update", updating_step, true, false, 80 },
		{ "not durable, no digests", fleeting_step, true, false, 60 },
		{ "gone on with", replacing_step, false, true, 80 },
		{ "gone on with, over an old one", updating_step, true, true, 80 },
		{ "an update that merges", merging_step, true, false, 100 },
		{ "gone on with, merged into an old one", merging_step, true, true, 100 },
	};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		loop_over(&steps[i]);
}

/* ---- the sync of the directory fails behind the rename ---- */

static void test_undo(void)
{
	for (unsigned i = 0; i < 2; i++) {
		scene_begin(IN_MEMORY);
		if (i == 1)
			put_version(options(), 1);
		MUST(sink_new(replacing()));
		pack_begin(0);
		add_file("f", 2, 5000);
		OK(apply());
		OK(t->ops->prepare(t, true, &err));
		fm_fault_arm("tree.fsync", 1 + i);	/* before an old one the lock is synced */
		CU_ASSERT_EQUAL(t->ops->publish(t, true, &err), -EIO);
		CU_ASSERT_TRUE(fm_fault_fired());
		fm_fault_arm(NULL, 0);
		CU_ASSERT_TRUE(i == 1 ? is_version("tree", 1) : !is_there("tree"));
		CU_ASSERT_EQUAL(t->ops->publish(t, true, &err), -EIO);
		t->ops->keep(t);
		t->ops->close(t);
		CU_ASSERT_TRUE(i == 1 ? is_version("tree", 1) : !is_there("tree"));
		CU_ASSERT_EQUAL(names_in(dir, ""), i);
		scene_end();
	}
}

/* ---- a power cut must not find a version replaced, and no word of it ---- */

static uint64_t old_on_disk;	/* what a lock that was synced says of the old version */
static uint64_t old_at_exchange;

static bool is_settled;	/* the .new name's end is on the disk, and the lock says where it was */

/* What the one lock in the scene says of the old version; 0: there is none, or it says nothing. */
static uint64_t old_in_lock(void)
{
	struct fm_staging_state state = {.old_ino = 0};
	glob_t found;
	int fd;

	if (glob(at(".fmove.*.tree/lock"), 0, NULL, &found) == 0) {
		fd = open(found.gl_pathv[0], O_RDONLY);
		(void)fm_staging_read(fd, &state);
		close(fd);
	}
	globfree(&found);
	return state.old_ino;
}

int fsync(int fd)
{
	struct fm_staging_state state;
	struct stat st;
	glob_t found;

	if (fm_staging_read(fd, &state) == 0)
		old_on_disk = state.old_ino;
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && old_in_lock() != 0) {
		is_settled |= glob(at(".fmove.*.new"), 0, NULL, &found) == GLOB_NOMATCH;
		globfree(&found);
	}
	return (int)syscall(SYS_fsync, fd);
}

static void at_exchange(void *ctx, const char *name)
{
	(void)ctx;
	if (strcmp(name, "tree.rename_flags") == 0 && old_at_exchange == 0)
		old_at_exchange = old_on_disk;
}

/* A version replaces another one. What the disk says of that one when names are exchanged. */
static uint64_t old_noted(bool is_durable)
{
	old_on_disk = old_at_exchange = 0;
	is_settled = false;
	MUST(sink_new(replacing()));
	pack_begin(0);
	add_file("f", 2, 5000);
	OK(apply());
	OK(t->ops->prepare(t, is_durable, &err));
	fm_fault_watch(at_exchange, NULL);
	OK(t->ops->publish(t, is_durable, &err));
	fm_fault_watch(NULL, NULL);
	t->ops->close(t);
	return old_at_exchange;
}

static void test_old_is_noted(void)
{
	ino_t old;

	scene_begin(IN_MEMORY);
	put_version(options(), 1);
	CU_ASSERT_EQUAL(old_noted(false), 0);
	CU_ASSERT_FALSE(is_settled);
	old = ino_of("tree");
	CU_ASSERT_EQUAL(old_noted(true), old);
	CU_ASSERT_TRUE(is_settled);
	CU_ASSERT_NOT_EQUAL(ino_of("tree"), old);
	scene_end();
}

/* ---- a sync that failed tells so once: nothing after it may be believed ---- */

static void test_broken_sync(void)
{
	scene_begin(IN_MEMORY);
	MUST(sink_new(options()));
	pack_begin(0);
	add_file("e", 1, 5000);
	OK(apply());
	OK(t->ops->log(t, &err));
	pack_begin(0);
	add_file("f", 2, 5000);
	OK(apply());
	fm_fault_arm("tree.syncfs", 1);
	CU_ASSERT_EQUAL(t->ops->log(t, &err), -EIO);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(t->ops->log(t, &err), -EIO);
	CU_ASSERT_EQUAL(apply(), -EIO);
	CU_ASSERT_EQUAL(finish(), -EIO);
	t->ops->keep(t);
	t->ops->close(t);
	/* it covered all that there was, so nothing is kept */
	CU_ASSERT_EQUAL(names_in(dir, ""), 0);
	scene_end();
}

/* ---- an update that changes nothing says of what is there that it is on the disk ---- */

struct syncs {
	unsigned of_file_systems, of_directories;
};

static void count_sync(void *ctx, const char *name)
{
	struct syncs *n = ctx;

	n->of_file_systems += strcmp(name, "tree.syncfs") == 0;
	n->of_directories += strcmp(name, "tree.fsync") == 0;
}

/* A version is there, and the same is offered. is_made: the update finds that out only when it has
 * made all of it anew, since not all is offered. */
static void offer_same(bool is_durable, bool is_made)
{
	struct fm_tree_sink_opts opts = options();

	opts.is_update = true;
	opts.is_synced = is_durable;
	MUST(sink_new(opts));
	pack_begin(is_made ? 0 : FM_PACK_OFFER);
	add_dir("", 0755);
	add_dir("d", 0755);
	OK(apply());
	pack_begin(FM_PACK_OFFER);
	add_offer("f", 1, 5000);
	add_offer("d/g", 1, 300);
	OK(apply());
	CU_ASSERT_FALSE(is_needed(0) || is_needed(1));
}

static struct syncs syncs_of_same(bool is_durable, bool is_made)
{
	struct syncs n = { 0 };

	offer_same(is_durable, is_made);
	fm_fault_watch(count_sync, &n);
	OK(t->ops->prepare(t, is_durable, &err));
	OK(t->ops->publish(t, is_durable, &err));
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_TRUE(counts().reused_files == 2 && counts().replaced == 0);
	t->ops->close(t);
	return n;
}

static void same_fails_to_sync(const char *point, bool is_made)
{
	offer_same(true, is_made);
	fm_fault_arm(point, 1);
	CU_ASSERT_EQUAL_FATAL(finish(), -EIO);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(t->ops->publish(t, true, &err), -EIO);
	t->ops->keep(t);
	t->ops->close(t);
	CU_ASSERT_TRUE(is_version("tree", 1));
	CU_ASSERT_EQUAL(names_in(dir, ""), 1);
}

static void offer_all(bool is_dry)
{
	struct fm_tree_sink_opts opts = options();

	opts.is_update = true;
	opts.is_dry = is_dry;
	MUST(sink_new(opts));
	pack_begin(FM_PACK_OFFER);
	add_offer("f", 1, 5000);
	add_offer("d/g", 1, 300);
	add_dir("", 0755);
	add_dir("d", 0755);
	OK(apply());
}

/*
 * The kernel tells of what it could not write once, and a sync of the next update succeeds. So that
 * asks for all, shares nothing, and publishes it; from then on it is the same again.
 */
static void comes_anew_after_failed_sync(void)
{
	ino_t f = ino_of("tree/f"), his, root = ino_of("tree");

	write_file("tree/his", 5, 3000, 0640, A_TIME + 5);
	his = ino_of("tree/his");
	offer_all(true);
	CU_ASSERT_TRUE(is_needed(0) && is_needed(1));
	t->ops->close(t);
	offer_all(false);
	CU_ASSERT_TRUE(is_needed(0) && is_needed(1));
	pack_begin(0);
	add_file("f", 1, 5000);
	add_file("d/g", 1, 300);
	OK(apply());
	OK(finish());
	CU_ASSERT_EQUAL(counts().reused_files, 0);
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/f", 1, 5000) && has_content("tree/d/g", 1, 300));
	CU_ASSERT_TRUE(has_content("tree/his", 5, 3000) && has_stat("tree/his", 0640, A_TIME + 5));
	CU_ASSERT_TRUE(ino_of("tree") != root && ino_of("tree/f") != f &&
		       ino_of("tree/his") != his);
	CU_ASSERT_EQUAL(unlink(at("tree/his")), 0);
	root = ino_of("tree");
	(void)syncs_of_same(true, false);
	CU_ASSERT_EQUAL(ino_of("tree"), root);
}

/* Where the first sync fails, so does what is to be written down of that. */
static void fail_mark(void *ctx, const char *point)
{
	bool *is_armed = ctx;

	(void)point;
	if (*is_armed || !fm_fault_fired())
		return;
	*is_armed = true;
	fm_fault_arm("tree.set_xattr", 1);
}

/* Goal: who hears of the error hears what to do then; --replace compares nothing. */
static void test_mark_fails(void)
{
	bool is_armed = false;

	scene_begin(IN_MEMORY);
	put_version(options(), 1);
	offer_same(true, false);
	fm_fault_watch(fail_mark, &is_armed);
	fm_fault_arm("tree.syncfs", 1);
	CU_ASSERT_EQUAL(finish(), -EIO);
	CU_ASSERT_TRUE(is_armed && fm_fault_fired());
	fm_fault_watch(NULL, NULL);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "put it with --replace"));
	t->ops->keep(t);
	t->ops->close(t);
	scene_end();
}

/* Goal: the same where nobody hears of it, since what came is kept for the next try: the first sync
 * of a disk that died is one of what was not in the journal yet. */
static void test_keeping_fails(void)
{
	struct fm_tree_sink_opts opts = options();
	bool is_armed = false;

	scene_begin(IN_MEMORY);
	put_version(options(), 1);
	opts.is_update = opts.is_synced = true;
	MUST(sink_new(opts));
	pack_begin(0);
	add_file("new", 8, 60);
	OK(apply());
	fm_fault_watch(fail_mark, &is_armed);
	fm_fault_arm("tree.syncfs", 1);
	t->ops->keep(t);
	CU_ASSERT_TRUE(is_armed && fm_fault_fired());
	fm_fault_watch(NULL, NULL);
	fm_fault_arm(NULL, 0);
	t->ops->close(t);
	CU_ASSERT_TRUE(is_version("tree", 1));
	CU_ASSERT_EQUAL(names_in(dir, ""), 1);
	scene_end();
}

static bool has_attributes(void)
{
	return setxattr(dir, "user.probe", "", 0, 0) == 0;
}

/*
 * Goal:   who put it may not have synced it, so the update does, and its name; one that fails is
 *         an error, and what is there stays. Without durability nothing is synced.
 * Method: count the calls, then fail each.
 */
static void test_same_is_synced(void)
{
	for (int is_made = 0; is_made <= 1; is_made++) {
		struct syncs n;

		scene_begin(IN_MEMORY);
		put_version(options(), 1);
		n = syncs_of_same(false, is_made);
		CU_ASSERT_TRUE(n.of_file_systems == 0 && n.of_directories == 0);
		n = syncs_of_same(true, is_made);
		CU_ASSERT_TRUE(n.of_file_systems == 1 && n.of_directories == 1);
		same_fails_to_sync("tree.syncfs", is_made);
		if (has_attributes())
			comes_anew_after_failed_sync();
		same_fails_to_sync("tree.fsync", is_made);
		if (has_attributes())
			comes_anew_after_failed_sync();
		scene_end();
	}
}

/* Goal: what is put aside while nothing differs has an end, and what is more is made. */
static void test_look_is_full(void)
{
	scene_begin(IN_MEMORY);
	put_version(options(), 1);
	fm_fault_arm("tree.look_full", 1);
	offer_same(true, false);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_STRING_NOT_EQUAL(ours(FM_STAGING_TREE), "");
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_TRUE(is_version("tree", 1));
	scene_end();
}

/* Goal: what is mounted in it stays there where nothing differs, and has a sync of its own. */
static void test_mounted_is_synced(void)
{
	struct syncs n;

	if (!may_mount())
		return;
	scene_begin(IN_MEMORY);
	put_version(options(), 1);
	OK(mkdir(at("tree/mounted"), 0755));
	OK(mount("tmpfs", at("tree/mounted"), "tmpfs", 0, "size=1m"));
	OK(mkdir(at("tree/mounted/below"), 0755));
	n = syncs_of_same(true, false);
	CU_ASSERT_EQUAL(n.of_file_systems, 2);
	OK(umount(at("tree/mounted")));
	scene_end();
}

/* ---- something appears in the old version while the new one gets its name ---- */

static void make_late(void)
{
	write_file("tree/late", 6, 40, 0640, A_TIME + 6);
	CU_ASSERT_EQUAL(mkdir(at("tree/kept/late"), 0700), 0);
	write_file("tree/kept/late/x", 7, 50, 0600, A_TIME + 7);
}

#define LATE_DIR_TIME (A_TIME + 9)

static void make_late_dir(void)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
					  {.tv_sec = LATE_DIR_TIME / 1000000000,
					   .tv_nsec = LATE_DIR_TIME % 1000000000}};

	CU_ASSERT_EQUAL(mkdir(at("tree/kept/late"), 0700), 0);
	CU_ASSERT_EQUAL(chmod(at("tree/kept/late"), 0751), 0);
	CU_ASSERT_EQUAL(utimensat(AT_FDCWD, at("tree/kept/late"), times, 0), 0);
}

/* It was taken over, and is finished. */
static bool has_late_dir(void)
{
	return has_stat("tree/kept/late", 0751, LATE_DIR_TIME);
}

static bool has_late(const char *root)
{
	char late[300], x[300];

	snprintf(late, sizeof(late), "%s/late", root);
	snprintf(x, sizeof(x), "%s/kept/late/x", root);
	return has_content(late, 6, 40) && has_stat(late, 0640, A_TIME + 6) &&
	       has_content(x, 7, 50) && has_stat(x, 0600, A_TIME + 7);
}

/* It is taken over; if it cannot be, it stays in the version that was replaced. */
static void test_late(void)
{
	for (unsigned i = 0; i < 2; i++) {
		struct fm_tree_sink_opts opts = options();

		scene_begin(IN_MEMORY);
		make_old();
		opts.is_update = true;
		MUST(sink_new(opts));
		pack_begin(0);
		add_file("new", 8, 60);
		OK(apply());
		OK(t->ops->prepare(t, true, &err));
		make_late();
		if (i == 1)
			fm_fault_arm("scan.getdents", 1);
		OK(t->ops->publish(t, true, &err));
		CU_ASSERT_EQUAL(fm_fault_fired(), i == 1);
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(t->note != NULL, i == 1);
		CU_ASSERT_TRUE(has_content("tree/new", 8, 60) && has_kept());
		if (i == 0) {
			CU_ASSERT_TRUE(has_late("tree") && ours(FM_STAGING_OLD)[0] == '\0');
		} else {
			CU_ASSERT_TRUE(!is_there("tree/late") &&
				       has_late(version_in(FM_STAGING_KEPT)));
			CU_ASSERT_PTR_NOT_NULL(strstr(t->note, ours(FM_STAGING_KEPT)));
		}
		t->ops->close(t);
		scene_end();
	}
}

static bool is_marked(const char *path)
{
	return getxattr(at(path), "user.fmove.unsure", NULL, 0) >= 0;
}

/* Goal: where the sync of what was taken over at last fails, that is written of the version which
 * has the name, and may not be on the disk, and not of the one that was replaced. */
static void test_late_fails_to_sync(void)
{
	struct fm_tree_sink_opts opts = options();

	scene_begin(IN_MEMORY);
	make_old();
	opts.is_update = true;
	MUST(sink_new(opts));
	pack_begin(0);
	add_file("new", 8, 60);
	OK(apply());
	OK(t->ops->prepare(t, true, &err));
	make_late();
	fm_fault_arm("tree.syncfs", 1);
	OK(t->ops->publish(t, true, &err));
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(t->note && strstr(t->note, ours(FM_STAGING_KEPT)));
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/new", 8, 60) && has_late(version_in(FM_STAGING_KEPT)));
	if (has_attributes())
		CU_ASSERT_TRUE(is_marked("tree") && !is_marked(version_in(FM_STAGING_KEPT)));
	scene_end();
}

/* ---- somebody saves what only he has while the new version gets its name ---- */

/* Goal: a link whose target is too long for the file system (XFS: 1024 bytes) is not told as a name
 * that is. */
static void test_long_target(void)
{
	scene_begin(IN_MEMORY);
	MUST(sink_new(options()));
	pack_begin(0);
	add_link("link", "somewhere");
	fm_fault_arm("tree.symlink_target", 1);
	CU_ASSERT_EQUAL(apply(), -ENAMETOOLONG);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "\"link\": the file system takes no target"));
	t->ops->discard(t);
	t->ops->close(t);
	scene_end();
}

/* ---- a file that only the old version has may not be linked ---- */

static const char *unlinkable;		/* a name */

int linkat(int from_dir, const char *from, int dir_fd, const char *name, int flags)
{
	if (unlinkable && strcmp(from, unlinkable) == 0) {
		errno = EMLINK;
		return -1;
	}
	return (int)syscall(SYS_linkat, from_dir, from, dir_fd, name, flags);
}

static void begin_copying(void)
{
	struct fm_tree_sink_opts opts = options();

	opts.is_update = true;
	put_version(options(), 1);
	write_file("tree/his", 5, 3000, 0640, A_TIME + 5);
	MUST(sink_new(opts));
	pack_begin(0);
	add_file("new", 8, 60);
	OK(apply());
}

static void copying_is_refused(void)
{
	CU_ASSERT_EQUAL_FATAL(finish(), -EPERM);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "tree/his\" is only there, and cannot be kept: it "
						"may not be linked, and somebody writes to it"));
	t->ops->discard(t);
	t->ops->close(t);
	CU_ASSERT_TRUE(!is_there("tree/new") && is_there("tree/his"));
}

static void write_to_his(void *ctx, const char *point)
{
	int fd = strcmp(point, ctx) == 0 ? open(at("tree/his"), O_WRONLY) : -1;

	if (fd < 0)
		return;
	CU_ASSERT_EQUAL(pwrite(fd, "more", 4, 0), 4);
	close(fd);
}

/*
 * Goal: who has it open writes on into the version that goes: it is refused while he does, readers
 *       are not in the way, and where nobody can tell that is said. So is who writes while it is
 *       copied.
 */
static void test_copied_in_use(void)
{
	static const char *const points[] = {"tree.clone", "tree.read"};
	int fd;

	unlinkable = "his";
	scene_begin(IN_MEMORY);
	begin_copying();
	fd = open(at("tree/his"), O_WRONLY);
	copying_is_refused();
	close(fd);
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		scene_end();
		scene_begin(IN_MEMORY);
		begin_copying();
		fm_fault_watch(write_to_his, (void *)points[i]);
		copying_is_refused();
		fm_fault_watch(NULL, NULL);
	}
	for (int is_told = 0; is_told <= 1; is_told++) {
		scene_end();
		scene_begin(IN_MEMORY);
		begin_copying();
		fd = open(at("tree/his"), O_RDONLY);
		fm_fault_arm(is_told ? NULL : "tree.lease", is_told ? 0 : 1);
		OK(finish());
		CU_ASSERT_EQUAL(fm_fault_fired(), !is_told);
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(t->note != NULL, !is_told);
		CU_ASSERT_TRUE(is_told || strstr(t->note, "may not be linked were copied"));
		t->ops->close(t);
		close(fd);
		CU_ASSERT_TRUE(has_content("tree/his", 5, 3000) &&
			       has_stat("tree/his", 0640, A_TIME + 5));
	}
	scene_end();
	unlinkable = NULL;
}

/*
 * Goal:   whatever fails in a copy, what has the name afterwards is as the file was.
 * Method: fail each look at a file; an update that ends without an error has it as it was.
 */
static void test_copying_fails(void)
{
	static const char *const points[] = {"tree.stat", "written.fstat", "written.sync"};
	unsigned n;

	unlinkable = "his";
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		bool has_fired = true;

		for (n = 1; has_fired && n < POINTS_MAX; n++) {
			int ret;

			scene_begin(IN_MEMORY);
			begin_copying();
			fm_fault_arm(points[i], n);
			ret = finish();
			has_fired = fm_fault_fired();
			fm_fault_arm(NULL, 0);
			/* what a copy is to be is not known without a look */
			CU_ASSERT_TRUE(i == 0 || (ret < 0) == has_fired);
			if (ret < 0)
				t->ops->discard(t);
			t->ops->close(t);
			CU_ASSERT_TRUE(has_content("tree/his", 5, 3000) &&
				       has_stat("tree/his", 0640, A_TIME + 5));
			scene_end();
		}
		CU_ASSERT_TRUE(n > 2);	/* the point was reached */
	}
	unlinkable = NULL;
}

enum saved { SAVED_COMES, SAVED_CANNOT_COME, SAVED_IS_UNKNOWN, SAVED_COUNT };

/* As editors do: another file gets the name. */
static void save(void)
{
	write_file("tree/tmp", 11, 70, 0600, A_TIME + 11);
	CU_ASSERT_EQUAL(rename(at("tree/tmp"), at("tree/kept/deep/x")), 0);
	CU_ASSERT_EQUAL(symlink("y", at("tree/tmp")), 0);
	CU_ASSERT_EQUAL(rename(at("tree/tmp"), at("tree/kept/l")), 0);
	CU_ASSERT_EQUAL(unlink(at("tree/d/kept")), 0);
}

static bool has_saved(const char *root)
{
	char x[300], l[300], target[8] = "";

	snprintf(x, sizeof(x), "%s/kept/deep/x", root);
	snprintf(l, sizeof(l), "%s/kept/l", root);
	return has_content(x, 11, 70) && has_stat(x, 0600, A_TIME + 11) &&
	       readlink(at(l), target, sizeof(target) - 1) == 1 && target[0] == 'y';
}

static void run_saved(enum saved how)
{
	struct fm_tree_sink_opts opts = options();
	int64_t used;

	make_old();
	opts.is_update = true;
	MUST(sink_new(opts));
	pack_begin(0);
	add_file("new", 8, 60);
	OK(apply());
	if (how == SAVED_IS_UNKNOWN)
		fm_fault_arm("tree.unnoted", 1);
	OK(t->ops->prepare(t, true, &err));
	save();
	make_late_dir();
	used = used_bytes;
	if (how == SAVED_CANNOT_COME)
		fm_fault_arm("tree.link", 1);
	OK(t->ops->publish(t, true, &err));
	CU_ASSERT_EQUAL(fm_fault_fired(), how != SAVED_COMES);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(has_content("tree/new", 8, 60) && has_late_dir());
	CU_ASSERT_EQUAL(t->note != NULL, how != SAVED_COMES);
	if (how == SAVED_COMES) {
		CU_ASSERT_TRUE(has_saved("tree") && has_content("tree/d/kept", 5, 30) &&
			       ours(FM_STAGING_OLD)[0] == '\0');
		/* the old version went, and what was taken over first */
		CU_ASSERT_TRUE(used_bytes < used);
	} else if (how == SAVED_CANNOT_COME) {
		CU_ASSERT_TRUE(!has_saved("tree") && has_saved(version_in(FM_STAGING_KEPT)));
	} else {
		CU_ASSERT_TRUE(t->note && strstr(t->note, "saved meanwhile"));
	}
	t->ops->close(t);
}

/* Goal: the last that was saved is there, not what was there when the update looked. */
static void test_saved(void)
{
	for (int how = 0; how < SAVED_COUNT; how++) {
		scene_begin(IN_MEMORY);
		run_saved((enum saved)how);
		scene_end();
	}
}

/* ---- and writes to it in the new version, too ---- */

enum late { LATE_WRITTEN, LATE_WRITTEN_JUST_NOW, LATE_SAVED, LATE_COUNT };

struct later {
	const char *point;		/* it is before the first of these behind the exchange */
	enum late how;
	bool is_placed, is_done;
	unsigned syncs;			/* of the file system, behind it */
};

static void write_later(void *ctx, const char *point)
{
	struct later *l = ctx;
	int fd;

	l->is_placed |= strcmp(point, "tree.fsync") == 0;	/* of the directory around it */
	l->syncs += l->is_placed && strcmp(point, "tree.syncfs") == 0;
	if (l->is_done || !l->is_placed || strcmp(point, l->point) != 0)
		return;
	l->is_done = true;
	if (l->how == LATE_SAVED) {
		write_file("new", 12, 90, 0600, A_TIME + 12);
		CU_ASSERT_EQUAL(rename(at("new"), at("tree/kept/deep/x")), 0);
		return;
	}
	fd = open(at("tree/kept/deep/x"), O_WRONLY | O_APPEND);
	CU_ASSERT_EQUAL(write(fd, "late", 4), 4);
	close(fd);
}

static bool ends_late(const char *path)
{
	char end[4] = "";
	int fd = open(at(path), O_RDONLY);
	bool is;

	is = pread(fd, end, 4, 20) == 4 && memcmp(end, "late", 4) == 0;
	close(fd);
	return is;
}

static void run_saved_in_both(enum late how)
{
	static const char *const points[] = { "scan.getdents", "tree.link", "tree.link" };
	struct later l = { .point = points[how], .how = how };
	struct fm_tree_sink_opts opts = options();
	char kept[400], target = 0;

	make_old();
	opts.is_update = true;
	MUST(sink_new(opts));
	pack_begin(0);
	add_file("new", 8, 60);
	OK(apply());
	OK(t->ops->prepare(t, true, &err));
	save();
	make_late_dir();
	fm_fault_watch(write_later, &l);
	OK(t->ops->publish(t, true, &err));
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_TRUE(l.is_done);
	/* all else is finished, and on the disk */
	CU_ASSERT_TRUE(has_late_dir() && l.syncs == 1);
	if (how == LATE_SAVED) {
		CU_ASSERT_TRUE(has_content("tree/kept/deep/x", 12, 90) && !t->note);
	} else {
		snprintf(kept, sizeof(kept), "%s/kept/deep/x", version_in(FM_STAGING_KEPT));
		CU_ASSERT_TRUE(ends_late("tree/kept/deep/x") && has_content(kept, 11, 70));
		CU_ASSERT_TRUE(t->note && strstr(t->note, ours(FM_STAGING_KEPT)));
	}
	/* the other one */
	CU_ASSERT_TRUE(readlink(at("tree/kept/l"), &target, 1) == 1 && target == 'y');
	t->ops->close(t);
}

/* Goal: what was written last is there, and what that does not have is not lost. */
static void test_saved_in_both(void)
{
	for (int how = 0; how < LATE_COUNT; how++) {
		scene_begin(IN_MEMORY);
		run_saved_in_both((enum late)how);
		scene_end();
	}
}

struct replaced {
	bool is_placed, is_done;
};

static void replace_dir(void *ctx, const char *point)
{
	struct replaced *r = ctx;

	r->is_placed |= strcmp(point, "tree.fsync") == 0;
	if (r->is_done || !r->is_placed || strcmp(point, "tree.chmod") != 0)
		return;
	r->is_done = true;	/* "kept" gets its mode */
	CU_ASSERT_EQUAL(rename(at("tree/kept/deep"), at("tree/kept/mine")), 0);
	CU_ASSERT_EQUAL(mkdir(at("tree/kept/deep"), 0711), 0);
	CU_ASSERT_EQUAL(chmod(at("tree/kept/deep"), 0711), 0);
}

/* Goal: a directory that somebody replaced is left to him, and those behind it are finished. */
static void test_late_dir_is_replaced(void)
{
	struct replaced r = { .is_placed = false };
	struct fm_tree_sink_opts opts = options();
	struct stat st;

	scene_begin(IN_MEMORY);
	make_old();
	opts.is_update = true;
	MUST(sink_new(opts));
	pack_begin(0);
	add_file("new", 8, 60);
	OK(apply());
	OK(t->ops->prepare(t, true, &err));
	make_late_dir();
	fm_fault_watch(replace_dir, &r);
	OK(t->ops->publish(t, true, &err));
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_TRUE(r.is_done && has_late_dir());
	CU_ASSERT_TRUE(stat(at("tree/kept/deep"), &st) == 0 && (st.st_mode & 07777) == 0711);
	CU_ASSERT_TRUE(t->note && strstr(t->note, ours(FM_STAGING_KEPT)));
	t->ops->close(t);
	scene_end();
}

/* ---- the process dies between the exchange and the removal ---- */

struct dying {
	const char *point;		/* NULL: any */
	unsigned turn;			/* the first one: 1 */
};

static void die(void *ctx, const char *point)
{
	struct dying *d = ctx;

	if ((!d->point || strcmp(point, d->point) == 0) && --d->turn == 0)
		_exit(0);
}

/* In a process that dies there. False: it came through. */
static bool publish_and_die(struct dying how)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		fm_fault_watch(die, &how);
		(void)t->ops->publish(t, true, &err);
		_exit(1);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_TRUE(WIFEXITED(status));
	return WEXITSTATUS(status) == 0;
}

static void test_replaced_and_died(void)
{
	char command[512], tree[256];

	scene_begin(IN_MEMORY);
	put_version(options(), 1);
	MUST(sink_new(replacing()));
	pack_begin(0);
	add_file("f", 2, 5000);
	OK(apply());
	OK(t->ops->log(t, &err));
	OK(t->ops->prepare(t, true, &err));
	snprintf(tree, sizeof(tree), "%s", ours(FM_STAGING_TREE));
	/* of the stash */
	CU_ASSERT_TRUE(publish_and_die((struct dying){ .point = "tree.mkdir", .turn = 1 }));
	snprintf(command, sizeof(command), "cp -rp '%s/%s' '%s/copy'", dir, tree, dir);
	CU_ASSERT_EQUAL(system(command), 0);
	t->ops->close(t);	/* what is left is the one that died's, all but the copy */
	CU_ASSERT_TRUE(is_version(ours(FM_STAGING_NEW), 1));
	CU_ASSERT_EQUAL(rename(at("copy"), at(tree)), 0);
	/* It must not be taken for the unfinished tree, nor the journal for one of it. */
	MUST(sink_new(replacing()));
	CU_ASSERT_FALSE(t->is_partial);
	CU_ASSERT_TRUE(is_version(version_in(FM_STAGING_OLD), 1) &&
		       ours(FM_STAGING_NEW)[0] == '\0');
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/f", 2, 5000));
	CU_ASSERT_EQUAL(names_in(dir, OURS), 1);
	scene_end();
}

/* Goal: where a full disk has no room to keep what was replaced it goes, and who replaced it hears
 * so. */
static void test_replaced_on_full_disk(void)
{
	struct fm_tree_sink_opts opts = replacing();

	opts.grace_ns = 1;
	scene_begin(IN_MEMORY);
	put_version(options(), 1);
	MUST(sink_new(opts));
	pack_begin(0);
	add_file("f", 2, 5000);
	OK(apply());
	OK(t->ops->prepare(t, true, &err));
	fm_fault_arm("tree.mkdir", 1);	/* of the stash */
	OK(t->ops->publish(t, true, &err));
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(t->note && strstr(t->note, "went at once"));
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/f", 2, 5000));
	CU_ASSERT_EQUAL(names_in(dir, OURS), 0);
	scene_end();
}

static int kept_at_most(const void *ctx, enum fm_staging_kind kind, const struct stat *stash)
{
	(void)ctx;
	(void)kind;
	(void)stash;
	return FM_WANTED_KEPT;
}

static bool is_any_old(const void *ctx, const struct stat *made, const struct stat *journal)
{
	(void)ctx;
	(void)made;
	(void)journal;
	return true;
}

static void sweep_all(void)
{
	const struct fm_staging_age any = { .is_old = is_any_old, .at_most = kept_at_most };
	DIR *d = opendir(dir);
	const struct dirent *e;

	CU_ASSERT_PTR_NOT_NULL_FATAL(d);
	while ((e = readdir(d)))
		if (fm_staging_kind(e->d_name) != FM_STAGING_NONE)
			(void)fm_staging_sweep(dirfd(d), e->d_name, &any, NULL);
	closedir(d);
}

/* A process replaces the tree, and dies in the midst of giving the new one its name. False: it came
 * through. */
static bool die_replacing(unsigned turn)
{
	struct dying how = { .turn = turn };
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if (sink_new(replacing()) < 0)
			_exit(2);
		pack_begin(0);
		add_file("f", 2, 5000);
		if (apply() < 0 || t->ops->prepare(t, true, &err) < 0)
			_exit(3);
		fm_fault_watch(die, &how);
		_exit(t->ops->publish(t, true, &err) == 0 ? 1 : 4);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
	return WEXITSTATUS(status) == 0;
}

/* Goal: wherever it dies, one of the versions has the name, and a sweep leaves nothing else, in one
 * pass or two. */
static void test_died_anywhere(void)
{
	bool is_dead = true;
	unsigned turn;

	for (turn = 1; is_dead && turn < 200; turn++) {
		scene_begin(IN_MEMORY);
		put_version(options(), 1);
		is_dead = die_replacing(turn);
		CU_ASSERT_TRUE(is_version("tree", 1) || has_content("tree/f", 2, 5000));
		sweep_all();
		sweep_all();
		CU_ASSERT_EQUAL(names_in(dir, ""), 1);
		scene_end();
	}
	CU_ASSERT_TRUE(turn > 15 && turn < 200);
}

/*
 * Goal: what was saved in the version that a merge replaced, and that nobody looked through, is
 * swept no sooner than what is unfinished, and who updates again hears of it.
 */
static void test_merged_and_died(void)
{
	struct fm_tree_sink_opts opts = options();
	char command[1024], tree[256];
	int parent;

	scene_begin(IN_MEMORY);
	make_old();
	opts.is_update = true;
	MUST(sink_new(opts));
	pack_begin(0);
	add_file("new", 8, 60);
	OK(apply());
	OK(t->ops->prepare(t, true, &err));
	save();
	/* What the process leaves that dies right behind the exchange. */
	snprintf(tree, sizeof(tree), "%s", ours(FM_STAGING_TREE));
	snprintf(command, sizeof(command), "cp -rp '%s/%s' '%s/copy' && cp -a '%s/tree' '%s/was'",
		 dir, tree, dir, dir, dir);
	CU_ASSERT_EQUAL(system(command), 0);
	snprintf(command, sizeof(command), "cp -a '%s/%s' '%s/made'", dir, ours(FM_STAGING_NEW),
		 dir);
	CU_ASSERT_EQUAL(system(command), 0);
	t->ops->discard(t);
	t->ops->close(t);
	snprintf(command, sizeof(command),
		 "cd '%s' && mv copy %s && rm -rf tree && mv made tree && mv was %.23s.new", dir,
		 tree, tree);
	CU_ASSERT_EQUAL(system(command), 0);
	parent = open(dir, O_RDONLY | O_DIRECTORY);
	CU_ASSERT_EQUAL(fm_staging_kind_at(parent, ours(FM_STAGING_NEW)), FM_STAGING_KEPT);
	close(parent);
	opts = options();
	opts.is_update = true;
	MUST(sink_new(opts));
	CU_ASSERT_TRUE(has_saved(ours(FM_STAGING_KEPT)) && ours(FM_STAGING_NEW)[0] == '\0' &&
		       ours(FM_STAGING_OLD)[0] == '\0');
	CU_ASSERT_TRUE(t->note && strstr(t->note, ours(FM_STAGING_KEPT)));
	t->ops->close(t);
	scene_end();
}

/* ---- file systems that know no flags of rename ---- */

static void test_no_exchange(void)
{
	scene_begin(IN_MEMORY);
	put_version(options(), 1);
	MUST(sink_new(replacing()));
	pack_begin(0);
	add_file("f", 2, 5000);
	OK(apply());
	OK(t->ops->prepare(t, true, &err));
	fm_fault_arm("tree.rename_flags", 1);
	OK(t->ops->publish(t, true, &err));
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(t->note);
	CU_ASSERT_PTR_NOT_NULL(strstr(t->note, "two renames"));
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/f", 2, 5000) && names_in(dir, "") == 1);
	scene_end();
}

struct between {
	bool is_seen;			/* nothing has the name */
	bool is_safe;			/* the version that had it is none that a sweep takes */
};

static void look_between(void *ctx, const char *point)
{
	struct between *b = ctx;

	if (strcmp(point, "tree.rename") != 0 || is_there("tree"))
		return;
	b->is_seen = true;
	b->is_safe = ours(FM_STAGING_OLD)[0] == '\0' && is_version(ours(FM_STAGING_KEPT), 1);
}

/* Goal: who dies between the two renames leaves the old version where no sweep, and no want of
 * room, removes it. */
static void test_dies_between(void)
{
	struct between b = { .is_seen = false };

	scene_begin(IN_MEMORY);
	put_version(options(), 1);
	MUST(sink_new(replacing()));
	pack_begin(0);
	add_file("f", 2, 5000);
	OK(apply());
	OK(t->ops->prepare(t, true, &err));
	fm_fault_watch(look_between, &b);
	fm_fault_arm("tree.rename_flags", 1);
	OK(t->ops->publish(t, true, &err));
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_TRUE(fm_fault_fired() && b.is_seen && b.is_safe);
	fm_fault_arm(NULL, 0);
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/f", 2, 5000) && names_in(dir, "") == 1);
	scene_end();
}

/* An earlier try, of another source, of which nothing is of use. */
static void leave_unfinished(void)
{
	struct fm_tree_sink_opts opts = options();

	opts.source.ino = 9;
	opts.is_update = true;
	MUST(sink_new(opts));
	pack_begin(0);
	add_file("f", 1, 5000);
	OK(apply());
	t->ops->keep(t);
	t->ops->close(t);
}

/* Behind the two renames, what appeared in the old version cannot be read. */
static void fail_late(void *ctx, const char *point)
{
	bool *is_armed = ctx;

	(void)point;
	if (*is_armed || !fm_fault_fired())
		return;
	*is_armed = true;
	fm_fault_arm("scan.getdents", 1);
}

/* Goal: what matters most is said first, and what was said before is not lost by it. */
static void test_notes(void)
{
	struct fm_tree_sink_opts opts = options();
	const char *kept, *renamed;
	bool is_armed = false;

	scene_begin(IN_MEMORY);
	make_old();
	leave_unfinished();
	opts.is_update = true;
	MUST(sink_new(opts));
	CU_ASSERT_TRUE(t->note && strstr(t->note, "all is sent again"));
	pack_begin(0);
	add_file("new", 8, 60);
	OK(apply());
	OK(t->ops->prepare(t, true, &err));
	make_late();
	fm_fault_watch(fail_late, &is_armed);
	fm_fault_arm("tree.rename_flags", 1);
	OK(t->ops->publish(t, true, &err));
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	kept = t->note ? strstr(t->note, ours(FM_STAGING_KEPT)) : NULL;
	renamed = t->note ? strstr(t->note, "two renames") : NULL;
	CU_ASSERT_TRUE(kept && renamed && kept < renamed && strstr(t->note, "all is sent again"));
	t->ops->close(t);
	scene_end();
}

static const struct fm_test tests[] = {
	{"whatever fails, a version is there whole, and the next try succeeds", test_each_failure},
	{"a link that leads to what is too long is told as that", test_long_target},
	{"a failing sync of the directory undoes the publication", test_undo},
	{"which version is replaced is on the disk until it has another name",
	 test_old_is_noted},
	{"nothing is published after a failed sync", test_broken_sync},
	{"an update that changes nothing syncs what is there", test_same_is_synced},
	{"and makes it if too much would be put aside", test_look_is_full},
	{"where it cannot be noted that a sync failed", test_mark_fails},
	{"and nobody is there to be told", test_keeping_fails},
	{"what appears in the version that is replaced is not lost", test_late},
	{"and may not be on the disk if its sync fails", test_late_fails_to_sync},
	{"what may not be linked is not copied while somebody writes to it", test_copied_in_use},
	{"a copy that fails leaves the file as it was", test_copying_fails},
	{"what is saved while a version gets its name is there, not what was before", test_saved},
	{"nor instead of what was written to the new version", test_saved_in_both},
	{"a directory that somebody replaced leaves none behind it unfinished",
	 test_late_dir_is_replaced},
	{"the version that was replaced is not taken for a partial tree", test_replaced_and_died},
	{"what has no room to be kept goes, and that is said", test_replaced_on_full_disk},
	{"who dies while a version is replaced leaves nothing that stays", test_died_anywhere},
	{"what was saved in the version that a merge replaced is kept", test_merged_and_died},
	{"where names cannot be exchanged", test_no_exchange},
	{"and who dies on the way leaves both versions", test_dies_between},
	{"all of that is said", test_notes},
	/* the last one: it leaves the process in a mount namespace of its own */
	{"and what is mounted in it", test_mounted_is_synced},
};

int main(void)
{
#ifndef FM_FAULTS
	fm_test_skip("built without fault points");
#endif
	may_leave_manifests = true;
	return fm_test_main("tree sink faults", tests, sizeof(tests) / sizeof(tests[0]));
}
