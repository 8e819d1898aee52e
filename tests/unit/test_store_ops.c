/* SPDX-License-Identifier: MIT */
/*
 * Directory stores: list, remove, mkdir. links: fm_store
 */
#include <dlfcn.h>
#include <linux/capability.h>
#include <sys/inotify.h>
#include <sys/syscall.h>

#include "mover/base/fault.h"
#include "mover/store/store_dir.h"
#include "mover/store/walk.h"
#include "tests/unit/store_scene.h"

#define DEEP 1300	/* more than a walk has open */

/* One page; returns the count or the error. */
static int page(const char *path, const char *after, size_t max, struct fm_entry *out)
{
	struct fm_list_opts opts = { .after = after, .max = max };
	size_t count = 4711;
	int ret = s->ops->list(s, path, &a_peer, &opts, out, &count, &err);

	return ret < 0 ? ret : (int)count;
}

static void touch(const char *name)
{
	int fd = open(at(name), O_CREAT | O_WRONLY | O_EXCL, 0644);

	CU_ASSERT_TRUE(fd >= 0);
	close(fd);
}

/* Goal: pages of any size give every name once, in the order of its bytes, however the directory
 * has them. */
static void test_pages(void)
{
	enum { NAMES = 257 };
	static struct fm_entry out[300];
	char name[16], after[256], last[256];

	for (size_t b = 0; b < BASES; b++) {
		begin(bases[b], false);
		for (unsigned i = 0; i < NAMES; i++) {
			snprintf(name, sizeof(name), "%c%03u", i % 2 ? 'a' : '\xff',
				 (i * 7919) % 1000);
			touch(name);
		}
		for (size_t max = 1; max < 300; max = max * 3 + 1) {
			unsigned total = 0;
			int n;

			after[0] = last[0] = '\0';
			do {
				n = page("", after, max, out);
				CU_ASSERT_TRUE_FATAL(n >= 0 && (size_t)n <= max);
				for (int i = 0; i < n; i++) {
					CU_ASSERT_TRUE(strcmp(last, out[i].name) < 0);
					strcpy(last, out[i].name);
					CU_ASSERT_EQUAL(out[i].attr.type, FM_NODE_FILE);
				}
				strcpy(after, last);
				total += (unsigned)n;
			} while ((size_t)n == max);
			CU_ASSERT_EQUAL(total, NAMES);
		}
		CU_ASSERT_EQUAL(page("", "", 0, out), 0);
		CU_ASSERT_EQUAL(page("", "\xff\xff", 10, out), 0);
		end();
	}
}

static void test_list_kinds(void)
{
	struct fm_entry out[8];

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("d/file", 4097, 1, false), 0);
	CU_ASSERT_EQUAL(mkdir(at("d/dir"), 0711), 0);
	CU_ASSERT_EQUAL(mkfifo(at("d/pipe"), 0600), 0);
	CU_ASSERT_EQUAL(symlink("/etc", at("d/link")), 0);
	touch("d/.fmove.0123456789abcdef.part");
	touch("d/.hidden");
	CU_ASSERT_EQUAL(page("d", "", 8, out), 5);
	CU_ASSERT_STRING_EQUAL(out[0].name, ".hidden");
	CU_ASSERT_STRING_EQUAL(out[1].name, "dir");
	CU_ASSERT_EQUAL(out[1].attr.type, FM_NODE_DIR);
	CU_ASSERT_EQUAL(out[1].attr.mode, 0711);
	CU_ASSERT_STRING_EQUAL(out[2].name, "file");
	CU_ASSERT_EQUAL(out[2].attr.size, 4097);
	CU_ASSERT_EQUAL(out[2].attr.mtime_ns, 5 * NS_PER_S + 7);
	CU_ASSERT_EQUAL(out[3].attr.type, FM_NODE_LINK);
	CU_ASSERT_EQUAL(out[4].attr.type, FM_NODE_OTHER);
	CU_ASSERT_EQUAL(page("d/file", "", 8, out), -ENOTDIR);
	CU_ASSERT_EQUAL(page("d/link", "", 8, out), -EXDEV);
	CU_ASSERT_EQUAL(page("none", "", 8, out), -ENOENT);
	memset(buffer(), 'n', 256);
	buffer()[256] = '\0';
	CU_ASSERT_EQUAL(page("d", (char *)buffer(), 8, out), -EINVAL);
	CU_ASSERT_EQUAL(unlink(at("d/.fmove.0123456789abcdef.part")), 0);
	end();
}

