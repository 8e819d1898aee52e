/* SPDX-License-Identifier: MIT */
/*
 * test_former - what a get replaced in a directory that others may write to as well: they change
 * names there between two calls, and nothing goes for that but what was replaced. links: fm_cli
 */
#include "client/lib/former.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include "mover/base/fault.h"
#include "mover/tree/stash.h"
#include "mover/tree/tsys.h"
#include "tests/unit/deep_tree.h"
#include "tests/unit/may_mount.h"
#include "tests/unit/sink_scene.h"

#define POINTS_MAX 40

static char stash[FM_STAGING_NAME_LEN + 1];

static int open_dir(void)
{
	return open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static uint64_t number_of(const char *name)
{
	return ino_of(name);
}

static int keep(int parent, const char *name, uint64_t ino)
{
	const struct fm_stash_what what = {.dir = parent, .from = name, .ino = ino, .name = "tree"};

	return fm_stash_keep(&what, parent, FM_STAGING_OLD, stash);
}

static int take_old(void *ctx, int parent, const char *name, uint64_t ino)
{
	(void)ctx;
	return keep(parent, name, ino);
}

static struct fm_tree_sink_opts getting(void)
{
	struct fm_tree_sink_opts opts = replacing();

	opts.has_manifest = opts.has_digests = false;
	opts.take_old = take_old;
	return opts;
}

/* A directory of ours, of which nobody said that it may go. */
static void make_precious(void)
{
	CU_ASSERT_EQUAL(mkdir(at("precious"), 0700), 0);
	write_file("precious/file", 9, 77, 0600, A_TIME);
}

/* Wherever it is, whatever its name. */
static bool has_precious(void)
{
	char command[256];

	(void)snprintf(command, sizeof(command), "find '%s' -path '*/file' -size 77c | grep -q .",
		       dir);
	return system(command) == 0;
}

static void purge(void)
{
	int parent = open_dir();

	OK(fm_former_remove(parent, 0, false, NULL, NULL, &err));
	close(parent);
}

/* ---- */

static void run_named_new(void)
{
	char name[FM_STAGING_NAME_LEN + 1];

	make_precious();
	fm_staging_name(FM_STAGING_NEW, "tree", name);
	CU_ASSERT_EQUAL(rename(at("precious"), at(name)), 0);
	put_version(getting(), 1);
	put_version(getting(), 2);
	purge();
	CU_ASSERT_TRUE(is_version("tree", 2) && has_precious());
}

/* Goal: what somebody else gave the name of a replaced version stays. */
static void test_named_new(void)
{
	each_base(run_named_new);
}

/* ---- the staging directory ---- */

/* A get that is through but for its name. */
static int begin_get(unsigned salt)
{
	int ret = sink_new(getting());

	if (ret < 0)
		return ret;
	pack_begin(0);
	add_dir("", 0755);
	add_dir("d", 0755);
	add_file("f", salt, 5000);
	add_file("d/g", salt, 300);
	ret = apply();
	if (ret < 0)
		t->ops->close(t);
	return ret;
}

static void give_name(const char *from, enum fm_staging_kind kind)
{
	char name[FM_STAGING_NAME_LEN + 1];

	fm_staging_name(kind, "tree", name);
	if (is_there(name))
		CU_ASSERT_EQUAL(rename(at(name), at("taken")), 0);
	CU_ASSERT_EQUAL(rename(at(from), at(name)), 0);
}

/* An earlier one of another source is told of, too, and does not take the place of that. */
static void leave_other_source(void)
{
	struct fm_tree_sink_opts opts = getting();

	opts.source.ino = 9;
	MUST(sink_new(opts));
	pack_begin(0);
	add_file("f", 1, 5000);
	OK(apply());
	t->ops->keep(t);
	t->ops->close(t);
}

static void run_named_new_told(void)
{
	make_precious();
	leave_other_source();
	give_name("precious", FM_STAGING_NEW);
	MUST(begin_get(1));
	CU_ASSERT_TRUE(t->note && strstr(t->note, "nothing removes that") &&
		       strstr(t->note, "all is sent again"));
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_TRUE(is_version("tree", 1) && has_precious());
}

/* Goal: nor does it stay unseen. */
static void test_named_new_told(void)
{
	each_base(run_named_new_told);
}

static void run_named_tree(void)
{
	make_precious();
	give_name("precious", FM_STAGING_TREE);
	CU_ASSERT_EQUAL(begin_get(1), -EPERM);
	CU_ASSERT_TRUE(has_precious());
}

/* Goal: nothing is made, nor removed, in what has the name of a staging directory and is none. */
static void test_named_tree(void)
{
	each_base(run_named_tree);
}

static const char *lock_text;

static void write_text(const char *name, const char *text)
{
	FILE *f = fopen(at(name), "w");

	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_TRUE(fputs(text, f) >= 0);
	CU_ASSERT_EQUAL(fclose(f), 0);
}

static void run_named_like_tree(void)
{
	make_precious();
	write_text("precious/lock", lock_text);
	write_text("precious/journal", "");
	give_name("precious", FM_STAGING_TREE);
	CU_ASSERT_EQUAL(begin_get(1), -EPERM);
	CU_ASSERT_TRUE(has_precious());
}

static void run_named_like_lost(void)
{
	make_precious();
	write_text("precious/lock", "");
	CU_ASSERT_EQUAL(truncate(at("precious/lock"), 4096), 0);
	write_text("precious/journal", "");
	give_name("precious", FM_STAGING_TREE);
	CU_ASSERT_EQUAL(begin_get(1), -EPERM);
	CU_ASSERT_TRUE(has_precious());
}

/* Goal: nor in what has a lock and a journal of somebody else's. */
static void test_named_like_tree(void)
{
	static const char *const texts[] = { "", "1234\n" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		lock_text = texts[i];
		each_base(run_named_like_tree);
	}
	each_base(run_named_like_lost);
}

static void run_tree_taken(void)
{
	make_precious();
	MUST(begin_get(1));
	give_name("precious", FM_STAGING_TREE);
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_TRUE(is_version("tree", 1) && has_precious());
}

static void run_new_taken(void)
{
	make_precious();
	MUST(begin_get(1));
	OK(t->ops->prepare(t, true, &err));
	give_name("precious", FM_STAGING_NEW);
	t->ops->discard(t);
	t->ops->close(t);
	CU_ASSERT_TRUE(has_precious());
}

/* Goal: what takes the names of what is being made is not removed with that. */
static void test_staging_taken(void)
{
	each_base(run_tree_taken);
	each_base(run_new_taken);
}

static void run_staging_back(void)
{
	char name[FM_STAGING_NAME_LEN + 1];

	MUST(begin_get(1));
	fm_staging_name(FM_STAGING_TREE, "tree", name);
	CU_ASSERT_EQUAL(rename(at(name), at("taken")), 0);
	OK(finish());
	t->ops->close(t);
	write_file("tree/file", 9, 77, 0600, A_TIME);
	CU_ASSERT_EQUAL(rename(at("taken"), at(name)), 0);
	give_name("tree", FM_STAGING_NEW);
	put_version(getting(), 2);
	purge();
	CU_ASSERT_TRUE(is_version("tree", 2) && has_precious());
}

/* Goal: what a staging directory says is over when its tree has its name, wherever somebody moved
 * it meanwhile. */
static void test_staging_back(void)
{
	each_base(run_staging_back);
}

/* What a power cut left of a file: nothing, or zeros of the length that it had. */
static void write_lost(const char *name, off_t length)
{
	write_text(name, "");
	CU_ASSERT_EQUAL(truncate(at(name), length), 0);
}

static off_t lock_length, journal_length;

static void run_staging_lost(void)
{
	static const char *const files[] = {"spool", "manifest", "carried", "Probe.\xc3\xa9.1"};
	static const char *const dirs[] = {"data", "was.0", "made"};
	char name[FM_STAGING_NAME_LEN + 1], in[FM_STAGING_NAME_LEN + 32];

	fm_staging_name(FM_STAGING_TREE, "tree", name);
	CU_ASSERT_EQUAL(mkdir(at(name), 0700), 0);
	(void)snprintf(in, sizeof(in), "%s/lock", name);
	write_lost(in, lock_length);
	(void)snprintf(in, sizeof(in), "%s/journal", name);
	write_lost(in, journal_length);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		(void)snprintf(in, sizeof(in), "%s/%s", name, files[i]);
		write_lost(in, 224);
	}
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		(void)snprintf(in, sizeof(in), "%s/%s", name, dirs[i]);
		CU_ASSERT_EQUAL(mkdir(at(in), 0700), 0);
	}
	put_version(getting(), 1);
	CU_ASSERT_TRUE(is_version("tree", 1));
	CU_ASSERT_EQUAL(names_in(dir, ".fmove."), 0);
}

