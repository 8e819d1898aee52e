/* SPDX-License-Identifier: MIT */
/*
 * Directory stores: a name becomes another one. links: fm_store
 */
#include <signal.h>
#include <sys/wait.h>

#include "mover/base/fault.h"
#include "mover/tree/manifest.h"
#include "tests/unit/store_scene.h"

static int mv(const char *path, const char *to, bool may_replace)
{
	fm_err_clear(&err);
	return s->ops->move(s, path, to, &a_peer, may_replace, &err);
}

static bool is_there(const char *name)
{
	struct stat st;

	return lstat(at(name), &st) == 0;
}

static bool holds(const char *path, uint64_t size, uint64_t salt)
{
	return is_there(path) && store_verify(&l, s, path, size, salt) == 0;
}

static uint64_t used(void)
{
	struct fm_store_space space = {.used = 0};

	CU_ASSERT_EQUAL(s->ops->space(s, &a_peer, &space, &err), 0);
	return space.used;
}

/* Files, directories and links move within a directory and to another one; what a link leads to
 * stays. */
static void test_moves(void)
{
	for (size_t b = 0; b < BASES; b++) {
		begin(bases[b], false);
		CU_ASSERT_EQUAL(put("a/f", 5000, 1, false), 0);
		CU_ASSERT_EQUAL(s->ops->mkdir(s, "b", &a_peer, &err), 0);
		CU_ASSERT_EQUAL(symlink("../a/g", at("b/l")), 0);
		CU_ASSERT_EQUAL(mv("a/f", "a/g", false), 0);
		CU_ASSERT_TRUE(holds("a/g", 5000, 1) && !is_there("a/f"));
		CU_ASSERT_EQUAL(mv("b/l", "a/l", false), 0);
		CU_ASSERT_TRUE(is_there("a/l") && !is_there("b/l") && holds("a/g", 5000, 1));
		CU_ASSERT_EQUAL(mv("a", "b/c", false), 0);
		CU_ASSERT_TRUE(holds("b/c/g", 5000, 1) && !is_there("a"));
		CU_ASSERT_EQUAL(mv("b/c/g", "g", false), 0);
		CU_ASSERT_TRUE(holds("g", 5000, 1) && !is_there("b/c/g"));
		end();
	}
}

/* Nothing that is refused changes anything. */
static void test_refused(void)
{
	static const struct {
		const char *path, *to;
		bool may_replace;
		int want;
	} cases[] = {
		{"f", "g", false, -EEXIST},	 {"f", "d", true, -EEXIST},
		{"d", "f", true, -EEXIST},	 {"d", "e", true, -EEXIST},
		{"d", "empty", true, -EEXIST},	 {"f", "f", true, -EEXIST},
		{"f", "twin", true, -EEXIST},	 {"d", "d/y", false, -EINVAL},
		{"f", "pipe", true, -EEXIST},	 {"pipe", "f", true, -EEXIST},
		{"none", "x", false, -ENOENT},	 {"f", "none/x", false, -ENOENT},
		{"f", "g/x", false, -ENOTDIR},	 {"", "x", false, -EISDIR},
		{"f", "", false, -EISDIR},	 {"f", "../x", false, -EXDEV},
		{"../x", "y", false, -EXDEV},	 {"f", "/x", false, -EXDEV},
		{"f", ".fmove.x", false, -EINVAL}, {".fmove.x", "x", false, -EINVAL},
		{"f", "out/x", false, -EXDEV},	 {"d/up", "up", false, -EXDEV},
		{"d/up", "l", true, -EXDEV},
	};

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("f", 1000, 1, false), 0);
	CU_ASSERT_EQUAL(put("g", 2000, 2, false), 0);
	CU_ASSERT_EQUAL(put("d/x", 3000, 3, false), 0);
	CU_ASSERT_EQUAL(put("e/x", 4000, 4, false), 0);
	CU_ASSERT_EQUAL(mkdir(at("empty"), 0755), 0);
	CU_ASSERT_EQUAL(link(at("f"), at("twin")), 0);
	CU_ASSERT_EQUAL(mkfifo(at("pipe"), 0644), 0);
	CU_ASSERT_EQUAL(symlink("/", at("out")), 0);
	CU_ASSERT_EQUAL(symlink("../f", at("d/up")), 0);
	CU_ASSERT_EQUAL(symlink("f", at("l")), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int ret = mv(cases[i].path, cases[i].to, cases[i].may_replace);

		if (ret != cases[i].want)
			printf("mv \"%s\" \"%s\": %d\n", cases[i].path, cases[i].to, ret);
		CU_ASSERT_EQUAL(ret, cases[i].want);
		CU_ASSERT_TRUE(strstr(err.text, "store s") != NULL);
	}
	CU_ASSERT_TRUE(holds("f", 1000, 1) && holds("g", 2000, 2) && holds("twin", 1000, 1));
	CU_ASSERT_TRUE(holds("d/x", 3000, 3) && holds("e/x", 4000, 4) && is_there("empty"));
	CU_ASSERT_TRUE(is_there("pipe") && is_there("out") && is_there("d/up") && !is_there("up"));
	/* a link that leads out already does so from anywhere */
	CU_ASSERT_EQUAL(mv("out", "d/out", false), 0);
	end();
}

