/* SPDX-License-Identifier: MIT */
/*
 * Who may. links: fm_store
 *
 * The users and groups are those that every system has: root, and whatever entries the database
 * shows.
 */
#include "mover/store/access.h"

#include <grp.h>
#include <pwd.h>
#include <sys/wait.h>

#include "mover/base/fault.h"
#include "tests/unit/store_fixture.h"

static bool allows(const char *rule, const struct fm_who *who)
{
	const char *const rules[] = { rule, NULL };
	struct fm_access *access = NULL;
	struct fm_err err = { 0 };
	bool is_allowed;

	CU_ASSERT_EQUAL_FATAL(fm_access_new(rules, &access, &err), 0);
	is_allowed = fm_access_allows(access, who);
	CU_ASSERT_EQUAL(fm_access_check(access, who, "read", &err), is_allowed ? 0 : -EACCES);
	fm_access_free(access);
	return is_allowed;
}

static void test_peers(void)
{
	/* says it is root there: that is its word only */
	const struct fm_who n2 = { .peer = "n2" };
	const struct fm_who n22 = { .peer = "n22" };
	const struct fm_who local = { .uid = 4000000 };

	CU_ASSERT_TRUE(allows("*", &n2));
	CU_ASSERT_TRUE(allows("peer:*", &n2));
	CU_ASSERT_TRUE(allows("peer:n2", &n2));
	CU_ASSERT_FALSE(allows("peer:n2", &n22));
	CU_ASSERT_FALSE(allows("peer:n22", &n2));
	CU_ASSERT_FALSE(allows("user:root", &n2));
	CU_ASSERT_FALSE(allows("group:root", &n2));
	CU_ASSERT_FALSE(allows("peer:*", &local));
	CU_ASSERT_TRUE(allows("*", &local));
}

/* Goal: users match by uid, groups by the caller's first group and by the database; root needs no
 * rule. */
static void test_users(void)
{
	const struct fm_who root = { .uid = 0, .gid = 0 };
	const struct fm_who nobody_known = { .uid = 4000000, .gid = 4000000 };
	const struct fm_who in_root_group = { .uid = 4000000, .gid = 0 };

	CU_ASSERT_TRUE(allows("peer:n2", &root));
	CU_ASSERT_FALSE(allows("user:root", &nobody_known));
	CU_ASSERT_FALSE(allows("group:root", &nobody_known));
	CU_ASSERT_TRUE(allows("group:root", &in_root_group));
}

/* A member of some group that is not its first one, if the database has any. */
static void test_supplementary_group(void)
{
	struct group *group;
	struct passwd *user = NULL;
	char rule[300];

	setgrent();
	while (!user && (group = getgrent()))
		for (char **member = group->gr_mem; !user && *member; member++) {
			user = getpwnam(*member);
			if (user && (user->pw_gid == group->gr_gid || user->pw_uid == 0))
				user = NULL;
			snprintf(rule, sizeof(rule), "group:%s", group->gr_name);
		}
	endgrent();
	if (!user) {
		printf("SKIP: no user here is in a second group\n");
		return;
	}
	CU_ASSERT_TRUE(allows(rule, &(struct fm_who){ .uid = user->pw_uid, .gid = user->pw_gid }));
}

static void test_bad_rules(void)
{
	static const struct {
		const char *rule;
		const char *text;
	} cases[] = {
		{ "", "expected" },
		{ "root", "expected" },
		{ "peer:", "expected" },
		{ "user:", "expected" },
		{ "users:root", "expected" },
		{ "user:no-such-user-here", "no such user" },
		{ "group:no-such-group-here", "no such group" },
	};
	struct fm_access *access = NULL;
	struct fm_err err = { 0 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const rules[] = { "peer:n1", cases[i].rule, NULL };

		CU_ASSERT_EQUAL(fm_access_new(rules, &access, &err), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].text));
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].rule));
	}
	CU_ASSERT_PTR_NULL(access);
}

