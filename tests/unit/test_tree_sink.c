/* SPDX-License-Identifier: MIT */
/*
 * The sink of a tree: what the packs say is made, appears as a whole or not at all, and nothing
 * outside is touched. links: fm_tree
 */
#include <linux/fs.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "mover/base/budget.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/tree/sink.h"
#include "mover/tree/xattr_rules.h"
#include "mover/tree/stash.h"
#include "mover/tree/wanted.h"
#include "tests/unit/sink_scene.h"

/* --------------------------------------------------------------------------------------- making */

static void check_everything(void)
{
	char target[64] = "";
	struct stat st;

	CU_ASSERT_TRUE(has_content("tree/f", 1, 5000) && has_stat("tree/f", 0644, A_TIME + 1));
	CU_ASSERT_TRUE(has_content("tree/empty", 2, 0) && has_stat("tree/empty", 0644, A_TIME + 2));
	CU_ASSERT_TRUE(has_content("tree/d/e/g", 3, 70000) &&
		       has_stat("tree/d/e/g", 0444, A_TIME + 3));
	CU_ASSERT_TRUE(has_content("tree/d/h", 3, 70000) &&
		       ino_of("tree/d/h") == ino_of("tree/d/e/g"));
	CU_ASSERT_EQUAL(readlink(at("tree/d/l"), target, sizeof(target) - 1), 9);
	CU_ASSERT_STRING_EQUAL(target, "../../etc");
	CU_ASSERT_EQUAL(lstat(at("tree/d/l"), &st), 0);
	CU_ASSERT_EQUAL(st.st_mtim.tv_nsec, (A_TIME + 60) % 1000000000);
	CU_ASSERT_TRUE(has_stat("tree/d", 0750, A_TIME + 50) &&
		       has_stat("tree", 01777, A_TIME + 50));
	CU_ASSERT_TRUE(has_stat("tree/d/e", 0500, A_TIME + 50));
	CU_ASSERT_EQUAL(names_in(dir, OURS), 0);
}

static int kept_at_most(const void *ctx, enum fm_staging_kind kind, const struct stat *stash)
{
	(void)ctx;
	(void)kind;
	(void)stash;
	return FM_WANTED_KEPT;
}

static bool is_of_any_age(const void *ctx, const struct stat *made, const struct stat *journal)
{
	(void)ctx;
	(void)made;
	(void)journal;
	return true;
}

static const struct fm_staging_age any_age = { .is_old = is_of_any_age, .at_most = kept_at_most };

static void run_everything(void)
{
	struct fm_pack_entry readonly = a_file(3, 70000);
	struct fm_tree_count n;

	readonly.mode = 0444;
	MUST(sink_new(options()));
	CU_ASSERT_FALSE(t->is_partial);
	CU_ASSERT_PTR_NULL(t->note);
	pack_begin(0);
	add_hard("d/h", "d/e/g");	/* before the file it is a name of */
	pack_add(readonly, "d/e/g", 3);
	add_link("d/l", "../../etc");
	add_file("f", 1, 5000);
	OK(apply());
	pack_begin(0);
	add_file("empty", 2, 0);
	add_dir("d/e", 0500);
	add_dir("d", 0750);
	add_dir("", 01777);
	OK(apply());
	CU_ASSERT_EQUAL(bit_count, 0);
	OK(t->ops->log(t, &err));
	CU_ASSERT_FALSE(is_there("tree"));
	OK(t->ops->prepare(t, true, &err));
	CU_ASSERT_FALSE(is_there("tree"));
	OK(t->ops->publish(t, true, &err));
	n = counts();
	CU_ASSERT_TRUE(n.files == 3 && n.dirs == 2 && n.links == 1 && n.hard_links == 1 &&
		       n.bytes == 75000);
	CU_ASSERT_EQUAL(used_bytes, 75000 + 70000);	/* a quota counts names */
	CU_ASSERT_EQUAL(new_bytes, 75000);
	t->ops->close(t);
	check_everything();
}

static void test_everything(void)
{
	mode_t mask = umask(0022);

	each_base(run_everything);
	umask(0077);	/* what the process would withhold is set all the same */
	each_base(run_everything);
	umask(mask);
}

static void run_digests(void)
{
	struct fm_pack_entry readonly = a_file(4, 10);

	readonly.mode = 0400;
	MUST(sink_new(options()));
	pack_begin(0);
	add_file("f", 1, 5000);
	add_file("empty", 2, 0);
	pack_add(readonly, "r", 4);
	add_piece("p", 3, 5000, 3000, 2000);
	add_piece("p", 3, 5000, 0, 3000);
	OK(apply());
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_TRUE(has_digest("tree/f", 1, 5000) && has_digest("tree/empty", 2, 0));
	CU_ASSERT_TRUE(has_digest("tree/p", 3, 5000) && has_digest("tree/r", 4, 10));
	CU_ASSERT_TRUE(has_stat("tree/r", 0400, A_TIME + 4));
}

static void test_digests(void)
{
	each_base(run_digests);
}

static void run_pieces(void)
{
	/* of five pieces; some twice, also behind the last one */
	static const unsigned order[] = { 3, 0, 4, 4, 1, 0, 2, 3, 1 };

	MUST(sink_new(options()));
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		pack_begin(0);
		add_piece("d/f", 5, 500000, order[i] * 100000, 100000);
		OK(apply());
	}
	pack_begin(0);
	add_file("d/f", 5, 500000);	/* and whole */
	OK(apply());
	CU_ASSERT_TRUE(counts().files == 1 && counts().bytes == 500000);
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/d/f", 5, 500000) &&
		       has_stat("tree/d/f", 0644, A_TIME + 5));
}

static void test_pieces(void)
{
	each_base(run_pieces);
}

/* Goal: a peer that sends a file in more pieces than one who reads it would is blamed, and not the
 * disk. */
static void test_many_pieces(void)
{
	int ret = 0;

	scene_begin(IN_MEMORY);
	MUST(sink_new(options()));
	for (unsigned i = 0; i < 1000 && ret == 0; i++) {
		pack_begin(0);
		add_piece("f", 5, 100000, i * 100, 50);
		ret = apply();
	}
	CU_ASSERT_EQUAL(ret, -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "too many pieces"));
	t->ops->discard(t);
	t->ops->close(t);
	scene_end();
}

static void test_missing(void)
{
	scene_begin(IN_MEMORY);
	MUST(sink_new(options()));
	pack_begin(0);
	add_piece("d/f", 5, 500, 0, 100);
	OK(apply());
	CU_ASSERT_EQUAL(finish(), -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "s/tree/d/f"));
	t->ops->discard(t);
	t->ops->close(t);
	MUST(sink_new(options()));
	pack_begin(0);
	add_hard("a", "never/came");
	OK(apply());
	CU_ASSERT_EQUAL(finish(), -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "never/came"));
	t->ops->close(t);
	MUST(sink_new(options()));
	pack_begin(0);
	add_attr("a", 0644, 5);
	OK(apply());
	CU_ASSERT_EQUAL(finish(), -EPROTO);
	t->ops->close(t);
	CU_ASSERT_EQUAL(names_in(dir, ""), 0);
	scene_end();
}

/* -------------------------------------------------------------------------------------- at once */

#define PACKS 40u
#define FILES_EACH 25u

static struct fm_tree *shared;