static int rm(const char *path, bool is_recursive)
{
	return s->ops->remove(s, path, &a_peer, is_recursive, &err);
}

static void test_remove(void)
{
	for (size_t b = 0; b < BASES; b++) {
		begin(bases[b], false);
		CU_ASSERT_EQUAL(put("f", 1, 1, false), 0);
		CU_ASSERT_EQUAL(put("d/e/f", 1, 1, false), 0);
		CU_ASSERT_EQUAL(mkdir(at("empty"), 0755), 0);
		CU_ASSERT_EQUAL(rm("f", false), 0);
		CU_ASSERT_EQUAL(rm("f", false), -ENOENT);
		CU_ASSERT_EQUAL(rm("f", true), -ENOENT);
		CU_ASSERT_EQUAL(rm("no/where", false), -ENOENT);
		CU_ASSERT_EQUAL(rm("d", false), -EISDIR);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "-r"));
		CU_ASSERT_EQUAL(rm("empty", false), -EISDIR);
		CU_ASSERT_EQUAL(rm("empty", true), 0);
		CU_ASSERT_EQUAL(rm("d/e/f", true), 0);
		CU_ASSERT_EQUAL(access(at("d/e"), F_OK), 0);
		CU_ASSERT_EQUAL(rm("", true), -EISDIR);
		CU_ASSERT_EQUAL(rm("d", true), 0);
		CU_ASSERT_EQUAL(dir_count(dir, ""), 2);
		end();
	}
}

/* Goal: removing a tree removes links, pipes and partial files in it, and nothing that a link
 * points to. */
static void test_remove_tree(void)
{
	char name[64];

	for (size_t b = 0; b < BASES; b++) {
		unsigned fds;

		begin(bases[b], false);
		fds = fds_open();
		CU_ASSERT_EQUAL(put("keep/f", 10, 1, false), 0);
		for (unsigned i = 0; i < 300; i++) {
			struct put p = { .path = name, .size = 10, .salt = 1, .is_fleeting = true };

			snprintf(name, sizeof(name), "t/%u/%u/f", i % 3, i);
			CU_ASSERT_EQUAL(store_put(&l, s, &p, &err), 0);
		}
		CU_ASSERT_EQUAL(symlink("../keep", at("t/inside")), 0);
		CU_ASSERT_EQUAL(symlink("/etc", at("t/0/outside")), 0);
		CU_ASSERT_EQUAL(mkfifo(at("t/1/pipe"), 0600), 0);
		touch("t/2/.fmove.0123456789abcdef.part");
		CU_ASSERT_EQUAL(symlink("t", at("link")), 0);
		CU_ASSERT_EQUAL(rm("link", true), 0);		/* the link only */
		CU_ASSERT_EQUAL(access(at("t/0/0/f"), F_OK), 0);
		CU_ASSERT_EQUAL(rm("t", true), 0);
		CU_ASSERT_EQUAL(access(at("t"), F_OK), -1);
		CU_ASSERT_EQUAL(store_verify(&l, s, "keep/f", 10, 1), 0);
		CU_ASSERT_EQUAL(fds_open(), fds);
		end();
	}
}

/* Events of inotify(7) that a removal of "d" causes: the first of them, and its name. */
static uint32_t first_event(int watch, char *name, size_t cap)
{
	union {
		struct inotify_event event;
		char bytes[4096];
	} buf = { .bytes = { 0 } };
	ssize_t len = read(watch, &buf, sizeof(buf));

	CU_ASSERT_TRUE(len >= (ssize_t)sizeof(buf.event));
	(void)snprintf(name, cap, "%s", buf.event.len > 0 ? buf.event.name : "");
	return buf.event.mask;
}

