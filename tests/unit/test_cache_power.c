/* SPDX-License-Identifier: MIT */
/* links: fm_staging */
/*
 * test_cache_power - a cache whose power is cut.
 *
 * Goal: what was told stays, and what is there is right, whatever of the rest got to the disk.
 * Method: a disk is kept in memory that knows only what was synced: of a file its bytes, of a
 * directory its names, each by itself. Before each call of the cache the power is cut: what the
 * disk may have then is made as a directory, in several ways, and a cache is opened on it. Each way
 * has the bytes that were synced. It has the names that were synced; or all names; or those of one
 * directory that got there early.
 *
 * Whether this finds anything is tried, too: each sync is left out in turn.
 */
#include <dirent.h>
#include <inttypes.h>

#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "tests/unit/cache_scene.h"

#define FILES_MAX   64
#define ENTRIES_MAX 32
#define SYNCS_MAX   64

/* ---- what a disk has ---- */

struct entry {
	ino_t ino;
	char name[NAME_MAX + 1];
};

struct file {
	ino_t ino;
	mode_t mode;
	size_t len;
	uint8_t bytes[FILE_LEN];
	unsigned count;
	struct entry entries[ENTRIES_MAX];
};

struct disk {
	unsigned count;
	struct file files[FILES_MAX];
};

static struct disk now, synced;

static struct file *find(struct disk *d, ino_t ino)
{
	for (unsigned i = 0; i < d->count; i++)
		if (d->files[i].ino == ino)
			return &d->files[i];
	return NULL;
}

static void scan_file(int dir, const char *name);

static void scan_names(struct file *f, int fd)
{
	DIR *d = fdopendir(dup(fd));
	const struct dirent *e;

	CU_ASSERT_PTR_NOT_NULL_FATAL(d);
	rewinddir(d);
	while ((e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		CU_ASSERT_TRUE_FATAL(f->count < ENTRIES_MAX);
		f->entries[f->count].ino = e->d_ino;
		snprintf(f->entries[f->count++].name, NAME_MAX + 1, "%s", e->d_name);
		scan_file(fd, e->d_name);
	}
	closedir(d);
}

static void scan_file(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	struct file *f = &now.files[now.count++];
	struct stat st;

	CU_ASSERT_TRUE_FATAL(now.count < FILES_MAX && fd >= 0 && fstat(fd, &st) == 0);
	*f = (struct file){.ino = st.st_ino, .mode = st.st_mode};
	if (S_ISDIR(st.st_mode))
		scan_names(f, fd);
	else
		f->len = (size_t)pread(fd, f->bytes, sizeof(f->bytes), 0);
	CU_ASSERT_TRUE_FATAL(f->len <= FILE_LEN);
	close(fd);
}

static void scan(const char *dir)
{
	now.count = 0;
	scan_file(AT_FDCWD, dir);
}

/* ---- syncs ---- */

static struct {
	const char *dir; /* of the cache; NULL: syncs are not ours now */
	unsigned count;	 /* of syncs so far */
	unsigned cut_count, cut_stage; /* at the last cut */
	unsigned left_out;
	char what[SYNCS_MAX][16]; /* each of them */
} power;

/* False: this one is left out, as if it had been forgotten in the code. */
static bool note_sync(const char *what)
{
	if (!power.dir)
		return false;
	scan(power.dir);
	CU_ASSERT_TRUE_FATAL(power.count < SYNCS_MAX);
	snprintf(power.what[power.count], sizeof(power.what[0]), "%s", what);
	return ++power.count != power.left_out;
}

/* Which of the directories and files of a cache it is. */
static const char *what_is(int fd, ino_t *ino)
{
	char link[64], path[PATH_MAX];
	struct stat st;
	ssize_t len;

	CU_ASSERT_EQUAL(fstat(fd, &st), 0);
	*ino = st.st_ino;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, sizeof(path) - 1);
	path[len > 0 ? len : 0] = 0;
	len = (ssize_t)(strrchr(path, '/') - path);
	if (!S_ISDIR(st.st_mode))
		return strncmp(path + len, "/.new.", 6) == 0 ? "state" : "file";
	return strcmp(path + len, "/ready") == 0     ? "ready"
	       : strcmp(path + len, "/partial") == 0 ? "partial"
	       : strcmp(path + len, "/gone") == 0    ? "gone"
						     : "directory";
}