static int apply_number(unsigned p, struct fm_err *e)
{
	static _Thread_local uint64_t buf[PACK_LEN / 8];
	struct fm_pack_writer w;
	uint8_t ours_bits[FM_TREE_OFFERS_MAX / 8];
	size_t count;

	fm_pack_begin(&w, buf, sizeof(buf), 0);
	for (unsigned i = 0; i < FILES_EACH; i++) {
		char path[64];
		struct fm_pack_entry f = a_file(p * FILES_EACH + i, 3000);
		uint8_t *data;

		f.path_len =
			(size_t)snprintf(path, sizeof(path), "%u/%u/f", p % 4, p * FILES_EACH + i);
		f.path = path;
		if (i % 5 == 0) {	/* the pieces of it are in this pack and the next */
			f.offset = p % 2 ? 1000 : 0;
			f.data_len = p % 2 ? 2000 : 1000;
			f.mtime_ns = A_TIME;
			f.identity = 1;
			f.path_len = (size_t)snprintf(path, sizeof(path), "pieces/%u.%u", p / 2, i);
		}
		data = fm_pack_add(&w, &f);
		fill(data, i % 5 == 0 ? 0 : p * FILES_EACH + i, f.offset, f.data_len);
		fm_pack_set_crc(
			data, &f,
			fm_crc32c_part(fm_crc32c(0, data, f.data_len), f.offset, f.data_len));
	}
	return shared->ops->apply(shared, buf, fm_pack_end(&w), ours_bits, &count, e);
}

static void *apply_all(void *arg)
{
	struct fm_err *e = arg;

	for (unsigned p = 0; p < PACKS; p++)
		if (apply_number(p, e) < 0)
			break;
	return NULL;
}

static void *log_often(void *arg)
{
	struct fm_err *e = arg;

	for (unsigned i = 0; i < 20; i++)
		if (shared->ops->log(shared, e) < 0)
			break;
	return NULL;
}

static bool has_all_twice(void)
{
	for (unsigned p = 0; p < PACKS; p++)
		for (unsigned i = 0; i < FILES_EACH; i++) {
			char path[64];

			snprintf(path, sizeof(path), "tree/%u/%u/f", p % 4, p * FILES_EACH + i);
			if (i % 5 != 0 && (!has_content(path, p * FILES_EACH + i, 3000) ||
					   !has_stat(path, 0644, A_TIME + p * FILES_EACH + i)))
				return false;
			snprintf(path, sizeof(path), "tree/pieces/%u.%u", p / 2, i);
			if (i % 5 == 0 &&
			    (!has_content(path, 0, 3000) || !has_stat(path, 0644, A_TIME)))
				return false;
		}
	return true;
}

static void run_twice_at_once(void)
{
	struct fm_err errs[4] = { 0 };
	pthread_t threads[4];

	MUST(sink_new(options()));
	shared = t;
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT_EQUAL_FATAL(
			pthread_create(&threads[i], NULL, i < 3 ? apply_all : log_often, &errs[i]),
			0);
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		CU_ASSERT_EQUAL(errs[i].code, 0);
		if (errs[i].code)
			printf("%s\n", errs[i].text);
	}
	CU_ASSERT_EQUAL(counts().files, PACKS * FILES_EACH * 4 / 5 + PACKS / 2 * FILES_EACH / 5);
	CU_ASSERT_EQUAL(used_bytes, (int64_t)counts().bytes);
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_TRUE(has_all_twice());
	CU_ASSERT_EQUAL(names_in(at("tree/pieces"), OURS) + names_in(at("tree/0/0"), OURS), 0);
}

static void test_twice_at_once(void)
{
	each_base(run_twice_at_once);
}

/* -------------------------------------------------------------------------------------- hostile */

static void long_path(char *out, size_t depth)
{
	for (size_t i = 0; i < depth; i++)
		memcpy(out + 2 * i, "d/", 3);
	strcpy(out + 2 * depth, "f");
}

/* One pack that must be refused with that code, after what was sent before. */
static void refuse_one(void (*add)(void), int code, const char *word)
{
	pack_begin(0);
	add();
	fm_err_clear(&err);
	CU_ASSERT_EQUAL(apply(), code);
	CU_ASSERT_EQUAL(err.code, code);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, word));
	if (!strstr(err.text, word))
		printf("not \"%s\": %s\n", word, err.text);
}

static void through_link(void) { add_file("l/x", 1, 10); }
static void dir_through_link(void) { add_dir("l/x", 0755); }
static void hard_through_link(void) { add_hard("l/x", "f"); }
static void through_inner_link(void) { add_file("d/up/x", 1, 10); }
static void through_file(void) { add_file("f/x", 1, 10); }
static void file_over_link(void) { add_file("l", 1, 10); }
static void piece_over_link(void) { add_piece("l", 1, 20, 0, 10); }
static void file_over_dir(void) { add_file("d", 1, 10); }
static void piece_over_dir(void) { add_piece("d", 1, 20, 0, 10); }
static void dir_over_file(void) { add_dir("f", 0755); }
static void dir_over_link(void) { add_dir("l", 0755); }
static void link_over_file(void) { add_link("f", "x"); }
static void link_over_dir(void) { add_link("d", "x"); }
static void other_link(void) { add_link("l", "/etc/passwd"); }
static void our_name(void) { add_file(".fmove.again.1", 1, 10); }
static void our_dir(void) { add_file(".fmove.x/f", 1, 10); }
static void our_inner_dir(void) { add_dir("d/.fmove.x/y", 0755); }
static void our_link(void) { add_link("d/.fmove.x", "y"); }
static void our_hard(void) { add_hard("d/.fmove.x", "f"); }
static void large_in_pack(void) { add_piece("huge", 1, INT64_MAX, INT64_MAX - 10, 10); }
static void other_piece(void) { add_piece("p", 2, 30, 10, 10); }
static void overlapping_piece(void) { add_piece("p", 1, 30, 5, 10); }

static void too_deep(void)
{
	char path[4096];

	long_path(path, FM_TREE_DEPTH_MAX + 1);
	add_file(path, 1, 10);
}

static void run_hostile(void)
{
	static const struct {
		void (*add)(void);
		const char *word;
	} cases[] = {
		{through_link, "l/x"},
		{dir_through_link, "l/x"},
		{hard_through_link, "l/x"},
		{through_inner_link, "up/x"},
		{through_file, "f/x"},
		{file_over_link, "kinds"},
		{piece_over_link, "kinds"},
		{file_over_dir, "kinds"},
		{piece_over_dir, "kinds"},
		{dir_over_file, "kinds"},
		{dir_over_link, "kinds"},
		{link_over_file, "kinds"},
		{link_over_dir, "kinds"},
		{other_link, "kinds"},
		{our_name, "fmove's own"},
		{our_dir, "fmove's own"},
		{our_inner_dir, "fmove's own"},
		{our_link, "fmove's own"},
		{our_hard, "fmove's own"},
		{large_in_pack, "large"},
		{other_piece, "belong"},
		{overlapping_piece, "overlap"},
		{too_deep, "1024"},
	};

	CU_ASSERT_EQUAL(mkdir(at("outside"), 0755), 0);
	MUST(sink_new(options()));
	pack_begin(0);
	add_link("l", at("outside"));
	add_link("d/up", "..");
	add_file("f", 1, 10);
	add_piece("p", 1, 30, 0, 10);
	OK(apply());
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		refuse_one(cases[i].add, -EPROTO, cases[i].word);
	pack_begin(0);		/* what was refused did no harm */
	add_link("l", at("outside"));
	add_piece("p", 1, 30, 10, 20);
	OK(apply());
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/f", 1, 10) && has_content("tree/p", 1, 30));
	CU_ASSERT_EQUAL(names_in(at("outside"), ""), 0);
	CU_ASSERT_EQUAL(names_in(at("tree"), ""), 4);
}

