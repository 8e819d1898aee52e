/* SPDX-License-Identifier: MIT */
/*
 * store - where bytes come from and go to: a named directory of this node, or the files that a local caller handed
 * over.
 *
 * Calls of fm_store_ops and the slow calls of fm_file_ops may block: the engine makes them on a worker's thread.
 * read() and write() are asynchronous, on a lane. One file is read and written by several lanes at once, never at the
 * same offset.
 */
#ifndef FM_STORE_H
#define FM_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/err.h"
#include "mover/base/loop.h"
#include "mover/base/ring.h"

struct fm_file;
struct fm_store;
struct fm_loop;

#define FM_PATH_LEN_MAX 4095		/* bytes of a path below its store, without the terminator */
#define FM_NAME_LEN_MAX 255
#define FM_SIZE_UNKNOWN UINT64_MAX	/* a stream */
#define FM_SIZE_LIMIT ((uint64_t)INT64_MAX)
#define FM_STORE_BLOCK 4096u		/* offsets on disk are multiples of it, also where the device's block is smaller */

enum fm_node_type { FM_NODE_FILE = 1, FM_NODE_DIR = 2, FM_NODE_LINK = 3, FM_NODE_OTHER = 4 };

/* What is known of a file or directory. */
struct fm_attr {
	enum fm_node_type type;
	uint64_t size;			/* bytes, or FM_SIZE_UNKNOWN */
	uint32_t mode;			/* permission bits only, 0777; set-id bits never travel */
	int64_t mtime_ns;		/* since 1970 */
	bool has_holes;			/* fewer blocks than bytes */
};

/*
 * Operations of one loop that ended inside the call that started them (memory and null stores move bytes with the
 * CPU): their done() is called from a task, so that it never nests. One per lane, initialised once, on the lane's
 * thread from then on.
 */
struct fm_done_list {
	struct fm_task task;
	struct fm_list ended;
	struct fm_loop *loop;
};

void fm_done_list_init(struct fm_done_list *list, struct fm_loop *loop);

/* How a lane does its I/O. */
struct fm_lane_io {
	struct fm_loop *loop;
	struct fm_ring *ring;		/* NULL in the simulator */
	struct fm_done_list *done;	/* of this loop; NULL in the simulator */
};

struct fm_file_ops {
	/*
	 * Lane. As fm_ring_read() and fm_ring_write(), but io->fd is the file's business. io->buf is page-aligned
	 * with room for io->len rounded up to FM_STORE_BLOCK, for reads too: an odd length is moved in whole blocks
	 * (what lies behind it in the buffer is lost). io->offset is a multiple of the chunk size or, in a file with
	 * holes, of FM_STORE_BLOCK. A read up to the end of file may be asked for with len rounded up; io->res is
	 * then the bytes that are there. io->res of a write is io->len, never the padded length.
	 */
	void (*read)(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io);
	void (*write)(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io);

	/* Give up a read or write that may wait for ever (streams); NULL if none can. */
	void (*cancel)(struct fm_file *file, const struct fm_lane_io *lane, struct fm_io *io);

	/*
	 * The next stretch of data at or behind offset: [*from, *to), block-aligned but at the end of file. *from ==
	 * size: holes only from here. Quick; called under a lock. NULL: no holes, all data.
	 */
	int (*next_data)(struct fm_file *file, uint64_t offset, uint64_t *from, uint64_t *to);

	/*
	 * Worker. Whether the source is still what it was when opened: -ESTALE and a text if not. NULL: cannot
	 * change.
	 */
	int (*check_unchanged)(struct fm_file *file, struct fm_err *err);

	/*
	 * Worker, sink only. Everything is written: set the size, sync if is_durable, set mode and mtime, publish
	 * under the final name (not for a caller's own file: the caller renames it). After an error the final name is
	 * as it was and discard() follows. Of a caller's file that is not the service's own, mode and mtime are left
	 * to the caller (who may set them) and `note` says so.
	 */
	int (*publish)(struct fm_file *file, uint64_t size, const struct fm_attr *attr, bool is_durable, struct fm_err *err);

	/* Worker, sink only, instead of publish or after it failed: remove the partial file. */
	void (*discard)(struct fm_file *file);

	/* Worker. No I/O in flight. Frees it; a sink that was neither published nor discarded is discarded. */
	void (*close)(struct fm_file *file);
};

