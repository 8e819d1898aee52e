/* SPDX-License-Identifier: MIT */
/* sockets - see sockets.h. */
#include "mover/daemon/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/files.h"
#include "config/options.h"
#include "mover/api/api.h"
#include "mover/base/call.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/base/users.h"
#include "mover/base/within.h"

/* what a user database said after its time is believed for so long */
#define LATE_NS (60 * FM_NS_PER_S)
#define SOCKET_PATH_MAX sizeof(((struct fm_api_socket *)NULL)->path)

/* ---- what the configuration means ---- */

static int find_user(const struct fm_config_socket *cfg, struct fm_api_socket *out,
		     struct fm_err *err)
{
	if (!fm_users_find(cfg->user, &out->user_uid, &out->user_gid))
		return fm_err_set(err, -ENOENT,
				  "sockets.user: this machine has no user \"%s\"; id NAME shows "
				  "whether it has another",
				  cfg->user);
	if (out->user_uid == 0)
		return fm_err_set(err, -EPERM,
				  "sockets.user: \"%s\" is root, whose rights no socket gives",
				  cfg->user);
	out->is_of_user = true;
	return 0;
}

static int find_group(const struct fm_config_socket *cfg, struct fm_api_socket *out,
		      struct fm_err *err)
{
	out->gid = (gid_t)-1;
	if (cfg->group[0] && !fm_users_find_group(cfg->group, &out->gid))
		return fm_err_set(err, -ENOENT,
				  "sockets.group: this machine has no group \"%s\"; as root: "
				  "groupadd --system %s",
				  cfg->group, cfg->group);
	return 0;
}

/*
 * Whether nobody else can change what is in it; or, if it is sticky, what of it is not theirs. Of
 * one that is not there nothing is known: -ENOENT.
 */
static int check_one(int top, const char *dir, bool may_be_sticky, struct fm_err *err)
{
	int fd = fm_call_open_below(top, dir, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
	struct stat st;
	int ret;

	if (fd < 0)
		return fm_err_sys(err, fd, "sockets.path: /%s, where no link may lead", dir);
	ret = fm_call(fstat(fd, &st));
	close(fd);
	if (ret < 0)
		return fm_err_sys(err, ret, "sockets.path: /%s", dir);
	if ((st.st_uid == 0 || st.st_uid == geteuid()) &&
	    ((st.st_mode & 022) == 0 || (may_be_sticky && st.st_mode & S_ISVTX)))
		return 0;
	return fm_err_set(err, -EPERM,
			  "sockets.path: /%s must be root's or the daemon's, and nobody else may "
			  "write to it",
			  dir);
}

/*
 * Who could change the directory, or one on the way there, could have the socket made elsewhere, or
 * put another one in its place. No link on the way there: it may be somebody else's by now.
 * may_lack: so much of the way is looked at as there is.
 */
static int check_dir(const char *path, bool may_lack, struct fm_err *err)
{
	char dir[SOCKET_PATH_MAX];
	int top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), ret;
	char *slash;

	(void)snprintf(dir, sizeof(dir), "%s", path + 1);
	ret = check_one(top, dir, false, err);
	while ((ret == 0 || (may_lack && ret == -ENOENT)) && (slash = strrchr(dir, '/'))) {
		*slash = '\0';
		if (dir[0])
			ret = check_one(top, dir, true, err);
	}
	if (top >= 0)
		close(top);
	return may_lack && ret == -ENOENT ? 0 : ret;
}

/* The directory that the socket is to be in; "": the top one. */
static void dir_of(const char *path, char out[static SOCKET_PATH_MAX])
{
	(void)snprintf(out, SOCKET_PATH_MAX, "%s", path);
	*strrchr(out, '/') = '\0';
}

/* Nothing is made where the way there is not ours alone. */
static int check_path(const char *path, struct fm_err *err)
{
	char dir[SOCKET_PATH_MAX];

	dir_of(path, dir);
	if (!dir[0])
		return fm_err_set(err, -EPERM, "sockets.path: \"%s\" is in no directory", path);
	return check_dir(dir, true, err);
}

static int make_dir(const char *path, struct fm_err *err)
{
	char dir[SOCKET_PATH_MAX];
	int ret;

	dir_of(path, dir);
	ret = fm_dir_make(dir, 0755, err);
	return ret < 0 ? ret : check_dir(dir, false, err);
}

static int find_one(const struct fm_config_socket *cfg, struct fm_api_socket *out,
		    struct fm_err *err)
{
	static const mode_t modes[] = {0600, 0660, 0666};	/* by enum fm_config_mode */
	int ret;

	*out = (struct fm_api_socket){.mode = modes[cfg->mode]};
	(void)snprintf(out->path, sizeof(out->path), "%s", cfg->path);	/* fits: it was checked */
	ret = find_user(cfg, out, err);
	if (ret == 0)
		ret = find_group(cfg, out, err);
	return ret == 0 ? check_path(out->path, err) : ret;
}

static int wrap(const struct fm_config_socket *at, struct fm_err *err)
{
	return fm_err_wrap(err, "%.200s:%u", at->file, at->line);
}

static int find_all(const struct fm_config *cfg, struct fm_sockets *out, struct fm_err *err)
{
	out->count = 0;
	for (; out->count < cfg->socket_count; out->count++)
		if (find_one(&cfg->sockets[out->count], &out->of[out->count], err) < 0)
			return wrap(&cfg->sockets[out->count], err);
	return 0;
}