static void run_staging_lost_saved(void)
{
	char name[FM_STAGING_NAME_LEN + 1], in[FM_STAGING_NAME_LEN + 16];

	fm_staging_name(FM_STAGING_TREE, "tree", name);
	CU_ASSERT_EQUAL(mkdir(at(name), 0700), 0);
	(void)snprintf(in, sizeof(in), "%s/lock", name);
	write_lost(in, 50);
	(void)snprintf(in, sizeof(in), "%s/journal", name);
	write_lost(in, 0);
	(void)snprintf(in, sizeof(in), "%s/made", name);
	write_text(in, "saved");
	CU_ASSERT_EQUAL(begin_get(1), -EPERM);
	CU_ASSERT_EQUAL(unlink(at(in)), 0);
	CU_ASSERT_EQUAL(mkdir(at(in), 0700), 0);
	(void)snprintf(in, sizeof(in), "%s/made/f", name);
	write_text(in, "saved");
	CU_ASSERT_EQUAL(begin_get(1), -EPERM);
	CU_ASSERT_EQUAL(access(at(in), F_OK), 0);
}

/* Goal: but not what a merge may have taken from its name just then, and is nowhere else. */
static void test_staging_lost_saved(void)
{
	each_base(run_staging_lost_saved);
}

/* Goal: a tree comes to a name beside which a power cut left a staging directory, whatever the disk
 * has of its files. */
