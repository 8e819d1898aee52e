/* SPDX-License-Identifier: MIT */
/*
 * The source of a tree where it is not as one would wish: what is left out or refused, limits,
 * changes. links: fm_tree
 */
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "mover/tree/staging.h"
#include "tests/unit/source_scene.h"

/* ---- what is left out, what is refused ---- */

#define PARTIAL ".fmove.0123456789abcdef.part"
#define STAGED ".fmove.0123456789abcdef.tree"

static void make_for_excludes(void)
{
	static const char *const dirs[] = {"build", "src", "src/build", "src/deep",
					   "src/deep/build"};
	static const char *const files[] = {
		"a.o",	   "src/a.o",	   "src/a.c", "src/deep/b.o", "src/deep/build/x",
		"build/x", "src/notbuild", ".hidden", "src/[x]",      "src/deep/a.c",
		PARTIAL,   ("src/" STAGED)};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		make_dir(dirs[i]);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		make_file(files[i], 3);
}

static void test_excludes(void)
{
	static const struct {
		const char *patterns[3];
		const char *gone[8];
		size_t names;		/* that come, with the root */
	} cases[] = {
		{{NULL}, {PARTIAL, "src/" STAGED}, 16},
		{{"*.o"}, {"a.o", "src/a.o", "src/deep/b.o"}, 13},
		{{"/*.o"}, {"a.o"}, 15},
		{{"build"},
		 {"build", "build/x", "src/build", "src/deep/build", "src/deep/build/x"},
		 11},
		{{"/build"}, {"build", "build/x"}, 14},
		{{"/build/"}, {"build", "build/x"}, 14},
		{{"a.o/"}, {NULL}, 16},
		{{"src/*.o"}, {"src/a.o"}, 15},
		{{"src/*/*.o"}, {"src/deep/b.o"}, 15},
		{{"deep/b.o"}, {NULL}, 16},
		{{"*"}, {"a.o", "src", ".hidden"}, 1},
		{{"src/*", "*.o"}, {"src/a.c", "src/deep", "src/deep/a.c", "a.o"}, 5},
		{{"src/\\[x]"}, {"src/[x]"}, 15},
		{{"no/such", "thing"}, {NULL}, 16},
	};

	begin(ON_DISK);
	make_for_excludes();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		send_all((struct fm_tree_source_opts){.excludes = cases[i].patterns,
						      .skips = fm_staging_is_ours},
			 &plain);
		for (size_t j = 0; j < 8 && cases[i].gone[j]; j++)
			CU_ASSERT_PTR_NULL(got_find(cases[i].gone[j]));
		if (far.names != cases[i].names)
			printf("%s: %zu names\n", cases[i].patterns[0], far.names);
		CU_ASSERT_EQUAL(far.names, cases[i].names);
		tree->ops->close(tree);
		far_forget();
	}
	end();
}

static void test_bad_excludes(void)
{
	const char *many[FM_TREE_EXCLUDES_MAX + 2] = { NULL };
	const char *one[2] = { NULL };
	char *long_one = calloc(1, 300);

	begin(ON_DISK);
	for (size_t i = 0; i < FM_TREE_EXCLUDES_MAX + 1; i++)
		many[i] = "x";
	CU_ASSERT_EQUAL(source_new((struct fm_tree_source_opts){ .excludes = many }), -E2BIG);
	one[0] = "";
	CU_ASSERT_EQUAL(source_new((struct fm_tree_source_opts){ .excludes = one }), -EINVAL);
	one[0] = "//";
	CU_ASSERT_EQUAL(source_new((struct fm_tree_source_opts){ .excludes = one }), -EINVAL);
	memset(long_one, 'x', 256);
	one[0] = long_one;
	CU_ASSERT_EQUAL(source_new((struct fm_tree_source_opts){ .excludes = one }), -E2BIG);
	long_one[255] = '\0';
	CU_ASSERT_EQUAL(source_new((struct fm_tree_source_opts){ .excludes = one }), 0);
	tree->ops->close(tree);
	free(long_one);
	end();
}