static void test_hostile(void)
{
	each_base(run_hostile);
}

/* What a pack's writer would not write. */
static void test_damaged(void)
{
	uint8_t *path;
	size_t len;

	scene_begin(IN_MEMORY);
	MUST(sink_new(options()));
	pack_begin(0);
	add_file("abc/def", 1, 10);
	len = fm_pack_end(&pack);
	path = memmem(pack.buf, len, "abc/def", 7);
	CU_ASSERT_PTR_NOT_NULL_FATAL(path);
	for (const char *const *bad = (const char *const[]){"../../x", "/bc/def", "abc//ef",
							    "abc/./f", "abc/de/", "ab\0/def", NULL};
	     *bad; bad++) {
		memcpy(path, *bad, 7);
		CU_ASSERT_EQUAL(t->ops->apply(t, pack.buf, len, bits, &bit_count, &err), -EPROTO);
		CU_ASSERT_EQUAL(bit_count, 0);
	}
	memcpy(path, "abc/def", 7);
	for (size_t cut = 0; cut < len; cut += 8)
		CU_ASSERT_EQUAL(t->ops->apply(t, pack.buf, cut, bits, &bit_count, &err), -EPROTO);
	OK(t->ops->apply(t, pack.buf, len, bits, &bit_count, &err));
	t->ops->close(t);
	CU_ASSERT_EQUAL(names_in(dir, ""), 0);
	scene_end();
}

/* A file that was reused is one of the old version: sent all the same, it must not be written
 * to. */
static void run_reused_is_not_written(void)
{
	struct fm_tree_sink_opts opts = replacing();
	uint64_t sent;
	int64_t used;

	opts.is_update = true;
	put_version(options(), 1);
	sent = new_bytes;
	used = used_bytes;
	MUST(sink_new(opts));
	pack_begin(FM_PACK_OFFER);
	add_offer("f", 1, 5000);
	OK(apply());
	CU_ASSERT_FALSE(is_needed(0));
	pack_begin(0);
	add_file("f", 2, 5000);		/* other content, time and identity */
	OK(apply());
	CU_ASSERT_EQUAL(used_bytes, used + 5000);
	/* whoever was promised room for what comes has it still */
	CU_ASSERT_EQUAL(new_bytes, sent);
	CU_ASSERT_TRUE(is_version("tree", 1));
	pack_begin(0);
	add_piece("f", 3, 5000, 0, 100);
	CU_ASSERT_EQUAL(apply(), -EPROTO);
	CU_ASSERT_TRUE(is_version("tree", 1));
	t->ops->discard(t);
	t->ops->close(t);
	CU_ASSERT_TRUE(is_version("tree", 1));
}

static void test_reused_is_not_written(void)
{
	each_base(run_reused_is_not_written);
}

/* ----------------------------------------------------------------------------------- publishing */

static void test_names(void)
{
	struct fm_tree_sink_opts opts = replacing();
	static const char *const bad[] = { "", ".", "..", "a/b", ".fmove.x", NULL };

	scene_begin(IN_MEMORY);
	write_file("tree", 1, 10, 0644, 5);
	CU_ASSERT_EQUAL(sink_new(opts), -ENOTDIR);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "is a file; a tree does not replace it"));
	CU_ASSERT_EQUAL(unlink(at("tree")), 0);
	CU_ASSERT_EQUAL(symlink("x", at("tree")), 0);
	CU_ASSERT_EQUAL(sink_new(opts), -ENOTDIR);
	CU_ASSERT_EQUAL(unlink(at("tree")), 0);
	CU_ASSERT_EQUAL(mkdir(at("tree"), 0755), 0);
	CU_ASSERT_EQUAL(sink_new(options()), -EEXIST);
	for (const char *const *name = bad; *name; name++) {
		opts.name = *name;
		CU_ASSERT_EQUAL(sink_new(opts), -EINVAL);
	}
	CU_ASSERT_EQUAL(names_in(dir, ""), 1);
	scene_end();
}

static void run_replacing(void)
{
	struct fm_tree_sink_opts opts = replacing();
	int held;
	char buf[16];

	put_version(options(), 1);
	held = open(at("tree"), O_RDONLY | O_DIRECTORY);
	opts.grace_ns = 1000;
	put_version(opts, 2);
	CU_ASSERT_TRUE(is_version("tree", 2));
	/* The version that was replaced stays for who has it open, and under a name of ours for a
	 * while. */
	CU_ASSERT_EQUAL(faccessat(held, "d/g", R_OK, 0), 0);
	CU_ASSERT_EQUAL(names_in(dir, OURS), 1);
	CU_ASSERT_TRUE(is_version(version_in(FM_STAGING_OLD), 1));
	OK(fm_staging_sweep(open(dir, O_RDONLY), ours(FM_STAGING_OLD), &any_age, NULL));
	CU_ASSERT_EQUAL(names_in(dir, ""), 1);
	close(held);
	/* At once. */
	put_version(replacing(), 3);
	CU_ASSERT_TRUE(is_version("tree", 3));
	CU_ASSERT_EQUAL(names_in(dir, ""), 1);
	/* the first one was removed by a sweep that told nobody */
	CU_ASSERT_EQUAL(used_bytes, 3 * 5300 - 5300);
	CU_ASSERT_EQUAL(readlink(at("tree"), buf, sizeof(buf)), -1);
}

static void test_replacing(void)
{
	for (size_t i = 0; i < BASES; i++) {
		scene_begin(bases[i]);
		run_replacing();
		scene_end();
	}
}

#define KEPT_NAME ".fmove.0123456789abcdef.kept"

/* A version in which something is that is nowhere else. */
static void put_wanted(const char *name)
{
	struct fm_tree_sink_opts opts = options();

	opts.name = opts.path = name;
	put_version(opts, 1);
	CU_ASSERT_EQUAL(mkdirat(open(at(name), O_RDONLY | O_DIRECTORY), KEPT_NAME, 0700), 0);
}

static bool is_wanted_there(void)
{
	char command[256];

	(void)snprintf(command, sizeof(command), "find '%s' -name " KEPT_NAME " | grep -q .", dir);
	return system(command) == 0;
}

/* Goal: a replaced version of which something is nowhere else stays, though none is kept. */
static void test_replacing_wanted(void)
{
	scene_begin(IN_MEMORY);
	put_wanted("tree");
	put_version(replacing(), 2);
	CU_ASSERT_TRUE(is_version("tree", 2) && is_version(version_in(FM_STAGING_OLD), 1) &&
		       is_wanted_there());
	scene_end();
}

#ifdef FM_FAULTS
struct swap {
	unsigned turn, calls;
	const char *with;
};

