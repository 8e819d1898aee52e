/* SPDX-License-Identifier: MIT */
/*
 * cache_fetch - a dataset that comes: room, its directory, what of it is there for good.
 *
 * All is synced with one syncfs(2), not with an fsync(2) for each file: a dataset has up to
 * millions of files, each of which would be a commit of the file system's own journal, and one
 * commit is enough. It also writes what others have written to this file system, which may take
 * long; the bytes of a fetch are written with O_DIRECT and are on their way already. An error of
 * writing is told to each descriptor that was open before it (since Linux 5.8): so the one that is
 * asked was opened before the first byte was written, and after an error nothing of this fetch is
 * trusted.
 *
 * A crash or power cut, and what is left then:
 *   before mkdir                    nothing
 *   before the mark                 an empty directory, which a start removes
 *   before .dataset                 a marked directory, which a start removes
 *   before the first save           PLANNED: all is fetched
 *   in a save, before the sync      the extents of the save before; what came since is fetched
 * again after the sync, before .extents the same: bytes that nothing says are there after .extents
 * is renamed       these extents, whose bytes were synced before
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/log.h"
#include "staging/cache_file.h"
#include "staging/cache_priv.h"
#include "staging/cache_sys.h"

#define MARK_MAX 32

/* ---- its directory ---- */

int fm_cache_dataset_write(int dir, const struct fm_cache_dataset *set)
{
	uint8_t bytes[FM_CACHE_DATASET_LEN + FM_CACHE_NAME_MAX + FM_CACHE_SOURCE_MAX +
		      FM_CACHE_CRC_LEN];

	return fm_cache_file_write(dir, FM_CACHE_DATASET_NAME, bytes,
				   fm_cache_put_dataset(set, bytes, sizeof(bytes)),
				   FM_CACHE_SYNC_ALL);
}

static int put_mark(int dir, uint64_t ino)
{
	char mark[MARK_MAX];
	int fd;

	(void)snprintf(mark, sizeof(mark), FM_CACHE_MARK_FORM, ino);
	fd = fm_cache_sys_open(dir, mark, O_WRONLY | O_CREAT, 0600);
	if (fd >= 0)
		(void)close(fd); /* nothing was written */
	return fd < 0 ? fd : 0;
}

static int fill_dir(struct fm_cache_fetch *f)
{
	struct stat st;
	int ret = fm_cache_sys_fstat(f->dir, &st);

	if (ret < 0)
		return ret;
	pthread_mutex_lock(&f->c->lock);
	f->e->ino = st.st_ino;
	pthread_mutex_unlock(&f->c->lock);
	ret = put_mark(f->dir, st.st_ino);
	if (ret == 0)
		ret = fm_cache_dataset_write(f->dir, &f->e->set);
	return ret == 0 ? fm_cache_use_save(f->c, f->e->set.id, true) : ret;
}

/* Out of the way; upkeep removes it. One that has no mark yet is empty. */
static void undo_dir(struct fm_cache_fetch *f, const char *name)
{
	int partial = f->c->dirs[FM_CACHE_PARTIAL];
	char gone[FM_CACHE_ENTRY_NAME_MAX];

	if (unlinkat(partial, name, AT_REMOVEDIR) == 0 || f->e->ino == 0)
		return;
	(void)snprintf(gone, sizeof(gone), "%016" PRIx64, f->e->ino);
	(void)renameat(partial, name, f->c->dirs[FM_CACHE_GONE],
		       gone); /* else a start finds it, and goes on with it */
}

static int make_dir(struct fm_cache_fetch *f, struct fm_err *err)
{
	char name[FM_CACHE_ENTRY_NAME_MAX];
	int partial = f->c->dirs[FM_CACHE_PARTIAL], ret;

	fm_cache_entry_name(f->e, name);
	ret = fm_cache_sys_mkdir(partial, name, 0700);
	if (ret == -EEXIST)	/* else it would be known */
		return fm_err_set(err, -EUCLEAN,
				  "cache %.200s: partial/%s was not taken when fmoved started: its "
				  "log says why; mend that and restart fmoved, or remove it",
				  f->c->directory, name);
	if (ret < 0)
		return fm_err_making(err, ret, partial, "cache %.200s: make partial/%s",
				     f->c->directory, name);
	f->dir = fm_cache_sys_open(partial, name, FM_CACHE_DIR_FLAGS, 0);
	ret = f->dir < 0 ? f->dir : fill_dir(f);
	if (ret == 0)
		return 0;
	undo_dir(f, name);
	return fm_err_making(err, ret, partial, "cache %.200s: fill partial/%s", f->c->directory,
			     name);
}