/* A file or link takes the place of one if that is asked for, and what it replaced counts no
 * more. */
static void test_replaces(void)
{
	struct fm_store_opts opts = {.name = "s",
				     .directory = dir,
				     .read = everybody,
				     .write = everybody,
				     .quota_bytes = 1 << 20};
	char text[8] = "";
	uint64_t before;

	begin(ON_DISK, false);
	s->ops->free(s);
	CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &s, &err), 0);
	CU_ASSERT_EQUAL(put("f", 1000, 1, false), 0);
	CU_ASSERT_EQUAL(put("g", 2000, 2, false), 0);
	CU_ASSERT_EQUAL(symlink("g", at("l")), 0);
	CU_ASSERT_EQUAL(symlink("h", at("m")), 0);
	before = used();
	CU_ASSERT_EQUAL(mv("f", "g", true), 0);
	CU_ASSERT_TRUE(holds("g", 1000, 1) && !is_there("f"));
	CU_ASSERT_EQUAL(before - used(), 2000);
	CU_ASSERT_EQUAL(mv("l", "m", true), 0);
	CU_ASSERT_EQUAL(readlink(at("m"), text, sizeof(text)), 1);
	CU_ASSERT_EQUAL(text[0], 'g');
	CU_ASSERT_EQUAL(mv("g", "new", true), 0);	/* what may be replaced need not be there */
	CU_ASSERT_TRUE(holds("new", 1000, 1) && !is_there("g"));
	end();
}

/* Where a file system knows no flags of a rename (NFS), a file is linked and a directory looked
 * at; a name that is taken is refused all the same. */
static void test_no_flags(void)
{
	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("f", 1000, 1, false), 0);
	CU_ASSERT_EQUAL(put("d/x", 1000, 1, false), 0);
	fm_fault_arm("store.rename_flags", 1);
	CU_ASSERT_EQUAL(mv("f", "g", false), 0);
	CU_ASSERT_TRUE(fm_fault_fired() && holds("g", 1000, 1) && !is_there("f"));
	fm_fault_arm("tree.rename_flags", 1);
	CU_ASSERT_EQUAL(mv("d", "e", false), 0);
	CU_ASSERT_TRUE(fm_fault_fired() && holds("e/x", 1000, 1) && !is_there("d"));
	fm_fault_arm(NULL, 0);
	end();
}

/* Somebody takes the new name, or the old one away, between look and rename. */
static void take(void *ctx, const char *point)
{
	const char *const *names = ctx;

	if (strcmp(point, "store.rename") != 0)
		return;
	if (names[1])
		CU_ASSERT_EQUAL(rename(at(names[0]), at(names[1])), 0);
	fm_fault_watch(NULL, NULL);
}

static void test_meanwhile(void)
{
	const char *other[] = {"g", "new"}, *away[] = {"f", "gone"};

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("f", 1000, 1, false), 0);
	CU_ASSERT_EQUAL(put("g", 2000, 2, false), 0);
	fm_fault_watch(take, other);
	CU_ASSERT_EQUAL(mv("f", "new", false), -EEXIST);
	CU_ASSERT_TRUE(holds("f", 1000, 1) && holds("new", 2000, 2));
	fm_fault_watch(take, away);
	CU_ASSERT_EQUAL(mv("f", "h", false), -ENOENT);
	CU_ASSERT_TRUE(holds("gone", 1000, 1) && !is_there("h"));
	/* may be replaced: it looks again, and does it */
	CU_ASSERT_EQUAL(put("f", 1000, 1, false), 0);
	other[0] = "new", other[1] = "f2";
	fm_fault_watch(take, other);
	CU_ASSERT_EQUAL(mv("f", "f2", true), 0);
	CU_ASSERT_TRUE(holds("f2", 1000, 1) && !is_there("f") && !is_there("new"));
	fm_fault_watch(NULL, NULL);
	end();
}

