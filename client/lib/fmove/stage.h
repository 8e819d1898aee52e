/* SPDX-License-Identifier: MIT */
/* fmove/stage.h - datasets on this node's disk. See <fmove.h>. */
#ifndef FMOVE_STAGE_H
#define FMOVE_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "files.h"
#include "jobs.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define FMOVE_DATASET_NAME_MAX 240	/* bytes of a dataset's name */

/* ---- what is staged on this node ---- */

#define FMOVE_HOLDERS_MAX 16

/* By what a copy that is here is known to be what its source is now. */
enum fmove_freshness {
	FMOVE_BY_LISTING,		/* names, sizes and times */
	FMOVE_UNASKED,			/* by nothing: one that is here is the answer */
	FMOVE_BY_CONTENT,		/* all bytes of the source were read for this request */
	/* it is of a sealed volume, which never changes; a copy has that, nobody asks for it */
	FMOVE_BY_SEAL,
};

/* What another node has of a dataset. Its size never changes. */
struct fmove_dataset_node {
	char node[FMOVE_NAME_MAX + 1];
	/* "ready", "fetching", "partial" or "absent"; "refused": one of the two lacks the other
	 * in its staging.peers;
	 * "silent": not connected, or nothing came for 2 s; "unknown": the dataset is a new one */
	char state[16];
	uint64_t bytes;			/* of it, there */
};

#define FMOVE_NOTE_MAX 768

/* A dataset. Times: ms since 1970. */

struct fmove_dataset {
	size_t struct_size;
	char name[FMOVE_DATASET_NAME_MAX + 1];
	/* "planned", "copying", "fetching", "checking", "partial", "ready", "evicting" */
	char state[16];
	char version[65];		/* 64 hex digits; "" before it is ready */
	char source[FMOVE_PATH_MAX + 2 * FMOVE_NAME_MAX + 4];
	char path[FMOVE_PATH_MAX + 1];	/* of a ready one: absolute, of this node */
	uint64_t bytes;
	uint64_t holds;
	uint64_t pins;
	int64_t created_ms;
	int64_t requested_ms;
	int64_t used_ms;
	enum fmove_freshness check;	/* fmove_stage(): that it has */
	/* fmove_stage(): its source is a store of this node on the same disk, so that reading the
	 * copy is no faster */
	bool is_same_disk;
	int64_t verified_ms;		/* when all of it was read and was right; 0: never */
	/* fmove_datasets(): of the processes that hold it the first ones, and whose hold it is */
	unsigned holder_count;
	struct {
		pid_t pid;
		uid_t uid;
	} holders[FMOVE_HOLDERS_MAX];
	/* fmove_datasets_of(): the other nodes; valid during the call */
	unsigned node_count;
	const struct fmove_dataset_node *nodes;
	/* of holders[]: the node for whose process it is held, and pid is 0; "": this one */
	char holder_nodes[FMOVE_HOLDERS_MAX][FMOVE_NAME_MAX + 1];
	/* fmove_stage_hub(): what it has changed in this node's hub cache for others, with what may
	 * be done; "": nothing */
	char note[FMOVE_NOTE_MAX];
	/* fmove_stage(): by which each node has logged it (fmove logs); another one than
	 * accepted() was told if a run of other nodes was joined */
	char job[FMOVE_JOB_MAX];
};

/* A node of a request for several; texts are valid during the call. */
struct fmove_stage_node {
	size_t struct_size;
	const char *node;
	const char *state;		/* "waiting", "fetching", "ready", "failed", "silent" */
	bool is_wanted;			/* else it only reads, or passes on */
	uint64_t bytes;			/* that are there */
	uint64_t read;			/* bytes that it read from the source */
	const char *path;		/* of a ready one: absolute, on that node; or "" */
	/* why not; or "". text without a code: what is worth a warning */
	const char *code, *text;
};

