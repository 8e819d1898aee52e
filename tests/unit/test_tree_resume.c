/* SPDX-License-Identifier: MIT */
/*
 * The sink of a tree, when something is there already: an earlier try of it, the version that it
 * replaces. links: fm_tree
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "mover/base/fault.h"
#include "tests/unit/sink_scene.h"

/* --------------------------------------------------------------------------------------- resume */

/* Whether the manifest of the tree that is there has so many entries. Where the file system has no
 * times of birth there is none. */
static bool are_listed(uint64_t count)
{
	int parent = open(dir, O_RDONLY | O_DIRECTORY);
	struct fm_manifest_reader m;
	struct fm_manifest_key key;
	bool are = true;

	if (fm_manifest_key_at(parent, "tree", &key) == 0 &&
	    fm_manifest_open(&m, parent, &key) == 0) {
		are = m.entries == count;
		fm_manifest_free(&m);
	}
	close(parent);
	return are;
}

/* One try: two files in the journal, two not (they are made after the last log), and it dies. */
static void die_half_way(struct fm_tree_sink_opts opts, bool is_prepared)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		int ret = sink_new(opts);

		pack_begin(0);
		add_dir("", 0500);
		add_dir("d", 0500);
		add_file("logged", 1, 5000);
		add_file("d/logged", 2, 600);
		ret = ret < 0 ? ret : apply();
		ret = ret < 0 ? ret : t->ops->log(t, &err);
		pack_begin(0);
		add_file("late", 3, 700);
		add_file("d/gone at the source", 4, 800);
		add_hard("d/hard", "logged");
		ret = ret < 0 ? ret : apply();
		if (ret == 0 && is_prepared)
			ret = t->ops->prepare(t, true, &err);
		_exit(ret < 0 ? 1 : 0);
	}
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
}

static void offer_all(bool is_late_known)
{
	pack_begin(FM_PACK_OFFER);
	add_offer("logged", 1, 5000);
	add_dir("d", 0750);
	add_offer("d/logged", 2, 600);
	add_offer("late", 3, 700);
	add_offer("new", 5, 900);
	OK(apply());
	CU_ASSERT_EQUAL(bit_count, 5);
	CU_ASSERT_FALSE(is_needed(0) || is_needed(1) || is_needed(2));
	CU_ASSERT_EQUAL(is_needed(3), !is_late_known);
	CU_ASSERT_TRUE(is_needed(4));
}

/* One bit, and nothing tells but the content. */
static void rot(const char *path)
{
	int fd = open(at(path), O_RDWR);
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };
	struct stat st;
	char byte;

	CU_ASSERT_EQUAL_FATAL(fstat(fd, &st), 0);
	CU_ASSERT_EQUAL_FATAL(pread(fd, &byte, 1, 77), 1);
	byte ^= 1;
	times[1] = st.st_mtim;
	CU_ASSERT_TRUE(pwrite(fd, &byte, 1, 77) == 1 && futimens(fd, times) == 0);
	close(fd);
}

static void send_rest(void)
{
	pack_begin(0);
	add_dir("", 0755);
	add_file("late", 3, 700);
	add_file("new", 5, 900);
	OK(apply());
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/logged", 1, 5000) &&
		       has_stat("tree/logged", 0644, A_TIME + 1));
	CU_ASSERT_TRUE(has_content("tree/d/logged", 2, 600) && has_content("tree/late", 3, 700));
	CU_ASSERT_TRUE(has_content("tree/new", 5, 900) && has_stat("tree/d", 0750, A_TIME + 50));
	/* What the source has no more did not come along. */
	CU_ASSERT_TRUE(names_in(at("tree"), "") == 4 && names_in(at("tree/d"), "") == 1);
	CU_ASSERT_TRUE(are_listed(4));
	CU_ASSERT_EQUAL(names_in(dir, OURS), 0);
}

static void check_peek(void)
{
	struct fm_staging_info info;
	int fd = open(dir, O_RDONLY);

	OK(fm_staging_peek(fd, ours(FM_STAGING_TREE), &info));
	CU_ASSERT_TRUE(!info.is_busy && info.has_journal && info.bytes_there == 5600);
	CU_ASSERT_STRING_EQUAL(info.journal.name, "tree");
	close(fd);
}

static void run_resume_after(bool is_prepared)
{
	struct fm_tree_count n;

	die_half_way(options(), is_prepared);
	CU_ASSERT_FALSE(is_there("tree"));
	check_peek();
	MUST(sink_new(options()));
	CU_ASSERT_TRUE(t->is_partial);
	CU_ASSERT_PTR_NULL(t->note);
	offer_all(false);
	offer_all(false);	/* the same pack twice: the same answer */
	n = counts();
	CU_ASSERT_TRUE(n.resumed_files == 2 && n.resumed_bytes == 5600 && n.files == 2 &&
		       n.reused_files == 0);
	send_rest();
}

static void run_resume(void)
{
	run_resume_after(false);
}

static void run_resume_prepared(void)
{
	run_resume_after(true);
}

static void empty(const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", ours(FM_STAGING_TREE), name);
	CU_ASSERT_EQUAL(truncate(at(path), 0), 0);
}

/* The power was cut: the disk has the names and what was synced, and not what the lock said. */
static void run_resume_cut(void)
{
	die_half_way(options(), false);
	empty("lock");
	check_peek();
	MUST(sink_new(options()));
	CU_ASSERT_TRUE(t->is_partial);
	offer_all(false);
	send_rest();
}

/* Nothing had been synced: there is nothing to go on with, and that is no reason to refuse. */
static void run_cut_early(void)
{
	die_half_way(options(), false);
	empty("lock");
	empty("journal");
	MUST(sink_new(options()));
	CU_ASSERT_FALSE(t->is_partial);
	t->ops->close(t);	/* discards */
	CU_ASSERT_EQUAL(names_in(dir, ""), 0);
}

/* Three tries; and a try without offers, where what is there is not written again. */
static void run_resume_again(void)
{
	die_half_way(options(), false);
	MUST(sink_new(options()));
	offer_all(false);
	t->ops->keep(t);
	t->ops->close(t);
	die_half_way(options(), true);
	CU_ASSERT_TRUE(is_there(ours(FM_STAGING_NEW)));
	MUST(sink_new(options()));
	offer_all(false);
	pack_begin(0);
	add_file("late", 3, 700);
	OK(apply());
	t->ops->keep(t);	/* logs what is made */
	t->ops->close(t);
	MUST(sink_new(options()));
	offer_all(true);
	pack_begin(0);
	add_piece("logged", 1, 5000, 1000, 500);
	add_file("d/logged", 2, 600);
	OK(apply());
	CU_ASSERT_EQUAL(counts().resumed_files, 3);
	send_rest();
}

static void test_resume(void)
{
	each_base(run_resume);
	each_base(run_resume_prepared);
	each_base(run_resume_cut);
	each_base(run_cut_early);
	each_base(run_resume_again);
}

