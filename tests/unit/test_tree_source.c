/* SPDX-License-Identifier: MIT */
/*
 * The source of a tree: everything that is in a directory comes, once, as it is. links: fm_tree
 */
#include "mover/base/fault.h"
#include "mover/tree/leads_out.h"
#include "mover/tree/hardlinks.h"
#include "tests/unit/source_scene.h"

/* ---- a bit of everything ---- */

static void make_sizes(void)
{
	static const size_t sizes[] = {0,
				       1,
				       4095,
				       4096,
				       4097,
				       32767,
				       32768,
				       65535,
				       65536,
				       65537,
				       100000,
				       262143,
				       262144,
				       262145,
				       1048575,
				       1048576,
				       1048577,
				       FM_TREE_LARGE - 1,
				       FM_TREE_LARGE,
				       FM_TREE_LARGE + 1};
	char name[64];

	make_dir("sizes");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		snprintf(name, sizeof(name), "sizes/%zu", sizes[i]);
		make_file(name, sizes[i]);
	}
}

static void make_deep(void)
{
	char path[4200] = "deep";

	make_dir(path);
	while (strlen(path) + 120 < 4095 - strlen(root)) {
		char *at = path + strlen(path);

		*at++ = '/';
		memset(at, 'd', 110);
		at[110] = '\0';
		make_dir(path);
	}
	strcat(path, "/f");
	make_file(path, 10);
}

static void make_links(void)
{
	make_dir("hf");
	make_dir("hf/blobs");
	make_dir("hf/snapshots");
	make_file("hf/blobs/0123", 3000);
	CU_ASSERT_EQUAL(symlink("../blobs/0123", in_root("hf/snapshots/model")), 0);
	CU_ASSERT_EQUAL(symlink("self", in_root("self")), 0);
	CU_ASSERT_EQUAL(symlink("..", in_root("hf/up")), 0);
	CU_ASSERT_EQUAL(symlink("/nowhere/at all", in_root("dangling")), 0);
	CU_ASSERT_EQUAL(link(in_root("hf/blobs/0123"), in_root("second name")), 0);
	CU_ASSERT_EQUAL(link(in_root("hf/blobs/0123"), in_root("hf/third name")), 0);
	make_sparse("sparse with names", 1 << 20, 500000);
	CU_ASSERT_EQUAL(link(in_root("sparse with names"), in_root("hf/sparse again")), 0);
}

static void make_everything(void)
{
	make_sizes();
	make_deep();
	make_links();
	make_dir("empty");
	make_dir("empty/also");
	make_file("\xff\xfe no utf-8", 5);
	make_file("new\nline", 5);
	make_file("-rf", 5);
	make_dir("Case");
	make_dir("case");
	make_sparse("holes", 100 << 20, 50 << 20);
	make_sparse("only a hole", 1 << 20, 0);
	CU_ASSERT_EQUAL(chmod(in_root("-rf"), 04711), 0);
	CU_ASSERT_EQUAL(chmod(in_root("empty"), 02750), 0);
	CU_ASSERT_EQUAL(chmod(in_root("empty/also"), 01700), 0);
	make_dir("many");
	for (unsigned i = 0; i < 700; i++) {
		char name[64];

		snprintf(name, sizeof(name), "many/%u", i);
		make_file(name, some(20000));
	}
}

static int is_hard(const char *path)
{
	return got_find(path)->type == FM_PACK_HARD;
}

static void test_everything_comes_once(void)
{
	static const char *const bases[] = { ON_DISK, IN_MEMORY };
	static const size_t lens[] = { 64u << 10, 256u << 10, 1u << 20 };
	static const unsigned threads[] = { 1, 8 };

	for (size_t b = 0; b < 2; b++) {
		begin(bases[b]);
		make_everything();
		for (size_t i = 0; i < 6; i++) {
			struct drive how = {
				.len = lens[i / 2], .threads = threads[i % 2], .again_percent = 30};

			send_all((struct fm_tree_source_opts){ .root = -1 }, &how);
			compare_all();
			check_counts();
			CU_ASSERT_PTR_NULL(tree->note);
			CU_ASSERT_EQUAL(far.larges, 4);
			CU_ASSERT_EQUAL(is_hard("second name") + is_hard("hf/third name") +
						is_hard("hf/blobs/0123"),
					2);
			tree->ops->close(tree);
			far_forget();
		}
		end();
	}
}