static void test_staging_lost(void)
{
	for (int lost = 0; lost < 4; lost++) {
		lock_length = lost & 1 ? 50 : 0;
		journal_length = lost & 2 ? 4096 : 0;
		each_base(run_staging_lost);
	}
}

/* ---- the mark ---- */

static uint64_t count_kept(void)
{
	int parent = open_dir();
	uint64_t count, bytes;

	OK(fm_former_sum(parent, &count, &bytes, &err));
	close(parent);
	return count;
}

static void run_power_cut(void)
{
	char command[256];

	put_version(getting(), 1);
	put_version(getting(), 2);
	(void)snprintf(command, sizeof(command),
		       "find '%s' -maxdepth 2 -type f -exec truncate -s 0 {} +", dir);
	CU_ASSERT_EQUAL(system(command), 0);
	CU_ASSERT_EQUAL(count_kept(), 1);
	purge();
	CU_ASSERT_EQUAL(names_in(dir, ".fmove."), 0);
}

/* Goal: a power cut, which empties files that nobody synced, does not make a replaced version one
 * that nothing removes. */
static void test_power_cut(void)
{
	each_base(run_power_cut);
}

/* As an earlier version did it: the mark says which one it is. */
static void make_earlier(const char *name, uint64_t ino)
{
	char mark[64], text[17];

	CU_ASSERT_EQUAL(mkdir(at(name), 0700), 0);
	(void)snprintf(mark, sizeof(mark), "%s/.fmove.former", name);
	(void)snprintf(text, sizeof(text), "%016llx", (unsigned long long)ino);
	write_text(mark, text);
}

static void run_earlier(void)
{
	static const char *const names[] = {".fmove.0123456789abcde0.old",
					    ".fmove.0123456789abcde1.old",
					    ".fmove.0123456789abcde2.old"};
	char to[64];

	make_precious();
	CU_ASSERT_EQUAL(mkdir(at("tree"), 0755), 0);
	make_earlier(names[0], number_of("tree"));
	make_earlier(names[1], number_of("tree"));	/* of another one than lies in it */
	make_earlier(names[2], number_of("precious"));
	(void)snprintf(to, sizeof(to), "%s/tree", names[0]);
	CU_ASSERT_EQUAL(rename(at("tree"), at(to)), 0);
	(void)snprintf(to, sizeof(to), "%s/precious", names[1]);
	CU_ASSERT_EQUAL(rename(at("precious"), at(to)), 0);
	CU_ASSERT_EQUAL(count_kept(), 1);
	purge();
	CU_ASSERT_TRUE(has_precious());
	CU_ASSERT_FALSE(is_there(names[0]) || is_there(names[2]));
	purge();		/* the mark is still one */
	CU_ASSERT_TRUE(has_precious());
}