/* The journal says that a file is there, and it is not, or not so. */
static void run_lying_journal(void)
{
	char path[512];

	die_half_way(options(), false);
	snprintf(path, sizeof(path), "%s/data/logged", ours(FM_STAGING_TREE));
	CU_ASSERT_EQUAL(truncate(at(path), 4999), 0);
	snprintf(path, sizeof(path), "%s/data/d/logged", ours(FM_STAGING_TREE));
	CU_ASSERT_EQUAL(unlink(at(path)), 0);
	CU_ASSERT_EQUAL(symlink("/etc/passwd", at(path)), 0);
	MUST(sink_new(options()));
	CU_ASSERT_TRUE(t->is_partial);
	pack_begin(FM_PACK_OFFER);
	add_offer("logged", 1, 5000);
	add_offer("d/logged", 2, 600);
	OK(apply());
	CU_ASSERT_TRUE(is_needed(0) && is_needed(1));
	/* Begun again, not synced, and interrupted: the journal must not vouch for it. */
	pack_begin(0);
	add_file("logged", 1, 5000);
	OK(apply());
	t->ops->stop(t);
	pack_begin(0);
	t->ops->close(t);	/* discards */
	CU_ASSERT_EQUAL(names_in(dir, ""), 0);
}

/* One that has its size, but was touched; and a part of a large one that has got another name. */
static void run_touched(void)
{
	const struct fm_tree_large how = large_of("large", 1, 10000);
	struct fm_have have;
	char path[512];
	int fd;

	MUST(sink_new(options()));
	pack_begin(0);
	add_file("f", 1, 5000);
	OK(apply());
	MUST(t->ops->create_large(t, &how, &fd, &have, &err));
	write_large(&how, fd, 1, 0, 4096);
	close(fd);
	t->ops->keep(t);
	t->ops->close(t);
	snprintf(path, sizeof(path), "%s/data/f", ours(FM_STAGING_TREE));
	CU_ASSERT_EQUAL(utimensat(AT_FDCWD, at(path), NULL, 0), 0);
	snprintf(path, sizeof(path), "%s/data/large", ours(FM_STAGING_TREE));
	CU_ASSERT_EQUAL(link(at(path), at("other")), 0);
	MUST(sink_new(options()));
	pack_begin(FM_PACK_OFFER);
	add_offer("f", 1, 5000);
	OK(apply());
	CU_ASSERT_TRUE(is_needed(0));
	MUST(t->ops->create_large(t, &how, &fd, &have, &err));
	CU_ASSERT_TRUE(have.count == 0 && have.crc == 0);
	CU_ASSERT_EQUAL(pwrite(fd, "x", 1, 0), 1);
	close(fd);
	fd = open(at("other"), O_RDONLY);
	CU_ASSERT_TRUE(pread(fd, path, 1, 0) == 1 && path[0] != 'x');
	close(fd);
	t->ops->close(t);
}

static void test_lying_journal(void)
{
	each_base(run_lying_journal);
	each_base(run_touched);
}

/* A file that the journal knew and that is made again is forgotten before that, not afterwards. */
static void run_forgotten(void)
{
	char path[512];
	pid_t child;
	int status;

	die_half_way(options(), false);
	snprintf(path, sizeof(path), "%s/data/logged", ours(FM_STAGING_TREE));
	CU_ASSERT_EQUAL(unlink(at(path)), 0);
	child = fork();
	if (child == 0) {
		int ret = sink_new(options());

		pack_begin(0);
		add_file("logged", 1, 5000);
		ret = ret < 0 ? ret : apply();
		_exit(ret < 0 ? 1 : 0);
	}
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
	MUST(sink_new(options()));
	pack_begin(FM_PACK_OFFER);
	add_offer("logged", 1, 5000);
	add_offer("d/logged", 2, 600);
	OK(apply());
	CU_ASSERT_TRUE(is_needed(0));
	CU_ASSERT_FALSE(is_needed(1));
	t->ops->close(t);
}

static void test_forgotten(void)
{
	each_base(run_forgotten);
}

static void run_other_source(void)
{
	struct fm_tree_sink_opts opts = options();

	die_half_way(options(), false);
	opts.source.ino = 9;
	MUST(sink_new(opts));
	CU_ASSERT_FALSE(t->is_partial);
	CU_ASSERT_PTR_NOT_NULL_FATAL(t->note);
	CU_ASSERT_PTR_NOT_NULL(strstr(t->note, "removed"));
	pack_begin(FM_PACK_OFFER);
	add_offer("logged", 1, 5000);
	OK(apply());
	CU_ASSERT_TRUE(is_needed(0));
	t->ops->keep(t);	/* nothing was journaled: nothing is kept */
	t->ops->close(t);
	CU_ASSERT_EQUAL(names_in(dir, ""), 0);
}

/* A file of the source changed between the tries. */
static void run_changed_source(void)
{
	die_half_way(options(), false);
	MUST(sink_new(options()));
	pack_begin(FM_PACK_OFFER);
	add_offer("logged", 6, 5000);
	add_offer("d/logged", 2, 601);
	OK(apply());
	CU_ASSERT_TRUE(is_needed(0) && is_needed(1));
	pack_begin(0);
	add_file("logged", 6, 5000);
	add_file("d/logged", 2, 601);
	OK(apply());
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/logged", 6, 5000) && has_content("tree/d/logged", 2, 601));
}

static void test_other_source(void)
{
	each_base(run_other_source);
	each_base(run_changed_source);
}

/* An end that was made before the source was known: nothing is made before begin(). */
static void run_late(void)
{
	struct fm_tree_begin how = { .source = options().source };
	struct fm_tree_sink_opts opts = options();

	die_half_way(options(), false);
	opts.source = (struct fm_identity){ .node = "n1" };
	MUST(sink_new(opts));
	CU_ASSERT_FALSE(t->is_partial);
	t->ops->close(t);
	CU_ASSERT_EQUAL(names_in(dir, OURS), 1);	/* the partial tree is untouched */
	MUST(sink_new(opts));
	how.source.size = 77;	/* of a root these mean nothing */
	how.source.mtime_ns = how.source.ctime_ns = 77;
	OK(t->ops->begin(t, &how, &err));
	CU_ASSERT_TRUE(t->is_partial);
	OK(t->ops->begin(t, &how, &err));
	offer_all(false);
	send_rest();
	MUST(sink_new(replacing()));
	opts.may_replace = true;
	opts.name = "tree";
	opts.lock_wait_ms = 1;
	{
		struct fm_tree *first = t;

		MUST(sink_new(opts));
		CU_ASSERT_EQUAL(t->ops->begin(t, &how, &err), -EBUSY);
		pack_begin(0);
		add_file("f", 1, 1);
		CU_ASSERT_EQUAL(apply(), -EBUSY);	/* and stays so */
		t->ops->keep(t);
		t->ops->close(t);
		first->ops->close(first);
	}
	CU_ASSERT_EQUAL(names_in(dir, OURS), 0);
}

static void test_late(void)
{
	each_base(run_late);
}

