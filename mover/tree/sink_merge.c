/* SPDX-License-Identifier: MIT */
/*
 * sink_merge - an update keeps what only the version that is there has: it comes into the new
 * version.
 *
 * Happy path: the old version is walked before anything is made (survey), since what could not be
 * kept is better refused then. When everything came it is walked again: each name that is not in
 * the new tree is taken over (sink_carry.c). After the exchange it is walked once more, for what
 * appeared in it meanwhile. An error: it names the path, and nothing is published. After the
 * exchange: the replaced version stays as it is, beside the new one.
 *
 * Nothing is held but the way from the root to where the walk is (scan.h). With is_delete, or where
 * the old version is replaced as a whole, the same walk only counts what goes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "mover/base/show.h"
#include "mover/tree/scan.h"
#include "mover/tree/sink_merge.h"
#include "mover/tree/tsys.h"

/* -------------------------------------------------------------------------------------- walking */

static void find_place(const struct fm_scan_met *met, struct fm_merge_at *p)
{
	p->met = met;
	p->len =
		(size_t)snprintf(p->path, sizeof(p->path), "%s%s%s", met->dir->path,
				 met->name_len > 0 && met->dir->path_len > 0 ? "/" : "", met->name);
	fm_merge_split(p);
	p->dir = -1;
}

static struct fm_scan *scan_of(int root, const struct fm_sink *s, struct fm_err *err)
{
	struct fm_scan_opts opts = { .skips = fm_staging_is_ours, .is_target = true };
	int fd = fm_tsys_open(root, ".", O_RDONLY | O_DIRECTORY, 0);
	struct fm_scan *scan;

	if (fd < 0) {
		(void)fm_sink_fail(s, fd, "read", NULL, 0, err);
		return NULL;
	}
	opts.root = fm_scan_dir_new(fd, "", 0);
	scan = opts.root ? fm_scan_new(&opts) : NULL;
	fm_scan_dir_put(opts.root);
	if (!scan)
		(void)fm_err_set(err, -ENOMEM, "out of memory");
	return scan;
}

/* visit() for each name below root but its own. */
static int walk(struct fm_merge *w, int (*visit)(struct fm_merge *w, const struct fm_scan_met *met))
{
	struct fm_sink *s = w->call->s;
	struct fm_err *err = w->call->err;
	struct fm_path_shown shown;
	struct fm_scan_met met;
	struct fm_scan *scan;
	int ret = 1;

	fm_err_clear(err);
	scan = scan_of(w->old, s, err);
	if (!scan)
		return err->code;
	while (ret > 0) {
		ret = w->is_over ? 0 : fm_sink_may_go_on(s, err);
		if (ret < 0)
			break;
		ret = fm_scan_next(scan, &met, err);
		if (ret < 0) {
			(void)fm_err_wrap(err, "\"%s\"", fm_path_show(s->opts.path, &shown));
			break;
		}
		if (ret > 0 && (met.name_len > 0 || met.dir->path_len > 0)) {
			int visited = visit(w, &met);

			ret = visited < 0 ? visited : ret;
		}
	}
	fm_scan_free(scan);
	return ret;
}

/*
 * Refuses a mount point in the old version: what is mounted there would be removed with that
 * version.
 */
static int check_mount(struct fm_merge *w, const struct fm_scan_met *met)
{
	struct fm_merge_at p;
	int ret = fm_tsys_is_mounted_on(met->dir->fd, met->name);	/* of a directory "" */

	if (ret == 0 || ret == -ENOENT)		/* it went meanwhile */
		return 0;
	find_place(met, &p);
	return ret < 0 ? fm_merge_fail(w, ret, "look at", &p) : fm_merge_refuse_mount(w, &p);
}

/* --------------------------------------------------------------------------------------- survey */

static int count_name(struct fm_merge *w, const struct fm_scan_met *met)
{
	struct fm_merge_at p;
	int ret = check_mount(w, met);

	atomic_fetch_add(&w->call->s->old_names, 1);
	if (ret < 0 || !w->call->s->is_merging)
		return ret;
	find_place(met, &p);
	return fm_foreign_look(w, &p);
}

