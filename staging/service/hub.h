/* SPDX-License-Identifier: MIT */
/*
 * hub - what is staged of Hugging Face, as one hub cache: CACHE/hf/hub, so that one HF_HOME serves
 * all models and datasets of the node.
 *
 * The data is in the cache, a dataset for each commit, and READY by one rename as any other. A
 * dataset is a hub cache of its own: NAME/models--ORG--NAME/{blobs,snapshots}. The hub is nothing
 * but names beside it: snapshots/COMMIT is a link to the snapshot's directory in a READY dataset,
 * blobs/HASH one to a blob in any that has it, refs/REVISION a file with the commit. These appear
 * when the dataset is READY (for a process of this node also held), the ref last; when it is gone
 * the ref goes first. What the hub says of a dataset that is not there is therefore never more than
 * that it is not there. All of it can be removed by hand while nobody stages: each request makes
 * what it needs.
 *
 * Each repository has one source, NODE:STORE, beside the hub (hub_mark.h). Other nodes have names
 * made in it only of that source. A user of this node has any; if it is of another source, the
 * repository is of several until it goes, and no other node has names made in it any more.
 *
 * What came of a user's own hub cache is in a hub of his, CACHE/hf-UID/hub: its directory is for
 * him alone, it has no mark, and no name leads from one hub into a dataset of the other.
 *
 * Workers, any of them at once; waits for the disk.
 */
#ifndef FM_STAGE_HUB_H
#define FM_STAGE_HUB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/hub_name.h"
#include "mover/store/store.h"
#include "mover/wire/wire.h"
#include "staging/key.h"

/* What it says. */
struct fm_hub_source {
	char node[FM_WIRE_NAME_MAX + 1], store[FM_WIRE_NAME_MAX + 1];
	struct fm_hub_name name;	/* the revision is a commit */
};

/*
 * What came of a user's own hub cache, by his hands (own_ask.h), is of the source
 * hf://~UID/KIND--ORG--NAME@COMMIT. No node's is called so, since that has a ':' before the first
 * '/' behind "//", and fm_hub_source_parse() refuses it: whatever is done by a source's node or
 * store passes it by. (FM_HUB_OWN_SOURCE: staging/key.h)
 *
 * path: KIND--ORG--NAME@COMMIT.
 */
void fm_hub_own_source(uid_t uid, const char *path, char *out, size_t size);
bool fm_hub_is_own(const char *source);
/* The name's revision is a commit. -EINVAL: it is none of a user's own cache. */
int fm_hub_own_parse(const char *source, uid_t *uid, struct fm_hub_name *out);

/* path: KIND--ORG--NAME@COMMIT. No plain source is called so. */
void fm_hub_source(const char *node, const char *store, const char *path, char *out, size_t size);
/* -EINVAL: it is no source of a hub. */
int fm_hub_source_parse(const char *source, struct fm_hub_source *out);

struct fm_cache;
struct fm_err;
struct fm_hub;

/* cache and its directory outlive it. */
int fm_hub_new(struct fm_cache *cache, const char *directory, struct fm_hub **out,
	       struct fm_err *err);
void fm_hub_free(struct fm_hub *h);	/* NULL is allowed */

/* What HF_HOME is; and for what came of that user's own cache. */
const char *fm_hub_home(const struct fm_hub *h);
void fm_hub_own_home(const struct fm_hub *h, uid_t uid, char out[static FM_PATH_LEN_MAX + 1]);

/*
 * The hub has that READY dataset, whose source is of a hub, and the revision leads to it. path: of
 * the snapshot. -EINVAL: the revision is a commit, and another one. -EEXIST: "a" cannot be there
 * with "a/b".
 *
 * asked: what a user of this node asked for; its names are made. If the repository is
 * of several because of that from now on, the note says so, what follows and what may be done.
 * NULL: another node asks. Then besides: -EEXIST, the repository is of another source, or of
 * several; -ESTALE, a newer copy of that commit is shown; and what fm_hub_ref_check() says of the
 * revision.
 */
#define FM_HUB_NOTE_MAX 768
struct fm_hub_asked {
	const char *source;
	uid_t uid;
};
int fm_hub_show(struct fm_hub *h, uint64_t id, const char *revision,
		const struct fm_hub_asked *asked, char *path, size_t max,
		char note[static FM_HUB_NOTE_MAX], struct fm_err *err);

/*
 * The source of a repository, NODE:STORE, that a user of this node asked for; "": it has none, or
 * several, or only another node has brought it. An error: it is not known now.
 */
#define FM_HUB_FROM_MAX (2 * FM_WIRE_NAME_MAX + 1)
int fm_hub_from(struct fm_hub *h, const char *repository, char out[static FM_HUB_FROM_MAX + 1]);

/*
 * To be called every few seconds: what leads to datasets that are gone is removed. Of those that
 * could not be read at the start it is not, as long as they lie there.
 */
void fm_hub_sweep(struct fm_hub *h);

/*
 * What came of `path` (KIND--ORG--NAME@COMMIT) into the directory data is that, whole, and nothing
 * else: every link leads to a blob in it, every blob is what its name says, and no other name is
 * there. -EBADMSG, -EXDEV: it is not. is_hash: the bytes of all its files were compared with a
 * hash; not every name is one, and not every snapshot is of links.
 */
int fm_hub_verify(int data, const char *path, const atomic_bool *is_stopped,
		  _Atomic uint64_t *done, bool *is_hash, struct fm_err *err);

#endif