/* Whether a fault happened. */
static bool begin_with_fault(unsigned n)
{
	struct fm_tree_begin how = { .source = options().source };
	struct fm_tree_sink_opts opts = options();
	bool has_fired;
	int ret;

	opts.source = (struct fm_identity){ .node = "n1" };
	MUST(sink_new(opts));
	fm_fault_arm(NULL, n);
	ret = t->ops->begin(t, &how, &err);
	has_fired = fm_fault_fired();
	fm_fault_arm(NULL, 0);
	CU_ASSERT_TRUE(ret == 0 || has_fired);
	if (ret == 0 || n % 2)
		t->ops->keep(t);
	t->ops->close(t);
	return has_fired;
}

/* Whatever fails while it is begun: what earlier tries made is there for the next one, whether it
 * is kept or only closed. */
static void run_begin_fails(void)
{
	bool has_fired = true;

	for (unsigned n = 1; has_fired && n < 100; n++) {
		if (n > 1)
			scene_end();
		if (n > 1)
			scene_begin(IN_MEMORY);
		die_half_way(options(), n % 3 == 0);
		has_fired = begin_with_fault(n);
		check_peek();
		MUST(sink_new(options()));
		offer_all(false);
		send_rest();
	}
	CU_ASSERT_FALSE(has_fired);
}

/* The same of what is looked at before: who cannot look says so, and removes nothing. */
static void run_new_fails(void)
{
	bool has_fired = true;

	for (unsigned n = 1; has_fired && n < 100; n++) {
		if (n > 1)
			scene_end();
		if (n > 1)
			scene_begin(IN_MEMORY);
		die_half_way(options(), n % 3 == 0);
		fm_fault_arm(NULL, n);
		if (sink_new(options()) == 0) {
			t->ops->keep(t);
			t->ops->close(t);
		}
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		MUST(sink_new(options()));
		CU_ASSERT_TRUE(t->is_partial);
		offer_all(false);
		send_rest();
	}
	CU_ASSERT_FALSE(has_fired);
}

static void test_begin_fails(void)
{
	if (fm_test_lacks_faults())
		return;
	each_base(run_begin_fails);
	each_base(run_new_fails);
}

/* Published, and then it died before it removed the rest: the journal vouches for nothing any
 * more. */
static void run_published_and_died(void)
{
	char path[512];

	MUST(sink_new(options()));
	pack_begin(0);
	add_file("logged", 1, 5000);
	OK(apply());
	OK(t->ops->log(t, &err));
	OK(t->ops->prepare(t, true, &err));
	snprintf(path, sizeof(path), "cp -r '%s' '%s'", at(ours(FM_STAGING_TREE)), at("copy"));
	CU_ASSERT_EQUAL(system(path), 0);
	snprintf(path, sizeof(path), "%s", at(ours(FM_STAGING_TREE)));
	OK(t->ops->publish(t, true, &err));
	t->ops->close(t);
	CU_ASSERT_EQUAL(rename(at("copy"), path), 0);
	CU_ASSERT_EQUAL(chmod(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/was.0", ours(FM_STAGING_TREE));
	CU_ASSERT_EQUAL(mkdir(at(path), 0700), 0);
	MUST(sink_new(replacing()));
	CU_ASSERT_FALSE(t->is_partial);
	pack_begin(FM_PACK_OFFER);
	add_offer("logged", 1, 5000);
	OK(apply());
	CU_ASSERT_TRUE(is_needed(0));
	t->ops->keep(t);
	t->ops->close(t);
	CU_ASSERT_EQUAL(names_in(dir, ""), 1);
}

static void test_published_and_died(void)
{
	each_base(run_published_and_died);
}

/* ---------------------------------------------------------------------------------------- large */

static uint32_t part_crc(unsigned salt, uint64_t offset, size_t len)
{
	uint8_t *buf = malloc(len);
	uint32_t crc;

	fill(buf, salt, offset, len);
	crc = fm_crc32c_part(fm_crc32c(0, buf, len), offset, len);
	free(buf);
	return crc;
}

#define LARGE_SIZE (6u << 20)
#define MIB (1u << 20)

static void begin_large(const struct fm_tree_large *how)
{
	struct fm_have have;
	int fd;

	MUST(t->ops->create_large(t, how, &fd, &have, &err));
	CU_ASSERT_TRUE(have.count == 0 && have.crc == 0);
	write_large(how, fd, 1, 0, MIB);
	write_large(how, fd, 1, MIB, MIB);
	OK(t->ops->log(t, &err));
	write_large(how, fd, 1, 3 * MIB, MIB);	/* not logged before it is begun again */
	close(fd);
}

static void end_large(const struct fm_tree_large *how, uint64_t there)
{
	struct fm_digest digest = {
		.crc = crc_of(1, LARGE_SIZE), .size = LARGE_SIZE, .mtime_ns = how->mtime_ns};
	struct fm_have have;
	int fd;

	MUST(t->ops->create_large(t, how, &fd, &have, &err));
	CU_ASSERT_EQUAL(fm_ranges_bytes(&have.ranges), there);
	CU_ASSERT_TRUE(fm_ranges_cover(&have.ranges, 0, 2 * MIB));
	CU_ASSERT_EQUAL(have.crc, part_crc(1, 0, 2 * MIB) ^
					  (there > 2 * MIB ? part_crc(1, 3 * MIB, MIB) : 0));
	write_large(how, fd, 1, 2 * MIB, LARGE_SIZE - 2 * MIB);
	OK(t->ops->seal_large(t, how, fd, &digest, &err));
	close(fd);
	fm_have_free(&have);
}

static void run_large(void)
{
	const struct fm_tree_large how = large_of("d/large", 1, LARGE_SIZE);

	MUST(sink_new(options()));
	begin_large(&how);
	end_large(&how, 3 * MIB);
	pack_begin(0);
	add_attr("d/large", 0440, A_TIME + 1);
	add_hard("d/again", "d/large");
	OK(apply());
	CU_ASSERT_EQUAL(used_bytes, LARGE_SIZE);
	OK(finish());
	CU_ASSERT_TRUE(counts().files == 1 && counts().bytes == LARGE_SIZE);
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/d/large", 1, LARGE_SIZE) &&
		       has_stat("tree/d/large", 0440, A_TIME + 1));
	CU_ASSERT_TRUE(has_digest("tree/d/large", 1, LARGE_SIZE));
	CU_ASSERT_EQUAL(ino_of("tree/d/large"), ino_of("tree/d/again"));
	CU_ASSERT_EQUAL(used_bytes, 2 * LARGE_SIZE);
}

/* Begun twice before anything of it was logged: it counts once against a quota. */
static void run_large_twice(void)
{
	const struct fm_tree_large how = large_of("large", 1, LARGE_SIZE);
	struct fm_have have;
	int fd;

	MUST(sink_new(options()));
	for (int i = 0; i < 2; i++) {
		MUST(t->ops->create_large(t, &how, &fd, &have, &err));
		CU_ASSERT_EQUAL(have.count, 0);
		close(fd);
	}
	t->ops->discard(t);
	t->ops->close(t);
	CU_ASSERT_EQUAL(used_bytes, 0);
}

/* All of it is there: nobody writes to it, and it is sealed once more. */
static void whole_large(const struct fm_tree_large *how)
{
	struct fm_digest digest = {
		.crc = crc_of(1, LARGE_SIZE), .size = LARGE_SIZE, .mtime_ns = how->mtime_ns};
	struct fm_have have;
	int fd;

	MUST(t->ops->create_large(t, how, &fd, &have, &err));
	CU_ASSERT_TRUE(fm_ranges_bytes(&have.ranges) == LARGE_SIZE && have.count == 1 &&
		       have.pieces[0].crc == have.crc);
	OK(t->ops->seal_large(t, how, fd, &digest, &err));
	close(fd);
	fm_have_free(&have);
}

/* One that is begun in one try and ended in the next. It is never said to be there, since somebody
 * has to read it again. */
static void run_large_resume(void)
{
	const struct fm_tree_large how = large_of("d/large", 1, LARGE_SIZE);
	struct fm_pack_entry offer = {.type = FM_PACK_FILE,
				      .flags = FM_PACK_IS_LARGE,
				      .mode = 0440,
				      .size = LARGE_SIZE,
				      .mtime_ns = A_TIME + 1,
				      .identity = fm_identity_hash(&how.id)};

	MUST(sink_new(options()));
	begin_large(&how);
	t->ops->keep(t);
	t->ops->close(t);
	for (unsigned i = 0; i < 2; i++) {
		MUST(sink_new(options()));
		CU_ASSERT_TRUE(t->is_partial);
		pack_begin(FM_PACK_OFFER);
		pack_add(offer, "d/large", 1);
		OK(apply());
		CU_ASSERT_TRUE(is_needed(0));
		if (i == 0) {
			end_large(&how, 3 * MIB);
			CU_ASSERT_EQUAL(counts().resumed_bytes, 3 * MIB);
			t->ops->keep(t);
			t->ops->close(t);
		} else {
			whole_large(&how);
		}
	}
	CU_ASSERT_TRUE(counts().resumed_files == 1 && counts().resumed_bytes == LARGE_SIZE);
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/d/large", 1, LARGE_SIZE) &&
		       has_stat("tree/d/large", 0440, A_TIME + 1));
	CU_ASSERT_EQUAL(used_bytes, LARGE_SIZE);
}