int __real_fsync(int fd);
int __real_syncfs(int fd);
int __wrap_fsync(int fd);
int __wrap_syncfs(int fd);

int __wrap_fsync(int fd)
{
	ino_t ino;
	const char *what = power.dir ? what_is(fd, &ino) : "";
	struct file *f;

	if (note_sync(what)) {
		f = find(&synced, ino);
		*(f ? f : &synced.files[synced.count++]) = *find(&now, ino);
	}
	return __real_fsync(fd);
}

int __wrap_syncfs(int fd)
{
	if (note_sync("syncfs"))
		synced = now;
	return __real_syncfs(fd);
}

/* ---- what may be there after a power cut ---- */

#define ALL_NAMES 1

/* Whose names got there: of no directory that was not synced (0), of all, or of this one. */
static const struct file *names_of(ino_t ino, ino_t early)
{
	const struct file *new = find(&now, ino), *old = find(&synced, ino);

	return new && (early == ALL_NAMES || early == ino) ? new : old;
}

static bool has(const struct file *dir, ino_t ino)
{
	for (unsigned i = 0; dir && i < dir->count; i++)
		if (dir->entries[i].ino == ino)
			return true;
	return false;
}

/* Where it was renamed to, out of this directory; NULL: nowhere. */
static const struct file *moved_to(ino_t dir, ino_t ino)
{
	for (unsigned i = 0; i < now.count; i++)
		if (now.files[i].ino != dir && has(&now.files[i], ino))
			return &now.files[i];
	return NULL;
}

/* A rename is one step: no power cut leaves both of its names, or none. */
static bool is_named(ino_t dir, ino_t ino, ino_t early)
{
	const struct file *to = has(find(&now, dir), ino) ? NULL : moved_to(dir, ino);

	return to ? !has(names_of(to->ino, early), ino) : has(names_of(dir, early), ino);
}

/* Names that have an inode's number have that of the copy. */
static void rename_numbered(char name[static NAME_MAX + 1], const char *before, ino_t old,
			    ino_t new)
{
	char number[32];

	snprintf(number, sizeof(number), "%s%016" PRIx64, before, (uint64_t)old);
	if (strcmp(name, number) == 0)
		snprintf(name, NAME_MAX + 1, "%s%016" PRIx64, before, (uint64_t)new);
}

static void make(int dir, const char *name, ino_t ino, ino_t early);

static void make_those_of(const struct file *names, int fd, ino_t ino, ino_t early, bool is_old)
{
	struct stat st;

	CU_ASSERT_EQUAL(fstat(fd, &st), 0);
	for (unsigned i = 0; names && i < names->count; i++) {
		const struct entry *e = &names->entries[i];
		char name[NAME_MAX + 1];

		snprintf(name, sizeof(name), "%s", e->name);
		rename_numbered(name, ".made.", ino, st.st_ino);
		if (is_named(ino, e->ino, early) &&
		    (!is_old || (early == ino && moved_to(ino, e->ino))))
			make(fd, name, e->ino, early);
	}
}

/* The old ones, too, for what was renamed away and has no new name yet. */
static void make_names(int fd, ino_t ino, ino_t early)
{
	make_those_of(names_of(ino, early), fd, ino, early, false);
	make_those_of(find(&synced, ino), fd, ino, early, true);
}