/*
 * Reads from the file of this fetch which extents are on the disk. That file is the truth; the
 * number in memory is only shown to users.
 */
static int read_bits(struct fm_cache_fetch *f)
{
	unsigned extents = f->e->set.extents;
	uint8_t *bytes;
	size_t len;
	int ret =
		fm_cache_file_read(f->dir, FM_CACHE_EXTENTS_NAME, FM_CACHE_FILE_MAX, &bytes, &len);

	if (ret == -ENOENT || ret == -EBADMSG)
		return 0;
	if (ret < 0)
		return ret;
	ret = fm_cache_get_extents(bytes, len, f->e->set.id, extents, f->bits);
	fm_budget_free(bytes);
	for (unsigned i = 0; ret == 0 && i < extents; i++)
		f->missing -= f->bits[i / 8] >> i % 8 & 1;
	return ret == -EBADMSG ? 0 : ret;
}

/* Somebody removed the partial dataset by hand: the fetch begins anew. */
static int begin_anew(struct fm_cache_fetch *f, struct fm_err *err)
{
	struct fm_cache_entry *e = f->e;

	fm_log_warn("cache %s: what came of %s is not there any more: somebody removed it",
		    f->c->directory, e->set.name);
	pthread_mutex_lock(&f->c->lock);
	e->state = FM_CACHE_PLANNED;
	e->ino = e->written = 0;
	e->extents_done = 0;
	pthread_mutex_unlock(&f->c->lock);
	return make_dir(f, err);
}

static int go_on(struct fm_cache_fetch *f, struct fm_err *err)
{
	char name[FM_CACHE_ENTRY_NAME_MAX];
	int ret = fm_cache_room_make(f->c, 0, 0, f->e->set.name, err);

	if (ret < 0)
		return ret;
	fm_cache_entry_name(f->e, name);
	f->dir = fm_cache_sys_open(f->c->dirs[FM_CACHE_PARTIAL], name, FM_CACHE_DIR_FLAGS, 0);
	if (f->dir == -ENOENT)
		return begin_anew(f, err);
	ret = f->dir < 0 ? f->dir : read_bits(f);
	return ret < 0 ? fm_err_sys(err, ret, "cache %.200s: go on with partial/%s",
				    f->c->directory, name)
		       : 0;
}

/* ---- planning ---- */

static int check_plan(const struct fm_cache_plan *plan, struct fm_err *err)
{
	if (!fm_cache_is_name(plan->name))
		return fm_err_set(
			err, -EINVAL,
			"a dataset's name has 1 to %d bytes, no '/', no '.' first, and only "
			"what a terminal may be shown",
			FM_CACHE_NAME_MAX);
	if (strlen(plan->source) > FM_CACHE_SOURCE_MAX)
		return fm_err_set(err, -EINVAL,
				  "the name of its source has more than %d bytes: stage it from a "
				  "shorter path",
				  FM_CACHE_SOURCE_MAX);
	if (plan->extents > FM_CACHE_EXTENTS_MAX || plan->bytes > INT64_MAX ||
	    plan->files > INT64_MAX / FM_CACHE_BLOCK)
		return fm_err_set(err, -EFBIG,
				  "%s is too large for one dataset, which has %u extents at most: "
				  "stage its directories, each by itself",
				  plan->name, FM_CACHE_EXTENTS_MAX);
	return 0;
}

static void fetch_free(struct fm_cache_fetch *f)
{
	fm_budget_free(f->bits);
	fm_budget_free(f->copy);
	fm_budget_free(f->file);
	fm_budget_free(f);
}

static struct fm_cache_fetch *fetch_new(struct fm_cache *c, unsigned extents)
{
	struct fm_cache_fetch *f = fm_cache_alloc(sizeof(*f));
	size_t len = fm_cache_bits_len(extents);

	if (!f)
		return NULL;
	f->c = c;
	f->dir = -1;
	f->missing = extents;
	f->file_max = FM_CACHE_EXTENTS_LEN + len + FM_CACHE_CRC_LEN;
	f->bits = fm_cache_alloc(len + 1);
	f->copy = fm_cache_alloc(len + 1);
	f->file = fm_cache_alloc(f->file_max);
	if (f->bits && f->copy && f->file)
		return f;
	fetch_free(f);
	return NULL;
}