static void run_large_hostile(void)
{
	static const char *const paths[] = {"../x", "/x", "l/x", ".fmove.x", "f/x",
					    "f",    "l",  "d",	 "",	     NULL};
	struct fm_have have;
	int fd;

	MUST(sink_new(options()));
	pack_begin(0);
	add_link("l", "/tmp");
	add_link("f", "/etc/passwd");
	add_dir("d", 0755);
	OK(apply());
	for (const char *const *path = paths; *path; path++) {
		struct fm_tree_large how = large_of(*path, 1, LARGE_SIZE);

		CU_ASSERT_EQUAL(t->ops->create_large(t, &how, &fd, &have, &err), -EPROTO);
		CU_ASSERT_EQUAL(err.code, -EPROTO);
	}
	t->ops->close(t);
}

static void test_large(void)
{
	each_base(run_large);
	each_base(run_large_twice);
	each_base(run_large_resume);
	each_base(run_large_hostile);
}

/* -------------------------------------------- a file system that keeps times of whole seconds */

static bool rounds_times;

int futimens(int fd, const struct timespec times[2])
{
	struct timespec kept[2] = { times[0], times[1] };

	for (int i = 0; rounds_times && i < 2; i++)
		if (kept[i].tv_nsec < 1000000000)	/* no UTIME_NOW */
			kept[i].tv_nsec = 0;
	return (int)syscall(SYS_utimensat, fd, NULL, kept, 0);
}

/* A file in two pieces and a whole one, each once more: it is there, and stays as it is. */
static void run_rounded_twice(void)
{
	MUST(sink_new(options()));
	for (int i = 0; i < 2; i++) {
		pack_begin(0);
		add_piece("pieces", 1, 5000, 4096, 904);
		add_file("whole", 2, 600);
		OK(apply());
		pack_begin(0);
		add_piece("pieces", 1, 5000, 0, 4096);
		OK(apply());
	}
	CU_ASSERT_EQUAL(counts().files, 2);
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/pieces", 1, 5000) && has_content("tree/whole", 2, 600));
	CU_ASSERT_TRUE(has_stat("tree/whole", 0644, A_TIME / 1000000000 * 1000000000));
}

static void run_rounded_resume(void)
{
	die_half_way(options(), false);
	MUST(sink_new(options()));
	offer_all(false);
	CU_ASSERT_EQUAL(counts().resumed_files, 2);
	t->ops->discard(t);
	t->ops->close(t);
}

/* Goal: what came twice, and what an earlier try made, is known there as well. */
static void test_rounded(void)
{
	rounds_times = true;
	each_base(run_rounded_twice);
	each_base(run_rounded_resume);
	rounds_times = false;
}

/* --------------------------------------------------------------------------------------- update */

static bool can_reflink(void)
{
	int a = open(at("a"), O_RDWR | O_CREAT, 0600), b = open(at("b"), O_RDWR | O_CREAT, 0600);
	bool can = write(a, "x", 1) == 1 && ioctl(b, FICLONE, a) == 0;

	close(a);
	close(b);
	unlink(at("a"));
	unlink(at("b"));
	return can;
}

static void make_old(void)
{
	CU_ASSERT_EQUAL(mkdir(at("tree"), 0755), 0);
	CU_ASSERT_EQUAL(mkdir(at("tree/d"), 0755), 0);
	write_file("tree/same", 1, 5000, 0644, A_TIME + 1);
	write_file("tree/d/same", 2, 600, 0644, A_TIME + 2);
	write_file("tree/d/empty", 3, 0, 0644, A_TIME + 3);
	write_file("tree/other time", 4, 100, 0644, A_TIME + 5);
	write_file("tree/other size", 5, 100, 0644, A_TIME + 5);
	write_file("tree/other mode", 6, 100, 0600, A_TIME + 6);
	write_file("tree/gone", 7, 100, 0644, A_TIME + 7);
	CU_ASSERT_EQUAL(symlink("same", at("tree/link now")), 0);
}

static void offer_update(bool has_crc)
{
	static const struct {
		const char *path;
		unsigned salt;
		size_t size;
	} files[] = {{"same", 1, 5000},	     {"d/same", 2, 600},     {"d/empty", 3, 0},
		     {"other time", 4, 100}, {"other size", 5, 101}, {"other mode", 6, 100},
		     {"new", 8, 100},	     {"link now", 9, 5},     {"nowhere/new", 10, 100}};

	pack_begin(FM_PACK_OFFER);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct fm_pack_entry e = a_file(files[i].salt, files[i].size);

		e.data_len = 0;
		if (has_crc) {
			e.flags = FM_PACK_HAS_CRC;
			e.crc = crc_of(files[i].salt, files[i].size);
		}
		pack_add(e, files[i].path, files[i].salt);
	}
	OK(apply());
	CU_ASSERT_EQUAL(bit_count, 9);
	CU_ASSERT_FALSE(is_needed(0) || is_needed(1) || is_needed(2));
	CU_ASSERT_TRUE(is_needed(4) && is_needed(6) && is_needed(7) && is_needed(8));
}