static void test_special_files_are_refused(void)
{
	const char *const skip[] = { "*pipe", NULL };
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	begin(ON_DISK);
	make_dir("d");
	CU_ASSERT_EQUAL(mkfifo(in_root("d/pipe"), 0600), 0);
	CU_ASSERT_EQUAL(send_failing((struct fm_tree_source_opts){ .root = -1 }, &plain), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "\"d/pipe\" is a fifo"));
	CU_ASSERT_EQUAL(send_failing((struct fm_tree_source_opts){.is_offering = true}, &plain),
			-EINVAL);
	send_all((struct fm_tree_source_opts){ .excludes = skip }, &plain);
	CU_ASSERT_EQUAL(far.names, 2);
	tree->ops->close(tree);
	far_forget();
	CU_ASSERT_EQUAL(unlink(in_root("d/pipe")), 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", in_root("sock"));
	CU_ASSERT_EQUAL(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CU_ASSERT_EQUAL(send_failing((struct fm_tree_source_opts){ .root = -1 }, &plain), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "\"sock\" is a socket"));
	close(fd);
	end();
}

static void test_unreadable_is_told(void)
{
	struct fm_err file_err, dir_err;
	int64_t file_ret, dir_ret;
	bool is_root = geteuid() == 0;

	begin(ON_DISK);
	CU_ASSERT_EQUAL(chmod(root, 0755), 0);
	make_dir("d");
	make_file("d/secret", 10);
	CU_ASSERT_EQUAL(chmod(in_root("d/secret"), 0), 0);
	if (is_root)
		CU_ASSERT_EQUAL(seteuid(65534), 0);
	file_ret = send_failing((struct fm_tree_source_opts){ .root = -1 }, &plain);
	file_err = err;
	if (is_root)
		CU_ASSERT_EQUAL(seteuid(0), 0);
	CU_ASSERT_EQUAL(chmod(in_root("d"), 0), 0);
	if (is_root)
		CU_ASSERT_EQUAL(seteuid(65534), 0);
	dir_ret = send_failing((struct fm_tree_source_opts){ .root = -1 }, &plain);
	dir_err = err;
	if (is_root)
		CU_ASSERT_EQUAL(seteuid(0), 0);
	CU_ASSERT_EQUAL(chmod(in_root("d"), 0755), 0);
	CU_ASSERT_EQUAL(file_ret, -EPERM);
	CU_ASSERT_EQUAL(dir_ret, -EPERM);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(file_err.text, "cannot read \"d/secret\": permission denied"));
	CU_ASSERT_PTR_NOT_NULL(strstr(file_err.text, "leave it out with --exclude"));
	CU_ASSERT_PTR_NOT_NULL(strstr(dir_err.text, "cannot read \"d\": permission denied"));
	end();
}

/* ---- limits ---- */

/* A chain of directories with names of `len` bytes; returns the descriptor of the last. */
static int make_chain(unsigned depth, size_t len)
{
	int fd = open(root, O_RDONLY | O_DIRECTORY), next;
	char name[256];

	memset(name, 'n', len);
	name[len] = '\0';
	for (unsigned i = 0; i < depth; i++) {
		CU_ASSERT_EQUAL_FATAL(mkdirat(fd, name, 0755), 0);
		next = openat(fd, name, O_RDONLY | O_DIRECTORY);
		CU_ASSERT_TRUE_FATAL(next >= 0);
		if (i % 100 == 50)	/* on the way back there is something to read */
			for (char c = 'a'; c < 'f'; c++)
				close(openat(next, (char[]){ c, '\0' }, O_CREAT | O_WRONLY, 0644));
		close(fd);
		fd = next;
	}
	return fd;
}

/* nftw() cannot. */
static void remove_chain(const char *name)
{
	CU_ASSERT_EQUAL(chdir(root), 0);
	while (chdir(name) == 0)
		continue;
	for (;;) {
		DIR *dir = opendir(".");
		struct dirent *d;
		struct stat here, top;

		while ((d = readdir(dir)))
			if (d->d_name[0] != '.' && unlink(d->d_name) < 0)
				(void)rmdir(d->d_name);
		closedir(dir);
		CU_ASSERT_EQUAL_FATAL(stat(".", &here), 0);
		CU_ASSERT_EQUAL_FATAL(stat(root, &top), 0);
		if (here.st_ino == top.st_ino)
			break;
		CU_ASSERT_EQUAL_FATAL(chdir(".."), 0);
	}
	CU_ASSERT_EQUAL(chdir("/"), 0);
}

static void test_depth(void)
{
	struct rlimit files, few;

	begin(ON_DISK);
	close(make_chain(1024, 1));
	getrlimit(RLIMIT_NOFILE, &files);
	few = files;
	few.rlim_cur = 200;
	setrlimit(RLIMIT_NOFILE, &few);
	send_all((struct fm_tree_source_opts){ .root = -1 }, &plain);
	setrlimit(RLIMIT_NOFILE, &files);
	CU_ASSERT_EQUAL(far.names, 1 + 1024 + 10 * 5);
	check_counts();
	tree->ops->close(tree);
	far_forget();
	remove_chain("n");
	close(make_chain(1025, 1));
	CU_ASSERT_EQUAL(send_failing((struct fm_tree_source_opts){ .root = -1 }, &plain), -ELOOP);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "more than 1024 directories"));
	remove_chain("n");
	end();
}