/* Somebody gives a stash of his the name of the one that was just made. */
static void swap_stash(void *ctx, const char *point)
{
	struct swap *w = ctx;
	const struct dirent *e;
	DIR *d;

	(void)point;
	if (++w->calls != w->turn)
		return;
	d = opendir(dir);
	while (d && (e = readdir(d)))
		if (fm_staging_kind(e->d_name) == FM_STAGING_OLD && strcmp(e->d_name, w->with) != 0)
			CU_ASSERT_EQUAL(
				renameat2(dirfd(d), e->d_name, dirfd(d), w->with, RENAME_EXCHANGE),
				0);
	closedir(d);
}

/* Goal: nor does it go under the name of a version that was replaced just now. */
static void test_replacing_exchanged(void)
{
	char stash[FM_STAGING_NAME_LEN + 1];
	struct swap w = { .with = stash };
	struct fm_stash_what what = { .name = "was" };

	fm_log_set_level(FM_LOG_ERROR);		/* it is said that the stash could not be removed */
	do {
		scene_begin(IN_MEMORY);
		put_wanted("was");
		what.from = "was";
		what.dir = open(dir, O_RDONLY | O_DIRECTORY);
		what.ino = ino_of("was");
		OK(fm_stash_keep(&what, what.dir, FM_STAGING_OLD, stash));
		close(what.dir);
		put_version(options(), 1);
		w.calls = 0;
		w.turn++;
		MUST(sink_new(replacing()));
		pack_begin(0);
		add_file("f", 2, 5000);
		OK(apply());
		OK(t->ops->prepare(t, true, &err));
		fm_fault_watch(swap_stash, &w);
		OK(t->ops->publish(t, true, &err));
		fm_fault_watch(NULL, NULL);
		t->ops->close(t);
		CU_ASSERT_TRUE(is_wanted_there());
		scene_end();
	} while (w.calls >= w.turn && w.turn < 500);
	CU_ASSERT_TRUE(w.turn > 10 && w.turn < 500);
	fm_log_set_level(FM_LOG_INFO);
}
#endif

/* Somebody else makes the name while the tree is under way. */
static void run_meanwhile(void)
{
	MUST(sink_new(options()));
	pack_begin(0);
	add_file("f", 1, 10);
	OK(apply());
	CU_ASSERT_EQUAL(mkdir(at("tree"), 0755), 0);
	CU_ASSERT_EQUAL(finish(), -EEXIST);
	CU_ASSERT_EQUAL(names_in(at("tree"), ""), 0);
	CU_ASSERT_EQUAL(rmdir(at("tree")), 0);
	write_file("tree", 9, 9, 0644, 9);
	CU_ASSERT_EQUAL(t->ops->publish(t, true, &err), -ENOTDIR);
	CU_ASSERT_EQUAL(unlink(at("tree")), 0);
	OK(t->ops->publish(t, true, &err));	/* it can be tried again */
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/f", 1, 10));
}

static void test_meanwhile(void)
{
	each_base(run_meanwhile);
}

/* `count` names in the one version that is kept aside, or none is. */
static unsigned names_aside(const char *below)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", at(version_in(FM_STAGING_KEPT)), below);
	return ours(FM_STAGING_KEPT)[0] ? names_in(path, "") : 0;
}

/* A directory appears in the old version under the name of a file that came. */
static void run_kind_meanwhile(void)
{
	struct fm_tree_sink_opts opts = options();

	opts.is_update = true;
	put_version(options(), 1);
	MUST(sink_new(opts));
	pack_begin(0);
	add_dir("", 0755);
	add_file("new", 2, 10);
	OK(apply());
	OK(t->ops->prepare(t, true, &err));
	CU_ASSERT_EQUAL(mkdir(at("tree/new"), 0755), 0);
	write_file("tree/new/theirs", 9, 9, 0644, 9);
	OK(t->ops->publish(t, true, &err));
	CU_ASSERT_PTR_NOT_NULL(t->note);
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/new", 2, 10) && is_version("tree", 1));
	CU_ASSERT_EQUAL(names_aside("new"), 1);
}

static void test_kind_meanwhile(void)
{
	each_base(run_kind_meanwhile);
}

static bool is_owned(const char *path, uid_t uid, mode_t mode)
{
	struct stat st;

	return lstat(at(path), &st) == 0 && st.st_uid == uid && (st.st_mode & 07777) == mode;
}

/* is_into: what appears is in a directory; else beside it. */
static void run_swap(bool is_into)
{
	struct fm_tree_sink_opts opts = options();
	char path[512], other[512];

	opts.is_update = opts.has_owners = true;
	put_version(options(), 1);
	CU_ASSERT_EQUAL(mkdir(at("tree/his"), 0777) + mkdir(at("tree/another's"), 0700), 0);
	CU_ASSERT_EQUAL(chown(at("tree/his"), 601, 601) + chmod(at("tree/his"), 0777), 0);
	CU_ASSERT_EQUAL(chown(at("tree/another's"), 602, 602), 0);
	MUST(sink_new(opts));
	pack_begin(0);
	add_dir("", 0755);
	add_file("new", 2, 10);
	OK(apply());
	OK(t->ops->prepare(t, true, &err));
	write_file(is_into ? "tree/his/late" : "tree/late", 9, 9, 0644, 9);
	snprintf(path, sizeof(path), "%s/his", at(ours(FM_STAGING_NEW)));
	snprintf(other, sizeof(other), "%s/another's", at(ours(FM_STAGING_NEW)));
	CU_ASSERT_EQUAL(renameat2(AT_FDCWD, path, AT_FDCWD, other, RENAME_EXCHANGE), 0);
	OK(t->ops->publish(t, true, &err));
	CU_ASSERT_PTR_NOT_NULL(t->note);
	t->ops->close(t);
	CU_ASSERT_TRUE(is_owned("tree/his", 602, 0700) && names_in(at("tree/his"), "") == 0);
	CU_ASSERT_TRUE(is_owned("tree/another's", 601, 0777));
}

static void run_swap_beside(void)
{
	run_swap(false);
}

static void run_swap_into(void)
{
	run_swap(true);
}

/* Goal: who can move directories in the new version, when it has its name, gets nobody's. */
static void test_swap(void)
{
	if (geteuid() != 0) {
		printf("SKIP: not root; ");
		return;
	}
	each_base(run_swap_beside);
	each_base(run_swap_into);
}

/* Whole directories that appear late come with all that they have. */
static void run_late(void)
{
	struct fm_tree_sink_opts opts = options();

	opts.is_update = true;
	opts.has_owners = geteuid() == 0;
	put_version(options(), 1);
	MUST(sink_new(opts));
	pack_begin(0);
	add_dir("", 0755);
	add_file("new", 2, 10);
	OK(apply());
	OK(t->ops->prepare(t, true, &err));
	CU_ASSERT_EQUAL(mkdir(at("tree/late"), 0700) + mkdir(at("tree/late/in"), 0700), 0);
	write_file("tree/late/in/f", 9, 9, 0644, 9);
	write_file("tree/d/late", 8, 9, 0644, 9);
	if (opts.has_owners)
		CU_ASSERT_EQUAL(
			chown(at("tree/late"), 601, 601) + chown(at("tree/late/in"), 602, 602), 0);
	CU_ASSERT_EQUAL(chmod(at("tree/late/in"), 0751), 0);
	OK(t->ops->publish(t, true, &err));
	CU_ASSERT_PTR_NULL(t->note);
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/late/in/f", 9, 9) && has_content("tree/d/late", 8, 9) &&
		       is_version("tree", 1));
	CU_ASSERT_TRUE(is_owned("tree/late/in", opts.has_owners ? 602 : geteuid(), 0751));
	CU_ASSERT_EQUAL(names_in(dir, OURS), 0);
}