/* What was never synced is empty. */
static void make(int dir, const char *name, ino_t ino, ino_t early)
{
	const struct file *f = find(&synced, ino), *kind = f ? f : find(&now, ino);
	char numbered[NAME_MAX + 1];
	struct stat st;
	int fd;

	if (!kind)
		return; /* made and removed again, and never on the disk */
	snprintf(numbered, sizeof(numbered), "%s", name);
	if (S_ISDIR(kind->mode))
		(void)mkdirat(dir, name, 0700);
	fd = openat(dir, name,
		    (S_ISDIR(kind->mode) ? O_RDONLY : O_RDWR | O_CREAT) | O_CLOEXEC, 0600);
	CU_ASSERT_TRUE_FATAL(fd >= 0 && fstat(fd, &st) == 0);
	if (S_ISDIR(kind->mode))
		make_names(fd, ino, early);
	else if (f && f->len > 0)
		CU_ASSERT_EQUAL(write(fd, f->bytes, f->len), (ssize_t)f->len);
	CU_ASSERT_EQUAL(fchmod(fd, kind->mode & 07777), 0);
	close(fd);
	rename_numbered(numbered, "", ino, st.st_ino);
	if (strcmp(numbered, name) != 0)
		CU_ASSERT_EQUAL(renameat(dir, name, dir, numbered), 0);
}

/* ---- what must be there ---- */

enum stage { BEGUN, SAVED, READY_TOLD, PINNED, GOES, GONE };

static enum stage stage;

static bool is_file_right(const char *path, const char *name)
{
	char whole[PATH_MAX + 8], bytes[FILE_LEN + 1];
	int fd;
	ssize_t len;

	snprintf(whole, sizeof(whole), "%s/%s", path, name);
	fd = open(whole, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));
	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0; i < len; i++)
		if (bytes[i] != 'x')
			return false;
	return len == FILE_LEN;
}

static bool is_ready_right(struct scene *s, uint64_t id)
{
	char path[PATH_MAX], dir[PATH_MAX];
	struct stat st;

	if (fm_cache_path(s->c, id, path, sizeof(path)) < 0)
		return false;
	snprintf(dir, sizeof(dir), "%.4000s/../" FM_CACHE_MANIFEST_NAME, path);
	return stat(dir, &st) == 0 && st.st_size == 10 && stat(path, &st) == 0 &&
	       (st.st_mode & 07777) == 0555 && is_file_right(path, "a") &&
	       is_file_right(path, "sub/b");
}