/* Goal: nobody sees a tree from which something is gone: its name goes first. */
static void test_remove_hides_first(void)
{
	char name[64];
	int watch;

	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("d/f", 1, 1, false), 0);
	watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	CU_ASSERT_TRUE(inotify_add_watch(watch, at("d"), IN_DELETE) >= 0);
	CU_ASSERT_TRUE(inotify_add_watch(watch, at(""), IN_MOVED_FROM | IN_DELETE) >= 0);
	CU_ASSERT_EQUAL(rm("d", true), 0);
	CU_ASSERT_EQUAL(first_event(watch, name, sizeof(name)) & IN_MOVED_FROM, IN_MOVED_FROM);
	CU_ASSERT_STRING_EQUAL(name, "d");
	CU_ASSERT_EQUAL(dir_count(dir, ""), 2);
	close(watch);
	end();
}

/* Goal: where it cannot be hidden (a full disk has no room for another directory) it goes all the
 * same; what cannot be removed is under its name again. */
static void test_remove_fails(void)
{
	begin(ON_DISK, false);
	CU_ASSERT_EQUAL(put("d/f", 1, 1, false), 0);
	fm_fault_arm("store.unlink", 1);
	CU_ASSERT_EQUAL(rm("d", true), -EIO);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(access(at("d/f"), F_OK), 0);
	CU_ASSERT_EQUAL(dir_count(dir, ""), 3);
	fm_fault_arm("tree.mkdir", 1);
	CU_ASSERT_EQUAL(rm("d", true), 0);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(dir_count(dir, ""), 2);
	end();
}

/* Three directories with a file each beside the one so deep. */
static void make_beside(unsigned depth)
{
	int above = open(dir, O_RDONLY | O_DIRECTORY), next;
	char name[] = "1/f";

	for (unsigned i = 0; i < depth; i++) {
		next = openat(above, "d", O_RDONLY | O_DIRECTORY);
		close(above);
		above = next;
	}
	for (; name[0] <= '3'; name[0]++) {
		name[1] = '\0';
		CU_ASSERT_EQUAL(mkdirat(above, name, 0755), 0);
		name[1] = '/';
		next = openat(above, name, O_CREAT | O_WRONLY | O_EXCL, 0644);
		CU_ASSERT_TRUE(next >= 0);
		close(next);
	}
	close(above);
}

/* Goal: a tree goes however deep it is, also what lies beside the deepest way; too deep is refused
 * with a reason. */
static void test_remove_deep(void)
{
	unsigned fds;

	begin(IN_MEMORY, false);
	fds = fds_open();
	make_deep(DEEP);
	make_beside(2);
	make_beside(700);
	make_beside(1200);
	fm_fault_arm("store.walk_deep", 3);
	CU_ASSERT_EQUAL(rm("d", true), -EOVERFLOW);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "deeper than 262144"));
	CU_ASSERT_EQUAL(access(at("d"), F_OK), 0);
	CU_ASSERT_EQUAL(rm("d", true), 0);
	CU_ASSERT_EQUAL(dir_count(dir, ""), 2);
	CU_ASSERT_EQUAL(fds_open(), fds);
	end();
}

/* The names of a walk through the store, directories once each. *failed: errors that it went on
 * behind. */
static unsigned count_names(unsigned *failed)
{
	struct fm_walk walk;
	struct fm_walk_at at;
	unsigned met = 0;
	int ret = fm_walk_start(&walk, open(dir, O_RDONLY | O_DIRECTORY));

	*failed = 0;
	while (ret == 0 && ((ret = fm_walk_next(&walk, &at)) > 0 || fm_walk_goes_on(&walk, ret))) {
		*failed += ret < 0;
		met += ret > 0 && !at.is_leaving;
		ret = 0;
	}
	CU_ASSERT_EQUAL(ret, 0);
	fm_walk_end(&walk);
	return met;
}

/* Goal: a walk meets everything once, though it had to close directories on the way; where one is
 * not found again it goes on behind what it cannot get to. */