static bool is_of_plan(const struct fm_cache_entry *e, const struct fm_cache_plan *plan)
{
	return e->set.bytes == plan->bytes && e->set.extents == plan->extents &&
	       e->set.files == plan->files;
}

/* Under the lock: 1: *out is there, and the caller's from now on; 0: there is none. */
static int find_partial(struct fm_cache *c, const struct fm_cache_plan *plan,
			struct fm_cache_entry **out, struct fm_err *err)
{
	struct fm_cache_entry *found = NULL;

	fm_list_each (at, next, &c->entries) {
		struct fm_cache_entry *e = fm_container_of(at, struct fm_cache_entry, at);

		if (e->is_going ||
		    memcmp(&e->set.listing, &plan->listing, sizeof(plan->listing)) != 0)
			continue;
		if (e->state == FM_CACHE_EVICTING)
			return fm_cache_may_use(e, err);
		if (e->state == FM_CACHE_READY)
			return fm_err_set(err, -EALREADY, "%s is staged here already", e->set.name);
		found = e;
	}
	if (!found)
		return 0;
	if (found->is_fetched || found->is_busy)
		return fm_err_set(err, -EBUSY, "%s is being fetched already", found->set.name);
	if (!is_of_plan(found, plan))
		return fm_err_set(err, -EBADMSG,
				  "what is there of %s is of another size: fmove unstage it, and "
				  "stage it again",
				  found->set.name);
	found->is_fetched = true;
	*out = found;
	return 1;
}

static int add_entry(struct fm_cache *c, const struct fm_cache_plan *plan,
		     struct fm_cache_entry **out, struct fm_err *err)
{
	struct fm_cache_dataset set = {
		.id = fm_cache_random(),
		.bytes = plan->bytes,
		.files = plan->files,
		.extents = plan->extents,
		.cost = plan->cost ? plan->cost : 1,
		.listing = plan->listing,
		.created_ns = fm_cache_now(c).wall_ns,
		.source = FM_FAULT("cache.fetch") ? NULL : strdup(plan->source),
	};

	(void)snprintf(set.name, sizeof(set.name), "%s", plan->name);
	pthread_mutex_lock(&c->lock);
	*out = set.source ? fm_cache_entry_new(c, &set) : NULL;
	if (*out) {
		(*out)->is_fetched = true;
		(*out)->is_measured = true; /* nothing of it is there */
		(*out)->use.requested = (*out)->use.used = fm_cache_now(c);
	}
	pthread_mutex_unlock(&c->lock);
	if (*out)
		return 0;
	free(set.source);
	return fm_err_set(err, -ENOMEM, "cache %.200s: no memory for one more dataset",
			  c->directory);
}

/* Under the lock. Who goes on with a partial one has it from then on. */
static void note_asker(struct fm_cache_entry *e, const struct fm_cache_plan *plan)
{
	e->has_asker = true;
	e->asker = plan->uid;
	(void)snprintf(e->asker_node, sizeof(e->asker_node), "%s", plan->node ? plan->node : "");
}

/* What goes for one that is not there: for its room first, which leaves its place. */
static int make_place(struct fm_cache *c, const struct fm_cache_plan *plan, struct fm_err *err)
{
	struct fm_cache_dataset size = {.bytes = plan->bytes, .files = plan->files};
	int ret = fm_cache_room_make(c, fm_cache_room_of(&size), plan->files, plan->name, err);

	return ret < 0 ? ret : fm_cache_place_make(c, plan->name, err);
}

/*
 * Whether it may come, before anything goes for it. Then what has to go does, others' first: of his
 * own nothing may, if one of these cannot, since somebody has it open.
 */
static int charge(struct fm_cache *c, const struct fm_cache_plan *plan, bool is_there,
		  struct fm_err *err)
{
	struct fm_cache_dataset size = {.bytes = plan->bytes, .files = plan->files};
	uint64_t bytes = is_there ? 0 : fm_cache_room_of(&size);
	uint64_t files = is_there ? 0 : plan->files;
	struct fm_cache_left left;
	int ret = fm_cache_charge_choose(c, plan, &left, err);