static void test_late(void)
{
	each_base(run_late);
}

static void test_busy(void)
{
	struct fm_tree_sink_opts opts = options();
	struct fm_tree *first;
	struct fm_staging_info info;
	int fd;

	scene_begin(ON_DISK);
	MUST(sink_new(options()));
	first = t;
	opts.lock_wait_ms = 1;
	CU_ASSERT_EQUAL(sink_new(opts), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "is being written by another transfer"));
	fd = open(dir, O_RDONLY);
	OK(fm_staging_peek(fd, ours(FM_STAGING_TREE), &info));
	CU_ASSERT_TRUE(info.is_busy && !info.has_journal);
	CU_ASSERT_EQUAL(fm_staging_sweep(fd, ours(FM_STAGING_TREE), &any_age, NULL), -EBUSY);
	close(fd);
	t = first;
	pack_begin(0);
	add_file("f", 1, 10);
	OK(apply());
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/f", 1, 10));
	scene_end();
}

#define HANG_MS (FM_TEST_HANG_S * 1000)

static void *close_soon(void *tree)
{
	struct fm_tree *first = tree;

	/* the other one is waiting by then; if not, it has nothing to wait for */
	usleep(60000);
	first->ops->close(first);
	return NULL;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Who says nothing of patience has some. */
static void test_patience(void)
{
	uint64_t begin_ms;

	scene_begin(IN_MEMORY);
	MUST(sink_new(options()));
	begin_ms = now_ms();
	CU_ASSERT_EQUAL(sink_new(options()), -EBUSY);
	CU_ASSERT_TRUE(now_ms() - begin_ms >= FM_TREE_LOCK_WAIT_MS);
	t->ops->close(t);
	scene_end();
}

/* Whoever killed a command and runs it again at once. */
static void test_just_ending(void)
{
	struct fm_tree_sink_opts opts = options();
	pthread_t thread;

	scene_begin(ON_DISK);
	MUST(sink_new(options()));
	CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, close_soon, t), 0);
	opts.lock_wait_ms = HANG_MS;
	OK(sink_new(opts));
	pthread_join(thread, NULL);
	pack_begin(0);
	add_file("f", 1, 10);
	OK(apply());
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/f", 1, 10));
	scene_end();
}

static void test_stopped(void)
{
	scene_begin(IN_MEMORY);
	MUST(sink_new(options()));
	t->ops->stop(t);
	pack_begin(0);
	add_file("f", 1, 10);
	CU_ASSERT_EQUAL(apply(), -ECANCELED);
	CU_ASSERT_EQUAL(t->ops->log(t, &err), -ECANCELED);
	CU_ASSERT_EQUAL(t->ops->prepare(t, true, &err), -ECANCELED);
	t->ops->close(t);
	CU_ASSERT_EQUAL(names_in(dir, ""), 0);
	scene_end();
}

static void test_quota(void)
{
	char piece[300];
	struct stat st;

	scene_begin(IN_MEMORY);
	MUST(sink_new(options()));
	quota = 20000;
	pack_begin(0);
	add_file("f", 1, 10000);
	OK(apply());
	pack_begin(0);
	add_file("g", 1, 30000);
	CU_ASSERT_EQUAL(apply(), -EDQUOT);
	CU_ASSERT_EQUAL(used_bytes, 10000);
	pack_begin(0);
	add_piece("p", 1, 30000, 0, 100);	/* the whole of it is promised */
	CU_ASSERT_EQUAL(apply(), -EDQUOT);
	pack_begin(0);
	add_piece("q", 1, 10000, 0, 100);
	OK(apply());
	CU_ASSERT_EQUAL(used_bytes, 20000);
	snprintf(piece, sizeof(piece), "%s/data/q", ours(FM_STAGING_TREE));
	/* whoever counts sizes sees the promise */
	CU_ASSERT_TRUE(lstat(at(piece), &st) == 0 && st.st_size == 10000);
	t->ops->discard(t);
	CU_ASSERT_EQUAL(used_bytes, 0);
	t->ops->close(t);
	MUST(sink_new(options()));
	pack_begin(0);
	add_file("f", 1, 10000);
	add_hard("h1", "f");
	add_hard("h2", "f");
	OK(apply());
	CU_ASSERT_EQUAL(t->ops->prepare(t, true, &err), -EDQUOT);
	CU_ASSERT_EQUAL(used_bytes, 20000);
	t->ops->discard(t);
	CU_ASSERT_EQUAL(used_bytes, 0);
	t->ops->close(t);
	scene_end();
}

/* Goal: what is taken from the version that is replaced counts beside it, until that is gone. */
static void test_quota_of_an_update(void)
{
	struct fm_tree_sink_opts opts = replacing();

	opts.is_update = true;
	scene_begin(IN_MEMORY);
	for (int i = 0; i < 3; i++) {
		quota = i == 1 ? 19999 : 20000;
		MUST(sink_new(opts));
		pack_begin(i == 0 ? 0 : FM_PACK_OFFER);
		if (i == 0)
			add_file("f", 1, 10000);
		else
			add_offer("f", 1, 10000);
		add_dir(i == 0 ? "" : "new", 0755);	/* where nothing differs nothing is made */
		CU_ASSERT_EQUAL(apply(), i == 1 ? -EDQUOT : 0);
		if (i == 1)
			t->ops->discard(t);
		else
			OK(finish());
		t->ops->close(t);
		CU_ASSERT_EQUAL(used_bytes, 10000);
	}
	scene_end();
}

/*
 * Goal: a dry run counts what the update does, also of packs in which nothing differs and which it
 * put aside first; and it makes nothing.
 */
static void test_dry_counts_as_update(void)
{
	struct fm_tree_sink_opts opts = replacing();

	scene_begin(IN_MEMORY);
	put_version(opts, 1);
	opts.is_update = true;
	for (int is_real = 0; is_real < 2; is_real++) {
		struct fm_tree_count n;
		unsigned names = names_in(dir, "");

		opts.is_dry = !is_real;
		MUST(sink_new(opts));
		pack_begin(FM_PACK_OFFER);
		add_dir("", 0755);
		add_offer("f", 1, 5000);
		OK(apply());
		CU_ASSERT_TRUE(!is_needed(1));
		CU_ASSERT_EQUAL(names_in(dir, ""), names);
		pack_begin(FM_PACK_OFFER);
		add_dir("new", 0755);
		add_dir("d", 0755);
		add_link("d/g", "f");
		OK(apply());
		OK(is_real ? finish() : t->ops->prepare(t, true, &err));
		n = counts();
		CU_ASSERT_TRUE(n.added == 1 && n.replaced == 1 && n.removed == 0 && n.kept == 0);
		CU_ASSERT_TRUE(is_real || names_in(dir, "") == names);
		t->ops->close(t);
	}
	scene_end();
}

/* Goal: the names that differ have an end, and what is behind it is not told; the tree is there. */
static void test_too_many_names(void)
{
	struct fm_tree_sink_opts opts = options();
	static struct fm_tree_names page;
	uint64_t from = 0;

	opts.has_names = true;
	scene_begin(IN_MEMORY);
	MUST(sink_new(opts));
	fm_sink_of(t)->names.bytes = FM_SINK_NAMES_BYTES_MAX;	/* of others */
	pack_begin(0);
	add_file("f", 1, 10);
	OK(apply());
	OK(finish());
	CU_ASSERT_EQUAL(t->ops->names(t, &from, &page, &err), -EFBIG);
	CU_ASSERT_TRUE(t->note && strstr(t->note, "cannot all be told"));
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/f", 1, 10));
	scene_end();
}

