/* SPDX-License-Identifier: MIT */
/* links: fm_cli */
/*
 * Goal:   a program that was compiled with an older or a newer fmove.h gets from each call what
 *         both know; what it sets and the library does not know is refused, and so is a size that
 *         nobody set, before the daemon is asked.
 * Method: a small daemon that says "done" to all, and each call with each struct it is given, in
 *         memory that is just as large as the struct says. The sanitizer sees what is read or
 *         written behind it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/unit/small_daemon.h"

#include "client/lib/sized.h"

#define MORE 64u /* bytes of a newer release */

static const struct fmove_name there = {"n2", "s", "f"};
static struct fmove_buffer *buffer;
static char id[FMOVE_GROUP_ID_LEN + 1], job[FMOVE_JOB_MAX], directory[] = "/tmp/fm-sized.XXXXXX";
static int fd, dir, hub;		/* hub: a hub cache with one commit of one repository */

#define REPOSITORY "models--o--n"
#define COMMIT	   "0123456789abcdef0123456789abcdef01234567"

/* Outermost first. */
static const char *const hub_dirs[] = {"hub", "hub/" REPOSITORY, "hub/" REPOSITORY "/refs",
				       "hub/" REPOSITORY "/snapshots",
				       "hub/" REPOSITORY "/snapshots/" COMMIT};
static const char *const hub_files[] = {"hub/" REPOSITORY "/refs/main",
					"hub/" REPOSITORY "/snapshots/" COMMIT "/config.json"};
#define HUB_DIRS  (sizeof(hub_dirs) / sizeof(hub_dirs[0]))
#define HUB_FILES (sizeof(hub_files) / sizeof(hub_files[0]))

/* ---- the calls. opts: NULL or so large as it says; out the same, or large enough ---- */

static int put(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	return fmove_put(c, fd, &there, opts, out, err);
}

static int get(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	return fmove_get(c, fd, &there, opts, out, err);
}

static int put_generated(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	return fmove_put_generated(c, 1, &there, opts, out, err);
}

static int get_discarded(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	return fmove_get_discarded(c, &there, opts, out, err);
}

static int put_only(struct fmove *c, const void *only, void *out, struct fmove_error *err)
{
	const struct fmove_options opts = {.struct_size = sizeof(opts), .only = only};

	return fmove_put_generated(c, 1, &there, &opts, out, err);
}

static int put_tree(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	return fmove_put_tree(c, dir, &there, opts, NULL, out, err);
}

static int put_tree_as(struct fmove *c, const void *tree, void *out, struct fmove_error *err)
{
	return fmove_put_tree(c, dir, &there, NULL, tree, out, err);
}

static int get_tree(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	return fmove_get_tree(c, dir, "t", &there, opts, NULL, out, err);
}

static int get_tree_as(struct fmove *c, const void *tree, void *out, struct fmove_error *err)
{
	return fmove_get_tree(c, dir, "t", &there, NULL, tree, out, err);
}

static int put_store(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	return fmove_put_store(c, &there, &there, opts, out, err);
}

static int put_store_tree(struct fmove *c, const void *tree, void *out, struct fmove_error *err)
{
	const struct fmove_options opts = {.struct_size = sizeof(opts), .tree = tree};

	return fmove_put_store(c, &there, &there, &opts, out, err);
}

static int get_store(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	return fmove_get_store(c, &there, &there, opts, out, err);
}

static int put_detached(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	(void)out;
	return fmove_put_detached(c, fd, &there, opts, job, err);
}

static int put_store_detached(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	(void)out;
	return fmove_put_store_detached(c, &there, &there, opts, job, err);
}

static int get_store_detached(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	(void)out;
	return fmove_get_store_detached(c, &there, &there, opts, job, err);
}

static int wait_for(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	return fmove_wait(c, "1", opts, out, err);
}

static int find_job(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	(void)opts;
	return fmove_find_job(c, "1", out, err);
}

static int put_buffer(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	return fmove_put_buffer(c, &(struct fmove_part){buffer, 0, 1}, &there, opts, out, err);
}