static void survey(struct fm_sink *s, struct fm_err *err)
{
	struct fm_sink_call call;
	struct fm_merge w = { .call = &call, .old = s->old };
	int ret;

	fm_sink_begin(&call, s, err);
	fm_foreign_begin(&s->foreign);
	ret = walk(&w, count_name);
	fm_foreign_end(&s->foreign);
	fm_sink_end(&call);
	/* What goes anyway need not be read. */
	if (ret < 0 && ret != -ECANCELED && !s->is_merging && !w.has_mount)
		fm_err_clear(err);
	if (ret == 0)
		(void)fm_foreign_ask(s, err);
}

int fm_sink_survey(struct fm_sink *s, struct fm_err *err)
{
	int ret;

	if (s->old < 0)
		return 0;
	pthread_mutex_lock(&s->surveying);
	if (!s->is_surveyed)
		survey(s, &s->survey_err);
	s->is_surveyed = true;
	ret = s->survey_err.code;
	if (ret < 0)
		fm_err_set(err, ret, "%s", s->survey_err.text);
	pthread_mutex_unlock(&s->surveying);
	return ret;
}

/*
 * Where nothing is replaced another file system may stay mounted in the old version: the sync of
 * that one's leaves it out.
 */
static int sync_mounted(struct fm_merge *w, const struct fm_scan_met *met)
{
	struct fm_sink *s = w->call->s;
	struct stat root, st;
	int ret = fm_tsys_fstat(w->old, &root);

	if (ret == 0)
		ret = fm_tsys_fstat(met->dir->fd, &st);
	if (ret < 0)
		return fm_sink_fail(s, ret, "look at", NULL, 0, w->call->err);
	if (st.st_dev == root.st_dev || st.st_dev == w->synced)
		return 0;
	w->synced = st.st_dev;
	return fm_sink_note_sync(s, fm_tsys_syncfs(met->dir->fd),
				 "sync the file system mounted below", w->call->err);
}

static int count_met(struct fm_merge *w, const struct fm_scan_met *met)
{
	w->met++;
	return w->is_durable && met->name_len == 0 ? sync_mounted(w, met) : 0;
}

int fm_sink_count_old(struct fm_sink *s, bool is_durable, uint64_t *names, struct fm_err *err)
{
	struct fm_sink_call call;
	struct fm_merge w = { .call = &call, .old = s->old, .is_durable = is_durable };
	int ret;

	fm_sink_begin(&call, s, err);
	ret = walk(&w, count_met);
	fm_sink_end(&call);
	*names = w.met;
	return ret;
}

/* -------------------------------------------------------------------------------------- merging */

static int meet(struct fm_merge *w, const struct fm_merge_at *p, const struct stat *st)
{
	const struct fm_sink *s = w->call->s;
	bool is_dir = p->met->type == DT_DIR, is_dir_now = S_ISDIR(st->st_mode);

	w->call->tally.met++;
	/* what a directory took the place of was counted with it */
	w->call->tally.other += !is_dir_now;
	/* Late: what is in a directory that appeared under the name of a file is nowhere else. */
	if (is_dir != is_dir_now && (s->is_merging || w->is_late) && !s->opts.may_replace)
		return fm_sink_refuse_kind(s, p->path, p->len, is_dir, w->call->err);
	return 0;
}

/*
 * The new version has its final name, so its users can move directories in it. A late entry is put
 * only into a directory that has the same owner and group as the one it comes from.
 */
int fm_merge_check_owner(struct fm_merge *w, const struct fm_merge_at *p)
{
	struct stat from, to;
	int ret = fm_tsys_fstat(p->met->dir->fd, &from);

	if (!w->is_late || !w->call->s->opts.has_owners || p->met->type == DT_DIR)
		return 0;
	if (ret == 0)
		ret = fm_tsys_fstat(p->dir, &to);
	if (ret == 0 && (from.st_uid != to.st_uid || from.st_gid != to.st_gid))
		ret = -ESTALE;
	return ret < 0 ? fm_merge_fail(w, ret, "find the directory of", p) : 0;
}