/* A user database that never answers would be asked for names that are not there, too. */
static void test_at_once(void)
{
	static const char *const rules[] = { "peer:n1", "user:no-such-user-here",
					     "group:no-such-group-here", NULL };
	static const char *const wrong[] = { "users:root", NULL };
	const struct fm_who peer = { .peer = "n1" }, user = { .uid = 1000, .gid = 1000 };
	struct fm_access *access = NULL;
	struct fm_err err = { 0 };

	CU_ASSERT_TRUE(fm_access_names_users(rules));
	CU_ASSERT_TRUE(fm_access_names_users(rules + 2));
	CU_ASSERT_FALSE(fm_access_names_users(wrong));
	CU_ASSERT_FALSE(fm_access_names_users(NULL));
	CU_ASSERT_EQUAL(fm_access_new_at_once(wrong, &access, &err), -EINVAL);
	CU_ASSERT_EQUAL_FATAL(fm_access_new_at_once(rules, &access, &err), 0);
	CU_ASSERT_FALSE(fm_access_asks_users(access));
	CU_ASSERT_TRUE(fm_access_allows(access, &peer));
	CU_ASSERT_FALSE(fm_access_allows(access, &user));
	fm_access_free(access);
}

struct told {
	unsigned count[FM_ACCESS_KINDS];
	uint32_t user;
	char group[64];
};

static void tell(void *ctx, enum fm_access_kind kind, uint32_t id, const char *name)
{
	struct told *t = ctx;

	t->count[kind]++;
	if (kind == FM_ACCESS_USER)
		t->user = id;
	if (kind == FM_ACCESS_GROUP)
		snprintf(t->group, sizeof(t->group), "%s", name);
}

/* What is said of users, and nothing of peers. */
static void test_telling(void)
{
	const char *const rules[] = { "peer:n1", "user:root", "*", "group:root", "peer:*", NULL };
	struct told t = { .user = 1 };
	struct fm_access *access = NULL;
	struct fm_err err = { 0 };
	uid_t uid;
	gid_t gid;

	CU_ASSERT_EQUAL_FATAL(fm_access_new(rules, &access, &err), 0);
	fm_access_users(access, tell, &t);
	fm_access_free(access);
	CU_ASSERT_TRUE(t.count[FM_ACCESS_ALL] == 1 && t.count[FM_ACCESS_USER] == 1 &&
		       t.count[FM_ACCESS_GROUP] == 1);
	CU_ASSERT_EQUAL(t.user, 0);
	CU_ASSERT_STRING_EQUAL(t.group, "root");
	CU_ASSERT_TRUE(fm_access_find_user("root", &uid) == 0 && uid == 0);
	CU_ASSERT_TRUE(fm_access_find_group("root", &gid) == 0 && gid == 0);
	CU_ASSERT_EQUAL(fm_access_find_user("no-such-user-here", &uid), -ENOENT);
	CU_ASSERT_EQUAL(fm_access_find_group("no-such-group-here", &gid), -ENOENT);
}

static void test_no_rules(void)
{
	struct fm_access *access = NULL;
	struct fm_err err = { 0 };

	CU_ASSERT_EQUAL_FATAL(fm_access_new(NULL, &access, &err), 0);
	CU_ASSERT_FALSE(fm_access_allows(access, &a_peer));
	CU_ASSERT_EQUAL(fm_access_check(access, &a_peer, "write", &err), -EACCES);
	CU_ASSERT_STRING_EQUAL(err.text,
			       "peer n2 may not write here; \"peer:n2\" in the store's write list "
			       "would allow it");
	CU_ASSERT_TRUE(fm_access_allows(access, &root_user));
	fm_access_free(access);
	fm_access_free(NULL);
}

/*
 * Goal: asking the rules waits for the user database only where they name groups and a local user
 * but root is asked about, who is refused by his number.
 */