	if (ret < 0)
		return ret;
	if (!is_there)
		ret = fm_cache_place_check(c, plan, &left, err);
	if (ret == 0)
		ret = fm_cache_room_check(c, bytes, files, &left, plan->name, err);
	if (ret == 0)
		ret = fm_cache_room_beside(c, bytes, files, &left, plan->name, err);
	if (ret == 0)
		ret = fm_cache_charge_take(c, plan, &left, err);
	fm_budget_free(left.items);
	return ret;
}

static int plan_new(struct fm_cache_fetch *f, const struct fm_cache_plan *plan, struct fm_err *err)
{
	int ret = charge(f->c, plan, false, err);

	if (ret == 0)
		ret = make_place(f->c, plan, err);
	return ret < 0 ? ret : add_entry(f->c, plan, &f->e, err);
}

/* What was there is there for others again. */
static void let_go(struct fm_cache_fetch *f, bool was_there)
{
	pthread_mutex_lock(&f->c->lock);
	f->e->is_fetched = false;
	if (!was_there)
		fm_cache_entry_free(f->c, f->e);
	pthread_mutex_unlock(&f->c->lock);
}

/* Under `room`. */
static int plan_it(struct fm_cache_fetch *f, const struct fm_cache_plan *plan, struct fm_err *err)
{
	struct fm_cache *c = f->c;
	int ret = fm_cache_mount_check(c, err), found;

	if (ret == 0)
		ret = fm_cache_renew(c, err);
	if (ret < 0)
		return ret;
	pthread_mutex_lock(&c->lock);
	found = find_partial(c, plan, &f->e, err);
	pthread_mutex_unlock(&c->lock);
	if (found < 0)
		return found;
	ret = found ? charge(c, plan, true, err) : plan_new(f, plan, err);
	if (ret < 0) {
		if (found)
			let_go(f, true);
		return ret;
	}
	pthread_mutex_lock(&c->lock);
	note_asker(f->e, plan);
	pthread_mutex_unlock(&c->lock);
	ret = found ? go_on(f, err) : make_dir(f, err);
	if (ret < 0)
		let_go(f, found);
	return ret;
}

int fm_cache_fetch(struct fm_cache *c, const struct fm_cache_plan *plan,
		   struct fm_cache_fetch **out, struct fm_err *err)
{
	int ret = check_plan(plan, err);
	struct fm_cache_fetch *f = ret == 0 ? fetch_new(c, plan->extents) : NULL;

	if (!f)
		return ret < 0 ? ret
			       : fm_err_set(err, -ENOMEM, "no memory to fetch %s", plan->name);
	pthread_mutex_lock(&c->room);
	ret = plan_it(f, plan, err);
	pthread_mutex_unlock(&c->room);
	if (ret < 0) {
		if (f->dir >= 0)
			(void)close(f->dir); /* only names were changed through it */
		fetch_free(f);
		return ret;
	}
	*out = f;
	return 0;
}

/*
 * Throws a fetch away after a failed sync. The page cache then has bytes that the disk does not
 * have. A later fetch would read the right bytes from memory, and its own sync would succeed. If
 * the removal fails too, no extent counts any more, and upkeep tries again.
 */
static void give_up(struct fm_cache *c, uint64_t id)
{
	if (fm_cache_evict(c, id) < 0)
		fm_log_warn("cache %s: what a failed sync left cannot be removed", c->directory);
}

void fm_cache_fetch_close(struct fm_cache_fetch *f)
{
	struct fm_cache *c = f ? f->c : NULL;
	uint64_t broken;

	if (!f)
		return;
	broken = f->is_broken ? f->e->set.id : 0;
	pthread_mutex_lock(&c->lock);
	f->e->is_fetched = false;
	f->e->is_measured = false; /* who fails may remove what it wrote */
	if (f->e->place == FM_CACHE_PARTIAL) {
		f->e->use.used = fm_cache_now(c); /* its grace begins */
		f->e->is_use_new = true;
	}
	pthread_mutex_unlock(&c->lock);
	(void)close(f->dir); /* what counts of it was synced, and that was heard */
	fetch_free(f);
	if (broken)
		give_up(c, broken);
}

/* ---- while it comes ---- */

uint64_t fm_cache_fetch_id(const struct fm_cache_fetch *f)
{
	return f->e->set.id;
}

int fm_cache_fetch_dir(const struct fm_cache_fetch *f)
{
	return f->dir;
}