static uint64_t seen_by(bool is_offering, unsigned threads)
{
	const struct drive how = { .len = 64u << 10, .threads = threads, .again_percent = 30 };
	struct fm_tree_count count;

	far.wanted_percent = 50;
	send_all((struct fm_tree_source_opts){ .root = -1, .is_offering = is_offering }, &how);
	tree->ops->count(tree, &count);
	tree->ops->close(tree);
	far_forget();
	return count.seen;
}

/* As another file of the same size and time. */
static void write_over(const char *name)
{
	struct stat st;
	int fd = open(in_root(name), O_WRONLY);

	CU_ASSERT_FATAL(fd >= 0 && fstat(fd, &st) == 0);
	(void)usleep(20000);	/* the next tick of the file system's clock */
	CU_ASSERT_EQUAL(write(fd, "other", 5), 5);
	CU_ASSERT_EQUAL(futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim}), 0);
	close(fd);
}

#define CHANGES 5u

static void change(unsigned which)
{
	int ret = 0;

	switch (which) {
	case 0:
		write_over("many/7");
		break;
	case 1:
		ret = rename(in_root("many/1"), in_root("many/new name"));
		break;
	case 2:
		ret = chmod(in_root("many"), 0700);
		break;
	case 3:
		ret = symlink("elsewhere", in_root("many/new link"));
		break;
	default:
		make_dir("many/new directory");
	}
	CU_ASSERT_EQUAL(ret, 0);
}

/* However a source goes about it, it sees the same; and each change of what is sent is seen. */
static void test_what_is_seen_is_one_number(void)
{
	uint64_t was, now;

	begin(ON_DISK);
	make_everything();
	was = seen_by(false, 1);
	CU_ASSERT_NOT_EQUAL(was, 0);
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT_EQUAL(seen_by(i % 2, i < 2 ? 1 : 8), was);
	for (unsigned i = 0; i < CHANGES; i++) {
		change(i);
		now = seen_by(i % 2, 8);
		CU_ASSERT_NOT_EQUAL(now, was);
		was = now;
	}
	end();
}

static void test_empty_directory(void)
{
	begin(ON_DISK);
	send_all((struct fm_tree_source_opts){ .root = -1 }, &plain);
	CU_ASSERT_EQUAL(far.packs, 1);
	CU_ASSERT_EQUAL(far.names, 1);
	CU_ASSERT_EQUAL(got_find("")->type, FM_PACK_DIR);
	check_counts();
	tree->ops->close(tree);
	end();
}

/* ---- offers ---- */

static void test_what_is_wanted_comes(void)
{
	static const unsigned percents[] = { 0, 40, 100 };

	begin(IN_MEMORY);
	make_everything();
	for (size_t i = 0; i < 12; i++) {
		struct drive how = {.len = i % 2 ? 64u << 10 : 1u << 20,
				    .threads = i < 6 ? 1 : 6,
				    .again_percent = 30};
		struct fm_tree_source_opts opts = {.is_offering = true,
						   .has_checksums = i % 4 >= 2};

		far.wanted_percent = percents[i % 3];
		send_all(opts, &how);
		compare_all();
		check_counts();
		CU_ASSERT_EQUAL(got_find("sizes/1")->has_whole_crc, opts.has_checksums);
		if (percents[i % 3] == 100 && opts.has_checksums)
			CU_ASSERT_EQUAL(got_find("sizes/65537")->whole_crc,
					fm_crc32c_whole(got_find("sizes/65537")->parts, 65537));
		tree->ops->close(tree);
		far_forget();
	}
	end();
}

static void test_dry_sends_offers_only(void)
{
	begin(IN_MEMORY);
	make_everything();
	far.wanted_percent = 100;
	CU_ASSERT_EQUAL_FATAL(source_new((struct fm_tree_source_opts){ .is_dry = true }), 0);
	CU_ASSERT_EQUAL(drive(&plain), 0);
	check_counts();
	CU_ASSERT_EQUAL(far.larges, 0);
	CU_ASSERT_EQUAL(got_find("sizes/65537")->have, 0);
	tree->ops->close(tree);
	end();
}