static int get_buffer(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	return fmove_get_buffer(c, &(struct fmove_part){buffer, 0, 1}, &there, opts, out, err);
}

static int put_memory(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	return fmove_put_memory(c, "x", 1, &there, opts, out, err);
}

static int put_nothing(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	return fmove_put_memory(c, "", 0, &there, opts, out, err);
}

static int get_memory(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	char memory[8];

	return fmove_get_memory(c, memory, sizeof(memory), &there, opts, out, err);
}

static int get_ranges(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	return fmove_get_ranges(c, fd, &there, &(struct fmove_range){0, 1}, 1, opts, out, err);
}

static int read_ranges(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	void *to[] = {NULL};

	return fmove_read_ranges(c, &there, &(struct fmove_range){0, 0}, to, 1, opts, out, err);
}

static int group_begin(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	(void)out;
	return fmove_group_begin(c, &there, id, opts, err);
}

static int group_check(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	(void)out;
	return fmove_group_check(c, &there, id, opts, NULL, err);
}

static int group_commit(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	(void)out;
	return fmove_group_commit(c, &there, id, opts, NULL, err);
}

static int stage(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	bool is_fetched;

	return fmove_stage(c, &there, opts, out, &is_fetched, err);
}

static int stage_hub(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	char home[FMOVE_PATH_MAX + 1];
	bool is_fetched;

	return fmove_stage_hub(c, "models--o--n", "main", opts, out, home, &is_fetched, err);
}

static int stage_own(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	char home[FMOVE_PATH_MAX + 1];
	bool is_fetched;

	return fmove_stage_own(c, hub, REPOSITORY, "main", opts, out, home, &is_fetched, err);
}

static int locate(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	(void)opts;
	return fmove_locate(c, "/data", out, err);
}

static int cache(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	(void)opts;
	return fmove_cache(c, out, err);
}

static int dataset_check(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	return fmove_dataset_check(c, "d", opts, out, err);
}

static int stat_of(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	(void)opts;
	return fmove_stat(c, &there, out, err);
}

static int look(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	char says[FMOVE_PATH_MAX + 1];

	(void)opts;
	return fmove_look(c, &there, out, says, err);
}

static int rotate(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	(void)opts;
	return fmove_rotate(c, "f", &there, 1, out, err);
}

static int lead(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	(void)opts;
	return fmove_lead(c, "f", &there, 0, out, err);
}

static int verify(struct fmove *c, const void *opts, void *out, struct fmove_error *err)
{
	return fmove_verify(c, &there, opts, out, err);
}

struct kind {
	const char *name;
	size_t size;
};

#define KIND(name) {#name, sizeof(struct name)}
#define NONE {NULL, 0}

static const struct row {
	int (*call)(struct fmove *c, const void *opts, void *out, struct fmove_error *err);
	struct kind opts, out;
} rows[] = {
	{put, KIND(fmove_options), KIND(fmove_result)},
	{get, KIND(fmove_options), KIND(fmove_result)},
	{put_generated, KIND(fmove_options), KIND(fmove_result)},
	{get_discarded, KIND(fmove_options), KIND(fmove_result)},
	{put_only, KIND(fmove_only), KIND(fmove_result)},
	{put_tree, KIND(fmove_options), KIND(fmove_result)},
	{put_tree_as, KIND(fmove_tree_options), KIND(fmove_result)},
	{get_tree, KIND(fmove_options), KIND(fmove_result)},
	{get_tree_as, KIND(fmove_tree_options), KIND(fmove_result)},
	{put_store, KIND(fmove_options), KIND(fmove_result)},
	{put_store_tree, KIND(fmove_tree_options), KIND(fmove_result)},
	{get_store, KIND(fmove_options), KIND(fmove_result)},
	{put_detached, KIND(fmove_options), NONE},
	{put_store_detached, KIND(fmove_options), NONE},
	{get_store_detached, KIND(fmove_options), NONE},
	{wait_for, KIND(fmove_options), KIND(fmove_result)},
	{find_job, NONE, KIND(fmove_job)},
	{put_buffer, KIND(fmove_options), KIND(fmove_result)},
	{get_buffer, KIND(fmove_options), KIND(fmove_result)},
	{put_memory, KIND(fmove_options), KIND(fmove_result)},
	{put_nothing, KIND(fmove_options), KIND(fmove_result)},
	{get_memory, KIND(fmove_options), KIND(fmove_result)},
	{get_ranges, KIND(fmove_options), KIND(fmove_result)},
	{read_ranges, KIND(fmove_options), KIND(fmove_result)},
	{group_begin, KIND(fmove_group_options), NONE},
	{group_check, KIND(fmove_group_options), NONE},
	{group_commit, KIND(fmove_group_options), NONE},
	{stage, KIND(fmove_stage_options), KIND(fmove_dataset)},
	{stage_hub, KIND(fmove_stage_options), KIND(fmove_dataset)},
	{stage_own, KIND(fmove_stage_options), KIND(fmove_dataset)},
	{locate, NONE, KIND(fmove_place)},
	{cache, NONE, KIND(fmove_cache)},
	{dataset_check, KIND(fmove_check_options), KIND(fmove_checked)},
	{stat_of, NONE, KIND(fmove_entry)},
	{look, NONE, KIND(fmove_entry)},
	{rotate, NONE, KIND(fmove_rotated)},
	{lead, NONE, KIND(fmove_rotated)},
	{verify, KIND(fmove_verify_options), KIND(fmove_verified)},
};

