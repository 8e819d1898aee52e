/* SPDX-License-Identifier: MIT */
/*
 * keep - what a node asks another one to keep for a user of its own, and the answer: the bodies of
 * STAGE (mover/wire/wire.h), kinds KEEP and KEPT. Little-endian; a string is a 16-bit length and
 * that many bytes, none of them NUL. What is decoded is hostile: all of it is checked.
 *
 * KEEP: 0 8 id   8 1 verb (enum fm_stage_verb)   9 4 uid   13 8 hold (HOLD, RELEASE: what the asker
 *       calls it, not 0; SHOW: the user's group; else 0)   21 32 key (what the cache knows the
 *       dataset by: staging/key.h; zeros: by name)   53 8 job (of the request, which it is logged
 *       under; zeros: of none, and of RELEASE)   61 - string: name (of a dataset, as the user
 *       calls it; "": by key; SHOW: the revision, a branch, a tag or a commit)
 * KEPT: 0 8 id   8 4 code (0, or an errno)   12 - string: text (why not; SHOW, code 0: the path of
 *       the snapshot)
 *
 * LET is of a request for the dataset: its user may read the copy from then on, as if he had staged
 * it there, if its source lets him (keeper.h).
 *
 * HOLD lasts FM_CACHE_NODE_S, and is said again as long as the holder lives. RELEASE ends it, and
 * is not answered. SHOW is of a repository of Hugging Face: its names appear in the hub of the node
 * that is asked (hub.h), which asks the dataset's source by itself what the revision is.
 */
#ifndef FM_STAGE_KEEP_H
#define FM_STAGE_KEEP_H

#include <stddef.h>
#include <stdint.h>

#include "mover/base/hub_name.h"
#include "mover/wire/wire.h"
#include "staging/cache.h"

enum fm_stage_verb {
	FM_STAGE_HOLD = 1,		/* by key */
	FM_STAGE_RELEASE,		/* of neither */
	FM_STAGE_PIN,			/* by key or name */
	FM_STAGE_UNPIN,			/* by name */
	FM_STAGE_UNSTAGE,		/* by name */
	FM_STAGE_SHOW,			/* by key; name is the revision */
	FM_STAGE_LET,			/* by key */
	FM_STAGE_VERB_LAST = FM_STAGE_LET
};

/* As the log has them; by verb. */
extern const char *const fm_stage_verb_names[FM_STAGE_VERB_LAST + 1];

#define FM_STAGE_KEEP_NAME_MAX FM_HUB_REVISION_MAX
#define FM_STAGE_KEPT_TEXT_MAX FM_WIRE_PATH_MAX

struct fm_stage_keep {
	uint64_t id;
	enum fm_stage_verb verb;
	uint32_t uid;
	uint64_t hold;
	struct fm_cache_key key;
	char job[FM_WIRE_JOB_LEN + 1];	/* "": none */
	char name[FM_STAGE_KEEP_NAME_MAX + 1];
};

struct fm_stage_kept {
	uint64_t id;
	int code;			/* 0, or negative */
	char text[FM_STAGE_KEPT_TEXT_MAX + 1];
};

/* How many bytes; 0: what no decoder takes. */
size_t fm_stage_keep_encode(const struct fm_stage_keep *k, uint8_t buf[static FM_WIRE_STAGE_MAX]);
size_t fm_stage_kept_encode(const struct fm_stage_kept *k, uint8_t buf[static FM_WIRE_STAGE_MAX]);

/* -EBADMSG */
int fm_stage_keep_decode(const uint8_t *buf, size_t len, struct fm_stage_keep *out);
int fm_stage_kept_decode(const uint8_t *buf, size_t len, struct fm_stage_kept *out);

#endif
