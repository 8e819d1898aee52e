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
 * Several datasets may have one commit, of several stores. The last that was asked for here is what
 * snapshots/COMMIT leads to; .copies/COMMIT.VERSION is a link to another one that has the same. The
 * sweep leads to such a one if the first is gone, or if nobody holds or pins the first and somebody
 * the other; the refs stay. Where the first goes between two sweeps the link leads nowhere until
 * the second one.
 *
 * Workers, any of them at once; waits for the disk.
 */
#ifndef FM_STAGE_HUB_H
#define FM_STAGE_HUB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/base/hub_name.h"
#include "mover/wire/wire.h"

/* The source of a dataset that a hub gave begins with it. */
#define FM_HUB_SOURCE "hf://"

/* What it says. */
struct fm_hub_source {
	char node[FM_WIRE_NAME_MAX + 1], store[FM_WIRE_NAME_MAX + 1];
	struct fm_hub_name name;	/* the revision is a commit */
};

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

/* What HF_HOME is. */
const char *fm_hub_home(const struct fm_hub *h);

/*
 * The hub has that READY dataset, whose source is of a hub, and the revision leads to it. path: of
 * the snapshot. -EINVAL: the revision is a commit, and another one.
 *
 * is_for_another: another node asks for it, and nobody here does. It cannot put its own bytes in
 * the place of what users here work with. A commit that a READY dataset of another store shows
 * stays, with -EEXIST, unless that has the same; then it also stays, and only the ref is made. So
 * does a commit that a ref of another store leads to. A ref to another commit stays, with -EEXIST,
 * unless it was made for that store (hub_ref.h, which also says which refs another node may make
 * at all).
 *
 * The same: the same names, which lead to blobs that are called by the same SHA-256 or, as git
 * calls small files, SHA-1. Two blobs with one SHA-1 can be made by somebody who makes both.
 */
int fm_hub_show(struct fm_hub *h, uint64_t id, const char *revision, bool is_for_another,
		char *path, size_t max, struct fm_err *err);

/*
 * To be called every few seconds: what leads to datasets that are gone is removed, or led to
 * others.
 */
void fm_hub_sweep(struct fm_hub *h);

/*
 * What came of `path` (KIND--ORG--NAME@COMMIT) into the directory data is that and whole: every
 * link leads to a blob in it, and every blob is what its name says. -EBADMSG, -EXDEV: it is not.
 */
int fm_hub_verify(int data, const char *path, const atomic_bool *is_stopped,
		  _Atomic uint64_t *done, struct fm_err *err);

#endif
