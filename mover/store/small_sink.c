/* SPDX-License-Identifier: MIT */
/* small_sink - see small_sink.h. */
#include "mover/store/small_sink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/block.h"
#include "mover/base/budget.h"
#include "mover/store/done_list.h"
#include "mover/store/held_file.h"
#include "mover/store/store.h"
#include "mover/store/sys.h"

struct small {
	struct fm_file file;
	struct fm_store *store;
	const char *path;
	struct fm_who who;
	struct fm_create how;
	struct fm_file *made;		/* NULL: not yet, or it could not be */
	uint64_t taken;			/* of the budget, */
	struct fm_share_held held;	/* out of the share of who waits for it */
	unsigned char *bytes;		/* aligned, up to the end of the last block */
};

static struct small *small_of(struct fm_file *file)
{
	return fm_container_of(file, struct small, file);
}

static void small_write(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	struct small *s = small_of(file);
	bool is_inside = io->offset <= s->how.size && io->len <= s->how.size - io->offset;

	if (is_inside)
		memcpy(s->bytes + io->offset, io->buf, io->len);
	fm_done_list_add(lane->done, io, is_inside ? (int64_t)io->len : -EFBIG);
}

/*
 * Creates the file and writes it. From here on closing it may block, so it belongs to who can wait.
 */
static int make(struct small *s, struct fm_err *err)
{
	int ret = s->store->ops->create(s->store, s->path, &s->who, &s->how, &s->made, err);

	if (ret < 0) {
		s->made = NULL;
		return ret;
	}
	s->file.is_ours = false;
	if (s->how.size > 0)
		ret = s->made->ops->write_now(s->made, s->bytes, (uint32_t)s->how.size);
	return ret < 0 ? fm_err_sys(err, ret, "store %s: write the file", s->store->name) : 0;
}

static int small_prepare(struct fm_file *file, uint64_t size, const struct fm_attr *attr,
			 bool is_durable, struct fm_err *err)
{
	struct small *s = small_of(file);
	int ret = make(s, err);

	if (ret == 0 && s->made->ops->prepare)
		ret = s->made->ops->prepare(s->made, size, attr, is_durable, err);
	if (s->made)
		(void)fm_sync_note(&file->sync, fm_file_sync_error(s->made));
	return ret;
}

static int small_publish(struct fm_file *file, uint64_t size, const struct fm_attr *attr,
			 bool is_durable, struct fm_err *err)
{
	struct small *s = small_of(file);
	int ret = s->made ? 0 : make(s, err);

	if (ret == 0)
		ret = s->made->ops->publish(s->made, size, attr, is_durable, err);
	if (s->made)
		(void)fm_sync_note(&file->sync, fm_file_sync_error(s->made));
	return ret;
}

static void small_discard(struct fm_file *file)
{
	struct small *s = small_of(file);

	if (s->made)
		s->made->ops->discard(s->made);
}

static void small_close(struct fm_file *file)
{
	struct small *s = small_of(file);

	if (s->made)
		fm_file_close(s->made);
	fm_budget_give_waiting(s->taken, &s->held);
	free(s);
}

static const struct fm_file_ops small_ops = {
	.write = small_write,
	.prepare = small_prepare,
	.publish = small_publish,
	.discard = small_discard,
	.close = small_close,
};

/*
 * Takes memory, which a peer keeps as long as it likes. NULL: its share is used up, or there is no
 * memory.
 */
static struct small *small_alloc(const struct fm_who *who, uint64_t len)
{
	struct fm_share_id id = who->peer ? fm_share_name(who->peer) : fm_share_user(who->uid);
	struct fm_share_held held = { 0 };
	struct small *s;

	if (!fm_budget_take_waiting(id, len, &held))
		return NULL;
	s = fm_sys_alloc(len);
	if (!s) {
		fm_budget_give_waiting(len, &held);
		return NULL;
	}
	s->taken = len;
	s->held = held;
	return s;
}

struct fm_file *fm_small_sink_new(struct fm_store *store, const char *path,
				  const struct fm_who *who, const struct fm_create *how)
{
	struct small *s;
	uintptr_t after;

	if (!store->takes_small || !how->is_dense || how->size > FM_SMALL_SINK_MAX)
		return NULL;
	s = small_alloc(who, sizeof(*s) + how->size + 2 * FM_BLOCK);
	if (!s)
		return NULL;
	after = (uintptr_t)(s + 1) % FM_BLOCK;
	s->bytes = (unsigned char *)(s + 1) + (after ? FM_BLOCK - after : 0);
	s->store = store;
	s->path = path;
	s->who = *who;
	s->how = *how;
	s->how.is_resumable = false;	/* sent again faster than it is looked up */
	s->file.ops = &small_ops;
	s->file.has_fixed_size = true;
	s->file.is_instant = true;
	s->file.is_ours = true;
	return &s->file;
}