static void test_too_long_a_path_is_told(void)
{
	char name[256] = "";
	int fd, below;

	begin(ON_DISK);
	fd = make_chain(15, 255);
	memset(name, 'x', 255);
	/* its path has 4095 bytes, the most there may be */
	CU_ASSERT_EQUAL(mkdirat(fd, name, 0755), 0);
	below = openat(fd, name, O_RDONLY | O_DIRECTORY);
	send_all((struct fm_tree_source_opts){ .root = -1 }, &plain);
	CU_ASSERT_EQUAL(far.names, 1 + 15 + 1);
	tree->ops->close(tree);
	far_forget();
	close(openat(below, "y", O_CREAT | O_WRONLY, 0644));
	CU_ASSERT_EQUAL(send_failing((struct fm_tree_source_opts){.root = -1}, &plain),
			-ENAMETOOLONG);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "makes a path of 4097"));
	CU_ASSERT_EQUAL(unlinkat(below, "y", 0), 0);
	CU_ASSERT_EQUAL(unlinkat(fd, name, AT_REMOVEDIR), 0);
	close(below);
	close(fd);
	memset(name, 'n', 255);
	remove_chain(name);
	end();
}

#ifdef __has_feature
#define HAS_ASAN __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#else
#define HAS_ASAN 0
#endif

#if HAS_ASAN
/* its header is not there with every compiler */
size_t __sanitizer_get_current_allocated_bytes(void);

static size_t in_use(void)
{
	return __sanitizer_get_current_allocated_bytes();
}
#else
#include <malloc.h>
static size_t in_use(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}
#endif

static void test_memory_is_bounded(void)
{
	const size_t len = 256u << 10;
	uint8_t *buf = aligned_alloc(64, len);
	size_t before, most = 0, names = 0;
	uint64_t seq = 0;
	int64_t n;

	begin(IN_MEMORY);
	make_many(200000, "f");
	before = in_use();
	CU_ASSERT_EQUAL_FATAL(source_new((struct fm_tree_source_opts){ .root = -1 }), 0);
	while ((n = tree->ops->fill(tree, seq, buf, len, &err)) > 0) {
		struct fm_pack_reader r;

		CU_ASSERT_EQUAL(fm_pack_open(&r, buf, (size_t)n), 0);
		names += r.count;
		if (in_use() - before > most)
			most = in_use() - before;
		tree->ops->acked(tree, seq++);
	}
	CU_ASSERT_EQUAL(n, 0);
	CU_ASSERT_EQUAL(names, 200001);
	CU_ASSERT_TRUE(most < 1u << 20);
	tree->ops->close(tree);
	CU_ASSERT_EQUAL(in_use(), before);
	free(buf);
	end();
}

static void test_large_files_wait(void)
{
	struct fm_tree_large *large = malloc(sizeof(*large));
	unsigned count = 0, again = 0;
	uint64_t seq = 0;
	int64_t n;

	begin(IN_MEMORY);
	for (unsigned i = 0; i < 40; i++) {
		char name[32];

		snprintf(name, sizeof(name), "%u", i);
		make_sparse(name, 1 << 20, 0);
	}
	CU_ASSERT_EQUAL_FATAL(source_new((struct fm_tree_source_opts){ .root = -1 }), 0);
	while ((n = fill_once(seq, 64u << 10)) != 0) {
		if (n > 0) {
			tree->ops->acked(tree, seq++);
			continue;
		}
		CU_ASSERT_EQUAL_FATAL(n, -EAGAIN);
		CU_ASSERT_EQUAL(fill_once(seq, 64u << 10), -EAGAIN);
		CU_ASSERT_EQUAL(tree->ops->next_large(tree, large), 1);
		take_large(large);
		count++;
		again++;
	}
	CU_ASSERT_EQUAL(again, 40 - FM_TREE_LARGE_WAITING_MAX);
	while (tree->ops->next_large(tree, large) > 0) {
		take_large(large);
		count++;
	}
	CU_ASSERT_EQUAL(count, 40);
	compare_all();
	check_counts();
	tree->ops->close(tree);
	free(large);
	end();
}