static int make_dirs(const struct fm_config *cfg, const struct fm_sockets *all, struct fm_err *err)
{
	for (unsigned i = 0; i < all->count; i++)
		if (make_dir(all->of[i].path, err) < 0)
			return wrap(&cfg->sockets[i], err);
	return 0;
}

/* A look for all of them, on a thread that may never come back. */
struct search {
	struct fm_config *cfg;			/* of which they are */
	atomic_int state;
	uint64_t ended_ns;			/* if it was left, and found them */
	struct fm_sockets found;
	struct fm_err err;
	int ret;
};

enum { FOUND = 1, LEFT };

/* One that nobody waits for any more. No other begins before it ends: that would be a thread more
 * for each reload. */
static struct search *_Atomic left;

/* What one found that nobody waited for any more; the next call takes it. Only what was left before
 * puts something there, so nobody does while no search is left. */
static struct search *_Atomic late;

static void search_free(struct search *s)
{
	fm_config_free(s->cfg);
	free(s);
}

static uint64_t now_ns(void)
{
	return fm_clock_real.now_ns(fm_clock_real.ctx);
}

static void search_run(void *arg)
{
	struct search *s = arg;

	s->ret = find_all(s->cfg, &s->found, &s->err);
	s->ended_ns = now_ns();
	if (atomic_exchange(&s->state, FOUND) != LEFT)
		return;
	if (s->ret == 0)
		atomic_store(&late, s);
	else
		search_free(s);
	atomic_store(&left, NULL);
}

static bool are_same(const struct fm_config *a, const struct fm_config *b)
{
	if (a->socket_count != b->socket_count)
		return false;
	for (unsigned i = 0; i < a->socket_count; i++)
		if (!fm_option_are_equal("sockets", &a->sockets[i], &b->sockets[i]))
			return false;
	return true;
}

/* A user database that is slow is asked once, and not without end. What was found long ago, or is
 * of other sockets, is of no use. */
static bool was_found(const struct fm_config *cfg, struct fm_sockets *out)
{
	struct search *s = atomic_exchange(&late, NULL);
	bool is_of_use = s && are_same(s->cfg, cfg) && now_ns() - s->ended_ns < LATE_NS;

	if (is_of_use)
		*out = s->found;
	if (s)
		search_free(s);
	return is_of_use;
}

/* False: it is left to its thread. */
static bool search_within(struct search *s, uint64_t max_ns)
{
	int ret = fm_within(search_run, s, max_ns);

	if (ret == -ENOMEM)
		s->ret = fm_err_set(&s->err, ret, "sockets: out of memory");
	if (ret != -ETIMEDOUT)
		return true;
	atomic_store(&left, s);
	if (atomic_exchange(&s->state, LEFT) != FOUND)
		return false;
	atomic_store(&left, NULL);
	return true;
}

bool fm_sockets_are_sought(void)
{
	return atomic_load(&left) != NULL;
}

static int silent(struct fm_err *err)
{
	return fm_err_set(err, -ETIMEDOUT,
			  "sockets: the user database does not answer, and whose they are is not "
			  "known");
}

static int search_all(struct fm_config *cfg, uint64_t max_ns, struct fm_sockets *out,
		      struct fm_err *err)
{
	struct search *s;
	int ret;

	if (fm_sockets_are_sought())
		return silent(err);
	if (was_found(cfg, out))
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return fm_err_set(err, -ENOMEM, "sockets: out of memory");
	s->cfg = cfg;
	fm_config_share(cfg);
	if (!search_within(s, max_ns))
		return silent(err);
	ret = s->ret;
	*out = s->found;
	*err = s->err;
	search_free(s);
	return ret;
}

/* What is refused leaves no directory, nor does what is found too late. */
int fm_sockets_find(struct fm_config *cfg, uint64_t max_ns, struct fm_sockets *out,
		    struct fm_err *err)
{
	int ret = 0;

	out->count = 0;
	if (cfg->socket_count > 0)
		ret = search_all(cfg, max_ns, out, err);
	if (ret == 0)
		ret = make_dirs(cfg, out, err);
	if (ret < 0)
		out->count = 0;
	return ret;
}

/* ---- those that are open ---- */

static bool has(const struct fm_sockets *all, const struct fm_api_socket *s)
{
	for (unsigned i = 0; i < all->count; i++) {
		const struct fm_api_socket *o = &all->of[i];

		if (strcmp(o->path, s->path) == 0)
			return o->mode == s->mode && o->gid == s->gid &&
			       o->user_uid == s->user_uid && o->user_gid == s->user_gid;
	}
	return false;
}

/* Opens one. After a failure it is not there, so that a later reload tries again. */
static int open_one(struct fm_api *api, struct fm_sockets *now, unsigned i, struct fm_err *err)
{
	int ret = fm_api_open(api, &now->of[i], err);

	if (ret < 0) {
		now->of[i] = now->of[--now->count];
		return ret;
	}
	fm_log_info("socket %s: whoever connects there has the rights of user %u", now->of[i].path,
		    (unsigned)now->of[i].user_uid);
	return 0;
}

int fm_sockets_set(struct fm_api *api, const struct fm_sockets *was, struct fm_sockets *now,
		   struct fm_err *err)
{
	struct fm_err why;
	int last = 0, ret;

	for (unsigned i = 0; i < was->count; i++)
		if (!has(now, &was->of[i]))
			fm_api_close(api, was->of[i].path);
	for (unsigned i = now->count; i-- > 0;) {
		ret = has(was, &now->of[i]) ? 0 : open_one(api, now, i, &why);
		if (ret == 0)
			continue;
		*err = why;
		last = ret;
	}
	return last;
}