/* Goal: what an earlier version kept goes as well, and nothing but that. */
static void test_earlier(void)
{
	each_base(run_earlier);
}

/* ---- what is looked for before it goes ---- */

#define DEPTH 5000
#define FILES_MAX 64
#define KEPT ".fmove.0123456789abcdef.kept"

/* A replaced version, so deep; its innermost directory is open. */
static int keep_deep(int parent, unsigned depth)
{
	int bottom;

	CU_ASSERT_EQUAL_FATAL(mkdir(at("from"), 0755), 0);
	bottom = deep_make(parent, "from", depth);
	OK(keep(parent, "from", number_of("from")));
	return bottom;
}

static void run_deep(void)
{
	int parent = open_dir(), bottom = keep_deep(parent, DEPTH);
	struct rlimit was, few;

	CU_ASSERT_EQUAL(getrlimit(RLIMIT_NOFILE, &was), 0);
	few = (struct rlimit){ .rlim_cur = FILES_MAX, .rlim_max = was.rlim_max };
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &few), 0);
	CU_ASSERT_EQUAL(mkdirat(bottom, KEPT, 0700), 0);
	CU_ASSERT_EQUAL(fm_former_remove(parent, 0, false, NULL, NULL, &err), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "nowhere else"));
	CU_ASSERT_EQUAL(unlinkat(bottom, KEPT, AT_REMOVEDIR), 0);
	close(bottom);
	OK(fm_former_remove(parent, 0, false, NULL, NULL, &err));
	CU_ASSERT_EQUAL(setrlimit(RLIMIT_NOFILE, &was), 0);
	CU_ASSERT_EQUAL(names_in(dir, ""), 0);
	close(parent);
}

/* Goal: a version that no path can name goes, and stays if something of it is nowhere else. */
static void test_deep(void)
{
	each_base(run_deep);
}

#ifdef FM_FAULTS

static void run_unknown(void)
{
	int parent = open_dir(), bottom = keep_deep(parent, 18), ret;
	unsigned n = 0;

	CU_ASSERT_EQUAL(mkdirat(bottom, KEPT, 0700), 0);
	do {
		fm_fault_arm(NULL, ++n);
		ret = fm_former_remove(parent, 0, false, NULL, NULL, &err);
		CU_ASSERT_TRUE(ret < 0 && err.text[0]);
		CU_ASSERT_TRUE(fstatat(bottom, KEPT, &(struct stat){ 0 }, 0) == 0);
	} while (fm_fault_fired() && n < 1000);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(n > 20 && n < 1000);
	CU_ASSERT_EQUAL(unlinkat(bottom, KEPT, AT_REMOVEDIR), 0);
	close(bottom);
	OK(fm_former_remove(parent, 0, false, NULL, NULL, &err));
	CU_ASSERT_EQUAL(names_in(dir, ""), 0);
	close(parent);
}

/* Goal: whatever fails, once, before it goes: it stays, who purges hears why, and a later purge
 * finds it. */
static void test_unknown(void)
{
	each_base(run_unknown);
}

struct going {
	char name[FM_STAGING_NAME_LEN + 1];
	unsigned calls;
	unsigned turn;			/* in which one it goes */
};

static void go_meanwhile(void *ctx, const char *point)
{
	struct going *g = ctx;

	(void)point;
	if (++g->calls == g->turn)
		remove_all(at(g->name));
}

static void run_staging_goes(void)
{
	struct going g = { .turn = 0 };
	int parent = open_dir(), stage, lock;

	fm_staging_name(FM_STAGING_TREE, "tree", g.name);
	do {
		g.calls = 0;
		g.turn++;
		OK(fm_staging_lock(parent, g.name, &stage, &lock));
		close(lock);
		close(stage);
		fm_fault_watch(go_meanwhile, &g);
		OK(fm_staging_lock(parent, g.name, &stage, &lock));
		fm_fault_watch(NULL, NULL);
		close(lock);
		close(stage);
		remove_all(at(g.name));
	} while (g.calls >= g.turn && g.turn < POINTS_MAX);
	CU_ASSERT_TRUE(g.turn > 3 && g.turn < POINTS_MAX);
	close(parent);
}

/* Goal: a transfer that ends just now, and removes its staging directory, is no reason to refuse
 * the next one. */
