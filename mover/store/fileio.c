/* SPDX-License-Identifier: MIT */
/*
 * fileio - reads and writes of one regular file.
 */
#include "mover/store/fileio.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/block.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/journal/written.h"
#include "mover/store/done_list.h"
#include "mover/store/mapped.h"
#include "mover/store/may_stand.h"
#include "mover/store/store.h"
#include "mover/store/sys.h"

#define WRITERS 2	/* at once, to a file in memory: see fileio.h */
/* bytes: a mapping is made and undone in the time of a few MiB */
#define MAPPED_MIN (UINT64_C(16) << 20)

/* ----------------------------------------------------------------------------- choosing the way */

bool fm_fileio_is_memory(const struct statfs *fs)
{
	return (unsigned long)fs->f_type == TMPFS_MAGIC || (unsigned long)fs->f_type == RAMFS_MAGIC;
}

/*
 * Asks the kernel about O_DIRECT (Linux 6.1). 0: it knows, and *note is set if O_DIRECT cannot be
 * used. -EOPNOTSUPP: it does not say.
 */
static int direct_ask(int fd, const char **note)
{
	struct statx stx;

	memset(&stx, 0, sizeof(stx));
	if (FM_FAULT("store.statx") || statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) < 0 ||
	    !(stx.stx_mask & STATX_DIOALIGN))
		return -EOPNOTSUPP;
	if (stx.stx_dio_mem_align == 0 || stx.stx_dio_offset_align == 0)
		*note = "buffered: the file system has no O_DIRECT";
	else if (FM_BLOCK % stx.stx_dio_mem_align || FM_BLOCK % stx.stx_dio_offset_align)
		*note = "buffered: O_DIRECT there needs an alignment over 4096 bytes";
	return 0;
}

/*
 * Whether one block can be moved with O_DIRECT. A sink is empty, so reading would prove nothing:
 * write, and cut it off again.
 */
static int direct_try(int fd, bool is_sink, bool *has_worked)
{
	static _Alignas(FM_BLOCK) const unsigned char zeros[FM_BLOCK];
	_Alignas(FM_BLOCK) unsigned char block[FM_BLOCK];
	ssize_t n;

	n = is_sink ? pwrite(fd, zeros, sizeof(zeros), 0) : pread(fd, block, sizeof(block), 0);
	if (n < 0 && errno != EINVAL)
		return -errno;
	*has_worked = n >= 0;
	return is_sink ? fm_sys_ftruncate(fd, 0) : 0;
}

/* Set O_DIRECT if the file takes it; *note says why it does not. */
static int direct_set(int fd, bool is_sink, const char **note)
{
	bool has_worked = true;
	int flags = fcntl(fd, F_GETFL) & ~(O_DIRECT | O_NONBLOCK);
	bool is_known = direct_ask(fd, note) == 0;
	int ret;

	if (!*note) {
		ret = fm_sys_set_flags(fd, flags | O_DIRECT);
		if (ret == 0 && !is_known)
			ret = direct_try(fd, is_sink, &has_worked);
		if (ret == 0 && has_worked)
			return 0;
		if (ret < 0 && ret != -EINVAL)
			return ret;
		*note = "buffered: the file system has no O_DIRECT";
	}
	return fm_sys_set_flags(fd, flags);
}

int fm_fileio_init(struct fm_fileio *io, int fd, bool is_sink, bool is_buffered, const char **note,
		   struct fm_err *err)
{
	struct statfs fs;
	int ret = fm_sys_fstatfs(fd, &fs);

	assert(fd >= 0);
	memset(io, 0, sizeof(*io));
	(void)sem_init(&io->turns, 0, WRITERS);	/* cannot fail, and holds nothing to end */
	io->fd = fd;
	io->flags = fcntl(fd, F_GETFL);
	*note = NULL;
	if (ret < 0)
		return fm_err_sys(err, ret, "ask for the kind of file system");
	io->is_memory = fm_fileio_is_memory(&fs);
	io->may_stand = fm_fs_may_stand(&fs);
	io->has_write_lock = fm_write_holds_lock(&fs);
	if (is_buffered && !io->is_memory)
		*note = "buffered: the store asks for it";
	if (is_buffered || io->is_memory)
		ret = fm_sys_set_flags(fd, io->flags & ~(O_DIRECT | O_NONBLOCK));
	else
		ret = direct_set(fd, is_sink, note);
	io->has_other_flags = fcntl(fd, F_GETFL) != io->flags;
	io->is_direct = !io->is_memory && !*note;
	return ret < 0 ? fm_err_sys(err, ret, "set the flags of the open file") : 0;
}