/* Zero-initialise but for struct_size. */
struct fmove_stage_options {
	size_t struct_size;
	const char *name;		/* NULL: the last part of the path */
	/* it stays as long as this process of ours lives, on each of nodes; 0: for the grace */
	pid_t pid;
	bool is_pinned;			/* it stays until it is unpinned, on each of nodes */
	/* that is wanted; of a hub not FMOVE_UNASKED; FMOVE_BY_CONTENT only if this node is one of
	 * nodes */
	enum fmove_freshness check;
	void (*progress)(void *ctx, const char *phase, uint64_t bytes, uint64_t size);
	void *ctx;
	int cancel_fd;	/* as in struct fmove_options, but it ends the waiting, and not the fetch */
	/* "all", or names between commas: where it is to be; NULL: here */
	const char *nodes;
	/* with nodes: for each node, in each progress (is_end false) and in the end; or NULL */
	void (*node)(void *ctx, const struct fmove_stage_node *node, bool is_end);
	/* also of a volume that another node than the source's has mounted read-write */
	bool is_live;
	/* it is begun, and is logged by that id, which is good during the call; or NULL */
	void (*accepted)(void *ctx, const char *job);
};

/*
 * A directory of another node, or of a store of this one, is on this node's disk, in *out, when
 * this returns. is_fetched: not all of it was there. With nodes each of them is told of, and 0 says
 * only that all have ended; out->path is "" if it is not here.
 */
int fmove_stage(struct fmove *c, const struct fmove_name *source,
		const struct fmove_stage_options *opts, struct fmove_dataset *out, bool *is_fetched,
		struct fmove_error *err);

struct fmove_place {
	size_t struct_size;
	char node[FMOVE_NAME_MAX + 1];
	char store[FMOVE_NAME_MAX + 1];
	char path[FMOVE_PATH_MAX + 1];	/* "": the store itself */
};

/*
 * The store of this node that an absolute path without symbolic links is in, and its name there.
 * -ENOENT: it is in none that the caller may read.
 */
int fmove_locate(struct fmove *c, const char *path, struct fmove_place *out,
		 struct fmove_error *err);

/*
 * A repository of Hugging Face, as a hub cache's directory calls it
 * (models--ORG--NAME), from a hub cache of any node. out->path: of the snapshot; hf_home: what
 * HF_HOME is to be here. With nodes as fmove_stage(): each has it in a hub cache of its own.
 */
int fmove_stage_hub(struct fmove *c, const char *repository, const char *revision,
		    const struct fmove_stage_options *opts, struct fmove_dataset *out,
		    char hf_home[FMOVE_PATH_MAX + 1], bool *is_fetched, struct fmove_error *err);

/*
 * The same from the caller's own hub cache, which this process reads, with its rights; no other
 * node hears of it. hub_fd: the directory, as HF_HUB_CACHE names it, open for reading. The copy is
 * for the caller's user alone, in a hub of his own, with another hf_home. It ends when this process
 * does. -ENOENT: it is not in that cache; -EBADMSG: it is not whole there. Without nodes, and with
 * FMOVE_BY_LISTING.
 */
int fmove_stage_own(struct fmove *c, int hub_fd, const char *repository, const char *revision,
		    const struct fmove_stage_options *opts, struct fmove_dataset *out,
		    char hf_home[FMOVE_PATH_MAX + 1], bool *is_fetched, struct fmove_error *err);

/* Call each() for all that is staged, or comes, until it returns false. */
int fmove_datasets(struct fmove *c, bool (*each)(void *ctx, const struct fmove_dataset *d),
		   void *ctx, struct fmove_error *err);

/*
 * The same, and what other nodes have of each: of "all" that this node stages with, 63 at most, or
 * of those named between commas; NULL: nobody is asked. A node that is silent is waited for 2 s for
 * each 256 datasets. -ENOENT
 * names what is no node.
 */
int fmove_datasets_of(struct fmove *c, const char *nodes,
		      bool (*each)(void *ctx, const struct fmove_dataset *d), void *ctx,
		      struct fmove_error *err);