static void test_user_database(void)
{
	static const char *const groups[] = { "group:root", NULL };
	static const char *const no_groups[] = { "user:root", NULL };
	const struct fm_who other = { .uid = 65534, .gid = 65534 };
	struct fm_attr attr;
	struct fm_err err = { 0 };
	struct fm_store *s;
	char dir[64];

	dir_make(ON_DISK, dir);
	for (int n = 0; n < 4; n++) {
		struct fm_store_opts opts = { .name = "s", .directory = n % 2 ? "null:" : dir,
					      .read = n < 2 ? groups : no_groups,
					      .write = no_groups };

		CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &s, &err), 0);
		CU_ASSERT_PTR_EQUAL(fm_access_may_await(s, &other),
				    n < 2 ? fm_access_user_database() : NULL);
		CU_ASSERT_PTR_NULL(fm_access_may_await(s, &root_user));
		CU_ASSERT_PTR_NULL(fm_access_may_await(s, &a_peer));
		CU_ASSERT_EQUAL(s->ops->stat(s, "1", &other, &attr, &err), -EACCES);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "uid 65534 may not read here"));
		s->ops->free(s);
	}
	dir_remove(dir);
}

/* Goal: each operation of a store asks the right list before it looks at the disk. */
static void test_store_asks(void)
{
	static const char *const readers[] = { "peer:reader", NULL };
	static const char *const writers[] = { "peer:writer", NULL };
	const struct fm_who reader = { .peer = "reader" }, writer = { .peer = "writer" };
	struct fm_store_opts opts = { .name = "s", .read = readers, .write = writers };
	const struct fm_create how = { .size = 0 };
	const struct fm_list_opts page = { .after = "", .max = 1 };
	struct fm_entry entry;
	struct fm_store *s;
	struct fm_file *file;
	struct fm_attr attr;
	struct fm_err err = { 0 };
	size_t count;
	char dir[64];

	dir_make(ON_DISK, dir);
	opts.directory = dir;
	for (int is_null = 0; is_null < 2; is_null++) {
		opts.directory = is_null ? "null:" : dir;
		CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &s, &err), 0);
		CU_ASSERT_EQUAL(s->ops->open_source(s, "1", &writer, &file, &attr, &err), -EACCES);
		if (s->ops->open_fd)
			CU_ASSERT_EQUAL(s->ops->open_fd(s, "1", &writer, &err), -EACCES);
		CU_ASSERT_EQUAL(s->ops->stat(s, "1", &writer, &attr, &err), -EACCES);
		CU_ASSERT_EQUAL(s->ops->stat(s, "", &writer, &attr, &err), -EACCES);
		CU_ASSERT_EQUAL(s->ops->list(s, "", &writer, &page, &entry, &count, &err), -EACCES);
		CU_ASSERT_EQUAL(s->ops->create(s, "1", &reader, &how, &file, &err), -EACCES);
		CU_ASSERT_EQUAL(s->ops->remove(s, "1", &reader, true, &err), -EACCES);
		CU_ASSERT_EQUAL(s->ops->mkdir(s, "1", &reader, &err), -EACCES);
		CU_ASSERT_STRING_EQUAL(err.text, "store s: peer reader may not write here; "
						 "\"peer:reader\" in the store's write list would "
						 "allow it");
		CU_ASSERT_EQUAL(s->ops->stat(s, "", &reader, &attr, &err), 0);
		CU_ASSERT_EQUAL(s->ops->list(s, "", &reader, &page, &entry, &count, &err), 0);
		CU_ASSERT_EQUAL(s->ops->mkdir(s, "1", &writer, &err), 0);
		if (!is_null) {
			CU_ASSERT(s->ops->lets_peer(s, "reader"));
			CU_ASSERT_FALSE(s->ops->lets_peer(s, "writer"));
		}
		s->ops->free(s);
	}
	dir_remove(dir);
}

/*
 * What a service that is `nobody` gets to see of root's file, and of a store it may not write to.
 * Runs in a child.
 */
