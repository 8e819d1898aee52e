/* SPDX-License-Identifier: MIT */
/* hub_tree - one revision of a hub cache, as a store lists and sends it. See hub.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/err.h"
#include "mover/store/file_source.h"
#include "mover/store/hub.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"
#include "mover/store/tree_file.h"

/* A tree that is sent: the store and the view stay until it is closed. */
struct sent {
	struct fm_store_dir *dir;
	struct fm_hub_view *view;
};

static int look(struct fm_store_dir *dir, const struct fm_hub_name *name,
		char commit[FM_HUB_COMMIT_LEN + 1], struct fm_hub_view **view, struct fm_err *err)
{
	int ret = fm_hub_commit(dir->root, name, commit, err);

	return ret < 0 ? ret : fm_hub_view(dir->root, name->dir, commit, view, err);
}

int fm_hub_list(struct fm_store_dir *dir, const struct fm_hub_name *name,
		const struct fm_list_opts *opts, struct fm_entry *out, size_t *count,
		struct fm_err *err)
{
	char commit[FM_HUB_COMMIT_LEN + 1];
	struct fm_hub_view *view;
	int ret = look(dir, name, commit, &view, err);

	if (ret < 0)
		return ret;
	*count = 0;
	if (opts->max > 0 && strcmp(commit, opts->after) > 0) {
		out[0] = (struct fm_entry){ .attr = { .type = FM_NODE_DIR, .mode = 0755 } };
		strcpy(out[0].name, commit);
		*count = 1;
	}
	fm_hub_view_free(view);
	return 0;
}

int fm_hub_stat(struct fm_store_dir *dir, const struct fm_hub_name *name, struct fm_attr *attr,
		struct fm_err *err)
{
	const struct fm_list_opts opts = { .after = "", .max = 1 };
	struct fm_entry entry;
	size_t count;
	int ret = fm_hub_list(dir, name, &opts, &entry, &count, err);

	if (ret == 0)
		*attr = entry.attr;
	return ret;
}

static bool wants(void *ctx, const char *path)
{
	return fm_hub_view_has(((struct sent *)ctx)->view, path);
}

static void sent_closed(void *ctx)
{
	struct sent *s = ctx;

	fm_hub_view_free(s->view);
	fm_store_dir_put(s->dir);
	free(s);
}

/*
 * Sets what tells this revision from others: the attributes of its snapshot's directory, not of the
 * cache.
 */
static int set_attr(struct fm_store_dir *dir, const struct sent *s, const char *repository,
		    const char *commit, struct fm_attr *attr)
{
	char path[FM_HUB_DIR_MAX + FM_HUB_COMMIT_LEN + 16];
	struct stat st;
	int fd, ret;

	(void)snprintf(path, sizeof(path), "%s/snapshots/%s", repository, commit);
	fd = fm_sys_open_beneath(dir->root, path, O_PATH | O_DIRECTORY);
	if (fd < 0)
		return fd;
	ret = fm_sys_fstat(fd, &st);
	(void)close(fd);	/* O_PATH */
	if (ret < 0)
		return ret;
	fm_attr_from_stat(&st, -1, attr);
	attr->size = fm_hub_view_bytes(s->view);
	attr->dev = st.st_dev;
	attr->ino = st.st_ino;
	return 0;
}

static int send(struct sent *s, const struct fm_who *who, const char *const *excludes,
		struct fm_file **out, struct fm_err *err)
{
	struct fm_tree_source_opts opts = { .excludes = excludes, .skips = fm_path_is_reserved,
					    .has_digests = true, .wants = wants,
					    .wants_ctx = s };
	struct fm_tree_file_opts file = {
		.threads = fm_tree_file_threads(), .closed = sent_closed, .ctx = s,
		.who = who->peer ? fm_share_name(who->peer) : fm_share_user(who->uid),
	};
	int ret;

	opts.root = fm_path_open(s->dir->root, "", O_RDONLY | O_DIRECTORY, err);
	if (opts.root < 0)
		return opts.root;
	ret = fm_tree_source_new(&opts, &file.tree, err);
	return ret < 0 ? ret : fm_tree_file_new(&file, out, err);
}

int fm_hub_tree(struct fm_store_dir *dir, const struct fm_hub_name *name, const struct fm_who *who,
		const char *const *excludes, struct fm_file **out, struct fm_attr *attr,
		struct fm_err *err)
{
	struct sent *s = fm_sys_alloc(sizeof(*s));
	char commit[FM_HUB_COMMIT_LEN + 1];
	int ret;

	if (!s)
		return fm_err_sys(err, -ENOMEM, "read %s", name->dir);
	*s = (struct sent){ .dir = dir };
	fm_store_dir_get(dir);
	ret = look(dir, name, commit, &s->view, err);
	if (ret == 0) {
		ret = set_attr(dir, s, name->dir, commit, attr);
		if (ret < 0)
			(void)fm_err_sys(err, ret, "look at the snapshot of %s", name->dir);
	}
	if (ret == 0)
		ret = send(s, who, excludes, out, err);
	if (ret < 0)
		sent_closed(s);
	return ret;
}