/* What of a dataset is not what its manifest says. */
struct fmove_dataset_finding {
	size_t struct_size;
	char kind[16];			/* "missing", "extra", "changed", "corrupt", "unreadable" */
	char path[FMOVE_PATH_MAX + 1];	/* below the dataset */
	uint64_t offset, length;	/* of a file: where */
	bool is_mended;			/* it came again, from that node: */
	char from[FMOVE_NAME_MAX + 1];	/* "": it was not mended */
};

/* Zero-initialise but for struct_size. */
struct fmove_check_options {
	size_t struct_size;
	void (*progress)(void *ctx, uint64_t bytes, uint64_t size);
	void (*finding)(void *ctx, const struct fmove_dataset_finding *f);
	void *ctx;
	/* NULL, or is told what it is logged under: fmove logs has the lines, also on nodes that
	 * give something for it. job is good during the call. */
	void (*accepted)(void *ctx, const char *job);
};

struct fmove_checked {
	size_t struct_size;
	uint64_t bytes;
	uint64_t findings;		/* of many the first ones were told */
	uint64_t mended;		/* of them */
	char why[FMOVE_TEXT_MAX];	/* why one of them was not; "": not known */
	char job[FMOVE_JOB_MAX];	/* what it is logged under */
};

/*
 * A dataset that is ready is read again; what is damaged in files that are else as they should be
 * comes again from its source. 0 also if something was found.
 */
int fmove_dataset_check(struct fmove *c, const char *name, const struct fmove_check_options *opts,
			struct fmove_checked *out, struct fmove_error *err);

/* The cache of this node, in bytes: what datasets may take, and take. */
struct fmove_cache {
	size_t struct_size;	/* sizeof(struct fmove_cache) */
	uint64_t size;		/* as configured */
	uint64_t used;		/* by all datasets, also those that the caller may not see */
	uint64_t promised;	/* of these, what is still to come */
};

/* -EOPNOTSUPP: this node stages nothing. */
int fmove_cache(struct fmove *c, struct fmove_cache *out, struct fmove_error *err);

/* Bytes that this node has read from sources since its daemon started, for nodes that staged
 * together. */
int fmove_source_bytes(struct fmove *c, uint64_t *out, struct fmove_error *err);

/* It stays until it is unpinned; it does no more; it is removed now. */
int fmove_pin(struct fmove *c, const char *name, struct fmove_error *err);
int fmove_unpin(struct fmove *c, const char *name, struct fmove_error *err);
int fmove_unstage(struct fmove *c, const char *name, struct fmove_error *err);

/* A node of such a request; texts are valid during the call. */
struct fmove_kept_node {
	size_t struct_size;
	const char *node;
	const char *code, *text;	/* why not; or "" */
	const char *job;		/* what all nodes log it under */
};

/*
 * As fmove_pin(), fmove_unpin(), fmove_unstage() on each of "all" the nodes that this one stages
 * with and itself, or of those named between commas, where the dataset has that name: each() for
 * each of them. 0 says only that all have answered, or cannot. -ENOENT names what is no node.
 * -EINVAL: none is named.
 */
int fmove_pin_on(struct fmove *c, const char *nodes, const char *name,
		 void (*each)(void *ctx, const struct fmove_kept_node *n), void *ctx,
		 struct fmove_error *err);
int fmove_unpin_on(struct fmove *c, const char *nodes, const char *name,
		   void (*each)(void *ctx, const struct fmove_kept_node *n), void *ctx,
		   struct fmove_error *err);
int fmove_unstage_on(struct fmove *c, const char *nodes, const char *name,
		     void (*each)(void *ctx, const struct fmove_kept_node *n), void *ctx,
		     struct fmove_error *err);

/* Whether fmove_unstage() would remove it, and the bytes that it has. Nothing is removed. */
int fmove_unstage_try(struct fmove *c, const char *name, uint64_t *bytes, struct fmove_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