static int as_nobody(const char *dir)
{
	struct fm_store_opts opts = {
		.name = "s", .directory = dir, .read = everybody, .write = everybody};
	const struct fm_who caller = { .uid = 65534, .gid = 65534 };
	const struct fm_create how = { .size = 1 };
	struct fm_store *s;
	struct fm_file *file;
	struct fm_attr attr;
	struct fm_err err = { 0 };

	if (setgid(65534) < 0 || setuid(65534) < 0)
		return 1;
	if (fm_store_open(&opts, &s, &err) < 0)
		return 2;
	if (s->ops->open_source(s, "secret", &caller, &file, &attr, &err) != -EPERM)
		return 3;
	if (!strstr(err.text, "the service's user may not"))
		return 4;
	if (s->ops->create(s, "new", &caller, &how, &file, &err) != -EPERM)
		return 5;
	if (s->ops->remove(s, "secret", &caller, false, &err) != -EPERM)
		return 6;
	if (s->ops->mkdir(s, "d", &caller, &err) != -EPERM)
		return 7;
	s->ops->free(s);
	opts.owner = FM_OWNER_CALLER;
	opts.directory = "/var/tmp";
	if (fm_store_open(&opts, &s, &err) < 0)
		return 8;
	/* Its own files it may own; another's only with CAP_CHOWN. */
	if (s->ops->create(s, "fm-store-nobody", &root_user, &how, &file, &err) != -EPERM ||
	    !strstr(err.text, "CAP_CHOWN"))
		return 9;
	if (s->ops->create(s, "fm-store-nobody", &caller, &how, &file, &err) != 0)
		return 10;
	file->ops->close(file);
	s->ops->free(s);
	return 0;
}

/* Goal: what the service's own user may not do is told apart from what the store's rules do not
 * allow. */
static void test_service_rights(void)
{
	char dir[64];
	int fd, status = -1;
	pid_t child;

	if (geteuid() != 0) {
		printf("SKIP: needs root, to become another user\n");
		return;
	}
	dir_make(ON_DISK, dir);
	fd = open(dir, O_RDONLY | O_DIRECTORY);
	close(openat(fd, "secret", O_CREAT | O_WRONLY, 0600));
	close(fd);
	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(as_nobody(dir));
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
	if (status)
		printf("the child ended with %d\n", WEXITSTATUS(status));
	dir_remove(dir);
}

/* Goal: owner = "caller" gives files and directories to whom they are for. */
static void test_owner_caller(void)
{
	struct fm_store_opts opts = {
		.name = "s", .read = everybody, .write = everybody, .owner = FM_OWNER_CALLER};
	const struct fm_who who = { .peer = "n2", .uid = 1234, .gid = 2345 };
	const struct fm_create how = { .size = 0 };
	const struct fm_attr attr = { .type = FM_NODE_FILE, .mode = 06755 };
	static const char *const made[] = { "d", "d/e", "d/e/file", "m" };
	struct fm_store *s;
	struct fm_file *file;
	struct fm_err err = { 0 };
	struct stat st;
	char dir[64], path[128];

	if (geteuid() != 0) {
		printf("SKIP: needs root, to give files away\n");
		return;
	}
	dir_make(ON_DISK, dir);
	opts.directory = dir;
	CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &s, &err), 0);
	CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "d/e/file", &who, &how, &file, &err), 0);
	CU_ASSERT_EQUAL(file->ops->publish(file, 0, &attr, true, &err), 0);
	file->ops->close(file);
	CU_ASSERT_EQUAL(s->ops->mkdir(s, "m", &who, &err), 0);
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, made[i]);
		CU_ASSERT_EQUAL(stat(path, &st), 0);
		CU_ASSERT_EQUAL(st.st_uid, 1234);
		CU_ASSERT_EQUAL(st.st_gid, 2345);
	}
	snprintf(path, sizeof(path), "%s/d/e/file", dir);
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0755);
	s->ops->free(s);
	dir_remove(dir);
}