/* ---- each of them ---- */

/* A struct of so many bytes that says so, all else in it being `fill`. */
static void *made(size_t bytes, int fill)
{
	char *at = malloc(bytes);

	CU_ASSERT_PTR_NOT_NULL_FATAL(at);
	memset(at, fill, bytes);
	memcpy(at, &bytes, sizeof(bytes));
	return at;
}

static bool is_all_zero(const char *at, size_t len)
{
	while (len > 0 && at[len - 1] == 0)
		len--;
	return len == 0;
}

/* Calls with both as large as they are. NULL: as this library has it. */
static int call(struct fmove *c, const struct row *row, void *opts, void *out,
		struct fmove_error *err)
{
	void *own = row->out.name && !out ? made(row->out.size, 0xee) : NULL;
	int ret = row->call(c, opts, out ? out : own, err);

	free(own);
	return ret;
}

static void fails(struct fmove *c, const struct row *row, void *opts, void *out, int code,
		  const char *name)
{
	unsigned asked = counts->asked;
	struct fmove_error err = {.code = 0};

	CU_ASSERT_EQUAL(call(c, row, opts, out, &err), code);
	CU_ASSERT_EQUAL(err.code, code);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, name));
	CU_ASSERT_EQUAL(counts->asked, asked);
	CU_ASSERT_EQUAL(call(c, row, opts, out, NULL), code);
}

static void no_size(struct fmove *c, const struct row *row, size_t size, bool is_opts)
{
	static const size_t wrong[] = {0, 1, sizeof(size_t), SIZE_MAX, SIZE_MAX / 2};

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char *at = made(size, 0);

		memcpy(at, &wrong[i], sizeof(wrong[i]));
		fails(c, row, is_opts ? at : NULL, is_opts ? NULL : at, -EINVAL,
		      is_opts ? row->opts.name : row->out.name);
		free(at);
	}
}

static void test_options(void)
{
	unsigned before = open_descriptors();
	struct fmove *c = up(8, 0);

	CU_ASSERT_EQUAL_FATAL(fmove_buffer_alloc(c, 4096, &buffer, NULL), 0);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		char *newer;

		CU_ASSERT_EQUAL(call(c, row, NULL, NULL, NULL), 0);
		if (!row->opts.name)
			continue;
		for (size_t size = 2 * sizeof(size_t); size <= row->opts.size; size += 8) {
			char *older = made(size, 0);

			CU_ASSERT_EQUAL(call(c, row, older, NULL, NULL), 0);
			free(older);
		}
		newer = made(row->opts.size + MORE, 0);
		CU_ASSERT_EQUAL(call(c, row, newer, NULL, NULL), 0);
		newer[row->opts.size + MORE - 1] = 1;
		fails(c, row, newer, NULL, -E2BIG, row->opts.name);
		free(newer);
		no_size(c, row, row->opts.size, true);
	}
	fmove_buffer_free(buffer);
	down(c);
	CU_ASSERT_EQUAL(open_descriptors(), before);
}