static int visit_old(struct fm_merge *w, const struct fm_scan_met *met)
{
	const struct fm_sink *s = w->call->s;
	struct stat st;
	struct fm_merge_at p;
	int ret = check_mount(w, met);

	if (ret < 0)
		return ret;
	find_place(met, &p);
	p.dir = fm_sink_dir_find(&w->call->data, p.path, p.dir_len);
	ret = p.dir < 0 ? p.dir : fm_tsys_fstatat(p.dir, p.name, &st);
	if (ret == 0)
		return meet(w, &p, &st);
	if (ret != -ENOENT && ret != -ENOTDIR && ret != -ELOOP)
		return fm_merge_fail(w, ret, "look for", &p);
	/* Without a directory for it in the new tree, what came took that one's place. */
	if (p.dir >= 0 && (s->is_merging || w->is_late)) {
		ret = fm_merge_check_owner(w, &p);
		return ret < 0 ? ret : fm_merge_carry(w, &p);
	}
	w->call->count.removed++;
	if (!w->is_late)
		fm_sink_name(w->call->s, FM_TREE_REMOVED, p.path, p.len);
	return 0;
}

int fm_sink_merge(struct fm_sink_call *call)
{
	struct fm_sink *s = call->s;
	struct fm_merge w = { .call = call, .old = s->old };
	int ret;

	if (s->old < 0)
		return 0;
	ret = walk(&w, visit_old);
	call->count.kept += w.carried;
	if (ret < 0 && ret != -ECANCELED && !s->is_merging && !w.has_mount) {
		/*
		 * The old version is removed anyway, so an error of reading it does not matter. It
		 * is counted as one removal.
		 */
		fm_err_clear(call->err);
		call->count.removed += call->count.removed == 0;
		ret = fm_sink_may_go_on(s, call->err);
	}
	return ret;
}

static int visit_unmet(struct fm_merge *w, const struct fm_scan_met *met)
{
	struct fm_merge_at p;

	find_place(met, &p);
	if (!fm_sink_is_met(w->call->s, p.path, p.len))
		fm_sink_name(w->call->s, FM_TREE_REMOVED, p.path, p.len);
	return 0;
}

static int visit_lost(struct fm_merge *w, const struct fm_scan_met *met)
{
	char path[2 * FM_TREE_PATH_MAX + FM_SINK_NAME_MAX + 4];
	struct fm_merge_at p;
	int len;

	find_place(met, &p);
	len = snprintf(path, sizeof(path), "%.*s/%s", (int)w->below_len, w->below, p.path);
	w->call->count.removed++;
	fm_sink_name(w->call->s, FM_TREE_REMOVED, path, (size_t)len);
	return 0;
}

int fm_sink_lose_dir(struct fm_sink_call *call, const char *path, size_t len)
{
	struct fm_merge w = { .call = call, .below = path, .below_len = len };

	w.old = fm_sink_dir_find(&call->old, path, len);
	/* no directory: nothing is in it */
	return w.old < 0 ? 0 : walk(&w, visit_lost);
}

int fm_sink_name_unmet(struct fm_sink *s, struct fm_err *err)
{
	struct fm_sink_call call;
	struct fm_merge w = { .call = &call, .old = s->old, .is_over = true };
	int ret;

	if (s->old < 0)
		return 0;
	fm_sink_begin(&call, s, err);
	ret = walk(&w, visit_unmet);
	fm_sink_end(&call);
	if (ret != -EPERM)
		return ret;
	/* What goes anyway need not be read; the update names nothing of it either. */
	fm_err_clear(err);
	return 0;
}

void fm_sink_settle(struct fm_sink *s)
{
	const struct fm_sink_tally *t = &s->tally;
	struct fm_tree_count *n = &s->total;
	uint64_t came;

	pthread_mutex_lock(&s->counting);
	/* the root, if it is new */
	came = n->files + n->dirs + n->links + n->hard_links + (s->old < 0);
	n->added = came > t->met ? came - t->met : 0;
	n->replaced = (t->other > t->same ? t->other - t->same : 0) + t->dirs;
	s->is_same = s->old >= 0 && s->opts.is_update && !s->is_old_unsure && n->added == 0 &&
		     n->replaced == 0 && n->removed == 0;
	pthread_mutex_unlock(&s->counting);
}

/* --------------------------------------------------------------------------- after the exchange */

/* The renames were the last that changed both, unless somebody did since. 0: nobody can say. */
static uint64_t placed_ns(const struct fm_sink *s, int old)
{
	struct stat was, is;

	if (fm_tsys_fstat(old, &was) < 0 || fm_tsys_fstat(s->data, &is) < 0)
		return 0;
	return fm_tsys_ctime(&was) < fm_tsys_ctime(&is) ? fm_tsys_ctime(&was) : fm_tsys_ctime(&is);
}