static void test_staging_goes(void)
{
	each_base(run_staging_goes);
}

struct swap {
	unsigned calls;
	unsigned turn;			/* in which one */
	const char *now, *then;		/* in the next ones; NULL: nothing more */
	/* from then on something has the name whenever it is free */
	bool takes_again;
};

static void exchange(const char *name)
{
	if (name)
		(void)renameat2(AT_FDCWD, at(name), AT_FDCWD, at("from"), RENAME_EXCHANGE);
}

static void swap_names(void *ctx, const char *point)
{
	struct swap *s = ctx;

	(void)point;
	if (s->calls >= s->turn && s->takes_again)
		(void)mkdir(at("from"), 0755);
	if (++s->calls == s->turn)
		exchange(s->now);
	else if (s->calls > s->turn && s->then) {
		exchange(s->then);
		s->then = NULL;
	}
}

static int keep_swapped(struct swap *s)
{
	uint64_t ino = number_of("from");
	int parent = open_dir(), ret;

	fm_fault_watch(swap_names, s);
	ret = keep(parent, "from", ino);
	fm_fault_watch(NULL, NULL);
	close(parent);
	return ret;
}

static void run_swapped(void)
{
	struct swap s = { .turn = 0 };

	do {
		s = (struct swap){ .turn = s.turn + 1, .now = "precious" };
		make_precious();
		CU_ASSERT_EQUAL(mkdir(at("from"), 0755), 0);
		(void)keep_swapped(&s);
		purge();
		CU_ASSERT_TRUE(has_precious());
		remove_all(dir);
		CU_ASSERT_EQUAL_FATAL(mkdir(dir, 0755), 0);
	} while (s.calls >= s.turn && s.turn < POINTS_MAX);
	CU_ASSERT_TRUE(s.turn > 3 && s.turn < POINTS_MAX);
}

/* Goal: what takes the name of the replaced version on its way stays. */
static void test_swapped(void)
{
	each_base(run_swapped);
}

/* Nobody but us could move it out of there. */
static bool is_precious_hidden(void)
{
	char command[256];

	(void)snprintf(command, sizeof(command),
		       "find '%s' -path '*.old/*/file' -size 77c | grep -q .", dir);
	return system(command) == 0;
}

static void run_swapped_again(void)
{
	struct swap s = { .turn = 0 };

	do {
		s = (struct swap){ .turn = s.turn + 1, .now = "precious", .takes_again = true };
		make_precious();
		CU_ASSERT_EQUAL(mkdir(at("from"), 0755), 0);
		(void)keep_swapped(&s);
		CU_ASSERT_TRUE(has_precious() && !is_precious_hidden());
		remove_all(dir);
		CU_ASSERT_EQUAL_FATAL(mkdir(dir, 0755), 0);
	} while (s.calls >= s.turn && s.turn < POINTS_MAX);
	CU_ASSERT_TRUE(s.turn > 3 && s.turn < POINTS_MAX);
}

/* Goal: and is where its owner finds it, also if it cannot have its name back. */
static void test_swapped_again(void)
{
	each_base(run_swapped_again);
}

/* A version that may not be written to, so that it needs another mode to be moved; "open" has the
 * mode that would suit. */
static bool has_kept_modes(unsigned turn, const char *first, const char *now, const char *then,
			   bool *is_over)
{
	struct swap s = { .turn = turn, .now = now, .then = then };
	struct stat st;
	int victim;
	bool is_private;

	make_precious();
	(void)mkdir(at("open"), 0700);
	(void)chmod(at("open"), 0777);
	(void)mkdir(at("closed"), 0555);
	victim = open(at("precious"), O_PATH);
	(void)rename(at(first), at("from"));
	(void)keep_swapped(&s);
	is_private = fstat(victim, &st) == 0 && (st.st_mode & 07777) == 0700;
	close(victim);
	*is_over = s.calls < turn;
	remove_all(dir);
	return is_private && mkdir(dir, 0755) == 0;
}

static int modes(void)
{
	bool is_over = false;
	int failed = 0;

	(void)snprintf(dir + strlen(dir), sizeof(dir) - strlen(dir), "/nobody");
	(void)mkdir(dir, 0755);
	for (unsigned turn = 1; turn < POINTS_MAX && !is_over; turn++) {
		failed += !has_kept_modes(turn, "open", "closed", "precious", &is_over);
		failed += !has_kept_modes(turn, "closed", "precious", NULL, &is_over);
	}
	(void)rmdir(dir);
	return failed;
}

