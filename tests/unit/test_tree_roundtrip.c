/* SPDX-License-Identifier: MIT */
/*
 * A tree from its source into its sink, by several threads, packs twice and in disorder.
 * links: fm_tree
 *
 * Goal:   what arrives is what was there: names, kinds, content, holes, modes, times, links; also
 *         in pieces over several
 * tries, and when most of it is there already.
 */
#include <ftw.h>
#include <pthread.h>
#include <sched.h>

#include "tests/unit/sink_scene.h"

#define THREADS 4u
#define BUF_LEN (256u << 10)

static struct fm_tree *source;
static _Atomic uint64_t next_seq;
static _Atomic uint64_t sent_bytes;
static _Atomic int packs_left;		/* before the transfer is broken off */

/* ---- a tree ---- */

static void make_sizes(void)
{
	static const size_t sizes[] = {0,
				       1,
				       4095,
				       4096,
				       100000,
				       262143,
				       262144,
				       262145,
				       1048577,
				       FM_TREE_LARGE - 1,
				       FM_TREE_LARGE,
				       FM_TREE_LARGE + 1,
				       9000000};
	char name[128];

	CU_ASSERT_EQUAL(mkdir(at("src/sizes"), 0755), 0);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		snprintf(name, sizeof(name), "src/sizes/%zu", sizes[i]);
		write_file(name, i, sizes[i], i % 2 ? 0444 : 0640, A_TIME + i);
	}
}

static void make_many(void)
{
	char name[128];

	for (unsigned d = 0; d < 30; d++) {
		snprintf(name, sizeof(name), "src/many%u", d);
		CU_ASSERT_EQUAL(mkdir(at(name), 0755), 0);
		snprintf(name, sizeof(name), "src/many%u/in", d);
		CU_ASSERT_EQUAL(mkdir(at(name), 0700), 0);
		for (unsigned i = 0; i < 20; i++) {
			snprintf(name, sizeof(name), "src/many%u/in/f%u", d, i);
			write_file(name, d * 20 + i, (d * 977 + i * 3571) % 30000, 0644,
				   A_TIME + i);
		}
		CU_ASSERT_EQUAL(chmod(at((snprintf(name, sizeof(name), "src/many%u/in", d), name)),
				      d % 3 ? 0555 : 0711),
				0);
	}
}

static void make_source(void)
{
	int fd;

	CU_ASSERT_EQUAL(mkdir(at("src"), 0755), 0);
	make_sizes();
	make_many();
	CU_ASSERT_EQUAL(symlink("sizes/4096", at("src/link")), 0);
	CU_ASSERT_EQUAL(symlink("/nowhere", at("src/many1/dangling")), 0);
	CU_ASSERT_EQUAL(link(at("src/sizes/4096"), at("src/hard")), 0);
	CU_ASSERT_EQUAL(link(at("src/sizes/9000000"), at("src/many2/large again")), 0);
	write_file("src/\xff\n", 3, 5, 0600, 1);
	fd = open(at("src/holes"), O_CREAT | O_WRONLY, 0644);
	CU_ASSERT_EQUAL(ftruncate(fd, 3000000), 0);
	CU_ASSERT_EQUAL(pwrite(fd, "data", 4, 2000000), 4);
	close(fd);
	CU_ASSERT_EQUAL(mkdir(at("src/empty"), 01777), 0);
	CU_ASSERT_EQUAL(chmod(at("src"), 0751), 0);
}

/* ---- the way ---- */

static void copy_stretch(const struct fm_tree_large *how, int fd, uint64_t from, uint64_t to)
{
	uint8_t *buf = malloc(to - from);
	struct fm_journal_entry e = {.path = how->path,
				     .path_len = strlen(how->path),
				     .size = how->size,
				     .mtime_ns = how->mtime_ns,
				     .identity = fm_identity_hash(&how->id),
				     .offset = from,
				     .len = to - from};

	CU_ASSERT_EQUAL(pread(how->fd, buf, to - from, (off_t)from), (ssize_t)(to - from));
	CU_ASSERT_EQUAL(pwrite(fd, buf, to - from, (off_t)from), (ssize_t)(to - from));
	e.crc = fm_crc32c_part(fm_crc32c(0, buf, to - from), from, to - from);
	sent_bytes += to - from;
	free(buf);
	(void)t->ops->wrote_large(t, &e, NULL);
}

