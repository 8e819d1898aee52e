/* SPDX-License-Identifier: MIT */
/*
 * manifest_priv - what the writer and the reader of a manifest share: the layout, and the rules for
 * an entry.
 */
#ifndef FM_STAGE_MANIFEST_PRIV_H
#define FM_STAGE_MANIFEST_PRIV_H

#include "mover/base/bytes.h"
#include "mover/tree/tree.h"
#include "staging/manifest.h"

#define FM_STAGE_MAGIC "FMOVESET"
#define FM_STAGE_END_MAGIC "FMOVEEND"
#define FM_STAGE_VERSION 1u
#define FM_STAGE_HEAD 16u		/* of the file */
#define FM_STAGE_ENTRY_HEAD 24u
#define FM_STAGE_CHUNK_LEN 12u		/* of a chunk's record */
#define FM_STAGE_INDEX_LEN 28u		/* of an extent's record */
#define FM_STAGE_TAIL 80u
#define FM_STAGE_TYPE_END 5u		/* an entry's head with this type is behind the last one */
#define FM_STAGE_BUF (64u << 10)
#define FM_STAGE_ENTRY_MAX (FM_STAGE_ENTRY_HEAD + 2u * FM_TREE_PATH_MAX)

_Static_assert(FM_STAGE_BUF >= FM_STAGE_ENTRY_MAX, "the longest entry fits the buffer");

/* The sums of the entries so far, and the last entry, which the next one must follow in order. */
struct fm_stage_so_far {
	bool is_file;			/* one file is all there may be */
	uint64_t entries;
	uint64_t files;
	uint64_t bytes;
	enum fm_stage_type type;	/* of the last one */
	size_t path_len;		/* 0: there was none */
	char path[FM_TREE_PATH_MAX];
	/* the first entry after a seek: what came before is not known */
	bool is_any_parent;
};

/* Counts e, if it may follow: 0; -EINVAL: it may not be in a manifest, or not here; -EFBIG. */
int fm_stage_so_far_add(struct fm_stage_so_far *s, const struct fm_stage_entry *e);

/* Whether c may be a chunk of len bytes. */
bool fm_stage_is_chunk(const struct fm_stage_chunk *c, uint32_t len);

/* The head of an entry's record. */
void fm_stage_put_head(struct fm_writer *w, const struct fm_stage_entry *e);

#endif