/* Goal: what could not be sent is refused in a dry run, too. Here it went behind its offer. */
static void test_dry_opens_what_is_needed(void)
{
	begin(IN_MEMORY);
	make_file("f", 10);
	make_file("g", 10);
	far.wanted_percent = 100;
	CU_ASSERT_EQUAL_FATAL(source_new((struct fm_tree_source_opts){ .is_dry = true }), 0);
	CU_ASSERT_TRUE(fill_once(0, 64u << 10) > 0);
	CU_ASSERT_EQUAL(unlink(in_root("f")), 0);
	help();
	CU_ASSERT_EQUAL(fill_once(1, 64u << 10), -ESTALE);
	tree->ops->close(tree);
	end();
}

static void test_unanswered_offers_are_bounded(void)
{
	static const char prefix[] =
		"a long name so that few of them fit into one pack, which makes this test a quick "
		"one; a long name so that few of them fit into one pack";
	const size_t len = 32u << 10;
	uint64_t seq = 0;
	int64_t n;

	begin(IN_MEMORY);
	make_many(12000, prefix);
	CU_ASSERT_EQUAL_FATAL(source_new((struct fm_tree_source_opts){ .is_offering = true }), 0);
	while ((n = fill_once(seq, len)) > 0)
		seq++;
	CU_ASSERT_EQUAL(n, -EAGAIN);
	CU_ASSERT_EQUAL(far.pending_count, 64);
	CU_ASSERT_EQUAL(fill_once(seq, len), -EAGAIN);
	help();
	CU_ASSERT_TRUE(fill_once(seq++, len) > 0);
	CU_ASSERT_EQUAL(fill_once(seq, len), -EAGAIN);
	tree->ops->close(tree);
	end();
}

static void test_nonsense_answers_are_refused(void)
{
	uint8_t bits[FM_TREE_OFFERS_MAX / 8] = { 0 };
	uint8_t offered;
	size_t count;

	begin(IN_MEMORY);
	make_file("f", 10);
	CU_ASSERT_EQUAL_FATAL(source_new((struct fm_tree_source_opts){ .is_offering = true }), 0);
	CU_ASSERT_TRUE(fill_once(3, 64u << 10) > 0);
	CU_ASSERT_EQUAL(far.pending_count, 1);
	count = far.pending[0].count;
	CU_ASSERT_EQUAL(count, 2);	/* the root, then the file */
	offered = 2;
	CU_ASSERT_EQUAL(tree->ops->need(tree, 4, bits, count, &err), -EPROTO);
	CU_ASSERT_EQUAL(tree->ops->need(tree, 3, bits, count + 1, &err), -EPROTO);
	CU_ASSERT_EQUAL(tree->ops->need(tree, 3, bits, 0, &err), -EPROTO);
	bits[0] = 1;	/* a directory */
	CU_ASSERT_EQUAL(tree->ops->need(tree, 3, bits, count, &err), -EPROTO);
	bits[0] = 4;	/* behind the last */
	CU_ASSERT_EQUAL(tree->ops->need(tree, 3, bits, count, &err), -EPROTO);
	CU_ASSERT_EQUAL(fill_once(5, 64u << 10), -EAGAIN);
	bits[0] = offered;
	tree->ops->acked(tree, 3);	/* in any order */
	tree->ops->acked(tree, 99);
	CU_ASSERT_EQUAL(tree->ops->need(tree, 3, bits, count, &err), 0);
	CU_ASSERT_EQUAL(tree->ops->need(tree, 3, bits, count, &err), -EPROTO);
	got_find("f")->is_wanted = true;
	CU_ASSERT_TRUE(fill_once(5, 64u << 10) > 0);
	CU_ASSERT_EQUAL(tree->ops->need(tree, 5, bits, 1, &err), -EPROTO);
	CU_ASSERT_EQUAL(fill_once(6, 64u << 10), 0);
	tree->ops->close(tree);
	end();
}

/*
 * Goal: one of several sources of the same sends what it offered and nothing else: a file that was
 * written over with its old size and time is refused.
 */