/* 1: one was moved. 0: none waits. */
static int move_large(struct fm_err *e)
{
	struct fm_tree_large how;
	struct fm_have have;
	uint64_t from = 0, to, end;
	int fd, ret;

	if (source->ops->next_large(source, &how) == 0)
		return 0;
	ret = t->ops->create_large(t, &how, &fd, &have, e);
	while (ret == 0 && packs_left > 0) {
		fm_ranges_gap(&have.ranges, from, &from, &to);
		end = to < how.size ? to : how.size;
		if (from >= how.size)
			break;
		end = end > from + (2u << 20) ? from + (2u << 20) : end;
		copy_stretch(&how, fd, from, end);
		from = end;
		packs_left--;
	}
	if (ret == 0 && packs_left > 0)
		ret = t->ops->seal_large(t, &how, fd, NULL, e);
	if (ret == 0) {
		close(fd);
		fm_have_free(&have);
	}
	close(how.fd);
	return ret < 0 ? ret : 1;
}

struct mover {
	pthread_t thread;
	struct fm_err err;
	int64_t ret;
	void *buf;
};

static int64_t move_pack(struct mover *m, uint64_t seq, size_t len)
{
	uint8_t wanted[FM_TREE_OFFERS_MAX / 8];
	size_t count = 0;
	int ret = 0;

	/* Every third twice, as after a broken connection. */
	for (unsigned i = 0; ret == 0 && i < (seq % 3 ? 1 : 2); i++)
		ret = t->ops->apply(t, m->buf, len, wanted, &count, &m->err);
	if (ret == 0 && count > 0)
		ret = source->ops->need(source, seq, wanted, count, &m->err);
	if (ret == 0)
		source->ops->acked(source, seq);
	sent_bytes += len;
	return ret;
}

static void *move(void *arg)
{
	struct mover *m = arg;
	uint64_t seq = next_seq++;

	m->buf = aligned_alloc(64, BUF_LEN);
	while (packs_left > 0) {
		m->ret = source->ops->fill(source, seq, m->buf, BUF_LEN, &m->err);
		if (m->ret == -EAGAIN) {
			m->ret = move_large(&m->err);
			sched_yield();
		} else if (m->ret > 0) {
			m->ret = move_pack(m, seq, (size_t)m->ret);
			seq = next_seq++;
			packs_left--;
		} else if (m->ret == 0) {
			m->ret = move_large(&m->err);
			if (m->ret == 0)
				break;
		}
		if (m->ret < 0)
			break;
	}
	free(m->buf);
	return NULL;
}

/* All of it, or as many packs and stretches as packs_left says. */
static void transfer(void)
{
	struct mover movers[THREADS] = { 0 };

	next_seq = sent_bytes = 0;
	for (unsigned i = 0; i < THREADS; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&movers[i].thread, NULL, move, &movers[i]), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(movers[i].thread, NULL);
		CU_ASSERT_TRUE(movers[i].ret >= 0);
		if (movers[i].ret < 0)
			printf("%s\n", movers[i].err.text);
	}
}

static void source_open(bool is_offering, bool has_checksums)
{
	struct fm_tree_source_opts opts = {.root = open(at("src"), O_RDONLY | O_DIRECTORY),
					   .is_offering = is_offering,
					   .has_checksums = has_checksums,
					   .has_owners = true};

	MUST(fm_tree_source_new(&opts, &source, &err));
}

static struct fm_tree_sink_opts with_owners(void)
{
	struct fm_tree_sink_opts opts = replacing();

	opts.has_owners = geteuid() == 0;
	return opts;
}

static void end_transfer(void)
{
	struct fm_tree_count sent, made;

	OK(finish());
	source->ops->count(source, &sent);
	made = counts();
	CU_ASSERT_TRUE(sent.files == made.files && sent.bytes == made.bytes &&
		       sent.links == made.links);
	CU_ASSERT_TRUE(sent.dirs == made.dirs && sent.hard_links == made.hard_links);
	t->ops->close(t);
	source->ops->close(source);
}

/* ---- comparing ---- */

static unsigned compared;

