/* SPDX-License-Identifier: MIT */
/* fmove/stores.h - what is in a store: looked at, changed, counted, read again. See <fmove.h>. */
#ifndef FMOVE_STORES_H
#define FMOVE_STORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "files.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum fmove_type { FMOVE_FILE, FMOVE_DIRECTORY, FMOVE_LINK, FMOVE_OTHER };

struct fmove_entry {
	size_t struct_size;
	char name[FMOVE_NAME_MAX + 1];	/* "" from fmove_stat() */
	enum fmove_type type;
	uint64_t size;
	unsigned mode;
	int64_t mtime_ns;
	/* fmove_partials(): bytes it will have; UINT64_MAX: not known; else 0 */
	uint64_t whole;
};

int fmove_stat(struct fmove *c, const struct fmove_name *name, struct fmove_entry *out,
	       struct fmove_error *err);

/*
 * As fmove_stat(), but of a symbolic link itself. says: what it says, "" of anything else.
 */
int fmove_look(struct fmove *c, const struct fmove_name *name, struct fmove_entry *out,
	       char says[FMOVE_PATH_MAX + 1], struct fmove_error *err);

/*
 * Call each() for every entry behind the name `after` ("": all), in the order of the names' bytes,
 * until it returns false. The directory is read in pages; between two of them, so in each(), other
 * requests may be made over c. A node that tells of more than FMOVE_ENTRIES_MAX: -EPROTO, behind
 * those; a call with the last name as `after` goes on.
 */
#define FMOVE_ENTRIES_MAX (4 << 20)	/* a node reads a directory again for each page: hours */
int fmove_list(struct fmove *c, const struct fmove_name *name, const char *after,
	       bool (*each)(void *ctx, const struct fmove_entry *entry), void *ctx,
	       struct fmove_error *err);

/*
 * The same for unfinished transfers into the directory, by the names they would get; size: bytes
 * that are there, mtime_ns: when the last of them was written down. The same put again goes on from
 * there.
 */
int fmove_partials(struct fmove *c, const struct fmove_name *name, const char *after,
		   bool (*each)(void *ctx, const struct fmove_entry *entry), void *ctx,
		   struct fmove_error *err);

/* What a store has room for; UINT64_MAX: no limit, or of quota: none. */
struct fmove_space {
	size_t struct_size;
	char store[FMOVE_NAME_MAX + 1];
	uint64_t size;			/* of its file system */
	/* what may still come: of the file system, and of the quota */
	uint64_t free;
	uint64_t used;			/* against the quota; without one: of the file system */
	uint64_t quota;
	uint64_t promised;		/* to transfers that run */
	/* goes with the directories that were replaced and are kept for a while ... */
	uint64_t aside;
	uint64_t trees;			/* ... which are so many */
	/* not all of the store was looked through yet: aside may be more */
	bool is_counting;
	/* what its rules allow; of one that may only be written the rest says nothing */
	bool may_read;
	bool may_write;
	/*
	 * For so long the node has waited for an answer of its file system: all numbers are
	 * UINT64_MAX. 0: it answers. Only where all stores were asked for; one alone is -ETIMEDOUT.
	 */
	uint64_t silent_ms;
	/* -errno: its file system failed, and the same holds. 0: it did not. */
	int code;
};

/*
 * name->store "": each of the node's stores that may be read or written, in the order of their
 * names. Until each() returns false; it must not use c. A node that tells of more than
 * FMOVE_STORES_MAX: -EPROTO, behind those.
 */
#define FMOVE_STORES_MAX 1024		/* many times what a node has */
int fmove_space(struct fmove *c, const struct fmove_name *name,
		bool (*each)(void *ctx, const struct fmove_space *space), void *ctx,
		struct fmove_error *err);

/* A directory that was replaced and is kept aside. */
struct fmove_aside {
	size_t struct_size;
	uint64_t bytes;			/* that go with it */
	int64_t since_ns;		/* when it was replaced, since 1970 */
	char path[FMOVE_PATH_MAX + 1];	/* where it is, below the store */
	char name[FMOVE_PATH_MAX + 1];	/* what it was, below the store; "": that is not known */
};

/*
 * Remove what was replaced in a store and is kept aside, the oldest first; is_dry: only tell.
 * each() is called for each, when it is gone, and must not use c. An error in the midst leaves the
 * rest. A node that tells of more than FMOVE_ASIDE_MAX: -EPROTO.
 */
#define FMOVE_ASIDE_MAX 16384		/* many times what a store remembers */
int fmove_purge(struct fmove *c, const struct fmove_name *name, bool is_dry,
		void (*each)(void *ctx, const struct fmove_aside *aside), void *ctx,
		struct fmove_error *err);