/*
 * Whoever uses the tree finds in it what was taken over, which is not to stay without its mode
 * because something else could not be. The first error is told.
 */
static int finish_late(struct fm_merge *w, int ret)
{
	struct fm_err first = ret < 0 ? *w->call->err : w->left;

	ret = w->carried > 0 ? fm_sink_finish_carried(w->call) : 0;
	if (first.code == 0)
		return ret;
	*w->call->err = first;
	return first.code;
}

int fm_sink_merge_late(struct fm_sink *s, int dir, const char *name, bool *has_changed,
		       struct fm_err *err)
{
	struct fm_sink_call call;
	struct fm_merge w = { .call = &call, .is_late = true };
	int ret;

	*has_changed = false;
	if (!fm_sink_keeps_old(s))
		return 0;
	w.old = fm_tsys_open(dir, name, O_RDONLY | O_DIRECTORY, 0);
	if (w.old < 0)
		return fm_sink_fail(s, w.old, "open", NULL, 0, err);
	fm_sink_begin(&call, s, err);
	call.old.root = w.old;
	w.placed_ns = placed_ns(s, w.old);
	ret = walk(&w, visit_old);
	if (ret == 0)
		ret = fm_merge_take_saved(&w);
	ret = finish_late(&w, ret);
	call.count.kept += w.carried;
	call.count.removed = 0;
	fm_sink_end(&call);
	close(w.old);
	*has_changed = w.carried > 0 || w.has_saved;
	return ret;
}

/* --------------------------------------------------------------------------- of a try that died */

/*
 * Whether this name of the old version is something else than a hard link to the file that the new
 * version has in the same place.
 */
static bool is_elsewhere(struct fm_merge *w, const struct fm_scan_met *met, const struct stat *st)
{
	struct fm_merge_at p;
	struct stat now;

	if (S_ISDIR(st->st_mode))
		return true;
	find_place(met, &p);
	p.dir = fm_sink_dir_find(&w->call->old, p.path, p.dir_len);
	return p.dir < 0 || fm_tsys_fstatat(p.dir, p.name, &now) < 0 || now.st_ino != st->st_ino ||
	       now.st_dev != st->st_dev;
}

/*
 * Looks for changes of the version that a crash left. An entry that was moved in, made or written
 * since the try began has a later ctime. A directory that was moved in stands for everything in it.
 */
static int visit_left(struct fm_merge *w, const struct fm_scan_met *met)
{
	int ret = check_mount(w, met);
	struct stat st;

	if (ret == 0)
		ret = met->name_len > 0 ? fm_tsys_fstatat(met->dir->fd, met->name, &st)
					: fm_tsys_fstat(met->dir->fd, &st);
	if (ret < 0)
		return ret;
	return fm_tsys_ctime(&st) >= w->since_ns && is_elsewhere(w, met, &st) ? -ESTALE : 0;
}

/*
 * Whether `left` is what this try replaced. The final name must lead to the tree that the try made.
 * The exchange was the last change of `left`, so its ctime must be later than the start of the try.
 */
static bool is_of_try(const struct fm_sink *s, int left, const struct fm_staging_state *state)
{
	struct stat made, was;

	return s->old >= 0 && fm_tsys_fstat(s->old, &made) == 0 && made.st_ino == state->data_ino &&
	       fm_tsys_fstat(left, &was) == 0 && state->begun_ns > 0 &&
	       fm_tsys_ctime(&was) >= state->begun_ns;
}

bool fm_sink_is_taken_over(struct fm_sink *s, const char *name,
			   const struct fm_staging_state *state)
{
	struct fm_sink_call call;
	struct fm_err err = { 0 };
	struct fm_merge w = { .call = &call, .since_ns = state->begun_ns };
	bool is;

	w.old = fm_tsys_open(s->opts.parent, name, O_RDONLY | O_DIRECTORY, 0);
	if (w.old < 0)
		return false;
	fm_sink_begin(&call, s, &err);
	is = is_of_try(s, w.old, state) && walk(&w, visit_left) == 0;
	fm_sink_end(&call);
	close(w.old);
	return is;
}
