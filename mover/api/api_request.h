/* SPDX-License-Identifier: MIT */
/*
 * api_request - one request of the local API: from the bytes of a message to a struct that is
 * checked.
 *
 * What a table of keys cannot say (which descriptors belong to it, whether a node exists) is
 * checked later. The message is hostile. Any thread.
 */
#ifndef FM_API_REQUEST_H
#define FM_API_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/queue/queue.h"
#include "mover/services/transfer/transfer.h"

#define FM_API_NODE_MAX 64		/* bytes of a node's or store's name */
#define FM_API_CODE_MAX 24		/* bytes of an errno's name */
#define FM_API_PROGRESS_MS_MIN 20
#define FM_API_MS_MAX (UINT64_C(366) * 24 * 3600 * 1000)
#define FM_API_ID_MAX ((UINT64_C(1) << 53) - 1)	/* what every language's numbers hold exactly */

struct fm_api_op;

/* A part of a buffer (api_buffer.h). */
struct fm_api_part {
	uint64_t number;
	bool is_whole;			/* the rest is 0 */
	uint64_t offset;
	uint64_t len;
};

/* bytes of a list of 64 nodes' names */
#define FM_API_NODES_MAX 4200

struct fm_api_request {
	bool has_id;
	uint64_t id;
	const struct fm_api_op *op;
	unsigned transport;		/* enum fm_transport_want */
	unsigned durability;		/* enum fm_durability */
	unsigned readback;		/* put: 1: compare what the far disk gives back */
	bool is_held;			/* put: it gets its name only after "commit" */
	bool is_buffered;		/* put: read the file through the page cache */
	bool is_force;			/* put, get, move, link, stage */
	bool accepts_corrupt;		/* also what is not what the digest kept with it says */
	bool is_recursive;
	bool is_partial;		/* list: unfinished transfers into it */
	/* our end is a directory of the caller: see tree/channel.h */
	bool is_tree;
	/* tree, with is_update: what only the version there has goes */
	bool is_delete;
	bool is_update;			/* tree: send what differs ... */
	bool has_checksums;		/* ... by content */
	bool is_dry;			/* tree: say what would be sent */
	bool has_names;			/* tree: say which names change */
	uint64_t dev;			/* put, tree: its root ... */
	uint64_t ino;			/* ... both 0: not known */
	unsigned excludes_count;	/* get, tree */
	unsigned range_count;		/* get; 0: the whole file */
	bool is_verified;		/* ranges: blocks covered in part, too */
	bool is_generated;		/* put: bytes_generated are made up, no descriptor */
	bool is_discarded;		/* get: into nothing, no descriptor */
	uint64_t bytes_generated;
	/* ... which these connections alone carry; its numbers are not set */
	struct fm_only only;
	uint64_t conns;
	uint64_t rate_bytes;
	uint64_t timeout_ms;
	uint64_t progress_ms;		/* 0: no progress events */
	uint64_t job;			/* cancel, commit: the id of the request ... */
	/* ... or, if not empty, of a job; attended: that goes on */
	char job_id[FM_QUEUE_ID_LEN + 1];
	/* commit: why it has no name; its text is in `file` */
	char error_code[FM_API_CODE_MAX + 1];
	unsigned priority;		/* enum fm_queue_priority */
	bool is_detached;
	bool is_attended;		/* kept as a detached one, and ends with this connection */
	bool is_store;			/* our end is local_store, local_path; no descriptor */
	uint64_t retry_ms;
	bool has_retry;
	bool is_kept;			/* cancel: what came stays for the next try */
	bool is_all;			/* jobs: of all users */
	uint64_t after_seq;		/* jobs, datasets: those behind it */
	bool is_pinned;			/* stage: it stays until it is unpinned */
	unsigned check;			/* stage: of fm_words_check */
	/* stage: where it is to be; "": here. datasets: who is asked, too; "": nobody */
	char nodes[FM_API_NODES_MAX + 1];
	uint64_t pid;			/* stage: it stays as long as that process; 0: none */
	size_t local_path_len;
	size_t file_len;
	size_t path_len;
	uint64_t tree_bytes;
	size_t after_len;
	size_t to_len;
	bool has_group;			/* put; what is asked of a group */
	uint8_t group[FM_GROUP_ID_LEN];
	uint64_t members;
	uint64_t expires_ms;
	size_t expect_len;
	bool is_later;			/* link: never back to what was published earlier */
	uint64_t keep_last;		/* link: of what it led to; 0: nothing goes */
	bool is_check;			/* group_commit: only whether it would be done */
	bool has_buffer;		/* put, get: our end is this, no descriptor */
	struct fm_api_part buffer;
	uint64_t bytes;			/* buffer: of the descriptor; get: the most that may come */
	char node[FM_API_NODE_MAX + 1];
	char store[FM_API_NODE_MAX + 1];
	char name[FM_NAME_LEN_MAX + 1];	/* of a dataset */
	char after[FM_NAME_LEN_MAX + 1];
	char path[FM_PATH_LEN_MAX + 1];
	char to[FM_PATH_LEN_MAX + 1];	/* move: the new name; link: what it says */
	char local_store[FM_API_NODE_MAX + 1];
	char local_path[FM_PATH_LEN_MAX + 1];
	char file[FM_QUEUE_FILE_PATH_MAX + 1];
	char expect[FM_GROUP_EXPECT_MAX + 1];	/* paths below the group's, one a line */
	char excludes[FM_TREE_EXCLUDES_MAX][FM_TREE_EXCLUDE_LEN_MAX + 1];
	struct fm_range ranges[FM_JOB_RANGES_MAX];
};

/*
 * Fill *out. Also after an error has_id and id are set if the message had a usable id, so that the
 * answer can name it. ops: those there are, NULL-terminated. -EINVAL, -ENAMETOOLONG, -ENOMEM; err
 * says which key and why.
 */
int fm_api_request_parse(const char *msg, size_t len, const struct fm_api_op *const *ops,
			 struct fm_api_request *out, struct fm_err *err);

#endif