/* The same of what is unfinished in a store, and nobody works on, by its path; name: that it would
 * have got; since_ns: when it last changed. */
int fmove_purge_partials(struct fmove *c, const struct fmove_name *name, bool is_dry,
			 void (*each)(void *ctx, const struct fmove_aside *aside), void *ctx,
			 struct fmove_error *err);

/* is_recursive: a directory too, for which it waits up to an hour, unless fmove_set_timeout() said
 * how long. A node goes on after -ETIMEDOUT. */
int fmove_remove(struct fmove *c, const struct fmove_name *name, bool is_recursive,
		 struct fmove_error *err);

/* Missing parents are made. */
int fmove_mkdir(struct fmove *c, const struct fmove_name *name, struct fmove_error *err);

/*
 * Give a file, link or directory another name in the same store: one rename, which is on the disk
 * when the call returns (if the store is durable). to: a path below the store, whose directory is
 * there. -EEXIST: it is taken; may_replace: a file or link takes the place of one.
 */
int fmove_move(struct fmove *c, const struct fmove_name *name, const char *to, bool may_replace,
	       struct fmove_error *err);

/*
 * Make a symbolic link that says target, which is relative and leads nowhere out of the store.
 * -EEXIST: the name is taken; may_replace: it takes the place of another link.
 */
int fmove_symlink(struct fmove *c, const char *target, const struct fmove_name *name,
		  bool may_replace, struct fmove_error *err);

/* What went of what a link led to, and what could not go. */
struct fmove_rotated {
	size_t struct_size;
	uint32_t gone;
	/* the first of them, beside the link, one a line; none that has a line break */
	char names[513];
	char stays[512];		/* what stays though it is older, and why; "": nothing */
};

/*
 * fmove_symlink() to target, a name beside the link, which is replaced; then of what it was led to
 * by this the last `keep` stay (1 to 1000) and the others go, the oldest first. What another link
 * beside it leads to, or somebody reads, stays for now. Waits as fmove_remove() does.
 */
int fmove_rotate(struct fmove *c, const char *target, const struct fmove_name *name, uint32_t keep,
		 struct fmove_rotated *out, struct fmove_error *err);

/*
 * The same to what a group was published as, or without removing anything (keep 0). -ESTALE: the
 * link leads to what was published later, and stays: an older group was committed once more.
 */
int fmove_lead(struct fmove *c, const char *target, const struct fmove_name *name, uint32_t keep,
	       struct fmove_rotated *out, struct fmove_error *err);

/* ---- reading again what is stored ---- */

struct fmove_verified {
	size_t struct_size;
	/* looked at: all of the following, and those that are well */
	uint64_t files;
	uint64_t bytes;			/* read */
	uint64_t corrupt;
	uint64_t unreadable;
	uint64_t changed;
	uint64_t missing;
	uint64_t swapped;
	uint64_t without;		/* nothing was kept to compare with */
	/* of a directory: no manifest names them, and what is missing beside them is not known */
	uint64_t unlisted;
	/* findings of kinds that are not known here; 0 from progress() */
	uint64_t other;
};

enum fmove_finding_kind {
	/* size and time are those it came with, the content is not */
	FMOVE_CORRUPT,
	FMOVE_UNREADABLE,
	FMOVE_CHANGED,			/* somebody wrote to it since */
	FMOVE_MISSING,			/* it came with its directory, and is not there any more */
	FMOVE_SWAPPED,			/* another file has its name */
	FMOVE_FINDING_OTHER,		/* a newer daemon's: not known here */
};

struct fmove_finding {
	size_t struct_size;
	enum fmove_finding_kind kind;
	/* where the first block begins that differs; what cannot be read */
	uint64_t offset;
	/* of the blocks that differ there; of what cannot be read, or is missing; 0: not known */
	uint64_t length;
	char path[2 * FMOVE_PATH_MAX + 2];	/* below the store */
};

/* Zero-initialise but for struct_size; each of the functions may be NULL. */
struct fmove_verify_options {
	size_t struct_size;
	void (*finding)(void *ctx, const struct fmove_finding *finding);
	/* about once a second */
	void (*progress)(void *ctx, const struct fmove_verified *so_far);
	void *ctx;
	int cancel_fd;			/* as in struct fmove_options */
};

/*
 * Read a file, or all files below a directory, from the disk of the node that has it, and compare
 * with the digests that were kept when they came. 0: all of it was looked at; what was found is in
 * *out and was told by finding().
 */
int fmove_verify(struct fmove *c, const struct fmove_name *name,
		 const struct fmove_verify_options *opts, struct fmove_verified *out,
		 struct fmove_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