/* A sweep comes before the rename, or behind it. */
static void sweep(void *ctx, const char *point)
{
	unsigned *left = ctx;
	atomic_bool is_over = false;

	if (strcmp(point, "tree.rename") != 0 && strcmp(point, "store.fsync") != 0)
		return;
	if (*left > 0 && --*left == 0)
		(void)s->ops->sweep(s, &is_over);
}

/*
 * Goal:   a manifest is beside its directory whatever a sweep does meanwhile, and nowhere else.
 * Method: a sweep before the rename, and before each of both syncs behind it.
 */
static void test_manifest(void)
{
	struct fm_manifest_key key;
	char name[FM_MANIFEST_NAME_LEN + 1], path[64];

	for (unsigned n = 1; n <= 3; n++) {
		unsigned left = n;

		begin(ON_DISK, true);
		CU_ASSERT_EQUAL(s->ops->mkdir(s, "a/d", &a_peer, &err), 0);
		CU_ASSERT_EQUAL(s->ops->mkdir(s, "b", &a_peer, &err), 0);
		CU_ASSERT_EQUAL_FATAL(fm_manifest_key_at(AT_FDCWD, at("a/d"), &key), 0);
		fm_manifest_name(&key, name);
		(void)snprintf(path, sizeof(path), "a/%s", name);
		CU_ASSERT_EQUAL_FATAL(close(creat(at(path), 0600)), 0);
		fm_fault_watch(sweep, &left);
		CU_ASSERT_EQUAL(mv("a/d", "b/d", false), 0);
		fm_fault_watch(NULL, NULL);
		CU_ASSERT_TRUE(left == 0 && is_there("b/d") && !is_there(path));
		path[0] = 'b';
		CU_ASSERT_TRUE(is_there(path));
		end();
	}
}

/*
 * Goal:   a process that is killed in the midst leaves the one name or the other, and all of the
 *         file.
 * Method: a child ends itself at its n-th call, for each n until it is through.
 */
static unsigned die_in;

static void die(void *ctx, const char *point)
{
	(void)ctx;
	(void)point;
	if (--die_in == 0)
		(void)raise(SIGKILL);
}

/* Whether it was killed. */
static bool killed_at(unsigned n, const char *to, bool may_replace)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		die_in = n;
		fm_fault_watch(die, NULL);
		_exit(mv("d/f", to, may_replace) == 0 ? 0 : 1);
	}
	CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
	CU_ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return WIFSIGNALED(status);
}

static void test_killed(void)
{
	for (unsigned kind = 0; kind < 2; kind++) {
		bool is_over = kind == 1, is_killed = true;
		unsigned n;

		for (n = 1; is_killed && n < 100; n++) {
			begin(ON_DISK, true);
			CU_ASSERT_EQUAL(put("d/f", 5000, 1, false), 0);
			CU_ASSERT_EQUAL(put("e/g", 6000, 2, false), 0);
			is_killed = killed_at(n, is_over ? "e/g" : "e/f", is_over);
			if (is_there("d/f")) {
				CU_ASSERT_TRUE(is_killed && holds("d/f", 5000, 1));
				CU_ASSERT_TRUE(!is_there("e/f") && holds("e/g", 6000, 2));
			} else {
				CU_ASSERT_TRUE(holds(is_over ? "e/g" : "e/f", 5000, 1));
			}
			end();
		}
		CU_ASSERT_TRUE(n > 6 && !is_killed);
	}
}

static const struct fm_test tests[] = {
	{ "a file, a directory and a link get another name", test_moves },
	{ "what is refused changes nothing", test_refused },
	{ "a file takes the place of one only if asked for", test_replaces },
	{ "a file system that knows no flags", test_no_flags },
	{ "somebody is faster", test_meanwhile },
	{ "a manifest goes along, though a sweep comes", test_manifest },
	{ "a process that is killed leaves one of both names", test_killed },
};
FM_TEST_MAIN("store move", tests)