static void test_results(void)
{
	struct fmove *c = up(8, 0);

	CU_ASSERT_EQUAL_FATAL(fmove_buffer_alloc(c, 4096, &buffer, NULL), 0);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		const size_t sizes[] = {2 * sizeof(size_t), row->out.size / 16 * 8, row->out.size,
					row->out.size + MORE};

		for (unsigned j = 0; row->out.name && j < sizeof(sizes) / sizeof(sizes[0]); j++) {
			char *out = made(sizes[j], 0xee);

			CU_ASSERT_EQUAL(call(c, row, NULL, out, NULL), 0);
			CU_ASSERT_EQUAL(memcmp(out, &sizes[j], sizeof(sizes[j])), 0);
			if (sizes[j] > row->out.size)
				CU_ASSERT_TRUE(is_all_zero(out + row->out.size, MORE));
			free(out);
		}
		if (row->out.name)
			no_size(c, row, row->out.size, false);
	}
	fmove_buffer_free(buffer);
	down(c);
}

/* ---- what is copied ---- */

struct of_ours {
	size_t struct_size;
	uint64_t a, b;
};

static void test_copies(void)
{
	struct {
		struct of_ours s;
		uint64_t more;
	} theirs = {.s = {sizeof(struct of_ours), 1, 2}, .more = 3};
	struct of_ours ours;

	CU_ASSERT_EQUAL(fm_sized_take(&ours, sizeof(ours), &theirs, "x", NULL), 0);
	CU_ASSERT_TRUE(ours.struct_size == sizeof(ours) && ours.a == 1 && ours.b == 2);
	theirs.s.struct_size = 16; /* an older one */
	CU_ASSERT_EQUAL(fm_sized_take(&ours, sizeof(ours), &theirs, "x", NULL), 0);
	CU_ASSERT_TRUE(ours.struct_size == sizeof(ours) && ours.a == 1 && ours.b == 0);
	ours = (struct of_ours){sizeof(ours), 5, 6};
	fm_sized_give(&theirs, &ours, sizeof(ours));
	CU_ASSERT_TRUE(theirs.s.struct_size == 16 && theirs.s.a == 5 && theirs.s.b == 2);
	theirs.s.struct_size = sizeof(theirs); /* a newer one */
	CU_ASSERT_EQUAL(fm_sized_take(&ours, sizeof(ours), &theirs, "x", NULL), -E2BIG);
	fm_sized_give(&theirs, &ours, sizeof(ours));
	CU_ASSERT_TRUE(theirs.s.a == 5 && theirs.s.b == 6 && theirs.more == 0);
	CU_ASSERT_EQUAL(theirs.s.struct_size, sizeof(theirs));
	CU_ASSERT_EQUAL(fm_sized_take(&ours, sizeof(ours), NULL, "x", NULL), 0);
	CU_ASSERT_TRUE(ours.struct_size == sizeof(ours) && ours.a == 0 && ours.b == 0);
}

/* Goal: a daemon that is older than the library, as after an upgrade until it is restarted, does
 * what it did before. */
static void test_older_daemon(void)
{
	struct fmove *c = up(8, 0);
	char memory[8];

	counts->is_older = true;
	CU_ASSERT_EQUAL(fmove_get_memory(c, memory, sizeof(memory), &there, NULL, NULL, NULL), 0);
	CU_ASSERT_EQUAL(counts->asked, 2);
	CU_ASSERT_EQUAL(fmove_get(c, fd, &there, NULL, NULL, NULL), 0);
	CU_ASSERT_EQUAL(counts->asked, 3);
	down(c);
}

/* What a call tells by a function is of this library's size. */
static bool is_whole(void *ctx, const struct fmove_peer *node)
{
	*(size_t *)ctx = node->struct_size;
	return true;
}

static void test_told(void)
{
	struct fmove *c = up(8, 0);
	size_t size = 0;

	CU_ASSERT_EQUAL(fmove_nodes(c, is_whole, &size, NULL), 0);
	CU_ASSERT_EQUAL(size, sizeof(struct fmove_peer));
	await(&counts->answered, 1);
	down(c);
}