/* Its file is full, but for less than the next pack; so is that pack. */
static void fill_manifest(void)
{
	struct fm_manifest *m = &fm_sink_of(t)->manifest;
	struct fm_pack_entry e = {.type = FM_PACK_LINK,
				  .path = "l",
				  .path_len = 1,
				  .target = "g",
				  .target_len = 1};

	while (fm_pack_room(&m->w, e.path_len, e.target_len, 0) >= 0)
		CU_ASSERT_EQUAL_FATAL(fm_manifest_add(m, &e), 0);
	m->bytes = FM_MANIFEST_BYTES_MAX - 1;
}

static bool is_noted(void)
{
	return t->note && strstr(t->note, "too many files for a manifest");
}

/* Goal: a tree of more files than a manifest may have is there, without one, and that is said. */
static void test_too_many_for_a_manifest(void)
{
	for (int is_last = 0; is_last <= 1; is_last++) {
		scene_begin(ON_DISK);
		MUST(sink_new(options()));
		pack_begin(0);
		add_file("d/f", 1, 10);
		OK(apply());
		if (!fm_sink_of(t)->has_manifest)
			printf("SKIP: no manifests on %s; ", ON_DISK);
		else if (is_last)	/* found out when the last pack is written */
			fm_sink_of(t)->manifest.bytes = FM_MANIFEST_BYTES_MAX;
		else
			fill_manifest();
		pack_begin(0);
		add_file("g", 2, 20);
		add_link("l", "g");
		OK(apply());
		OK(finish());
		CU_ASSERT_TRUE(is_noted() || !fm_sink_of(t)->has_manifest);
		t->ops->close(t);
		CU_ASSERT_TRUE(has_content("tree/d/f", 1, 10) && has_content("tree/g", 2, 20));
		CU_ASSERT_EQUAL(names_in(dir, ""), 1);		/* nothing beside it */
		scene_end();
	}
}

#ifdef FM_FAULTS
static void count_stats(void *ctx, const char *name)
{
	*(unsigned *)ctx += strcmp(name, "tree.stat") == 0;
}

#define SAME_FILES 100u

/*
 * Goal: an update looks once at a file that is as it was, which is most of what it does where
 * nothing changed. What is mounted there matters when something is replaced.
 */
static void test_looks_of_an_update(void)
{
	struct fm_tree_sink_opts opts = replacing();
	unsigned looks = 0;
	char name[16];

	opts.is_update = true;
	scene_begin(IN_MEMORY);
	for (int i = 0; i < 2; i++) {
		MUST(sink_new(opts));
		pack_begin(i == 0 ? 0 : FM_PACK_OFFER);
		add_dir("", 0755);
		for (unsigned k = 0; k < SAME_FILES; k++) {
			snprintf(name, sizeof(name), "f%u", k);
			if (i == 0)
				add_file(name, 1, 10);
			else
				add_offer(name, 1, 10);
		}
		if (i == 1)
			fm_fault_watch(count_stats, &looks);
		OK(apply());
		OK(finish());
		fm_fault_watch(NULL, NULL);
		t->ops->close(t);
	}
	CU_ASSERT_TRUE(looks >= SAME_FILES);
	CU_ASSERT_TRUE(looks < SAME_FILES + SAME_FILES / 2);
	scene_end();
}
#endif

/* `count` files of which one of two bytes came. */
static int apply_pieces(unsigned count)
{
	char name[16];

	pack_begin(0);
	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "p%u", i);
		add_piece(name, 1, 2, 0, 1);
	}
	return apply();
}

/* `count` finished files, which wait for the journal. */
static int apply_files(unsigned count)
{
	char name[16];

	pack_begin(0);
	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		add_file(name, 1, 1);
	}
	return apply();
}

/*
 * Goal: what a tree remembers is taken from the budget, all of it is given back, and who gets no
 * more hears that there is no memory.
 */
static void test_memory(void)
{
	uint64_t before, pieces;

	scene_begin(IN_MEMORY);
	before = fm_budget_used();
	MUST(sink_new(options()));
	pieces = fm_budget_used();
	OK(apply_pieces(2000));
	CU_ASSERT_TRUE(fm_budget_used() > pieces + 2000 * 64);
	pieces = fm_budget_used();
	OK(apply_files(2000));
	CU_ASSERT_TRUE(fm_budget_used() > pieces + 2000 * sizeof(struct fm_journal_entry));
	t->ops->close(t);
	CU_ASSERT_EQUAL(fm_budget_used(), before);

	MUST(sink_new(options()));
	fm_budget_set((fm_budget_used() + (256u << 10)) / 7 * 8);
	CU_ASSERT_EQUAL(apply_pieces(3000), -ENOMEM);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "memory"));
	fm_budget_set(UINT64_MAX);
	t->ops->close(t);
	CU_ASSERT_EQUAL(fm_budget_used(), before);
	scene_end();
}

/* ------------------------------------------------------------------ owners, extended attributes */

static size_t put_xattr(uint8_t *buf, size_t len, const char *name, const char *value)
{
	struct fm_pack_xattr x = {.name = name,
				  .name_len = strlen(name),
				  .value = (const uint8_t *)value,
				  .value_len = strlen(value)};

	return len + fm_pack_put_xattr(buf + len, 512 - len, &x);
}

static void check_owned(const char *path, uid_t uid)
{
	char value[16] = "";
	struct stat st;

	CU_ASSERT_EQUAL(lstat(at(path), &st), 0);
	CU_ASSERT_TRUE(st.st_uid == uid && st.st_gid == uid + 1);
	if (!S_ISLNK(st.st_mode)) {
		CU_ASSERT_EQUAL(getxattr(at(path), "user.a", value, sizeof(value)), 5);
		CU_ASSERT_STRING_EQUAL(value, "value");
		/* xattr.conf says so */
		CU_ASSERT_EQUAL(getxattr(at(path), "user.skipped", NULL, 0), -1);
	}
}

/* The file of libattr, with a rule of ours. */
static void write_xattr_conf(void)
{
	FILE *file = fopen(at("xattr.conf"), "w");

	CU_ASSERT_PTR_NOT_NULL_FATAL(file);
	fprintf(file, "# a comment\n\nuser.a permissions\nnonsense\nuser.skip*\tskip\t# "
		      "ours\nuser.* permissions\nuser.* skip\n");
	fclose(file);
	fm_xattr_rules_read(at("xattr.conf"));
}