static void run_modes(void)
{
	int status;
	pid_t child;

	CU_ASSERT_EQUAL(chmod(dir, 0777), 0);
	(void)fflush(stdout);
	child = fork();
	if (child == 0)		/* root needs no mode */
		_exit(geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0) ? 1
										 : modes() != 0);
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
}

/* Goal: nothing gets the mode of the replaced version but that. */
static void test_modes(void)
{
	each_base(run_modes);
}

/* Goal: what goes into a stash is where it was, or is known there, whatever fails. */
static void test_keep_fails(void)
{
	uint64_t count, bytes;
	unsigned n = 0;
	int parent, ret;
	bool has_fired;

	do {
		scene_begin(IN_MEMORY);
		put_version(getting(), 1);
		parent = open_dir();
		fm_fault_arm(NULL, ++n);
		ret = keep(parent, "tree", number_of("tree"));
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		OK(fm_former_sum(parent, &count, &bytes, &err));
		CU_ASSERT_EQUAL(is_there("tree"), count == 0);
		CU_ASSERT_TRUE(ret < 0 || count == 1);
		close(parent);
		scene_end();
	} while (has_fired && n < POINTS_MAX);
	CU_ASSERT_TRUE(n > 5 && n < POINTS_MAX);
}

/* ---- room ---- */

#define EACH_BYTES 4096

static void count_points(void *ctx, const char *point)
{
	(void)point;
	++*(unsigned *)ctx;
}

/* So many are kept, and all but one must go. The points that took. */
static unsigned make_room_of(unsigned count)
{
	int parent = open_dir();
	unsigned points = 0;
	uint64_t is_free;
	char newest[sizeof(stash)];

	for (unsigned i = 0; i < count; i++) {
		CU_ASSERT_EQUAL_FATAL(mkdir(at("from"), 0755), 0);
		write_file("from/file", i, EACH_BYTES, 0600, A_TIME);
		OK(keep(parent, "from", number_of("from")));
	}
	memcpy(newest, stash, sizeof(newest));
	OK(fm_tsys_free_bytes(parent, &is_free));
	CU_ASSERT_FALSE(fm_former_make_room(parent, is_free + (count + 1) * EACH_BYTES));
	CU_ASSERT_EQUAL(count_kept(), count);
	fm_fault_watch(count_points, &points);
	CU_ASSERT_TRUE(fm_former_make_room(parent, is_free + (count - 1) * EACH_BYTES));
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_TRUE(count_kept() == 1 && is_there(newest));
	close(parent);
	purge();
	return points;
}

/* Goal: the oldest go for what needs their room, and four times as many take about four times the
 * work, not sixteen times. */
static void test_room(void)
{
	unsigned few;

	if (!may_mount())
		return;
	scene_begin(IN_MEMORY);
	CU_ASSERT_EQUAL_FATAL(mount("none", dir, "tmpfs", 0, "size=16m"), 0);
	few = make_room_of(15);
	CU_ASSERT_TRUE(few > 15 && make_room_of(60) < 6 * few);
	CU_ASSERT_TRUE(make_room_of(1100) < 150 * few);	/* more than one look remembers */
	(void)umount2(dir, MNT_DETACH);
	scene_end();
}

#endif

#ifdef FM_FAULTS
static void die_at(void *ctx, const char *point)
{
	unsigned *turn = ctx;

	(void)point;
	if (--*turn == 0)
		_exit(0);
}

