/* SPDX-License-Identifier: MIT */
/* own_hub - see own_hub.h. */
#include "client/lib/own_hub.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/store/hub.h"
#include "mover/tree/channel.h"
#include "mover/tree/staging.h"
#include "mover/tree/tree.h"

#define CHANNELS 2u
#define SOCKETS	 (FM_OWN_HUB_FDS / CHANNELS - 1)

struct fm_own_hub {
	char commit[FM_HUB_COMMIT_LEN + 1];
	struct fm_hub_view *view;
	struct fm_tree *trees[CHANNELS];	/* NULL: not made */
	struct fm_channel *channels[CHANNELS];	/* the same */
	int fds[FM_OWN_HUB_FDS];
};

static bool wants(void *ctx, const char *path)
{
	return fm_hub_view_has(((struct fm_own_hub *)ctx)->view, path);
}

static int serve(struct fm_own_hub *o, int hub_fd, unsigned i, struct fm_err *err)
{
	struct fm_tree_source_opts opts = { .skips = fm_staging_is_ours, .wants = wants,
					    .wants_ctx = o };
	const int *fds;
	unsigned count;
	int ret;

	opts.root = openat(hub_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (opts.root < 0)
		return fm_err_sys(err, -errno, "open the cache");
	ret = fm_tree_source_new(&opts, &o->trees[i], err);
	if (ret == 0)
		ret = fm_channel_new_of(o->trees[i], SOCKETS, &o->channels[i], err);
	if (ret < 0)
		return ret;
	fds = fm_channel_to_pass(o->channels[i], &count);
	memcpy(o->fds + (size_t)i * (1 + SOCKETS), fds, count * sizeof(*fds));
	return 0;
}

int fm_own_hub_new(int hub_fd, const struct fm_hub_name *name, struct fm_own_hub **out,
		   struct fm_err *err)
{
	struct fm_own_hub *o = calloc(1, sizeof(*o));
	int ret;

	if (!o)
		return fm_err_sys(err, -ENOMEM, "read %s", name->dir);
	ret = fm_hub_commit(hub_fd, name, o->commit, err);
	if (ret == 0)
		ret = fm_hub_view(hub_fd, name->dir, o->commit, &o->view, err);
	for (unsigned i = 0; ret == 0 && i < CHANNELS; i++)
		ret = serve(o, hub_fd, i, err);
	if (ret < 0) {
		fm_own_hub_free(o);
		return ret;
	}
	*out = o;
	return 0;
}

void fm_own_hub_free(struct fm_own_hub *o)
{
	if (!o)
		return;
	for (unsigned i = 0; i < CHANNELS; i++) {
		struct fm_channel_end end = fm_channel_free(o->channels[i]);

		if (o->trees[i] && !end.is_forked)
			o->trees[i]->ops->close(o->trees[i]);
	}
	fm_hub_view_free(o->view);
	free(o);
}

const char *fm_own_hub_commit(const struct fm_own_hub *o)
{
	return o->commit;
}

const int *fm_own_hub_fds(const struct fm_own_hub *o)
{
	return o->fds;
}

void fm_own_hub_passed(void *ctx)
{
	struct fm_own_hub *o = ctx;

	for (unsigned i = 0; i < CHANNELS; i++)
		fm_channel_passed(o->channels[i]);
}