void fm_fileio_put_flags_back(const struct fm_fileio *io)
{
	if (io->has_other_flags && !FM_FAULT("store.flags"))
		(void)fcntl(io->fd, F_SETFL, io->flags);
}

void fm_fileio_expect(struct fm_fileio *io, uint64_t size)
{
	assert(!io->mapped);
	if (io->is_memory && size >= MAPPED_MIN && fm_mapped_pays())
		io->mapped = fm_mapped_new(io->fd, size, FM_MAPPED_WINDOW);
}

void fm_fileio_end(struct fm_fileio *io)
{
	fm_mapped_free(io->mapped);
	io->mapped = NULL;
}

/* -------------------------------------------------------------------------------------- at once */

/*
 * Moves all of len bytes but the first `moved`, or up to the end of the file. Returns the count of
 * all, or the error.
 */
static int64_t move_all(int fd, bool is_write, const struct fm_io *io, uint32_t moved, uint32_t len)
{
	ssize_t n = 1;

	while (moved < len && n > 0) {
		char *at = (char *)io->buf + moved;
		off_t offset = (off_t)(io->offset + moved);

		n = is_write ? pwrite(fd, at, len - moved, offset)
			     : pread(fd, at, len - moved, offset);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			return -errno;
		else
			moved += (uint32_t)n;
	}
	return moved;
}

static int64_t write_now(struct fm_fileio *file, const struct fm_io *io, uint32_t len)
{
	int64_t res = 0;

	if (file->mapped)
		res = fm_mapped_write(file->mapped, io->buf, len, io->offset);
	if (res < 0 || res == (int64_t)len)
		return res;
	while (sem_wait(&file->turns) < 0 && errno == EINTR)
		;
	res = move_all(file->fd, true, io, (uint32_t)res, len);
	(void)sem_post(&file->turns);
	return res;
}

static int64_t move_now(struct fm_fileio *file, bool is_write, const struct fm_io *io, uint32_t len)
{
	return is_write ? write_now(file, io, len) : move_all(file->fd, false, io, 0, len);
}

/* How many bytes a direct operation moves behind io->len, to end at a block. */
static uint32_t pad_of(const struct fm_fileio *file, const struct fm_io *io)
{
	return file->is_direct ? -io->len & (FM_BLOCK - 1) : 0;
}

/* Moves the bytes within the call: for memory, and for a lane without a ring. */
static void fileio_now(struct fm_fileio *file, const struct fm_lane_io *lane, struct fm_io *io,
		       bool is_write)
{
	int64_t res = move_now(file, is_write, io, io->len + io->pad);

	fm_done_list_add(lane->done, io, res > (int64_t)io->len ? (int64_t)io->len : res);
}

/* ----------------------------------------------------------------------------------- either way */

void fm_fileio_read(struct fm_fileio *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	assert(io->len > 0 && io->offset <= FM_SIZE_LIMIT - io->len);
	io->pad = pad_of(file, io);
	if (file->is_memory || !lane->ring) {
		fileio_now(file, lane, io, false);
		return;
	}
	io->fd = file->fd;
	io->may_stand = file->may_stand;
	fm_ring_read(lane->ring, io);
}

int fm_fileio_write_now(struct fm_fileio *file, void *buf, uint32_t len)
{
	struct fm_io io = { .buf = buf, .len = len };
	int64_t n;

	io.pad = pad_of(file, &io);
	memset((char *)buf + len, 0, io.pad);
	n = FM_FAULT("store.write") ? -EIO : move_now(file, true, &io, len + io.pad);
	if (n < 0)
		return (int)n;
	return n < (int64_t)len ? -EIO : 0;
}

void fm_fileio_write(struct fm_fileio *file, const struct fm_lane_io *lane, struct fm_io *io)
{
	assert(io->len > 0 && io->offset <= FM_SIZE_LIMIT - io->len);
	/* What lies behind the data reaches the disk until publish() cuts it off: it must not be
	 * old memory. */
	io->pad = pad_of(file, io);
	memset((char *)io->buf + io->len, 0, io->pad);
	if (file->is_memory || !lane->ring) {
		fileio_now(file, lane, io, true);
		return;
	}
	io->fd = file->fd;
	io->may_stand = file->may_stand;
	fm_ring_write(lane->ring, io);
}