/* What a get left unfinished is removed, and that dies at a point. False: it came through. */
static bool die_removing(const char *tree, unsigned turn)
{
	int parent = open_dir(), status = -1, stage, lock;
	pid_t pid;

	CU_ASSERT_EQUAL_FATAL(fm_staging_lock(parent, tree, &stage, &lock), 0);
	CU_ASSERT_EQUAL(mkdirat(stage, "data", 0755), 0);
	CU_ASSERT_EQUAL(mkdirat(stage, "data/d", 0755), 0);
	pid = fork();
	if (pid == 0) {
		fm_fault_watch(die_at, &turn);
		(void)fm_staging_remove_opened(parent, tree, stage, NULL, NULL, NULL);
		_exit(1);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_TRUE(WIFEXITED(status));
	close(lock);
	close(stage);
	close(parent);
	return WEXITSTATUS(status) == 0;
}

/* Goal: what was on its way out when a get, or a purge, was killed counts as kept aside, and goes
 * with the next purge. */
static void test_dies_removing(void)
{
	static const char tree[] = ".fmove.0123456789abcdef.tree";
	uint64_t count, bytes;
	bool is_dead = true;
	unsigned turn;
	int parent;

	for (turn = 1; is_dead && turn < 100; turn++) {
		scene_begin(IN_MEMORY);
		is_dead = die_removing(tree, turn);
		parent = open_dir();
		OK(fm_former_sum(parent, &count, &bytes, &err));
		close(parent);
		CU_ASSERT_TRUE(count <= 1);
		purge();
		CU_ASSERT_EQUAL(names_in(dir, ".fmove."), is_there(tree));
		scene_end();
	}
	CU_ASSERT_TRUE(!is_dead && turn > 10);
}
#endif

/* ---- where a path leads by now ---- */

/* A get into "in" began, and another one put that aside. */
static int put_aside(char path[PATH_MAX], char aside[FM_STAGING_NAME_LEN + 1])
{
	int held;

	CU_ASSERT_EQUAL(mkdir(at("in"), 0700), 0);
	held = open(at("in"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fm_former_note_path(held, path);
	fm_staging_name(FM_STAGING_OLD, "in", aside);
	CU_ASSERT_EQUAL(renameat2(AT_FDCWD, at("in"), AT_FDCWD, at(aside), RENAME_NOREPLACE), 0);
	return held;
}

static void run_leads_elsewhere(void)
{
	char path[PATH_MAX], aside[FM_STAGING_NAME_LEN + 1];
	int fd = -1, held = put_aside(path, aside);

	CU_ASSERT_EQUAL(fm_former_find_other(path, held, &fd, &err), -ENOENT);
	CU_ASSERT_EQUAL(mkdir(at("in"), 0700), 0);
	CU_ASSERT_EQUAL(fm_former_find_other(path, held, &fd, &err), 1);
	close(fd);
	CU_ASSERT_EQUAL(rmdir(at("in")), 0);
	make_precious();
	CU_ASSERT_EQUAL(symlink("precious", at("in")), 0);
	CU_ASSERT_EQUAL(fm_former_find_other(path, held, &fd, &err), -ELOOP);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "a symbolic link is in this path by now"));
	CU_ASSERT_EQUAL(unlink(at("in")), 0);
	CU_ASSERT_EQUAL(symlink(aside, at("in")), 0);	/* the same directory: by a link, too */
	CU_ASSERT_EQUAL(fm_former_find_other(path, held, &fd, &err), -ELOOP);
	close(held);
}

/* Goal: who can rename the target of a get does not say by a link where its content goes. */
static void test_leads_elsewhere(void)
{
	each_base(run_leads_elsewhere);
}

static const struct fm_test tests[] = {
	{"what has the name of a replaced version stays", test_named_new},
	{"and is told of", test_named_new_told},
	{"so does what has that of a staging directory", test_named_tree},
	{"a directory with a lock and a journal of its own is no staging directory",
	 test_named_like_tree},
	{"and what takes those names meanwhile", test_staging_taken},
	{"what was published is nothing to go on with", test_staging_back},
	{"what a power cut left of a staging directory is gone on with", test_staging_lost},
	{"unless something may be in it that is nowhere else", test_staging_lost_saved},
	{"a power cut empties no mark", test_power_cut},
	{"what an earlier version kept is known", test_earlier},
	{"what no path can name is looked through, and goes", test_deep},
	{"a path that has a link now leads nowhere", test_leads_elsewhere},
#ifdef FM_FAULTS
	{"who cannot look does not say that it may go", test_unknown},
	{"what is put aside is not lost on the way", test_keep_fails},
	{"what was on its way out at a kill goes with the next purge", test_dies_removing},
	{"a staging directory that goes meanwhile is made again", test_staging_goes},
	{"what takes its name meanwhile stays", test_swapped},
	{"and is not hidden if it cannot have its name back", test_swapped_again},
	{"and keeps its mode", test_modes},
	{"many make room in one look", test_room},
#endif
};

FM_TEST_MAIN("former", tests)