struct fm_file {
	const struct fm_file_ops *ops;
	bool is_stream;			/* read or written strictly in order, one operation at a time, FM_IO_STREAM */
	bool is_direct;			/* O_DIRECT in use */
	bool is_instant;		/* in memory: reads and writes are made within the call */
	bool has_fixed_size;		/* sink: size was known when created */
	const char *note;		/* NULL, or why something is not as asked ("buffered: tmpfs has no O_DIRECT") */
};

struct fm_create {
	uint64_t size;			/* or FM_SIZE_UNKNOWN */
	bool is_dense;			/* no holes: room is reserved before the first byte */
	bool may_replace;		/* asked for (--force); the store may allow it by itself */
};

struct fm_who {
	const char *peer;		/* name of the peer that asks; NULL: a local caller */
	uid_t uid;			/* the local caller's, or what the peer says its caller's is */
	gid_t gid;
};

struct fm_list_opts {
	const char *after;		/* names behind this one only; "" from the start */
	size_t max;
};

struct fm_entry {
	char name[FM_NAME_LEN_MAX + 1];
	struct fm_attr attr;
};

/*
 * Worker, all of them. Paths are below the store, without leading slash; "" is the store itself. Errors: see
 * store/README.md.
 */
struct fm_store_ops {
	int (*open_source)(struct fm_store *s, const char *path, const struct fm_who *who, struct fm_file **out, struct fm_attr *attr,
			   struct fm_err *err);
	int (*create)(struct fm_store *s, const char *path, const struct fm_who *who, const struct fm_create *how, struct fm_file **out,
		      struct fm_err *err);
	int (*stat)(struct fm_store *s, const char *path, const struct fm_who *who, struct fm_attr *attr, struct fm_err *err);
	/* Sorted by bytes; *count entries into out. Fewer than max: that was the last. */
	int (*list)(struct fm_store *s, const char *path, const struct fm_who *who, const struct fm_list_opts *opts, struct fm_entry *out,
		    size_t *count, struct fm_err *err);
	int (*remove)(struct fm_store *s, const char *path, const struct fm_who *who, bool is_recursive, struct fm_err *err);
	int (*mkdir)(struct fm_store *s, const char *path, const struct fm_who *who, struct fm_err *err);
	/* Files that are open stay usable. */
	void (*free)(struct fm_store *s);
};

struct fm_store {
	const struct fm_store_ops *ops;
	char name[FM_NAME_LEN_MAX + 1];
	bool is_durable;		/* the store's default */
};

/* ---- the real stores (store_file.c, store_null.c, caller_file.c) ---- */

enum fm_store_owner { FM_OWNER_SERVICE, FM_OWNER_CALLER };

struct fm_store_opts {
	const char *name;
	const char *directory;		/* "null:" makes the benchmark's store */
	const char *const *read;	/* who: "*", "peer:NAME", "peer:*", "user:NAME", "group:NAME"; NULL-terminated */
	const char *const *write;
	bool is_durable;
	bool may_replace;
	bool is_buffered;		/* never O_DIRECT */
	uint64_t quota_bytes;		/* 0: none */
	enum fm_store_owner owner;
};

/* The directory must exist. tmpfs directories become memory stores by themselves. Options are copied. */
int fm_store_open(const struct fm_store_opts *opts, struct fm_store **out, struct fm_err *err);

/*
 * A descriptor that a local caller opened and passed; taken over, also on error. Regular files get O_DIRECT where
 * they can; pipes, terminals and sockets become streams; directories and devices are refused. A sink must be empty.
 * publish() syncs and sets mode and mtime but never renames.
 */
int fm_caller_source(int fd, struct fm_file **out, struct fm_attr *attr, struct fm_err *err);
int fm_caller_sink(int fd, const struct fm_create *how, struct fm_file **out, struct fm_err *err);

/*
 * For measuring: a source of `size` generated bytes (a function of the offset, not zeros), one that leaves the buffer
 * as it is (for the speed of everything else), and a sink that forgets everything. In a null store the path of a
 * source is its size: "64GiB", "1000000", or "untouched/64GiB".
 */
int fm_null_source(uint64_t size, struct fm_file **out, struct fm_attr *attr, struct fm_err *err);
int fm_null_source_untouched(uint64_t size, struct fm_file **out, struct fm_attr *attr, struct fm_err *err);
int fm_null_sink(struct fm_file **out, struct fm_err *err);

/* The bytes of fm_null_source() at offset (a multiple of 8): for who wants to compare. */
void fm_null_fill(void *buf, uint64_t offset, size_t len);

#endif