static void test_walk_deep(void)
{
	unsigned failed, fds;

	begin(IN_MEMORY, false);
	fds = fds_open();
	make_deep(DEEP);
	make_beside(700);
	make_beside(1200);
	CU_ASSERT_EQUAL(put("d/f", 1, 1, false), 0);
	CU_ASSERT_EQUAL(put("f", 1, 1, false), 0);
	CU_ASSERT_EQUAL(count_names(&failed), DEEP + 14);
	CU_ASSERT_EQUAL(failed, 0);
	fm_fault_arm("store.walk_up", 1);
	CU_ASSERT_TRUE(count_names(&failed) >= DEEP + 2);
	CU_ASSERT_TRUE(fm_fault_fired() && failed == 1);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_EQUAL(fds_open(), fds);
	end();
}

/* Goal: a quota's count falls though a directory fails, in which little may be; not where the rest
 * of one was cut off, which somebody may have nested so deep. */
static void test_count_cut(void)
{
	struct fm_store_opts opts = {.name = "s",
				     .directory = dir,
				     .read = everybody,
				     .write = everybody,
				     .quota_bytes = 1u << 20};
	struct fm_store_dir *sd;

	if (fm_test_lacks_faults())
		return;
	begin(IN_MEMORY, false);
	s->ops->free(s);
	CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &s, &err), 0);
	sd = fm_container_of(s, struct fm_store_dir, store);
	make_deep(DEEP);
	CU_ASSERT_EQUAL(put("f", 5000, 1, false), 0);
	CU_ASSERT_EQUAL(unlink(at("f")), 0);
	fm_fault_arm("store.walk_up", 1);
	CU_ASSERT_EQUAL(fm_usage_count(&sd->usage, sd->root, &err), 0);
	CU_ASSERT_TRUE(fm_fault_fired());
	CU_ASSERT_EQUAL(sd->usage.used, 5000);
	fm_fault_arm("store.readdir", 2);	/* the first one of the directory at the top */
	CU_ASSERT_EQUAL(fm_usage_count(&sd->usage, sd->root, &err), 0);
	CU_ASSERT_TRUE(fm_fault_fired());
	CU_ASSERT_EQUAL(sd->usage.used, 0);
	fm_fault_arm(NULL, 0);
	end();
}

static bool has_no_types;

/* As of a file system whose directories do not say what is in them. */
struct dirent *readdir(DIR *d)
{
	static struct dirent *(*next)(DIR *);
	struct dirent *entry;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "readdir");
	entry = next(d);
	if (entry && has_no_types)
		entry->d_type = DT_UNKNOWN;
	return entry;
}

/* Goal: a directory of which it cannot be told what it is is not taken for a file. */
static void test_walk_without_types(void)
{
	unsigned failed;

	if (fm_test_lacks_faults())
		return;
	begin(IN_MEMORY, false);
	CU_ASSERT_EQUAL(put("d/f", 1, 1, false), 0);
	CU_ASSERT_EQUAL(put("d/g", 1, 1, false), 0);
	has_no_types = true;
	CU_ASSERT_EQUAL(count_names(&failed), 3);
	CU_ASSERT_EQUAL(failed, 0);
	fm_fault_arm("store.fstatat", 1);	/* opened, d is a directory, ... */
	CU_ASSERT_EQUAL(count_names(&failed), 3);
	CU_ASSERT_TRUE(fm_fault_fired() && failed == 0);
	fm_fault_arm("store.fstatat", 2);	/* ... and the first one in it none */
	CU_ASSERT_EQUAL(count_names(&failed), 3);
	CU_ASSERT_TRUE(fm_fault_fired() && failed == 0);
	fm_fault_arm(NULL, 0);
	has_no_types = false;
	end();
}

/* What follows is done by somebody whom modes bind, and whose the directory is. */
static void become_owner(void)
{
	if (geteuid() > 0)
		return;
	CU_ASSERT_EQUAL_FATAL(chown(dir, 65534, 65534), 0);
	CU_ASSERT_EQUAL_FATAL(seteuid(65534), 0);
}