static void offer_same(bool has_crc)
{
	struct fm_pack_entry e = a_file(1, 5000);

	e.data_len = 0;
	if (has_crc) {
		e.flags = FM_PACK_HAS_CRC;
		e.crc = crc_of(1, 5000);
	}
	pack_begin(FM_PACK_OFFER);
	pack_add(e, "same", 1);
}

static void run_update(void)
{
	struct fm_tree_sink_opts opts = replacing();
	bool is_cloned = can_reflink();
	ino_t old_ino;
	int held;

	make_old();
	old_ino = ino_of("tree/same");
	held = open(at("tree"), O_RDONLY | O_DIRECTORY);
	opts.is_update = opts.is_delete = true;
	MUST(sink_new(opts));
	offer_update(false);
	CU_ASSERT_TRUE(is_needed(3));
	/* a link would change the old version's mode */
	CU_ASSERT_EQUAL(is_needed(5), !is_cloned);
	CU_ASSERT_EQUAL(counts().reused_files, is_cloned ? 4 : 3);
	CU_ASSERT_EQUAL(counts().is_reflinked, is_cloned);
	offer_update(false);	/* twice */
	CU_ASSERT_EQUAL(counts().reused_files, is_cloned ? 4 : 3);
	pack_begin(0);
	add_file("other time", 4, 100);
	OK(apply());
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/same", 1, 5000) &&
		       has_stat("tree/same", 0644, A_TIME + 1));
	CU_ASSERT_TRUE(has_content("tree/d/same", 2, 600) &&
		       has_content("tree/other time", 4, 100));
	CU_ASSERT_TRUE(has_stat("tree/other time", 0644, A_TIME + 4));
	CU_ASSERT_EQUAL(ino_of("tree/same") == old_ino, !is_cloned);
	CU_ASSERT_FALSE(is_there("tree/gone"));
	CU_ASSERT_EQUAL(names_in(dir, ""), 1);
	CU_ASSERT_TRUE(are_listed(is_cloned ? 5 : 4));	/* what was offered twice, once */
	close(held);
}

/* A reused file may be one of the old version: attributes that come for it all the same do not
 * change that. */
static void run_update_attr(void)
{
	struct fm_tree_sink_opts opts = replacing();

	make_old();
	opts.is_update = opts.is_delete = true;	/* something goes: it is published */
	opts.grace_ns = 1;
	MUST(sink_new(opts));
	pack_begin(FM_PACK_OFFER);
	add_offer("same", 1, 5000);
	add_attr("same", 0600, A_TIME + 99);
	OK(apply());
	CU_ASSERT_FALSE(is_needed(0));
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_EQUAL(rename(at(version_in(FM_STAGING_OLD)), at("old")), 0);
	CU_ASSERT_TRUE(has_content("old/same", 1, 5000) && has_stat("old/same", 0644, A_TIME + 1));
}

static void run_update_checksum(void)
{
	struct fm_tree_sink_opts opts = replacing();

	make_old();
	CU_ASSERT_EQUAL(unlink(at("tree/d/same")), 0);
	write_file("tree/d/same", 2, 600, 0644, A_TIME + 2);
	CU_ASSERT_EQUAL(unlink(at("tree/other mode")), 0);
	/* other content, same size, time and mode */
	write_file("tree/other mode", 66, 100, 0644, A_TIME + 6);
	opts.is_update = opts.has_checksums = true;
	MUST(sink_new(opts));
	offer_update(true);
	/* the same content with another time: no link may do */
	CU_ASSERT_EQUAL(is_needed(3), !can_reflink());
	CU_ASSERT_TRUE(is_needed(5));
	t->ops->close(t);
	CU_ASSERT_TRUE(has_stat("tree/same", 0644, A_TIME + 1));
}

static void run_dry(void)
{
	struct fm_tree_sink_opts opts = replacing();

	make_old();
	opts.is_update = opts.is_dry = true;
	MUST(sink_new(opts));
	pack_begin(FM_PACK_OFFER);
	add_dir("newdir", 0755);
	add_offer("same", 1, 5000);
	add_offer("newdir/new", 2, 600);
	add_link("l", "x");
	OK(apply());
	CU_ASSERT_TRUE(!is_needed(1) && is_needed(2) && !is_needed(0) && !is_needed(3));
	pack_begin(0);
	add_file("f", 1, 5);
	CU_ASSERT_EQUAL(apply(), -EPROTO);
	t->ops->close(t);
	CU_ASSERT_EQUAL(names_in(dir, ""), 1);
	CU_ASSERT_EQUAL(names_in(at("tree"), ""), 7);
	CU_ASSERT_EQUAL(used_bytes, 0);
}

/* ---- the old version's file is written to while it is cloned ---- */

static bool clones;			/* of each file, as by a copy */

int ioctl(int fd, unsigned long request, ...)
{
	static char buf[8192];
	va_list args;
	long value;
	ssize_t n;

	va_start(args, request);
	value = va_arg(args, long);
	va_end(args);
	if (!clones || request != FICLONE)
		return (int)syscall(SYS_ioctl, fd, request, value);
	n = pread((int)value, buf, sizeof(buf), 0);
	return n < 0 || pwrite(fd, buf, (size_t)n, 0) != n ? -1 : 0;
}

enum writes { WRITES_NOTHING, WRITES, WRITES_AND_PUTS_BACK_TIME, WRITES_KINDS };

static void write_to_old(void *ctx, const char *point)
{
	const enum writes *how = ctx;
	struct timespec times[2];
	struct stat st;
	int fd;

	if (strcmp(point, "tree.clone") != 0 || *how == WRITES_NOTHING)
		return;
	fd = open(at("tree/same"), O_WRONLY);
	CU_ASSERT_EQUAL(fstat(fd, &st), 0);
	CU_ASSERT_EQUAL(pwrite(fd, "written", 7, 100), 7);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	if (*how == WRITES_AND_PUTS_BACK_TIME)
		CU_ASSERT_EQUAL(futimens(fd, times), 0);
	close(fd);
}

/*
 * Goal:   a clone that has what somebody wrote just now does not get the source's time and digest:
 *         the file comes from the source.
 * Method: a file system that clones, pretended; a write just before the clone.
 */
static void run_written_while_cloned(bool has_checksums)
{
	for (enum writes how = WRITES_NOTHING; how < WRITES_KINDS; how++) {
		struct fm_tree_sink_opts opts = replacing();

		scene_begin(IN_MEMORY);
		make_old();
		opts.is_update = true;
		opts.has_checksums = has_checksums;
		MUST(sink_new(opts));
		pack_begin(0);
		add_dir("new", 0755);	/* where nothing differs nothing is made */
		OK(apply());
		offer_same(has_checksums);
		fm_fault_watch(write_to_old, &how);
		OK(apply());
		fm_fault_watch(NULL, NULL);
		CU_ASSERT_EQUAL(is_needed(0), how != WRITES_NOTHING);
		CU_ASSERT_EQUAL(counts().is_reflinked, how == WRITES_NOTHING);
		pack_begin(0);
		if (is_needed(0))
			add_file("same", 1, 5000);
		add_dir("", 0755);
		OK(apply());
		OK(finish());
		t->ops->close(t);
		CU_ASSERT_TRUE(has_content("tree/same", 1, 5000));
		scene_end();
	}
}