static void test_large_files_nobody_took_are_closed(void)
{
	begin(IN_MEMORY);
	make_sparse("a", 1 << 20, 0);
	CU_ASSERT_EQUAL_FATAL(source_new((struct fm_tree_source_opts){ .root = -1 }), 0);
	CU_ASSERT_TRUE(fill_once(0, 64u << 10) > 0);
	tree->ops->close(tree);
	end();
}

static void test_small_buffers_are_refused(void)
{
	begin(ON_DISK);
	CU_ASSERT_EQUAL_FATAL(source_new((struct fm_tree_source_opts){ .root = -1 }), 0);
	CU_ASSERT_EQUAL(fill_once(0, 16u << 10), -EINVAL);
	CU_ASSERT_TRUE(fill_once(0, 32u << 10) > 0);
	tree->ops->close(tree);
	end();
}

/* ---- changes ---- */

static void touch(const char *name)
{
	const struct timespec times[2] = { { .tv_sec = 5 }, { .tv_sec = 5 } };

	CU_ASSERT_EQUAL(utimensat(AT_FDCWD, in_root(name), times, 0), 0);
}

static void test_change_between_pieces(void)
{
	begin(ON_DISK);
	make_file("slow", 1 << 20);
	CU_ASSERT_EQUAL_FATAL(source_new((struct fm_tree_source_opts){ .root = -1 }), 0);
	CU_ASSERT_TRUE(fill_once(0, 64u << 10) > 0);
	touch("slow");
	CU_ASSERT_EQUAL(fill_once(1, 64u << 10), -ESTALE);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "\"slow\" changed while it was read"));
	/* What that fill had taken is lost, so there is no end that would look like one. */
	fm_err_clear(&err);
	CU_ASSERT_EQUAL(fill_once(2, 64u << 10), -ESTALE);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "\"slow\""));
	tree->ops->close(tree);
	end();
}

static void test_shrinking_file(void)
{
	begin(ON_DISK);
	make_file("slow", 1 << 20);
	CU_ASSERT_EQUAL_FATAL(source_new((struct fm_tree_source_opts){ .root = -1 }), 0);
	CU_ASSERT_TRUE(fill_once(0, 64u << 10) > 0);
	CU_ASSERT_EQUAL(truncate(in_root("slow"), 70000), 0);
	CU_ASSERT_EQUAL(fill_once(1, 64u << 10), -ESTALE);
	tree->ops->close(tree);
	end();
}

/* The same size and time, and yet another content: the CRC tells. */
static void test_change_before_it_is_made_again(void)
{
	struct timespec times[2];
	struct stat st;
	int fd;

	begin(ON_DISK);
	make_file("f", 1000);
	CU_ASSERT_EQUAL_FATAL(source_new((struct fm_tree_source_opts){ .root = -1 }), 0);
	CU_ASSERT_TRUE(fill_once(0, 64u << 10) > 0);
	far_forget();
	CU_ASSERT_TRUE(fill_once(0, 64u << 10) > 0);
	CU_ASSERT_EQUAL(stat(in_root("f"), &st), 0);
	fd = open(in_root("f"), O_WRONLY);
	CU_ASSERT_EQUAL(write(fd, "x", 1), 1);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	CU_ASSERT_EQUAL(futimens(fd, times), 0);
	close(fd);
	CU_ASSERT_EQUAL(fill_once(0, 64u << 10), -ESTALE);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "\"f\" changed"));
	tree->ops->close(tree);
	end();
}

/* Somebody gave it another name: that is no change. */
static void test_new_name_is_no_change(void)
{
	char outside[80];

	begin(ON_DISK);
	make_file("slow", 100000);
	snprintf(outside, sizeof(outside), "%s.outside", root);
	CU_ASSERT_EQUAL_FATAL(source_new((struct fm_tree_source_opts){ .root = -1 }), 0);
	CU_ASSERT_TRUE(fill_once(0, 64u << 10) > 0);
	CU_ASSERT_EQUAL(link(in_root("slow"), outside), 0);
	CU_ASSERT_TRUE(fill_once(1, 64u << 10) > 0);
	CU_ASSERT_EQUAL(fill_once(2, 64u << 10), 0);
	compare_all();
	tree->ops->close(tree);
	CU_ASSERT_EQUAL(unlink(outside), 0);
	end();
}

static void change_after_offer(void (*change)(const char *name))
{
	begin(ON_DISK);
	make_file("f", 1000);
	far.wanted_percent = 100;
	CU_ASSERT_EQUAL_FATAL(source_new((struct fm_tree_source_opts){ .is_offering = true }), 0);
	CU_ASSERT_TRUE(fill_once(0, 64u << 10) > 0);
	change("f");
	help();
	CU_ASSERT_EQUAL(fill_once(1, 64u << 10), -ESTALE);
	tree->ops->close(tree);
	end();
}