void fm_cache_fetch_wrote(struct fm_cache_fetch *f, uint64_t bytes, uint64_t files)
{
	const struct fm_cache_dataset wrote = {.bytes = bytes, .files = files};
	uint64_t room = fm_cache_room_of(&wrote);

	pthread_mutex_lock(&f->c->lock);
	if (room > f->e->written)
		f->e->written = room;
	if (f->e->state == FM_CACHE_PLANNED)
		f->e->state = FM_CACHE_FETCHING;
	pthread_mutex_unlock(&f->c->lock);
}

static bool has(const struct fm_cache_fetch *f, unsigned extent)
{
	return f->bits[extent / 8] >> extent % 8 & 1;
}

bool fm_cache_fetch_has(const struct fm_cache_fetch *f, unsigned extent)
{
	bool is_there;

	if (extent >= f->e->set.extents)
		return false;
	pthread_mutex_lock(&f->c->lock);
	is_there = has(f, extent);
	pthread_mutex_unlock(&f->c->lock);
	return is_there;
}

void fm_cache_fetch_mark(struct fm_cache_fetch *f, unsigned extent)
{
	if (extent >= f->e->set.extents)
		return;
	pthread_mutex_lock(&f->c->lock);
	if (!has(f, extent)) {
		f->bits[extent / 8] = (uint8_t)(f->bits[extent / 8] | 1u << extent % 8);
		f->missing--;
	}
	if (f->e->state == FM_CACHE_PLANNED)
		f->e->state = FM_CACHE_FETCHING;
	pthread_mutex_unlock(&f->c->lock);
}

unsigned fm_cache_fetch_missing(const struct fm_cache_fetch *f)
{
	unsigned missing;

	pthread_mutex_lock(&f->c->lock);
	missing = f->missing;
	pthread_mutex_unlock(&f->c->lock);
	return missing;
}

int fm_cache_fetch_begin(struct fm_cache_fetch *f, struct fm_err *err)
{
	int ret = 0;

	pthread_mutex_lock(&f->c->lock);
	if (f->is_broken)
		ret = fm_err_set(err, -EIO,
				 "a sync of %s failed, so nothing of it is trusted: look at the "
				 "disk (dmesg), and run it again",
				 f->e->set.name);
	else if (f->e->is_busy)
		ret = fm_err_set(err, -EBUSY, "something else is being done to %s: run it again",
				 f->e->set.name);
	else
		f->e->is_busy = true;
	pthread_mutex_unlock(&f->c->lock);
	return ret;
}

void fm_cache_fetch_end(struct fm_cache_fetch *f)
{
	pthread_mutex_lock(&f->c->lock);
	f->e->is_busy = false;
	pthread_mutex_unlock(&f->c->lock);
}

static int save_bits(struct fm_cache_fetch *f, unsigned done, struct fm_err *err)
{
	struct fm_cache_entry *e = f->e;
	size_t len;
	int ret = fm_cache_sys_syncfs(f->dir);

	if (ret < 0) {
		f->is_broken = true;
		/* Not after a crash either: without its bits nothing of it is gone on with. */
		(void)unlinkat(f->dir, FM_CACHE_EXTENTS_NAME, 0);
		return fm_err_sys(err, -EIO, "cache %.200s: sync %s (%s)", f->c->directory,
				  e->set.name, fm_err_name(ret));
	}
	len = fm_cache_put_extents(e->set.id, e->set.extents, f->copy, f->file, f->file_max);
	ret = fm_cache_file_write(f->dir, FM_CACHE_EXTENTS_NAME, f->file, len,
				  FM_CACHE_SYNC_ALL);
	if (ret < 0)
		return fm_err_making(err, ret, f->c->root,
				     "cache %.200s: write down what is there of %s",
				  f->c->directory, e->set.name);
	pthread_mutex_lock(&f->c->lock);
	e->extents_done = done;
	pthread_mutex_unlock(&f->c->lock);
	return 0;
}

int fm_cache_fetch_save(struct fm_cache_fetch *f, struct fm_err *err)
{
	unsigned done;
	int ret = fm_cache_fetch_begin(f, err);

	if (ret < 0)
		return ret;
	pthread_mutex_lock(&f->c->lock);
	memcpy(f->copy, f->bits, fm_cache_bits_len(f->e->set.extents));
	done = f->e->set.extents - f->missing;
	pthread_mutex_unlock(&f->c->lock);
	ret = save_bits(f, done, err);
	fm_cache_fetch_end(f);
	return ret;
}
