/* SPDX-License-Identifier: MIT */
/*
 * about - what nodes that stage one dataset together say of it beside the messages of the run: the
 * bodies of STAGE (mover/wire/wire.h), kinds ABOUT and IS. Little-endian; a string is a 16-bit
 * length and that many bytes, none of them NUL. What is decoded is hostile: all of it is checked.
 *
 * ABOUT: 0 32 listing   32 8 entries   40 8 bytes   48 4 extents   52 4 uid   56 4 gid (of whom
 *        the request is for)   60 8 wanted (nodes that requests made at the sender name)   68 8
 *        may_read (nodes that may have bytes of it, as far as the sender knows: together.h)   76 1
 *        flags (1 is_in, 2 is_hub, 4 is_file)   77 1 source (which node)   78 2 count   80 8 job
 *        (a-z, 2-7; all z: none)   then strings: store, path, name, shared; then the names of the
 *        nodes, sorted
 * IS:    0 1 place (enum fm_run_place)   1 4 code (0, or an errno)   5 8 done   13 8 read (bytes,
 *        of the source)   21 1 is_over (the sender has left the run)   22 - strings: path (of
 *        what is READY), text (why not)
 */
#ifndef FM_STAGE_ABOUT_H
#define FM_STAGE_ABOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/store/store.h"
#include "mover/wire/wire.h"
#include "staging/cache.h"
#include "staging/manifest.h"
#include "staging/run/message.h"

/*
 * In the place of a job: the sender knows none yet, or none from a node that may take part
 * (together.h). Sorts behind every id.
 */
#define FM_STAGE_NO_JOB "zzzzzzzz"

/* Which nodes stage which dataset. Nodes with equal values are in one run. */
struct fm_stage_about {
	uint8_t listing[FM_SHA256_LEN];
	uint64_t entries;
	uint64_t bytes;
	uint32_t extents;		/* 1 .. FM_RUN_EXTENTS_MAX */
	uint32_t uid;
	uint32_t gid;
	uint64_t wanted;
	uint64_t may_read;
	bool is_in;			/* messages of the run may be sent to the sender */
	/* path is KIND--ORG--NAME@COMMIT in a hub cache of Hugging Face, which is not shared */
	bool is_hub;
	bool is_file;			/* path is of a file, the dataset's only one: name */
	unsigned source;		/* of a shared store: which node was asked for it */
	unsigned count;			/* nodes */
	/* by which all nodes log what they do for the run; of two that they know the first one, in
	 * the order of letters */
	char job[FM_WIRE_JOB_LEN + 1];
	char store[FM_WIRE_NAME_MAX + 1];
	char path[FM_WIRE_PATH_MAX + 1];
	char name[FM_WIRE_NAME_MAX * 4];	/* of the dataset */
	char shared[FM_SHARED_LEN_MAX + 1];	/* its store's ID; "": only `source` has it */
	char node[FM_RUN_NODES_MAX][FM_WIRE_NAME_MAX + 1];
};

/* How many bytes; 0: what no decoder takes. */
size_t fm_stage_about_encode(const struct fm_stage_about *a, uint8_t buf[static FM_WIRE_STAGE_MAX]);
int fm_stage_about_decode(const uint8_t *buf, size_t len, struct fm_stage_about *out);

/* What the dataset's source is called, the same at all nodes. */
void fm_stage_about_source(const struct fm_stage_about *a,
			   char out[static FM_CACHE_SOURCE_MAX + 1]);

/*
 * What the run is known by: source, listing, kind, how much that is, and nodes. And what the cache
 * knows the dataset by.
 */
int fm_stage_about_key(const struct fm_stage_about *a, struct fm_cache_key *key,
		       uint8_t run[FM_WIRE_STAGE_RUN_LEN]);

/* How far a node is. */
struct fm_stage_is {
	uint8_t place;
	int code;
	uint64_t done;
	uint64_t read;
	bool is_over;			/* it takes part no more, or begins anew */
	char path[FM_WIRE_PATH_MAX + 1];
	char text[256];
};

/* How many bytes; 0: what no decoder takes. */
size_t fm_stage_is_encode(const struct fm_stage_is *is, uint8_t buf[static FM_WIRE_STAGE_MAX]);
int fm_stage_is_decode(const uint8_t *buf, size_t len, struct fm_stage_is *out);

#endif