/* Goal: of a later daemon what is known is taken; one that speaks otherwise is told to be another
 * version, and hangs nobody. */
static void test_another_version(void)
{
	struct fmove *c = up(8, 0);
	struct fmove_error err;
	char version[32] = "";

	counts->says_more = true;
	CU_ASSERT_EQUAL(fmove_version(c, version, sizeof(version), &err), 0);
	CU_ASSERT_STRING_EQUAL(version, "99");
	counts->is_strange = true;
	CU_ASSERT_EQUAL(fmove_version(c, version, sizeof(version), &err), -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "another version?"));
	CU_ASSERT_EQUAL(fmove_mkdir(c, &there, &err), -EPROTO);
	down(c);
}

static bool take_job(void *ctx, const struct fmove_job *j)
{
	(void)ctx;
	return j->struct_size > 0;
}

static bool take_dataset(void *ctx, const struct fmove_dataset *d)
{
	(void)ctx;
	return d->struct_size > 0;
}

/* Goal: a daemon that always has more of a list, and never says where it goes on, hangs nobody. */
static void test_a_list_without_end(void)
{
	struct fmove *c = up(1, 0);

	(void)snprintf(counts->jobs, sizeof(counts->jobs), "[{\"seq\":7}],\"more\":true");
	CU_ASSERT_EQUAL(fmove_jobs(c, true, take_job, NULL, NULL), -EPROTO);
	CU_ASSERT_EQUAL(counts->asked, 2);
	(void)snprintf(counts->jobs, sizeof(counts->jobs),
		       "[],\"datasets\":[],\"more\":true,\"next\":7");
	CU_ASSERT_EQUAL(fmove_datasets(c, take_dataset, NULL, NULL), -EPROTO);
	CU_ASSERT_EQUAL(counts->asked, 4);
	down(c);
}

/* Goal: a job is ours if the daemon says so; an older one does not, and who we are decides. */
static void test_whose_job(void)
{
	static const struct {
		const char *own;
		unsigned other;		/* 0: it has our user id */
		bool is_own;
	} cases[] = {
		{"", 0, true},
		{"", 1, false},
		{",\"own\":false", 0, false},
		{",\"own\":true", 1, true},
	};
	struct fmove_job j = {.struct_size = sizeof(j)};
	struct fmove *c = up(1, 0);
	struct fmove_error err;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		(void)snprintf(counts->jobs, sizeof(counts->jobs), "[{\"user\":%u%s}]",
			       (unsigned)geteuid() + cases[i].other, cases[i].own);
		CU_ASSERT_EQUAL(fmove_find_job(c, "1", &j, &err), 0);
		CU_ASSERT_EQUAL(j.is_own, cases[i].is_own);
	}
	down(c);
}

/* Goal: a value that an enum does not have is for the daemon to refuse. */
static void test_no_such_check(void)
{
	const struct fmove_stage_options opts = {.struct_size = sizeof(opts),
						 .check = (enum fmove_freshness)4};
	struct fmove_dataset d = {.struct_size = sizeof(d)};
	struct fmove *c = up(1, 0);

	CU_ASSERT_EQUAL(stage(c, &opts, &d, NULL), 0);
	down(c);
}

/* Whom a whole file is put for keeps its position; the rest of one is handed over as it is. */
static void test_position_is_the_callers(void)
{
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove *c = up(1, 0);
	struct fmove_error err;

	CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_SET), 0);
	CU_ASSERT_EQUAL(put(c, NULL, &result, &err), 0);
	CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_CUR), 0);
	(void)put_detached(c, NULL, NULL, &err);	/* it is answered without a job */
	CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_CUR), 0);
	CU_ASSERT_EQUAL(lseek(fd, 7, SEEK_SET), 7);
	CU_ASSERT_EQUAL(put(c, NULL, &result, &err), 0);
	CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_CUR), MOVED_TO);
	down(c);
}