static int compare_one(const char *path, const struct stat *a, int flag, struct FTW *ftw)
{
	const char *below = path + strlen(dir) + strlen("/src");
	char other[4096];
	struct stat b;

	(void)flag;
	(void)ftw;
	snprintf(other, sizeof(other), "%s/tree%s", dir, below);
	compared++;
	if (lstat(other, &b) < 0)
		return 1;
	if (a->st_mode != b.st_mode ||
	    (!S_ISDIR(a->st_mode) && (a->st_size != b.st_size || a->st_nlink != b.st_nlink)))
		return 1;
	return a->st_mtim.tv_sec != b.st_mtim.tv_sec || a->st_mtim.tv_nsec != b.st_mtim.tv_nsec ||
	       a->st_uid != b.st_uid;
}

static void check_same(void)
{
	char command[512];

	compared = 0;
	CU_ASSERT_EQUAL(nftw(at("src"), compare_one, 32, FTW_PHYS), 0);
	CU_ASSERT_TRUE(compared > 600);
	snprintf(command, sizeof(command), "diff -r --no-dereference '%s/src' '%s/tree'", dir, dir);
	CU_ASSERT_EQUAL(system(command), 0);
	CU_ASSERT_EQUAL(names_in(dir, ""), 2);
}

/* ---- tests ---- */

static void run_plain(bool is_offering)
{
	make_source();
	packs_left = 1 << 30;
	source_open(is_offering, false);
	MUST(sink_new(with_owners()));
	transfer();
	end_transfer();
	check_same();
}

static void test_plain(void)
{
	for (size_t i = 0; i < BASES; i++) {
		unsigned fds = fds_open();

		scene_begin(bases[i]);
		run_plain(i == 1);
		CU_ASSERT_EQUAL(fds_open(), fds);
		scene_end();
	}
}

/* Most of it is there already. */
static void test_update(void)
{
	for (unsigned i = 0; i < 2; i++) {
		struct fm_tree_sink_opts opts = with_owners();

		scene_begin(IN_MEMORY);
		run_plain(false);
		CU_ASSERT_EQUAL(unlink(at("src/many3/in/f3")), 0);
		CU_ASSERT_EQUAL(unlink(at("src/sizes/9000000")), 0);
		write_file("src/sizes/9000000", 77, 9000000, 0600, A_TIME + 99);
		write_file("src/many3/in/new", 78, 1000, 0600, A_TIME);
		opts.is_update = opts.is_delete = true;
		opts.has_checksums = i == 1;
		source_open(true, i == 1);
		MUST(sink_new(opts));
		transfer();
		CU_ASSERT_TRUE(sent_bytes > 9000000 && sent_bytes < 9500000);
		CU_ASSERT_TRUE(counts().reused_files > 600 &&
			       counts().files - counts().reused_files <= 4);
		end_transfer();
		/* A hard link to what was hard linked before: names of the old version are gone, so
		 * nlink is as before. */
		check_same();
		scene_end();
	}
}

/* Broken off again and again. */
static void run_tries(unsigned packs)
{
	unsigned tries = 0;
	uint64_t all = 0;

	make_source();
	do {
		packs_left = (int)packs * (int)(tries < 12 ? 1 : 1000);
		source_open(tries > 0, false);
		MUST(sink_new(with_owners()));
		CU_ASSERT_EQUAL(t->is_partial, tries > 0);
		transfer();
		all += sent_bytes;
		tries++;
		if (packs_left > 0)
			break;
		t->ops->keep(t);
		t->ops->close(t);
		source->ops->close(source);
		CU_ASSERT_FALSE(is_there("tree"));
	} while (tries < 40);
	CU_ASSERT_TRUE(tries > 2);
	CU_ASSERT_TRUE(counts().resumed_files > 100);
	end_transfer();
	check_same();
	/* 37 MB and the offers of each try; what was in flight is sent again. */
	CU_ASSERT_TRUE(all < 37000000 + tries * (THREADS + 2) * (2u << 20));
}

static void test_tries(void)
{
	for (size_t i = 0; i < BASES; i++) {
		scene_begin(bases[i]);
		run_tries(25);
		scene_end();
	}
}

static const struct fm_test tests[] = {
	{ "a tree arrives as it left", test_plain },
	{ "an update sends what differs", test_update },
	{ "tries that are broken off add up", test_tries },
};

FM_TEST_MAIN("tree round trip", tests)