/* Before each call: is there a file of the user's that he could open? */
static void look_for_his(void *ctx, const char *point)
{
	const char *around = ctx;
	const struct dirent *entry;
	struct stat st;
	DIR *d = opendir(around);

	(void)point;
	while (d && (entry = readdir(d)))
		if (fstatat(dirfd(d), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
			CU_ASSERT_EQUAL(st.st_uid, 0);
	if (d)
		closedir(d);
}

/*
 * Goal: a partial file is nobody's but ours before it is whole, since it may become another's: who
 * could open it once has it open for good.
 */
static void test_partial_is_ours(void)
{
	struct fm_store_opts opts = {
		.name = "s", .read = everybody, .write = everybody, .owner = FM_OWNER_CALLER};
	const struct fm_who who = { .peer = "n2", .uid = 1234, .gid = 2345 };
	struct fm_create how = { .size = 4 << 20, .is_resumable = true };
	struct fm_store *s;
	struct fm_file *file;
	struct fm_err err = { 0 };
	char dir[64];

	if (geteuid() != 0) {
		printf("SKIP: needs root, to give files away\n");
		return;
	}
	dir_make(ON_DISK, dir);
	opts.directory = dir;
	CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &s, &err), 0);
	for (unsigned i = 0; i < 2; i++) {
		how.is_resumable = i == 0;
		fm_fault_watch(look_for_his, dir);
		CU_ASSERT_EQUAL_FATAL(s->ops->create(s, "file", &who, &how, &file, &err), 0);
		file->ops->close(file);
		fm_fault_watch(NULL, NULL);
	}
	s->ops->free(s);
	dir_remove(dir);
}

/* What is root's, in a directory of the user's. */
enum victim { VICTIM_FILE, VICTIM_DIR, VICTIM_FULL_DIR, VICTIM_LINK, VICTIMS };

/* A user who may write to the directory around what is made. */
struct attack {
	char around[96];
	enum victim kind;
	unsigned turn;		/* before which call he moves */
	unsigned calls;
};

static void victim_make(const struct attack *a)
{
	char path[128], inner[160];

	snprintf(path, sizeof(path), "%s/victim", a->around);
	snprintf(inner, sizeof(inner), "%s/inside", path);
	if (a->kind == VICTIM_FILE)
		close(open(path, O_CREAT | O_WRONLY, 0600));
	else
		CU_ASSERT_EQUAL(a->kind == VICTIM_LINK ? symlink("/etc/passwd", path)
						       : mkdir(path, 0755),
				0);
	if (a->kind == VICTIM_FULL_DIR)
		close(open(inner, O_CREAT | O_WRONLY, 0600));
}

/* All that is there gets another name, and one of its names is the victim's then. */
static void attack_move(void *ctx, const char *point)
{
	struct attack *a = ctx;
	char from[512], to[512], victim[128];
	const struct dirent *entry;
	DIR *d;

	(void)point;
	if (++a->calls != a->turn)
		return;
	snprintf(victim, sizeof(victim), "%s/victim", a->around);
	d = opendir(a->around);
	while (d && (entry = readdir(d))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    strcmp(entry->d_name, "victim") == 0)
			continue;
		snprintf(from, sizeof(from), "%s/%s", a->around, entry->d_name);
		snprintf(to, sizeof(to), "%s/moved", a->around);
		(void)rename(from, to);
		(void)rename(victim, from);
		break;
	}
	if (d)
		closedir(d);
}