/* Goal: what an update finds out first takes its time from the transfer's. */
static void test_one_time_for_all(void)
{
	const struct fmove_options opts = {
		.struct_size = sizeof(opts), .timeout_ms = 60000, .is_attended = true};
	const struct fmove_tree_options tree = {.struct_size = sizeof(tree), .is_update = true};
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove *c = up(8, 50000);

	CU_ASSERT_EQUAL(fmove_put_tree(c, dir, &there, &opts, &tree, &result, NULL), 0);
	CU_ASSERT_EQUAL(counts->answered, 2);	/* a dry run, and the put */
	CU_ASSERT_TRUE(counts->timeout_ms > 0 && counts->timeout_ms <= 60000 - 50);
	down(c);
}

/* Closing a descriptor of a file gives up the locks that the process has of it. */
static void test_locks_stay(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove *c = up(1, 0);
	struct fmove_error err;

	CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_SET), 0);
	CU_ASSERT_EQUAL(fcntl(fd, F_SETLK, &lock), 0);
	CU_ASSERT_EQUAL(put(c, NULL, &result, &err), 0);
	CU_ASSERT_EQUAL(fcntl(fd, F_OFD_GETLK, &lock), 0);
	CU_ASSERT_EQUAL(lock.l_type, F_WRLCK);
	lock.l_type = F_UNLCK;
	CU_ASSERT_EQUAL(fcntl(fd, F_SETLK, &lock), 0);
	down(c);
}

static void lock_it(void *ctx, const struct fmove_progress *p)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	(void)ctx;
	(void)p;
	CU_ASSERT_EQUAL(fcntl(fd, F_SETLK, &lock), 0);
}

static void stays_locked(struct fmove *c)
{
	const struct fmove_options opts = {
		.struct_size = sizeof(opts), .progress_ms = 1000, .progress = lock_it};
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct fmove_result result = {.struct_size = sizeof(result)};

	CU_ASSERT_EQUAL(put(c, &opts, &result, NULL), 0);
	CU_ASSERT_EQUAL(fcntl(fd, F_OFD_GETLK, &lock), 0);
	CU_ASSERT_EQUAL(lock.l_type, F_WRLCK);
	lock = (struct flock){ .l_type = F_UNLCK, .l_whence = SEEK_SET };
	CU_ASSERT_EQUAL(fcntl(fd, F_SETLK, &lock), 0);
}

/* Goal: nor does a lock go that is taken while the call lasts; and when it has gone, the next put
 * leaves nothing open. */
static void test_later_locks_stay(void)
{
	unsigned before = open_descriptors();
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove *c = up(1, 0);

	CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_SET), 0);
	counts->tells_progress = true;
	for (unsigned i = 0; i < 300; i++)
		stays_locked(c);
	CU_ASSERT_EQUAL(put(c, NULL, &result, NULL), 0);
	down(c);
	CU_ASSERT_EQUAL(open_descriptors(), before);
}

/* The descriptor that has the least number of those of our file, but for fd; -1: there is none. */
static int other_of_file(void)
{
	struct stat ours, at;

	CU_ASSERT_EQUAL_FATAL(fstat(fd, &ours), 0);
	for (int i = 3; i < 1024; i++)
		if (i != fd && fstat(i, &at) == 0 && at.st_dev == ours.st_dev &&
		    at.st_ino == ours.st_ino)
			return i;
	return -1;
}

/* Goal: what a put left open for a lock, and somebody else closed, as by closefrom(3), is not
 * closed once more: the number is another file's. */
static void test_kept_is_anothers(void)
{
	const struct fmove_options opts = {
		.struct_size = sizeof(opts), .progress_ms = 1000, .progress = lock_it};
	struct flock none = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
	struct fmove *c = up(1, 0);
	int kept;

	CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_SET), 0);
	counts->tells_progress = true;
	CU_ASSERT_EQUAL(put(c, &opts, NULL, NULL), 0);
	kept = other_of_file();
	CU_ASSERT_TRUE_FATAL(kept >= 0);
	CU_ASSERT_EQUAL(fcntl(fd, F_SETLK, &none), 0);
	CU_ASSERT_EQUAL(dup2(dir, kept), kept);
	CU_ASSERT_EQUAL(put(c, NULL, NULL, NULL), 0);
	CU_ASSERT_EQUAL(close(kept), 0);
	CU_ASSERT_EQUAL(other_of_file(), -1);
	down(c);
}