/* A tree with one of each that has an owner, and what comes of it. */
static void make_owned(struct fm_tree_sink_opts opts)
{
	struct fm_tree_large how = large_of("large", 4, 5000);
	struct fm_pack_entry e = a_file(1, 100), link = {.type = FM_PACK_LINK,
							 .target = "x",
							 .target_len = 1,
							 .uid = 503,
							 .gid = 504};
	struct fm_have have;
	uint8_t xattrs[512];
	int fd;

	e.uid = 501;
	e.gid = 502;
	e.mode = 0400;
	e.xattrs = xattrs;
	e.xattr_len =
		put_xattr(xattrs, put_xattr(xattrs, 0, "user.a", "value"), "user.skipped", "other");
	opts.has_owners = true;
	write_xattr_conf();
	MUST(sink_new(opts));
	CU_ASSERT_TRUE(t->has_owners);
	pack_begin(0);
	pack_add(e, "f", 1);
	e.type = FM_PACK_DIR;
	e.size = e.identity = 0;
	e.data_len = e.crc = 0;
	pack_add(e, "", 0);
	pack_add(e, "d", 0);
	e.type = FM_PACK_ATTR;
	pack_add(e, "large", 0);
	pack_add(link, "l", 0);
	OK(apply());
	OK(apply());
	MUST(t->ops->create_large(t, &how, &fd, &have, &err));
	write_large(&how, fd, 4, 0, 5000);
	OK(t->ops->seal_large(t, &how, fd, NULL, &err));
	close(fd);
	OK(finish());
	t->ops->close(t);
	fm_xattr_rules_read(FM_XATTR_CONF);
}

static void run_owners(void)
{
	make_owned(options());
	check_owned("tree/f", 501);
	check_owned("tree/d", 501);
	check_owned("tree/large", 501);
	check_owned("tree/l", 503);
	CU_ASSERT_TRUE(has_stat("tree/f", 0400, A_TIME + 1) &&
		       has_stat("tree/large", 0400, A_TIME + 1));
}

static void test_owners(void)
{
	if (geteuid() != 0)
		printf("SKIP: not root; ");
	else
		each_base(run_owners);
}

/* The entries were written by a process of that user, who would like them to be another's. */
static void run_one_owner(void)
{
	struct fm_tree_sink_opts opts = replacing();

	opts.has_one_owner = true;
	opts.is_update = true;
	opts.uid = 601;
	opts.gid = 602;
	for (int i = 0; i < 2; i++) {
		make_owned(opts);
		check_owned("tree", 601);
		check_owned("tree/f", 601);
		check_owned("tree/d", 601);
		check_owned("tree/large", 601);
		check_owned("tree/l", 601);
	}
}

static void test_one_owner(void)
{
	if (geteuid() != 0)
		printf("SKIP: not root; ");
	else
		each_base(run_one_owner);
}

/* --------------------------------------------------------------------- directories as they come */

/* In a child, since only who is not root is stopped by modes: 0, or the line that failed. */
#define STEP(what) do { \
		if (!(what)) { \
			printf("line %d: %s (%s)\n", __LINE__, #what, err.text); \
			return __LINE__; \
		} \
	} while (0)

static int send_closed_dirs(unsigned salt)
{
	pack_begin(0);
	add_dir("", 0555);
	add_dir("no", 0);
	add_dir("no/way", 0);
	add_dir("no/way/in", 0111);
	add_dir("readonly", 0500);
	add_dir("readonly/inner", 0400);
	add_file("no/way/in/f", salt, 100);
	add_file("readonly/inner/g", salt, 100);
	add_file("readonly/k", salt, 100);
	add_hard("readonly/h", "no/way/in/f");
	return apply();
}

static int closed_dirs(void)
{
	unsigned salt;

	for (salt = 1; salt <= 3; salt++) {
		STEP(sink_new(replacing()) == 0);
		STEP(send_closed_dirs(salt) == 0);
		STEP(apply() == 0);
		STEP(finish() == 0);
		t->ops->close(t);
		STEP(has_stat("tree", 0555, A_TIME + 50) && has_stat("tree/no", 0, A_TIME + 50));
		STEP(has_stat("tree/readonly", 0500, A_TIME + 50) &&
		     has_content("tree/readonly/h", salt, 100));
		STEP(names_in(dir, "") == 1);
	}
	for (salt = 4; salt <= 6; salt++) {	/* kept after prepare, gone on with, discarded */
		STEP(sink_new(replacing()) == 0);
		STEP(t->is_partial == (salt > 4));
		STEP(send_closed_dirs(4) == 0);
		STEP(t->ops->log(t, &err) == 0);
		STEP(t->ops->prepare(t, true, &err) == 0);
		/* What lies in a directory that may not be entered is sent again. */
		STEP(counts().resumed_files == (salt == 4 ? 0 : 1));
		if (salt == 6)
			t->ops->discard(t);
		else
			t->ops->keep(t);
		t->ops->close(t);
	}
	STEP(names_in(dir, "") == 1);
	STEP(has_content("tree/readonly/h", 3, 100));
	return 0;
}

static void as_nobody(int (*steps)(void))
{
	int status;
	pid_t child;

	CU_ASSERT_EQUAL(chmod(dir, 0777), 0);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		int line = geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0) ? 1 : steps();

		fflush(stdout);
		_exit(line != 0);
	}
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
}

static void run_closed_dirs(void)
{
	as_nobody(closed_dirs);
}

static void test_closed_dirs(void)
{
	each_base(run_closed_dirs);
}

/* Another user prepared a staging directory in a place where all may write. */
static int foreign_staging(void)
{
	STEP(sink_new(options()) == -EPERM);
	STEP(strstr(err.text, "another user"));
	return 0;
}

static void test_foreign_staging(void)
{
	char name[FM_STAGING_NAME_LEN + 1];

	if (geteuid() != 0) {
		printf("SKIP: not root; ");
		return;
	}
	scene_begin(IN_MEMORY);
	fm_staging_name(FM_STAGING_TREE, "tree", name);
	CU_ASSERT_EQUAL(mkdir(at(name), 0777), 0);
	CU_ASSERT_EQUAL(chmod(at(name), 0777), 0);
	as_nobody(foreign_staging);
	scene_end();
}

static void run_deep(void)
{
	static const char name[] = "0123456789abcdef0123456789abcdef0123456789abcdef";
	char path[4096] = "", longest[4096];

	MUST(sink_new(replacing()));
	pack_begin(0);
	long_path(path, FM_TREE_DEPTH_MAX);
	add_file(path, 1, 10);
	memset(longest, 'x', sizeof(longest));
	for (size_t i = 200; i < 4095; i += 201)
		longest[i] = '/';
	longest[4095] = '\0';
	add_file(longest, 2, 10);
	for (unsigned i = 0; i < 300; i++) {
		char wide[128];

		snprintf(wide, sizeof(wide), "wide/%u/%s", i, name);
		add_file(wide, 3, 1);
	}
	OK(apply());
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/wide/299/0123456789abcdef0123456789abcdef0123456789abcdef",
				   3, 1));
	put_version(replacing(), 4);	/* the deep one goes */
	CU_ASSERT_EQUAL(names_in(dir, ""), 1);
}

static void test_deep(void)
{
	each_base(run_deep);
}

/* Goal: what is done at the end of a tree is done to all, also if it is several times what the
 * buffer of those entries holds, and in each of the passes: hard links before directories. */
static void test_much_at_the_end(void)
{
	const unsigned count = 1500;
	char name[256];

	scene_begin(IN_MEMORY);
	MUST(sink_new(options()));
	pack_begin(0);
	add_file("f", 1, 100);
	for (unsigned i = 0; i < count; i++) {
		(void)snprintf(name, sizeof(name), "%0220u", i);
		add_dir(name, 0711);
		(void)snprintf(name, sizeof(name), "%0220u/f", i);
		add_hard(name, "f");
	}
	OK(apply());
	OK(finish());
	t->ops->close(t);
	for (unsigned i = 0; i < count; i++) {
		(void)snprintf(name, sizeof(name), "tree/%0220u", i);
		CU_ASSERT_TRUE(has_stat(name, 0711, A_TIME + 50));
		(void)snprintf(name, sizeof(name), "tree/%0220u/f", i);
		CU_ASSERT_EQUAL(ino_of(name), ino_of("tree/f"));
	}
	scene_end();
}