/* Goal: a tree of which no directory may be written to, or read, goes if it is ours. */
static void test_remove_frozen(void)
{
	static const struct {
		mode_t top, inner, closed;
	} cases[] = {{0555, 0555, 0555}, {0755, 0555, 0}, {0, 0, 0}, {0311, 0666, 0100}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(bases[i % BASES], false);
		become_owner();
		CU_ASSERT_TRUE(put("d/f", 1, 1, false) == 0 &&
			       put("d/inner/f", 1, 1, false) == 0 &&
			       put("d/inner/closed/f", 1, 1, false) == 0);
		CU_ASSERT_TRUE(chmod(at("d/inner/closed"), cases[i].closed) == 0 &&
			       chmod(at("d/inner"), cases[i].inner) == 0 &&
			       chmod(at("d"), cases[i].top) == 0);
		CU_ASSERT_EQUAL(rm("d", true), 0);
		CU_ASSERT_EQUAL(dir_count(dir, ""), 2);
		(void)seteuid(getuid());
		end();
	}
}

/* Whether it has that mode, or has gone. */
static bool has_mode_still(const char *name, mode_t mode)
{
	struct stat st;

	return fstatat(AT_FDCWD, at(name), &st, AT_SYMLINK_NOFOLLOW) < 0
		       ? errno == ENOENT
		       : (st.st_mode & 07777) == mode;
}

static void freeze(mode_t top, mode_t inner, mode_t closed)
{
	static const char *const dirs[] = {"d", "d/inner", "d/inner/closed"};
	static const char *const files[] = {"d/f", "d/inner/f", "d/inner/closed/f"};

	for (size_t i = 0; i < 3; i++) {
		(void)mkdir(at(dirs[i]), 0755);		/* of some an earlier try has left them */
		close(open(at(files[i]), O_CREAT | O_WRONLY, 0644));
	}
	CU_ASSERT_TRUE(chmod(at("d/inner/closed"), closed) == 0 &&
		       chmod(at("d/inner"), inner) == 0 && chmod(at("d"), top) == 0);
}

/* What is left of it, outermost first: each has its mode, and is opened to go with the rest. */
static void check_frozen(mode_t top, mode_t inner, mode_t closed)
{
	CU_ASSERT_TRUE(access(at("d"), F_OK) == 0 && has_mode_still("d", top));
	(void)chmod(at("d"), 0755);
	CU_ASSERT_TRUE(has_mode_still("d/inner", inner));
	(void)chmod(at("d/inner"), 0755);
	CU_ASSERT_TRUE(has_mode_still("d/inner/closed", closed));
	(void)chmod(at("d/inner/closed"), 0755);
}

/*
 * Goal: what cannot go has the modes that it had.
 * Method: the n-th call of each kind fails, until nothing does.
 */
static void test_remove_frozen_fails(void)
{
	static const struct {
		mode_t top, inner, closed;
	} cases[] = {{0555, 0555, 0555}, {0755, 0555, 0}, {0, 0500, 0500}, {0311, 0311, 0311}};
	static const char *const points[] = {"store.unlink", "store.open", "store.opendir",
					     "store.fstatat"};
	int ret;

	for (size_t i = 0; i < 4 * sizeof(points) / sizeof(points[0]); i++) {
		begin(ON_DISK, false);
		become_owner();
		ret = -EIO;
		for (unsigned n = 1; ret < 0 && n < 100; n++) {
			freeze(cases[i % 4].top, cases[i % 4].inner, cases[i % 4].closed);
			fm_fault_arm(points[i / 4], n);
			ret = rm("d", true);
			if (!fm_fault_fired())
				CU_ASSERT_EQUAL(ret, 0);
			fm_fault_arm(NULL, 0);
			if (ret < 0)
				check_frozen(cases[i % 4].top, cases[i % 4].inner,
					     cases[i % 4].closed);
		}
		CU_ASSERT_EQUAL(ret, 0);
		CU_ASSERT_EQUAL(dir_count(dir, ""), 2);
		(void)seteuid(getuid());
		end();
	}
}

/* Who has CAP_FOWNER may change modes that are not his: a service of a store with owners. */
static void take_fowner(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];

	CU_ASSERT_EQUAL_FATAL(syscall(SYS_capget, &head, caps), 0);
	caps[0].effective |= 1u << CAP_FOWNER;
	CU_ASSERT_EQUAL_FATAL(syscall(SYS_capset, &head, caps), 0);
}