static void test_what_was_offered_is_what_is_sent_to_several(void)
{
	uint8_t bits[FM_TREE_OFFERS_MAX / 8] = { 2 };	/* behind the root */

	for (int is_changed = 0; is_changed < 2; is_changed++) {
		int64_t n;

		begin(ON_DISK);
		make_file("f", 10);
		CU_ASSERT_EQUAL_FATAL(
			source_new((struct fm_tree_source_opts){ .is_offering = true }), 0);
		tree->is_compared = true;
		CU_ASSERT_TRUE(fill_once(3, 64u << 10) > 0);
		if (is_changed)
			write_over("f");
		CU_ASSERT_EQUAL(tree->ops->need(tree, 3, bits, 2, &err), 0);
		got_find("f")->is_wanted = true;
		n = fill_once(4, 64u << 10);
		CU_ASSERT_TRUE(is_changed ? n == -ESTALE : n > 0);
		tree->ops->close(tree);
		end();
	}
}

/* ---- hard links ---- */

static void test_names_outside_do_not_count(void)
{
	char outside[80];

	begin(ON_DISK);
	make_file("f", 100);
	snprintf(outside, sizeof(outside), "%s.outside", root);
	CU_ASSERT_EQUAL(link(in_root("f"), outside), 0);
	send_all((struct fm_tree_source_opts){ .root = -1 }, &plain);
	CU_ASSERT_EQUAL(got_find("f")->type, FM_PACK_FILE);
	compare_all();
	tree->ops->close(tree);
	CU_ASSERT_EQUAL(unlink(outside), 0);
	end();
}

/* Of no bytes. */
static struct fm_hardlink_id file_of(uint64_t dev, uint64_t ino)
{
	return (struct fm_hardlink_id){ .dev = dev, .ino = ino };
}

/* Goal: what has the inode of a file that was met, and is another one by now, is no name of it. */
static void test_inodes_are_given_again(void)
{
	const struct fm_hardlink_id was = {
		.dev = 1, .ino = 7, .size = 5, .mtime_ns = 3, .born_ns = 2};
	struct fm_hardlink_id others[] = { was, was, was };
	struct fm_hardlinks h = { .buckets = NULL };
	const char *first;
	size_t len;
	int ret = 0;

	others[0].size++;
	others[1].mtime_ns++;
	others[2].born_ns++;
	CU_ASSERT_TRUE(!fm_hardlinks_meet(&h, &was, "was", &len, &ret) && ret == 0);
	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT_TRUE(!fm_hardlinks_meet(&h, &others[i], "other", &len, &ret) && ret == 0);
		first = fm_hardlinks_meet(&h, &others[i], "its second", &len, &ret);
		CU_ASSERT_TRUE(first && strcmp(first, "other") == 0);
	}
	first = fm_hardlinks_meet(&h, &was, "its second", &len, &ret);
	CU_ASSERT_TRUE(first && strcmp(first, "was") == 0);
	fm_hardlinks_free(&h);
}

#ifdef FM_FAULTS
/* The second file that is opened has other content by then, under both of its names. */
static void write_before_second(void *ctx, const char *point)
{
	unsigned *opened = ctx;

	if (strcmp(point, "reading.open") != 0 || ++*opened != 2)
		return;
	CU_ASSERT_EQUAL(truncate(in_root("a"), 0), 0);
	CU_ASSERT_EQUAL(truncate(in_root("a"), 200), 0);
}

/* Goal: what is written to a file between two of its names comes with the second one. */
static void test_written_between_names(void)
{
	const struct got *a, *b;
	unsigned opened = 0;

	begin(ON_DISK);
	make_file("a", 100);
	CU_ASSERT_EQUAL(link(in_root("a"), in_root("b")), 0);
	fm_fault_watch(write_before_second, &opened);
	send_all((struct fm_tree_source_opts){ .root = -1 }, &plain);
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_EQUAL(opened, 2);
	a = got_find("a");
	b = got_find("b");
	CU_ASSERT_TRUE(a->type == FM_PACK_FILE && b->type == FM_PACK_FILE);
	CU_ASSERT_EQUAL(a->size + b->size, 300);
	tree->ops->close(tree);
	end();
}
#endif