/* false: the operation ended before it was the user's turn. */
static bool attack_once(struct attack *a, bool is_put)
{
	struct fm_store_opts opts = {
		.name = "s", .read = everybody, .write = everybody, .owner = FM_OWNER_CALLER};
	const struct fm_who who = { .peer = "n2", .uid = 1234, .gid = 2345 };
	const struct fm_create how = { .size = 0 };
	struct fm_store *s;
	struct fm_file *file;
	struct fm_err err = { 0 };
	struct stat st = { .st_uid = 1 };
	char dir[64], path[128];
	int victim;

	dir_make(ON_DISK, dir);
	opts.directory = dir;
	CU_ASSERT_EQUAL_FATAL(fm_store_open(&opts, &s, &err), 0);
	CU_ASSERT_EQUAL_FATAL(s->ops->mkdir(s, "user", &who, &err), 0);
	snprintf(a->around, sizeof(a->around), "%s/user", dir);
	victim_make(a);
	snprintf(path, sizeof(path), "%s/victim", a->around);
	victim = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	CU_ASSERT_TRUE(victim >= 0);
	a->calls = 0;
	fm_fault_watch(attack_move, a);
	if (!is_put)
		(void)s->ops->mkdir(s, "user/new", &who, &err);
	else if (s->ops->create(s, "user/new/file", &who, &how, &file, &err) == 0)
		file->ops->close(file);
	fm_fault_watch(NULL, NULL);
	/* an empty one may be gone, which he could do himself */
	CU_ASSERT_EQUAL(fstat(victim, &st), 0);
	CU_ASSERT_TRUE(st.st_uid == 0 && st.st_gid == 0);
	close(victim);
	s->ops->free(s);
	dir_remove(dir);
	return a->calls >= a->turn;
}

/*
 * Goal: nobody gets what is root's by changing names in his own directory while something is made
 * there for him. Method: before each call of an operation, the user moves what is there away and
 * puts another thing under its name.
 */
static void test_names_that_change(void)
{
	struct attack a = { .turn = 0 };

	if (geteuid() != 0) {
		printf("SKIP: needs root, to give files away\n");
		return;
	}
	for (a.kind = VICTIM_FILE; a.kind < VICTIMS; a.kind++)
		for (int is_put = 0; is_put <= 1; is_put++) {
			a.turn = 1;
			while (attack_once(&a, is_put))
				a.turn++;
			CU_ASSERT_TRUE(a.turn > 6);
		}
}

static int open_for_group(const char *dir, enum fm_store_owner owner, struct fm_err *err)
{
	const struct fm_store_opts opts = {
		.name = "s", .directory = dir, .owner = owner, .is_for_group = true };
	struct fm_store *store = NULL;
	int ret = fm_store_open(&opts, &store, err);

	if (ret == 0)
		store->ops->free(store);
	return ret;
}

/* Goal: access = "group" is refused, with what to do, where the group would get nothing. */
static void test_access_group(void)
{
	struct fm_err err = { 0 };
	char dir[64];

	dir_make("/tmp", dir);
	CU_ASSERT_EQUAL(chmod(dir, 0750), 0);
	CU_ASSERT_EQUAL(open_for_group(dir, FM_OWNER_SERVICE, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "chmod g+rxs"));
	CU_ASSERT_EQUAL(chmod(dir, 02750), 0);
	CU_ASSERT_EQUAL(open_for_group(dir, FM_OWNER_SERVICE, &err), 0);
	CU_ASSERT_EQUAL(open_for_group(dir, FM_OWNER_CALLER, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "leave out one of them"));
	CU_ASSERT_EQUAL(rmdir(dir), 0);
}

static const struct fm_test tests[] = {
	{ "peers are matched by name, never by the uid they claim", test_peers },
	{ "local callers are matched by user and first group, root always", test_users },
	{ "local callers are matched by their other groups", test_supplementary_group },
	{ "a rule that says nothing is named", test_bad_rules },
	{ "without rules nobody but root may", test_no_rules },
	{ "rules for users are told, with the IDs of their names", test_telling },
	{ "only rules for groups wait for the user database", test_user_database },
	{ "at once nobody is asked, and rules for users match nobody", test_at_once },
	{ "each operation asks the right list", test_store_asks },
	{ "what the service's user may not do is EPERM", test_service_rights },
	{ "access = group wants a directory that gives its group", test_access_group },
	{ "owner = caller gives files and directories away", test_owner_caller },
	{ "a partial file is ours until it is whole", test_partial_is_ours },
	{ "names that change meanwhile give nothing else away", test_names_that_change },
};
FM_TEST_MAIN("store access", tests)