/* Goal: a directory of another user keeps its mode when it cannot go. */
static void test_remove_of_others(void)
{
	struct stat st;

	if (geteuid() > 0) {
		printf("SKIP: nobody else can be played\n");
		return;
	}
	begin(ON_DISK, false);
	CU_ASSERT_TRUE(put("d/theirs/f", 1, 1, false) == 0 &&
		       put("d/theirs/g/f", 1, 1, false) == 0);
	CU_ASSERT_TRUE(chmod(at("d"), 0777) == 0 && chmod(at("d/theirs"), 0755) == 0 &&
		       chown(at("d/theirs"), 1, 1) == 0 && chmod(at("d/theirs/g"), 0711) == 0 &&
		       chown(at("d/theirs/g"), 1, 1) == 0);
	become_owner();
	take_fowner();
	CU_ASSERT_EQUAL(rm("d", true), -EPERM);
	(void)seteuid(getuid());
	CU_ASSERT_TRUE(stat(at("d/theirs"), &st) == 0 && (st.st_mode & 07777) == 0755);
	CU_ASSERT_TRUE(stat(at("d/theirs/g"), &st) == 0 && (st.st_mode & 07777) == 0711);
	end();
}

/* Goal: where the name of a tree cannot go, nothing of it goes. */
static void test_remove_in_frozen(void)
{
	begin(ON_DISK, false);
	become_owner();
	CU_ASSERT_EQUAL(put("frozen/d/f", 1, 1, false), 0);
	CU_ASSERT_EQUAL(chmod(at("frozen"), 0555), 0);
	CU_ASSERT_EQUAL(rm("frozen/d", true), -EPERM);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "look at owner and mode there"));
	CU_ASSERT_EQUAL(store_verify(&l, s, "frozen/d/f", 1, 1), 0);
	CU_ASSERT_EQUAL(chmod(at("frozen"), 0755), 0);
	(void)seteuid(getuid());
	end();
}

static void test_mkdir(void)
{
	struct fm_attr attr;

	for (size_t b = 0; b < BASES; b++) {
		begin(bases[b], false);
		CU_ASSERT_EQUAL(s->ops->mkdir(s, "a/b/c", &a_peer, &err), 0);
		CU_ASSERT_EQUAL(s->ops->stat(s, "a/b/c", &a_peer, &attr, &err), 0);
		CU_ASSERT_EQUAL(attr.type, FM_NODE_DIR);
		CU_ASSERT_EQUAL(s->ops->mkdir(s, "a/b/c", &a_peer, &err), -EEXIST);
		CU_ASSERT_EQUAL(s->ops->mkdir(s, "a/b", &a_peer, &err), -EEXIST);
		CU_ASSERT_EQUAL(s->ops->mkdir(s, "", &a_peer, &err), -EEXIST);
		CU_ASSERT_EQUAL(put("f", 1, 1, false), 0);
		CU_ASSERT_EQUAL(s->ops->mkdir(s, "f", &a_peer, &err), -EEXIST);
		CU_ASSERT_EQUAL(s->ops->mkdir(s, "f/g", &a_peer, &err), -ENOTDIR);
		end();
	}
}

static const struct fm_test tests[] = {
	{ "pages give every name once, sorted by bytes", test_pages },
	{ "a list tells kinds apart and hides partial files", test_list_kinds },
	{ "remove takes files, and directories only if asked for", test_remove },
	{ "removing a tree follows no link", test_remove_tree },
	{ "a tree that is removed loses its name first", test_remove_hides_first },
	{ "what cannot be removed has its name again", test_remove_fails },
	{ "a tree goes however deep it is", test_remove_deep },
	{"a tree that is read-only goes, where it is ours", test_remove_frozen},
	{"what is left of a read-only tree has its modes", test_remove_frozen_fails},
	{"what is another user's keeps its mode", test_remove_of_others},
	{"a tree whose name cannot go stays", test_remove_in_frozen},
	{"a walk goes as deep as there are directories", test_walk_deep},
	{"a count that was cut lowers nothing", test_count_cut},
	{"a walk knows directories whatever is said of them", test_walk_without_types},
	{ "mkdir makes what is missing", test_mkdir },
};
FM_TEST_MAIN("store ops", tests)