static void test_written_while_cloned(void)
{
	clones = true;
	run_written_while_cloned(false);
	run_written_while_cloned(true);
	clones = false;
}

static void test_update(void)
{
	scene_begin(ON_DISK);
	if (!can_reflink())
		printf("SKIP: no reflinks on %s: that part is not tested; ", ON_DISK);
	scene_end();
	each_base(run_update);
	each_base(run_update_attr);
	each_base(run_update_checksum);
	each_base(run_dry);
}

/* What rotted since it was logged is not taken for what the journal says: it is needed, and comes
 * again. */
static void run_rotten(void)
{
	char path[512];

	die_half_way(options(), false);
	snprintf(path, sizeof(path), "%s/data/logged", ours(FM_STAGING_TREE));
	rot(path);
	MUST(sink_new(options()));
	pack_begin(FM_PACK_OFFER);
	add_offer("logged", 1, 5000);
	add_offer("d/logged", 2, 600);
	OK(apply());
	CU_ASSERT_TRUE(is_needed(0) && !is_needed(1));
	CU_ASSERT_TRUE(counts().damaged_files == 1 && counts().damaged_bytes == 5000 &&
		       counts().resumed_bytes == 600);
	OK(apply());	/* the same pack again */
	CU_ASSERT_TRUE(is_needed(0) && !is_needed(1));
	pack_begin(0);
	add_dir("d", 0750);
	add_file("logged", 1, 5000);
	OK(apply());
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/logged", 1, 5000) && has_content("tree/d/logged", 2, 600));
}

static void test_rotten(void)
{
	each_base(run_rotten);
}

/* --------------------------------------------------------------------------------------- owners */

static struct fm_tree_sink_opts for_user(void)
{
	struct fm_tree_sink_opts opts = replacing();

	opts.has_owners = opts.has_one_owner = true;
	opts.uid = 1234;
	opts.gid = 2345;
	return opts;
}

static bool is_root(void)
{
	if (geteuid() != 0)
		printf("SKIP: not root; ");
	return geteuid() == 0;
}

/* Once a tree is where its owner can enter it, no try goes on with it: kept, or left by one that
 * died. Nothing of it stays. */
static void run_given_away(void)
{
	for (int is_killed = 0; is_killed <= 1; is_killed++) {
		if (is_killed) {
			die_half_way(for_user(), true);
		} else {
			MUST(sink_new(for_user()));
			pack_begin(0);
			add_dir("", 0755);
			add_file("logged", 1, 5000);
			OK(apply());
			OK(t->ops->log(t, &err));
			OK(t->ops->prepare(t, true, &err));
			t->ops->keep(t);
			t->ops->close(t);
			CU_ASSERT_EQUAL(names_in(dir, OURS), 0);
		}
		MUST(sink_new(for_user()));
		CU_ASSERT_FALSE(t->is_partial);
		CU_ASSERT_STRING_EQUAL(ours(FM_STAGING_NEW), "");
		CU_ASSERT_EQUAL(t->note && strstr(t->note, "all is sent again"), is_killed);
		t->ops->discard(t);
		t->ops->close(t);
		CU_ASSERT_EQUAL(names_in(dir, ""), 0);
	}
}

static bool belongs_to(const char *path, uid_t uid, gid_t gid)
{
	struct stat st;

	return lstat(at(path), &st) == 0 && st.st_uid == uid && st.st_gid == gid;
}

/* Goal: what an earlier try of somebody else made is his who goes on with it, as all else is. */
static void run_other_owner(void)
{
	struct fm_tree_sink_opts opts = for_user();

	die_half_way(opts, false);
	opts.uid = 3456;
	opts.gid = 4567;
	MUST(sink_new(opts));
	CU_ASSERT_TRUE(t->is_partial);
	offer_all(false);
	CU_ASSERT_EQUAL(counts().resumed_files, 2);
	send_rest();
	CU_ASSERT_TRUE(belongs_to("tree/logged", 3456, 4567) &&
		       belongs_to("tree/d/logged", 3456, 4567) &&
		       belongs_to("tree/new", 3456, 4567));
}

/* What a service may that is not root: give files away, but neither read nor write what is not its
 * own. */
static void set_may_read_all(bool may)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];
	const uint32_t of_files = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;

	CU_ASSERT_EQUAL_FATAL(syscall(SYS_capget, &head, caps), 0);
	if (may)
		caps[0].effective |= caps[0].permitted & of_files;
	else
		caps[0].effective &= ~of_files;
	CU_ASSERT_EQUAL_FATAL(syscall(SYS_capset, &head, caps), 0);
}

#define HIS_COUNT 4

static struct fm_pack_entry his(unsigned i, const char **path)
{
	static const char *const paths[HIS_COUNT] = { "empty", "with", "without", "two" };
	static const uint64_t sizes[HIS_COUNT] = { 0, 100, 200, 300 };
	const struct fm_pack_xattr x = {
		.name = "user.a", .name_len = 6, .value = (const uint8_t *)"1", .value_len = 1};
	static uint8_t buf[64];
	struct fm_pack_entry e = a_file(i, sizes[i]);

	*path = paths[i];
	e.mode = i == 0 ? 0200 : 0644;
	if (i == 1 || i == 2) {
		e.xattrs = buf;
		e.xattr_len = fm_pack_put_xattr(buf, sizeof(buf), &x);
	}
	return e;
}

/* One try of the first user's, which dies. Then "without" has lost its attribute, and "two" is a
 * file of a version that is there, too. Whether files have attributes. */
static bool leave_his(void)
{
	pid_t child = fork();
	char path[512];
	const char *name;
	bool has;
	int status;

	if (child == 0) {
		int ret = sink_new(for_user());

		pack_begin(0);
		for (unsigned i = 0; i < HIS_COUNT; i++) {
			struct fm_pack_entry e = his(i, &name);

			pack_add(e, name, i);
		}
		ret = ret < 0 ? ret : apply();
		ret = ret < 0 ? ret : t->ops->log(t, &err);
		_exit(ret < 0 ? 1 : 0);
	}
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
	snprintf(path, sizeof(path), "%s/data/without", ours(FM_STAGING_TREE));
	has = removexattr(at(path), "user.a") == 0;
	snprintf(path, sizeof(path), "%s/data/two", ours(FM_STAGING_TREE));
	CU_ASSERT_EQUAL(link(at(path), at("published")), 0);
	return has;
}

/* Goal: what an earlier try of somebody else made, and cannot become his who goes on with it,
 *       comes anew: a file that may not be read, attributes that may not be set, a file that the
 *       other has elsewhere. */