/* -------------------------------------------------------------------------------- folding names */

/* FM_TEST_DIR on a file system that can fold (ext4 with the casefold feature). */
static void test_folding(void)
{
	int fd, flags = 0;

	scene_begin(ON_DISK);
	fd = open(dir, O_RDONLY);
	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0 ||
	    (flags |= FS_CASEFOLD_FL, ioctl(fd, FS_IOC_SETFLAGS, &flags)) < 0) {
		printf("SKIP: no file system that folds names there; ");
		close(fd);
		scene_end();
		return;
	}
	close(fd);
	MUST(sink_new(options()));
	pack_begin(0);
	add_file("d/Name", 1, 10);
	add_piece("d/Pieces", 2, 10, 0, 5);
	add_dir("Dir", 0755);
	add_link("Link", "x");
	OK(apply());
	OK(apply());
#define COLLIDES(adding, one, other) do { \
		pack_begin(0); \
		adding; \
		CU_ASSERT_EQUAL(apply(), -ENOTUNIQ); \
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, one)); \
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, other)); \
	} while (0)
	COLLIDES(add_file("d/name", 1, 10), "d/name", "\"Name\"");
	COLLIDES(add_file("d/name", 3, 20), "d/name", "\"Name\"");
	COLLIDES(add_piece("d/pieces", 2, 10, 0, 5), "d/pieces", "\"Pieces\"");
	COLLIDES(add_dir("dir", 0755), "dir", "\"Dir\"");
	COLLIDES(add_link("LINK", "x"), "LINK", "\"Link\"");
	t->ops->close(t);
	scene_end();
}

/* More than any file system has. */
#define TOO_MUCH ((uint64_t)INT64_MAX)

static struct fm_tree_begin a_source_of(uint64_t bytes)
{
	return (struct fm_tree_begin){ .source = { .dev = 1, .ino = 2, .size = bytes } };
}

static void test_room(void)
{
	struct fm_tree_sink_opts o;
	struct fm_tree_begin how;

	scene_begin(IN_MEMORY);
	/* afresh, and as an update, of which it is the most that comes */
	for (unsigned i = 0; i < 2; i++) {
		o = options();
		o.source = (struct fm_identity){ .dev = 0 };
		o.is_update = i == 1;
		MUST(sink_new(o));
		how = a_source_of(TOO_MUCH);
		CU_ASSERT_EQUAL(t->ops->begin(t, &how, &err), -ENOSPC);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "no space"));
		CU_ASSERT_EQUAL(t->is_unmeasured, i == 1);
		CU_ASSERT_EQUAL(names_in(dir, FM_STAGING_PREFIX), 0);
		t->ops->close(t);
	}
	/* What will come of it is known. */
	for (unsigned i = 0; i < 2; i++) {
		o = options();
		o.source = (struct fm_identity){ .size = i == 0 ? 1 : TOO_MUCH };
		o.is_update = true;
		MUST(sink_new(o));
		how = a_source_of(TOO_MUCH);
		CU_ASSERT_EQUAL(t->ops->begin(t, &how, &err), i == 0 ? 0 : -ENOSPC);
		CU_ASSERT_FALSE(t->is_unmeasured);
		t->ops->close(t);
	}
	t = NULL;
	scene_end();
}

/* A store without a byte left. */
static int promise_none(void *ctx, int parent, uint64_t bytes, struct fm_err *why)
{
	(void)ctx;
	(void)parent;
	return fm_err_set(why, -ENOSPC, "no space for %llu bytes", (unsigned long long)bytes);
}

static uint64_t no_room(void *ctx, int parent)
{
	(void)ctx;
	(void)parent;
	return 0;
}

/* Goal: an update of which a dry run said that it brings nothing is not refused for want of
 * room. */
static void test_nothing_needs_no_room(void)
{
	struct fm_tree_begin how = a_source_of(TOO_MUCH);
	struct fm_tree_sink_opts o;

	scene_begin(IN_MEMORY);
	for (unsigned is_measured = 0; is_measured < 2; is_measured++) {
		o = options();
		o.source = (struct fm_identity){ .dev = 0 };
		o.is_update = true;
		o.is_measured = is_measured;
		o.promise = promise_none;
		o.room = no_room;
		MUST(sink_new(o));
		CU_ASSERT_EQUAL(t->ops->begin(t, &how, &err), is_measured ? 0 : -ENOSPC);
		CU_ASSERT_EQUAL(t->is_unmeasured, !is_measured);
		t->ops->close(t);
	}
	t = NULL;
	scene_end();
}

static const struct fm_test tests[] = {
	{"everything is made as it was sent, and shown at once", test_everything},
	{"digests are kept with files", test_digests},
	{"pieces may come in any order, and twice", test_pieces},
	{"a file in too many pieces is the peer's fault", test_many_pieces},
	{"what came in part only is not published", test_missing},
	{"packs that come three times at once make each file once", test_twice_at_once},
	{"hostile entries are refused and touch nothing", test_hostile},
	{"damaged packs are refused", test_damaged},
	{"a reused file is not written to", test_reused_is_not_written},
	{"what a tree may not replace", test_names},
	{"a version is replaced at once, and stays for who has it open", test_replacing},
	{"a replaced version of which something is nowhere else stays", test_replacing_wanted},
#ifdef FM_FAULTS
	{"nor does it go under another one's name", test_replacing_exchanged},
#endif
	{"a name that somebody else takes meanwhile", test_meanwhile},
	{"a directory that appears in the place of a file is kept aside", test_kind_meanwhile},
	{"what appears in the version that was replaced comes along", test_late},
	{"directories that are moved in the new version stay whose they are", test_swap},
	{"one transfer to a name at a time", test_busy},
	{"a name that is in use is waited for", test_patience},
	{"one that is just ending is waited for", test_just_ending},
	{"stop ends it", test_stopped},
	{"what a tree remembers is in the budget of memory", test_memory},
	{"what has no room is refused before anything is made", test_room},
	{"an update that brings nothing needs no room", test_nothing_needs_no_room},
	{"a dry run counts what the update does", test_dry_counts_as_update},
	{"names that differ have an end", test_too_many_names},
	{"more files than a manifest may have need none", test_too_many_for_a_manifest},
	{"a quota is asked, and told", test_quota},
	{"a quota counts both versions of a tree that is brought up to date",
	 test_quota_of_an_update},
#ifdef FM_FAULTS
	{"an update looks once at a file that did not change", test_looks_of_an_update},
#endif
	{"owners and extended attributes", test_owners},
	{"all of a tree belongs to who sent it", test_one_owner},
	{"directories that forbid themselves to their owner", test_closed_dirs},
	{"another user's staging directory is not used", test_foreign_staging},
	{"deep and wide trees, long paths", test_deep},
	{"what is done at the end is done to all, however much it is", test_much_at_the_end},
	{"names that are one for the file system are told", test_folding},
};

FM_TEST_MAIN("tree sink", tests)
