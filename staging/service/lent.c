/* SPDX-License-Identifier: MIT */
/* lent - see lent.h. Its calls are for workers, as of any store. */
#include "staging/service/lent.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/store/store.h"
#include "staging/cache.h"
#include "staging/service/hub.h"

struct lent {
	struct fm_store store;
	struct fm_cache *cache;
	bool (*may)(void *ctx, const char *peer);
	void *ctx;
};

static struct lent *lent_of(struct fm_store *s)
{
	return fm_container_of(s, struct lent, store);
}

static int refuse(struct fm_err *err)
{
	return fm_err_set(err, -EACCES, "it is there for nodes that mend what they staged, alone");
}

void fm_lent_key(const struct fm_cache_key *key, char out[static FM_LENT_KEY_LEN + 1])
{
	for (size_t i = 0; i < sizeof(key->bytes); i++)
		(void)snprintf(out + 2 * i, 3, "%02x", key->bytes[i]);
}

/* ---- a file ---- */

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Takes KEY or KEY/PATH. *below: PATH; NULL: there is none. */
static bool take_path(const char *path, struct fm_cache_key *key, const char **below)
{
	_Static_assert(2 * sizeof(key->bytes) == FM_LENT_KEY_LEN, "hex has two for each");

	for (size_t i = 0; i < sizeof(key->bytes); i++) {
		int high = digit(path[2 * i]), low = high < 0 ? -1 : digit(path[2 * i + 1]);

		if (low < 0)
			return false;
		key->bytes[i] = (uint8_t)(high << 4 | low);
	}
	path += FM_LENT_KEY_LEN;
	if (*path != '\0' && (path[0] != '/' || path[1] == '\0'))
		return false;
	*below = *path ? path + 1 : NULL;
	return true;
}

/*
 * Opens the file: `below` the data, or the data itself. Only what a manifest can name is below it;
 * the manifest is beside it. O_NONBLOCK: nobody waits for the writer of a pipe that was put there.
 */
static int open_data(const char *data, const char *below)
{
	const char *name = strrchr(data, '/') + 1;
	char parent[FM_PATH_LEN_MAX + 1];
	int dir, fd;

	(void)snprintf(parent, sizeof(parent), "%.*s", (int)(name - 1 - data), data);
	dir = fm_call(open(below ? data : parent, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	if (dir < 0)
		return dir;
	fd = FM_FAULT("lent.open") ? -EMFILE
				   : fm_call_open_below(dir, below ? below : name,
							O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0,
							RESOLVE_NO_SYMLINKS);
	(void)close(dir);	/* only looked at */
	return fd;
}

static int check_regular(int fd)
{
	struct stat st;
	int ret = fm_call(fstat(fd, &st));

	return ret == 0 && !S_ISREG(st.st_mode) ? -EINVAL : ret;
}

/* Who holds nothing here hears the same, whatever there is. */
static int find(struct lent *l, const char *peer, const struct fm_cache_key *listing,
		char data[static FM_PATH_LEN_MAX + 1], struct fm_err *err)
{
	uint64_t id = fm_cache_find_listing(l->cache, listing);
	struct fm_cache_info info;

	if (id == 0 || !fm_cache_look(l->cache, id, &info) || info.state != FM_CACHE_READY ||
	    fm_hub_is_own(info.source) || !fm_cache_is_held_by_node(l->cache, id, peer))
		return fm_err_set(err, -ENOENT, "%s holds no dataset of that listing here", peer);
	return fm_cache_path(l->cache, id, data, FM_PATH_LEN_MAX + 1) < 0
		       ? fm_err_set(err, -ENAMETOOLONG, "the cache's path is too long")
		       : 0;
}

static int open_fd(struct fm_store *s, const char *path, const struct fm_who *who,
		   struct fm_err *err)
{
	struct lent *l = lent_of(s);
	struct fm_cache_key listing;
	char data[FM_PATH_LEN_MAX + 1];
	const char *below;
	int fd, ret;

	if (!who->peer || !l->may(l->ctx, who->peer))
		return refuse(err);
	if (!take_path(path, &listing, &below))
		return fm_err_set(err, -EINVAL, "that is no file of a dataset");
	ret = find(l, who->peer, &listing, data, err);
	if (ret < 0)
		return ret;
	fd = open_data(data, below);
	ret = fd < 0 ? fd : check_regular(fd);
	if (ret == 0)
		return fd;
	if (fd >= 0)
		(void)close(fd);	/* only looked at */
	return fm_err_sys(err, ret, "open a file of a dataset that is here");
}

/* ---- all else that one may want of a store ---- */

static int no_source(struct fm_store *s, const char *path, const struct fm_who *who,
		     struct fm_file **out, struct fm_attr *attr, struct fm_err *err)
{
	(void)s, (void)path, (void)who, (void)out, (void)attr;
	return refuse(err);
}

static int no_create(struct fm_store *s, const char *path, const struct fm_who *who,
		     const struct fm_create *how, struct fm_file **out, struct fm_err *err)
{
	(void)s, (void)path, (void)who, (void)how, (void)out;
	return refuse(err);
}

static int no_stat(struct fm_store *s, const char *path, const struct fm_who *who,
		   struct fm_attr *attr, struct fm_err *err)
{
	(void)s, (void)path, (void)who, (void)attr;
	return refuse(err);
}

static int no_list(struct fm_store *s, const char *path, const struct fm_who *who,
		   const struct fm_list_opts *opts, struct fm_entry *out, size_t *count,
		   struct fm_err *err)
{
	(void)s, (void)path, (void)who, (void)opts, (void)out, (void)count;
	return refuse(err);
}

static int no_remove(struct fm_store *s, const char *path, const struct fm_who *who,
		     bool is_recursive, struct fm_err *err)
{
	(void)s, (void)path, (void)who, (void)is_recursive;
	return refuse(err);
}

static int no_space(struct fm_store *s, const struct fm_who *who, struct fm_store_space *out,
		    struct fm_err *err)
{
	(void)s, (void)who, (void)out;
	return refuse(err);
}

static int no_mkdir(struct fm_store *s, const char *path, const struct fm_who *who,
		    struct fm_err *err)
{
	(void)s, (void)path, (void)who;
	return refuse(err);
}

static void free_store(struct fm_store *s)
{
	free(lent_of(s));
}

static const struct fm_store_ops lent_ops = {
	.open_source = no_source, .open_fd = open_fd, .create = no_create, .stat = no_stat,
	.list = no_list, .remove = no_remove, .space = no_space, .mkdir = no_mkdir,
	.free = free_store,
};

int fm_lent_new(struct fm_cache *cache, bool (*may)(void *ctx, const char *peer), void *ctx,
		struct fm_store **out, struct fm_err *err)
{
	struct lent *l = FM_FAULT("lent.new") ? NULL : calloc(1, sizeof(*l));

	if (!l)
		return fm_err_set(err, -ENOMEM, "allocate the store of what is staged");
	l->cache = cache;
	l->may = may;
	l->ctx = ctx;
	l->store.ops = &lent_ops;
	l->store.is_hidden = true;
	(void)snprintf(l->store.name, sizeof(l->store.name), "%s", FM_LENT_STORE);
	*out = &l->store;
	return 0;
}