static void test_hard_links_are_bounded(void)
{
	struct fm_hardlinks h = { .buckets = NULL };
	struct fm_hardlink_id id = file_of(1, 7);
	const char *first;
	size_t len = 0;
	int ret = 0;

	for (uint64_t i = 0; i < FM_TREE_HARDLINKS_MAX; i++) {
		struct fm_hardlink_id next = file_of(1, i);

		first = fm_hardlinks_meet(&h, &next, "a", &len, &ret);
		if (first || ret != 0)
			break;
	}
	CU_ASSERT_TRUE(ret == 0 && h.count == FM_TREE_HARDLINKS_MAX);
	first = fm_hardlinks_meet(&h, &id, "bb", &len, &ret);
	CU_ASSERT_TRUE_FATAL(first != NULL);
	CU_ASSERT_TRUE(strcmp(first, "a") == 0 && len == 1 && ret == 0);
	CU_ASSERT_TRUE(!fm_hardlinks_meet(&h, &id, "a", &len, &ret) && ret == 0);
	id.dev = 2;
	CU_ASSERT_TRUE(!fm_hardlinks_meet(&h, &id, "b", &len, &ret) && ret == -ENOSPC);
	fm_hardlinks_free(&h);
	fm_hardlinks_free(&h);
}

static void test_names_of_hard_links_are_bounded(void)
{
	struct fm_hardlinks h = { .buckets = NULL };
	char path[FM_TREE_PATH_MAX + 1];
	struct fm_hardlink_id id = file_of(1, 0);
	const char *first;
	size_t len;
	int ret = 0;

	memset(path, 'a', FM_TREE_PATH_MAX);
	path[FM_TREE_PATH_MAX] = '\0';
	while (ret == 0) {
		first = fm_hardlinks_meet(&h, &id, path, &len, &ret);
		id.ino++;
	}
	CU_ASSERT_TRUE(!first && ret == -ENOSPC);
	CU_ASSERT_EQUAL(h.count, FM_TREE_HARDLINK_PATHS_MAX / FM_TREE_PATH_MAX);
	id.ino = 7;
	first = fm_hardlinks_meet(&h, &id, "b", &len, &ret);
	CU_ASSERT_TRUE(first && len == FM_TREE_PATH_MAX && ret == 0);
	fm_hardlinks_free(&h);
}

/* ---- owners ---- */

static void test_attributes_come_if_asked_for(void)
{
	bool has_xattrs;

	begin(ON_DISK);
	make_file("f", 10);
	make_sparse("big", 1 << 20, 0);
	has_xattrs = setxattr(in_root("f"), "user.color", "red", 3, 0) == 0;
	if (has_xattrs) {
		CU_ASSERT_EQUAL(setxattr(in_root("f"), "user.fmove.crc32c", "ours", 4, 0), 0);
		CU_ASSERT_EQUAL(setxattr(root, "user.of.root", "", 0, 0), 0);
	}
	if (geteuid() == 0)
		CU_ASSERT_EQUAL(chown(in_root("f"), 1234, 5), 0);
	send_all((struct fm_tree_source_opts){ .root = -1 }, &plain);
	CU_ASSERT_TRUE(got_find("f")->xattr_len == 0 && got_find("f")->uid == 0 &&
		       !got_find("big")->has_attr);
	tree->ops->close(tree);
	far_forget();
	far.wanted_percent = 100;
	for (unsigned i = 0; i < 2; i++) {
		send_all((struct fm_tree_source_opts){.has_owners = true, .is_offering = i == 1},
			 &plain);
		CU_ASSERT_EQUAL(got_find("f")->uid, geteuid() == 0 ? 1234 : geteuid());
		CU_ASSERT_TRUE(got_find("big")->has_attr);
		CU_ASSERT_EQUAL(got_find("f")->xattr_len, has_xattrs ? 4 + 10 + 3 : 0);
		CU_ASSERT_EQUAL(got_find("")->xattr_len, has_xattrs ? 4 + 12 : 0);
		compare_all();
		tree->ops->close(tree);
		far_forget();
		far.wanted_percent = 100;
	}
	end();
}

static void test_too_many_attributes_are_told(void)
{
	const struct drive tiny = { .len = 32u << 10, .threads = 1 };
	char *value = calloc(1, 40000);

	begin(IN_MEMORY);	/* takes as many as one likes */
	make_file("f", 10);
	if (setxattr(in_root("f"), "user.a", value, 40000, 0) < 0) {
		printf("no extended attributes in memory here; ");
		goto out;
	}
	send_all((struct fm_tree_source_opts){ .has_owners = true }, &plain);
	compare_all();
	tree->ops->close(tree);
	far_forget();
	CU_ASSERT_EQUAL(send_failing((struct fm_tree_source_opts){.has_owners = true}, &tiny),
			-EMSGSIZE);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "\"f\" has 40010 bytes of extended attributes"));
	CU_ASSERT_EQUAL(setxattr(in_root("f"), "user.b", value, 40000, 0), 0);
	CU_ASSERT_EQUAL(send_failing((struct fm_tree_source_opts){.has_owners = true}, &plain),
			-E2BIG);