static void run_other_owner_without_rights(void)
{
	struct fm_tree_sink_opts opts = for_user();
	bool has_attributes = leave_his();
	const char *name;

	opts.uid = 3456;
	opts.gid = 4567;
	set_may_read_all(false);
	MUST(sink_new(opts));
	pack_begin(FM_PACK_OFFER);
	for (unsigned i = 0; i < HIS_COUNT; i++) {
		struct fm_pack_entry e = his(i, &name);

		e.data_len = 0;
		pack_add(e, name, i);
	}
	OK(apply());
	CU_ASSERT_TRUE(is_needed(0) && is_needed(2) && is_needed(3));
	CU_ASSERT_EQUAL(is_needed(1), !has_attributes);
	CU_ASSERT_EQUAL(counts().damaged_files, 0);
	pack_begin(0);
	for (unsigned i = 0; i < HIS_COUNT; i++) {
		struct fm_pack_entry e = his(i, &name);

		if (i != 1 || !has_attributes)
			pack_add(e, name, i);
	}
	OK(apply());
	OK(finish());
	set_may_read_all(true);
	CU_ASSERT_EQUAL(t->note == NULL, has_attributes);
	t->ops->close(t);
	CU_ASSERT_TRUE(has_stat("tree/empty", 0200, A_TIME) &&
		       has_content("tree/with", 1, 100) && has_content("tree/without", 2, 200) &&
		       has_content("tree/two", 3, 300));
	CU_ASSERT_TRUE(!has_attributes || (getxattr(at("tree/with"), "user.a", NULL, 0) == 1 &&
					   getxattr(at("tree/without"), "user.a", NULL, 0) == 1));
	for (unsigned i = 0; i < HIS_COUNT; i++) {
		char path[64];

		(void)his(i, &name);
		snprintf(path, sizeof(path), "tree/%s", name);
		CU_ASSERT_TRUE(belongs_to(path, 3456, 4567));
	}
	CU_ASSERT_TRUE(belongs_to("published", 1234, 2345));
}

static void add_owned_attr(const struct fm_tree_sink_opts *opts)
{
	struct fm_pack_entry e = {.type = FM_PACK_ATTR,
				  .mode = 0440,
				  .mtime_ns = A_TIME + 1,
				  .uid = opts->uid,
				  .gid = opts->gid};

	pack_begin(0);
	pack_add(e, "large", 1);
	OK(apply());
}

/* Goal: a large file that got its owner before the try failed is gone on with, and is then his who
 *       does. */
static void run_large_given_away(void)
{
	const struct fm_tree_large how = large_of("large", 1, LARGE_SIZE);
	struct fm_tree_sink_opts opts = for_user();
	char path[512];

	MUST(sink_new(opts));
	begin_large(&how);
	end_large(&how, 3 * MIB);
	add_owned_attr(&opts);
	fm_fault_arm("tree.rename", 1);
	CU_ASSERT_TRUE(t->ops->prepare(t, true, &err) < 0 && fm_fault_fired());
	fm_fault_arm(NULL, 0);
	t->ops->keep(t);
	t->ops->close(t);
	snprintf(path, sizeof(path), "%s/data/large", ours(FM_STAGING_TREE));
	CU_ASSERT_TRUE(belongs_to(path, 1234, 2345));
	opts.uid = 3456;
	opts.gid = 4567;
	set_may_read_all(false);
	MUST(sink_new(opts));
	whole_large(&how);
	add_owned_attr(&opts);
	OK(finish());
	set_may_read_all(true);
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/large", 1, LARGE_SIZE) &&
		       has_stat("tree/large", 0440, A_TIME + 1) &&
		       belongs_to("tree/large", 3456, 4567));
}

static void test_other_owner(void)
{
	if (!is_root())
		return;
	each_base(run_large_given_away);
	each_base(run_other_owner);
	each_base(run_other_owner_without_rights);
}

static void test_given_away(void)
{
	if (is_root())
		each_base(run_given_away);
}

/* The user puts what is not his where the file that was looked at was. */
static void put_victim(void *ctx, const char *point)
{
	(void)ctx;
	if (strcmp(point, "tree.link") == 0)
		(void)rename(at("victim"), at("tree/f"));
}

/* A tree of one file is there, a file of another's beside it, which is returned open, and the
 * update of the first begins: it is offered. */
static int begin_update_beside_victim(void)
{
	struct fm_tree_sink_opts opts = for_user();
	int fd;

	MUST(sink_new(opts));
	pack_begin(0);
	add_dir("", 0755);
	add_file("f", 1, 5000);
	OK(apply());
	OK(finish());
	t->ops->close(t);
	fd = open(at("victim"), O_CREAT | O_WRONLY, 0600);
	opts.is_update = true;
	MUST(sink_new(opts));
	pack_begin(FM_PACK_OFFER);
	add_offer("f", 1, 5000);
	return fd;
}

/* What is not his got no other name. */
static void end_update_beside_victim(int fd)
{
	struct stat st = { 0 };

	CU_ASSERT_EQUAL(fstat(fd, &st), 0);
	CU_ASSERT_EQUAL(st.st_nlink, 1);
	close(fd);
	t->ops->discard(t);
	t->ops->close(t);
}

static void run_other_file_is_linked(void)
{
	int fd = begin_update_beside_victim();

	add_dir("new", 0755);	/* where nothing differs nothing is made */
	fm_fault_watch(put_victim, NULL);
	OK(apply());
	fm_fault_watch(NULL, NULL);
	CU_ASSERT_TRUE(is_needed(0));
	end_update_beside_victim(fd);
}

/* The same, when it was looked at and found the same, and is made because something else
 * differs. */
static void run_other_file_was_compared(void)
{
	int fd = begin_update_beside_victim();

	OK(apply());
	CU_ASSERT_FALSE(is_needed(0));
	CU_ASSERT_STRING_EQUAL(ours(FM_STAGING_TREE), "");
	OK(rename(at("victim"), at("tree/f")));
	pack_begin(FM_PACK_OFFER);
	add_dir("new", 0755);
	CU_ASSERT_EQUAL(apply(), -ESTALE);
	end_update_beside_victim(fd);
	CU_ASSERT_EQUAL(names_in(dir, OURS), 0);
}

/* The same, before anything is looked at, and what tells files apart is what he said of his: a
 * clone would give him its content. */
static void run_other_file_is_unchanged(void)
{
	struct fm_tree_sink_opts opts = for_user();
	const struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = (A_TIME + 1) / 1000000000, .tv_nsec = (A_TIME + 1) % 1000000000}};
	int fd;

	OK(mkdir(at("tree"), 0755));
	fd = open(at("tree/f"), O_CREAT | O_WRONLY, 0600);
	CU_ASSERT_TRUE(ftruncate(fd, 5000) == 0 && fchmod(fd, 0644) == 0);
	CU_ASSERT_EQUAL(futimens(fd, times), 0);
	close(fd);
	opts.is_update = opts.is_dry = true;
	for (int is_his = 0; is_his <= 1; is_his++) {
		OK(chown(at("tree/f"), is_his ? opts.uid : 0, opts.gid));
		MUST(sink_new(opts));
		pack_begin(FM_PACK_OFFER);
		add_offer("f", 1, 5000);
		OK(apply());
		CU_ASSERT_EQUAL(is_needed(0), !is_his);
		t->ops->discard(t);
		t->ops->close(t);
	}
}