/* What the saved extents stand for. */
static bool is_part_right(struct scene *s)
{
	struct fm_cache_plan plan = scene_plan(1, 2 * FILE_LEN);
	struct fm_cache_fetch *f;
	char path[64];
	bool is_right;

	if (fm_cache_fetch(s->c, &plan, &f, &s->err) < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d/set1", fm_cache_fetch_dir(f));
	is_right = !fm_cache_fetch_has(f, 4) ||
		   (is_file_right(path, "a") && is_file_right(path, "sub/b"));
	fm_cache_fetch_close(f);
	return is_right;
}

static bool is_right(struct scene *s, uint64_t id, const struct fm_cache_info *info)
{
	bool is_ready = info->state == FM_CACHE_READY;

	if (is_ready ? !is_ready_right(s, id) : !is_part_right(s))
		return false;
	if (stage == BEGUN)
		return !is_ready;
	if (stage == SAVED)
		return is_ready || (info->state == FM_CACHE_FETCHING && info->extents_done == 1);
	if (stage == GONE)
		return info->state == FM_CACHE_ABSENT;
	return stage == GOES ? is_ready || info->state == FM_CACHE_ABSENT
			     : is_ready && (stage != PINNED || info->pins == 1);
}

/* A daemon starts on what is there. */
static bool is_state_right(struct scene *s)
{
	struct fm_cache_key listing = scene_key(1);
	struct fm_cache_info info = {.state = FM_CACHE_ABSENT};
	uint64_t id;
	bool is_good;

	if (fm_cache_open(&s->o, &s->c, &s->err) < 0)
		return false;
	id = fm_cache_find_listing(s->c, &listing);
	(void)fm_cache_look(s->c, id, &info);
	is_good = is_right(s, id, &info);
	fm_cache_close(s->c);
	return is_good;
}

static unsigned cuts, wrong;

static void cut(ino_t root, ino_t early)
{
	struct scene s;
	int fd;

	scene_new(&s, "/dev/shm");
	fd = open(s.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CU_ASSERT_TRUE_FATAL(fd >= 0);
	make_names(fd, root, early);
	close(fd);
	wrong += !is_state_right(&s);
	cuts++;
	remove_all(s.dir);
}

/* Whether it has other names than were synced; in two orders they are others, too. */
static bool is_changed(const struct file *dir)
{
	const struct file *old = find(&synced, dir->ino);
	bool is_same = old && old->count == dir->count;

	for (unsigned i = 0; is_same && i < dir->count; i++)
		is_same = old->entries[i].ino == dir->entries[i].ino &&
			  strcmp(old->entries[i].name, dir->entries[i].name) == 0;
	return !is_same;
}

/*
 * Of a life without one sync, whether any state is wrong: not before that sync, since until then
 * the life is that without a mistake (test_power_cuts), and not behind the first that is.
 */
static bool is_settled(void)
{
	return power.left_out > 0 && (power.count < power.left_out || wrong > 0);
}

/* Before a call. */
static void reached(void *ctx, const char *name)
{
	const struct scene *s = ctx;
	int saved = errno; /* the call's is looked at behind this */
	bool is_other = false;
	ino_t root;

	(void)name;
	if (is_settled())
		return;
	scan(s->dir);
	root = now.files[0].ino;
	power.dir = NULL;
	fm_fault_watch(NULL, NULL);
	if (stage != power.cut_stage || power.count != power.cut_count)
		cut(root, 0);
	power.cut_stage = stage;
	power.cut_count = power.count;
	for (unsigned i = 0; i < now.count; i++) {
		if (!S_ISDIR(now.files[i].mode) || !is_changed(&now.files[i]))
			continue;
		cut(root, now.files[i].ino);
		is_other = true;
	}
	if (is_other)
		cut(root, ALL_NAMES);
	power.dir = s->dir;
	fm_fault_watch(reached, ctx);
	errno = saved;
}

/* ---- a life ---- */

/* .use is written again for each of these, and says who pins it, too. */
static void use_pinned(struct scene *s, uint64_t id)
{
	const struct fm_cache_holder who = {.uid = 1000};
	uint64_t hold;

	CU_ASSERT_EQUAL(fm_cache_hold(s->c, id, &who, &hold, &s->err), 0);
	fm_cache_release(s->c, hold);
	fm_cache_upkeep(s->c);
	scene_pass(s, HOUR);
	CU_ASSERT_EQUAL(fm_cache_request(s->c, id, &s->err), 0);
	fm_cache_upkeep(s->c);
}

static void live(struct scene *s)
{
	struct fm_cache_plan plan = scene_plan(1, 2 * FILE_LEN);
	struct fm_cache_fetch *f;
	uint64_t id;

	scene_open(s);
	CU_ASSERT_EQUAL_FATAL(fm_cache_fetch(s->c, &plan, &f, &s->err), 0);
	id = fm_cache_fetch_id(f);
	scene_fill(f, "set1");
	fm_cache_fetch_mark(f, 4);
	CU_ASSERT_EQUAL(fm_cache_fetch_save(f, &s->err), 0);
	stage = SAVED;
	CU_ASSERT_EQUAL(scene_finish(s, f, 1), 0);
	stage = READY_TOLD;
	fm_cache_fetch_close(f);
	CU_ASSERT_EQUAL(fm_cache_pin(s->c, id, 1000, &s->err), 0);
	stage = PINNED;
	use_pinned(s, id);
	stage = GOES;
	CU_ASSERT_EQUAL(fm_cache_unpin(s->c, id, 1000, false, &s->err), 0);
	CU_ASSERT_EQUAL(fm_cache_discard(s->c, id, &s->err), 0);
	stage = GONE;
	fm_cache_upkeep(s->c);
}

/* A daemon was killed when it had renamed it to `gone`, and synced nothing yet: another starts. */
static void live_again(struct scene *s)
{
	char ready[PATH_MAX], gone[PATH_MAX];
	struct stat st;
	uint64_t id;

	power.dir = NULL;
	fm_fault_watch(NULL, NULL);
	scene_open(s);
	id = scene_stage(s, 1, 2 * FILE_LEN);
	CU_ASSERT_EQUAL(fm_cache_path(s->c, id, ready, sizeof(ready)), 0);
	fm_cache_close(s->c);
	*strrchr(ready, '/') = '\0';
	CU_ASSERT_EQUAL_FATAL(stat(ready, &st), 0);
	scan(s->dir);
	synced = now;
	snprintf(gone, sizeof(gone), "%s/gone/%016" PRIx64, s->dir, (uint64_t)st.st_ino);
	CU_ASSERT_EQUAL(rename(ready, gone), 0);
	stage = GOES;
	power.dir = s->dir;
	fm_fault_watch(reached, s);
	scene_open(s);
	fm_cache_upkeep(s->c);
	CU_ASSERT_FALSE(scene_exists(s, gone + strlen(s->dir) + 1));
	stage = GONE;
	fm_cache_upkeep(s->c);
}

/* How many states are wrong; with one sync left out, and not none (0), whether any is. */
static unsigned lived_and_cut(void (*life)(struct scene *s), unsigned left_out)
{
	struct scene s;

	scene_new(&s, "/dev/shm");
	cuts = wrong = 0;
	stage = BEGUN;
	power.count = 0;
	power.cut_count = SYNCS_MAX; /* none yet */
	power.left_out = left_out;
	power.dir = s.dir;
	synced.count = 0;
	fm_fault_watch(reached, &s);
	life(&s);
	fm_fault_watch(NULL, NULL);
	power.dir = NULL;
	scene_end(&s);
	return wrong;
}

static unsigned live_and_cut(unsigned left_out)
{
	return lived_and_cut(live, left_out);
}

static void test_power_cuts(void)
{
	CU_ASSERT_EQUAL(live_and_cut(0), 0);
	printf("%u states after power cuts, %u syncs: ", cuts, power.count);
	CU_ASSERT_TRUE(cuts > 200);
}

/* What a killed daemon left in `gone` is synced there before the first of its files goes. */
static void test_gone_is_synced(void)
{
	CU_ASSERT_EQUAL(lived_and_cut(live_again, 0), 0);
	printf("%u states after power cuts, %u syncs: ", cuts, power.count);
	CU_ASSERT_TRUE(cuts > 10);
	CU_ASSERT_TRUE(lived_and_cut(live_again, 1) + lived_and_cut(live_again, 3) > 0);
}

/*
 * Goal: a sync that is forgotten is found: both of all, those of `ready`, those of what .dataset
 * and .use say. For the others there is a later one that has the same on the disk before anybody
 * was told, or nothing was.
 */
static void test_each_sync_is_needed(void)
{
	unsigned syncs, found_of[3] = {0};
	static const char *const kinds[3] = {"syncfs", "ready", "state"};

	(void)live_and_cut(SYNCS_MAX); /* there are fewer: none is, and nothing is cut */
	syncs = power.count;
	CU_ASSERT_EQUAL(cuts, 0);
	for (unsigned n = 1; n <= syncs; n++) {
		bool is_found = live_and_cut(n) > 0;

		printf("%s%s ", power.what[n - 1], is_found ? "" : " (not needed)");
		for (unsigned k = 0; k < 3; k++)
			found_of[k] += is_found && strcmp(power.what[n - 1], kinds[k]) == 0;
	}
	CU_ASSERT_EQUAL(found_of[0], 2);
	CU_ASSERT_EQUAL(found_of[1], 2);
	CU_ASSERT_TRUE(found_of[2] > 1);
}

static const struct fm_test tests[] = {
	{"what was told stays, whatever else got to the disk", test_power_cuts},
	{"what was going when a daemon was killed comes back whole, or not", test_gone_is_synced},
	{"a sync that is left out is found", test_each_sync_is_needed},
};

int main(void)
{
#ifndef FM_FAULTS
	fm_test_skip("built without fault points");
#endif
	fm_log_set_level(FM_LOG_ERROR); /* what is damaged is said for each state */
	return fm_test_main("cache power", tests, sizeof(tests) / sizeof(tests[0]));
}