out:
	free(value);
	end();
}

/* ---- stopping ---- */

static void test_stop(void)
{
	begin(ON_DISK);
	make_file("f", 1 << 20);
	CU_ASSERT_EQUAL_FATAL(source_new((struct fm_tree_source_opts){ .root = -1 }), 0);
	CU_ASSERT_TRUE(fill_once(0, 64u << 10) > 0);
	tree->ops->stop(tree);
	CU_ASSERT_EQUAL(fill_once(1, 64u << 10), -ECANCELED);
	CU_ASSERT_EQUAL(fill_once(0, 64u << 10), -ECANCELED);
	tree->ops->acked(tree, 0);
	tree->ops->stop(tree);
	tree->ops->close(tree);
	end();
}

static void *stop_soon(void *arg)
{
	(void)arg;
	while (atomic_load(&next_seq) < 6)
		sched_yield();
	tree->ops->stop(tree);
	return NULL;
}

static void test_stop_amid_others(void)
{
	struct drive how = { .len = 64u << 10, .threads = 8, .again_percent = 0 };
	pthread_t stopper;

	begin(IN_MEMORY);
	for (unsigned i = 0; i < 20; i++) {
		char name[32];

		snprintf(name, sizeof(name), "%u", i);
		make_file(name, 3 << 20);
	}
	CU_ASSERT_EQUAL_FATAL(source_new((struct fm_tree_source_opts){ .root = -1 }), 0);
	atomic_store(&next_seq, 0);
	CU_ASSERT_EQUAL(pthread_create(&stopper, NULL, stop_soon, NULL), 0);
	CU_ASSERT_EQUAL(drive(&how), -ECANCELED);
	pthread_join(stopper, NULL);
	tree->ops->close(tree);
	end();
}

static void test_leads_out(void)
{
	static const struct {
		const char *path, *target;
		bool leads_out;
	} rows[] = {
		{ "l", "f", false },	     { "l", "..", true },
		{ "l", "/etc", true },	     { "l", ".", false },
		{ "d/l", "..", false },	     { "d/l", "../f", false },
		{ "d/l", "../../f", true },  { "d/l", "./../..", true },
		{ "d/l", "x/../../f", false }, { "d/l", "x/../../../f", true },
		{ "d/e/l", "..//../f", false }, { "l", "..f", false },
		{ "d/l", "../../d/f", true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CU_ASSERT_EQUAL(fm_leads_out(rows[i].path, strlen(rows[i].path), rows[i].target,
					     strlen(rows[i].target)),
				rows[i].leads_out);
}

static const struct fm_test tests[] = {
	{ "a link that leads out of the tree is known by its target", test_leads_out },
	{ "everything comes, once, as it is", test_everything_comes_once },
	{ "what is seen is one number", test_what_is_seen_is_one_number },
	{ "an empty directory is one entry", test_empty_directory },
	{ "what is wanted comes, and nothing else", test_what_is_wanted_comes },
	{ "a dry run sends offers only", test_dry_sends_offers_only },
	{ "a dry run opens what is needed", test_dry_opens_what_is_needed },
	{ "unanswered offers are bounded", test_unanswered_offers_are_bounded },
	{ "nonsense answers are refused", test_nonsense_answers_are_refused },
	{ "what was offered is what is sent to several",
	  test_what_was_offered_is_what_is_sent_to_several },
	{ "names outside of the tree do not count", test_names_outside_do_not_count },
	{ "an inode may be another file's by now", test_inodes_are_given_again },
#ifdef FM_FAULTS
	{ "what is written between two names of a file comes", test_written_between_names },
#endif
	{ "files with several names are remembered up to a limit", test_hard_links_are_bounded },
	{ "so are their names", test_names_of_hard_links_are_bounded },
	{ "owners and attributes come if asked for", test_attributes_come_if_asked_for },
	{ "too many attributes are told", test_too_many_attributes_are_told },
	{ "nothing after stop", test_stop },
	{ "stop ends what runs", test_stop_amid_others },
};

FM_TEST_MAIN("tree source", tests)