/* Where files can be cloned nothing is linked. */
static void test_other_file_is_linked(void)
{
	if (!is_root())
		return;
	scene_begin(IN_MEMORY);
	run_other_file_is_linked();
	scene_end();
	scene_begin(IN_MEMORY);
	run_other_file_was_compared();
	scene_end();
	scene_begin(IN_MEMORY);
	run_other_file_is_unchanged();
	scene_end();
}

/* -------------------------------------------------------------------- an update that was killed */

/* What somebody saves in the version that is replaced: nothing, a new file, another one in the
 * place of one that came, a directory. */
enum saved { SAVED_NOTHING, SAVED_BESIDE, SAVED_OVER, SAVED_DIR, SAVED_KINDS };

static void kill_at(void *ctx, const char *name)
{
	unsigned *left = ctx;

	(void)name;
	if (--*left == 0)
		(void)raise(SIGKILL);
}

static int begin_update(void)
{
	struct fm_tree_sink_opts opts = options();
	int ret;

	opts.is_update = true;
	opts.take = NULL;	/* of what a child made nobody was told */
	ret = sink_new(opts);
	pack_begin(0);
	add_dir("", 0755);
	add_file("new", 2, 10);
	add_file("f", 2, 5000);
	return ret < 0 ? ret : apply();
}

/* Whether it was: at the n-th point of its publication. */
static bool update_is_killed(unsigned n)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		int ret = begin_update();

		ret = ret < 0 ? ret : t->ops->prepare(t, true, &err);
		fm_fault_arm("none", 1);
		fm_fault_watch(kill_at, &n);
		ret = ret < 0 ? ret : t->ops->publish(t, true, &err);
		_exit(ret < 0);
	}
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return WIFSIGNALED(status);
}

/* The clock of a file system goes on in steps. */
static void await_later(const char *path)
{
	struct stat was, now;

	OK(lstat(at(path), &was));
	do {
		OK(mkdir(at("tick"), 0700));
		OK(lstat(at("tick"), &now));
		OK(rmdir(at("tick")));
	} while (now.st_ctim.tv_sec == was.st_ctim.tv_sec &&
		 now.st_ctim.tv_nsec == was.st_ctim.tv_nsec);
}

static void save_in(enum saved what, const char *old)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/%s", old, what == SAVED_OVER ? "f" : "saved");
	if (what == SAVED_OVER)
		OK(unlink(at(path)));
	if (what == SAVED_OVER || what == SAVED_BESIDE)
		write_file(path, 7, 70, 0644, A_TIME);
	if (what == SAVED_DIR) {	/* whose file is an old one */
		OK(mkdir(at("made"), 0755));
		OK(rename(at("aged"), at("made/aged")));
		OK(rename(at("made"), at(path)));
	}
}

static bool is_saved(enum saved what, const char *kept)
{
	char path[400];

	snprintf(path, sizeof(path), "%s/%s", kept,
		 what == SAVED_OVER  ? "f"
		 : what == SAVED_DIR ? "saved/aged"
				     : "saved");
	return kept[0] && has_content(path, 7, 70);
}

/* It is kept aside. A holder that was made for it in vain may be there, too. */
static bool is_aside(unsigned salt)
{
	DIR *d = opendir(dir);
	const struct dirent *entry;
	char path[300];
	bool is = false;

	while (d && !is && (entry = readdir(d))) {
		(void)snprintf(path, sizeof(path), "%s/tree", entry->d_name);
		is = fm_staging_kind(entry->d_name) == FM_STAGING_OLD && is_version(path, salt);
	}
	if (d)
		closedir(d);
	return is;
}

/* 1: it died when the new version had its name, and the old one no holder yet; 0: elsewhere; -1: it
 * did not die. */
static int run_killed_update(enum saved what, unsigned n)
{
	char old[256];
	bool is_killed, is_between;

	write_file("aged", 7, 70, 0644, A_TIME);
	put_version(options(), 1);
	await_later("tree");
	is_killed = update_is_killed(n);
	snprintf(old, sizeof(old), "%s", ours(FM_STAGING_NEW));
	is_between = is_killed && old[0] && is_there("tree/new");
	if (is_between)
		save_in(what, old);
	MUST(begin_update());
	OK(finish());
	t->ops->close(t);
	CU_ASSERT_TRUE(has_content("tree/new", 2, 10) && has_content("tree/f", 2, 5000) &&
		       has_content("tree/d/g", 1, 300));
	CU_ASSERT_FALSE(is_there(ours(FM_STAGING_NEW)[0] ? ours(FM_STAGING_NEW) : "none"));
	CU_ASSERT_FALSE(ours(FM_STAGING_TREE)[0]);
	if (is_between && what == SAVED_NOTHING)
		CU_ASSERT_TRUE(!ours(FM_STAGING_KEPT)[0] && is_aside(1));
	if (is_between && what != SAVED_NOTHING)
		CU_ASSERT_TRUE(is_saved(what, version_in(FM_STAGING_KEPT)));
	return is_between ? 1 : is_killed ? 0 : -1;
}

/*
 * Goal:   an update that is killed after the exchange and before it took over what was saved
 *         meanwhile leaves nothing that a person has to look through, unless something was saved;
 *         then that is there.
 * Method: killed at each point of its publication in turn; then something is saved, or not, and the
 * update runs again.
 */
static void test_killed_update(void)
{
	for (enum saved what = SAVED_NOTHING; what < SAVED_KINDS; what++) {
		unsigned between = 0;
		int ret = 0;

		for (unsigned n = 1; ret >= 0; n += what == SAVED_NOTHING ? 1 : 7) {
			scene_begin(what == SAVED_NOTHING ? ON_DISK : IN_MEMORY);
			may_leave_manifests = true;
			ret = run_killed_update(what, n);
			between += ret > 0;
			scene_end();
		}
		CU_ASSERT_TRUE(between > 1);
	}
	may_leave_manifests = false;
}

static const struct fm_test tests[] = {
	{"what rotted meanwhile comes again", test_rotten},
	{"a later try takes what the journal says, and nothing else", test_resume},
	{"what is not there is sent, whatever the journal says", test_lying_journal},
	{"the journal forgets before a file is made again", test_forgotten},
	{"another source begins afresh", test_other_source},
	{"a source that is known late", test_late},
	{"a beginning that fails takes nothing away", test_begin_fails},
	{"what was published before it died is no partial tree", test_published_and_died},
	{"large files: sealed, gone on with, not sent again", test_large},
	{"where times are rounded", test_rounded},
	{"unchanged files come from the old version", test_update},
	{"but not one that is written to meanwhile", test_written_while_cloned},
	{"what another user's try made is his who goes on with it", test_other_owner},
	{"a tree that its owner could enter is not gone on with", test_given_away},
	{"a file that takes the place of one that is reused is not", test_other_file_is_linked},
	{"an update that is killed leaves nothing to look through, unless something was saved",
	 test_killed_update},
};

FM_TEST_MAIN("tree sink, not for the first time", tests)