/* Goal: nor is it if that is the same file, opened anew. */
static void test_kept_is_opened_anew(void)
{
	const struct fmove_options opts = {
		.struct_size = sizeof(opts), .progress_ms = 1000, .progress = lock_it};
	struct flock none = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
	struct fmove *c = up(1, 0);
	int kept, anew;

	CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_SET), 0);
	counts->tells_progress = true;
	CU_ASSERT_EQUAL(put(c, &opts, NULL, NULL), 0);
	kept = other_of_file();
	CU_ASSERT_TRUE_FATAL(kept >= 0);
	CU_ASSERT_EQUAL(fcntl(fd, F_SETLK, &none), 0);
	anew = openat(dir, "file", O_RDONLY | O_CLOEXEC);
	CU_ASSERT_EQUAL(dup2(anew, kept), kept);
	CU_ASSERT_EQUAL(close(anew), 0);
	CU_ASSERT_EQUAL(put(c, NULL, NULL, NULL), 0);
	CU_ASSERT_EQUAL(close(kept), 0);
	CU_ASSERT_EQUAL(other_of_file(), -1);
	down(c);
}

static void make_hub(void)
{
	for (unsigned i = 0; i < HUB_DIRS; i++)
		CU_ASSERT_EQUAL_FATAL(mkdirat(dir, hub_dirs[i], 0700), 0);
	for (unsigned i = 0; i < HUB_FILES; i++) {
		int file = openat(dir, hub_files[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		CU_ASSERT_EQUAL_FATAL(write(file, COMMIT, sizeof(COMMIT) - 1), sizeof(COMMIT) - 1);
		(void)close(file);
	}
	hub = openat(dir, "hub", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CU_ASSERT_TRUE_FATAL(hub >= 0);
}

/* Files for the calls. */
static void test_begin(void)
{
	char path_of[64];

	fmove_group_id(id);
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(directory));
	(void)snprintf(path_of, sizeof(path_of), "%s/file", directory);
	dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = open(path_of, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CU_ASSERT_TRUE_FATAL(dir >= 0 && fd >= 0);
	make_hub();
}

static void test_end(void)
{
	CU_ASSERT_EQUAL(unlinkat(dir, "file", 0), 0);
	for (unsigned i = 0; i < HUB_FILES; i++)
		CU_ASSERT_EQUAL(unlinkat(dir, hub_files[i], 0), 0);
	for (unsigned i = HUB_DIRS; i-- > 0;)
		CU_ASSERT_EQUAL(unlinkat(dir, hub_dirs[i], AT_REMOVEDIR), 0);
	(void)close(hub);
	(void)close(fd);
	(void)close(dir);
	CU_ASSERT_EQUAL(rmdir(directory), 0); /* no call left anything */
}

static const struct fm_test tests[] = {
	{ "a struct is copied as far as both sides know it", test_copies },
	{ "(files for the calls)", test_begin },
	{ "options of an older and a newer program are taken, unless they ask for more",
	  test_options },
	{ "results are filled in as far as the program knows them", test_results },
	{ "what is told says the library's size", test_told },
	{ "a daemon of another version", test_another_version },
	{ "how to check, by a value that is none", test_no_such_check },
	{ "a list that does not end", test_a_list_without_end },
	{ "whose a job is, also of an older daemon", test_whose_job },
	{ "memory gets a file from an older daemon, too", test_older_daemon },
	{ "the position of a whole file is its caller's", test_position_is_the_callers },
	{ "the requests of a call have one time together", test_one_time_for_all },
	{ "what the caller has locked stays locked", test_locks_stay },
	{ "what is locked meanwhile stays locked", test_later_locks_stay },
	{ "a number that was kept may be another file's", test_kept_is_anothers },
	{ "or of the same file, opened anew", test_kept_is_opened_anew },
	{ "the calls leave nothing behind", test_end },
};
FM_TEST_MAIN("sized", tests)
