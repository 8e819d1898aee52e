/* SPDX-License-Identifier: MIT */
/* snapshot - see snapshot.h. */
#include "mover/store/snapshot.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/call.h"
#include "mover/base/fault.h"
#include "mover/store/done_list.h"
#include "mover/store/store.h"

struct snapshot {
	struct fm_file file;
	size_t size;
	unsigned char bytes[];
};

static struct snapshot *snapshot_of(struct fm_file *file)
{
	return fm_container_of(file, struct snapshot, file);
}

static void snapshot_read(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	const struct snapshot *s = snapshot_of(file);
	size_t left = io->offset < s->size ? s->size - (size_t)io->offset : 0;
	size_t len = io->len < left ? io->len : left;

	memcpy(io->buf, s->bytes + s->size - left, len);
	fm_done_list_add(lane->done, io, (int64_t)len);
}

static void snapshot_close(struct fm_file *file)
{
	fm_budget_free(snapshot_of(file));
}

static const struct fm_file_ops snapshot_ops = {
	.read = snapshot_read,
	.close = snapshot_close,
};

/*
 * Reads the file. -ESTALE: it ends early. check_unchanged() could miss that, since times go in
 * steps.
 */
static int read_all(int fd, struct snapshot *s)
{
	int64_t n = FM_FAULT("snapshot.read") ? -EIO : fm_call_read_all(fd, s->bytes, s->size, 0);

	if (n < 0)
		return (int)n;
	return (uint64_t)n < s->size ? -ESTALE : 0;
}

int fm_snapshot_take(int fd, uint64_t size, struct fm_file **file, struct fm_err *err)
{
	struct fm_file *of = *file;
	struct snapshot *s;
	int ret;

	assert(size > 0 && size <= FM_SNAPSHOT_MAX);
	s = FM_FAULT("snapshot.alloc") ? NULL : fm_budget_alloc(sizeof(*s) + size);
	if (!s)
		return 0;
	s->size = size;
	ret = read_all(fd, s);
	if (ret == -ESTALE)
		(void)fm_err_set(err, ret,
				 "the source became shorter while it was read; run it again");
	else if (ret < 0)
		(void)fm_err_sys(err, ret, "read the source");
	else
		ret = of->ops->check_unchanged(of, err);
	s->file.note = of->note;
	of->ops->close(of);
	if (ret < 0) {
		fm_budget_free(s);
		return ret;
	}
	s->file.ops = &snapshot_ops;
	s->file.is_instant = true;
	s->file.is_ours = true;
	*file = &s->file;
	return 0;
}