static void vanish(const char *name)
{
	CU_ASSERT_EQUAL(unlink(in_root(name)), 0);
}

static void turn_into_link(const char *name)
{
	CU_ASSERT_EQUAL(unlink(in_root(name)), 0);
	CU_ASSERT_EQUAL(symlink("/etc/passwd", in_root(name)), 0);
}

static void turn_into_dir(const char *name)
{
	CU_ASSERT_EQUAL(unlink(in_root(name)), 0);
	make_dir(name);
}

static void test_change_after_the_offer(void)
{
	change_after_offer(touch);
	change_after_offer(vanish);
	change_after_offer(turn_into_link);
	change_after_offer(turn_into_dir);
}

/* Names come, go, and become something else, until it is told to end. */
static void *disturb(void *arg)
{
	atomic_bool *is_over = arg;
	char a[32], b[32];

	for (unsigned i = 0; !atomic_load(is_over); i++) {
		snprintf(a, sizeof(a), "%u", i * 7 % 50);
		snprintf(b, sizeof(b), "%u", i * 11 % 50);
		(void)rename(in_root(a), in_root(b));
		if (i % 3 == 0)
			(void)mkdir(in_root(a), 0755);
		else if (i % 3 == 1)
			(void)symlink("x", in_root(a));
		else
			(void)mknod(in_root(a), S_IFREG | 0644, 0);
		(void)truncate(in_root(a), i % 5000);
		if (i % 5 == 0)
			(void)remove(in_root(b));
	}
	return NULL;
}

/* It is sent as something that it was, or said to change; what comes twice was renamed
 * meanwhile. */
static void *fill_some(void *arg)
{
	struct fm_tree_large *large = malloc(sizeof(*large));
	uint8_t *buf = aligned_alloc(64, 64u << 10);
	struct fm_err own = { 0 };
	int64_t n;

	(void)arg;
	do {
		n = tree->ops->fill(tree, atomic_fetch_add(&next_seq, 1), buf, 64u << 10, &own);
		while (tree->ops->next_large(tree, large) > 0)
			close(large->fd);
	} while (n > 0 || n == -EAGAIN);
	free(large);
	if (n < 0 && n != -ESTALE)
		printf("%s\n", own.text);
	free(buf);
	return (void *)(intptr_t)(n == 0 || n == -ESTALE);
}

static void test_changes_all_the_time(void)
{
	atomic_bool is_over = false;
	pthread_t disturber, fillers[4];
	void *is_good;

	begin(IN_MEMORY);
	CU_ASSERT_EQUAL(pthread_create(&disturber, NULL, disturb, &is_over), 0);
	for (unsigned i = 0; i < 300; i++) {
		CU_ASSERT_EQUAL_FATAL(
			source_new((struct fm_tree_source_opts){.has_owners = i % 2 == 1}), 0);
		for (unsigned j = 0; j < 4; j++)
			CU_ASSERT_EQUAL(pthread_create(&fillers[j], NULL, fill_some, NULL), 0);
		for (unsigned j = 0; j < 4; j++) {
			pthread_join(fillers[j], &is_good);
			CU_ASSERT_PTR_NOT_NULL(is_good);
		}
		tree->ops->close(tree);
	}
	atomic_store(&is_over, true);
	pthread_join(disturber, NULL);
	end();
}

static const struct fm_test tests[] = {
	{"excludes", test_excludes},
	{"bad excludes are refused", test_bad_excludes},
	{"special files are refused by name", test_special_files_are_refused},
	{"what cannot be read is told", test_unreadable_is_told},
	{"1024 directories deep with few descriptors, and not one more", test_depth},
	{"a path of 4095 bytes comes, a longer one is told", test_too_long_a_path_is_told},
	{"memory does not grow with the names in a directory", test_memory_is_bounded},
	{"the walk waits for large files", test_large_files_wait},
	{"large files that nobody took are closed", test_large_files_nobody_took_are_closed},
	{"buffers that are too small are refused", test_small_buffers_are_refused},
	{"a file that changes between its pieces", test_change_between_pieces},
	{"a file that shrinks", test_shrinking_file},
	{"a file that changes before its pack is made again", test_change_before_it_is_made_again},
	{"a new name is no change", test_new_name_is_no_change},
	{"a file that changes after its offer", test_change_after_the_offer},
	{"names that come and go all the time", test_changes_all_the_time},
};

FM_TEST_MAIN("tree source, bad trees", tests)
