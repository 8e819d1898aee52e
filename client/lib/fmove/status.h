/* SPDX-License-Identifier: MIT */
/* fmove/status.h - the daemon, its peers, and what they say of themselves. See <fmove.h>. */
#ifndef FMOVE_STATUS_H
#define FMOVE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "connect.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* What a peer says of itself, or why it does not. */
struct fmove_facts {
	size_t struct_size;
	const char *node;
	/* fmove-facts(5), len bytes of whoever that peer is; NULL: there is none, so ... */
	const char *text;
	size_t len;
	int code;			/* ... a negative errno and why */
	const char *why;
};

/*
 * Ask a peer, or all of them (node NULL), for its facts: each() for every one, in no order, with
 * what is valid during the call. -ENOENT: there is no such peer. Takes some seconds.
 */
int fmove_facts(struct fmove *c, const char *node,
		void (*each)(void *ctx, const struct fmove_facts *facts), void *ctx,
		struct fmove_error *err);

/* The name of this node, terminated, cut to cap. */
int fmove_node(struct fmove *c, char *out, size_t cap, struct fmove_error *err);

/* A node that the daemon knows: itself, or a peer. */
struct fmove_peer {
	size_t struct_size;
	char name[FMOVE_NAME_MAX + 1];
	bool is_self;
	bool is_connected;
	uint64_t since_ms;		/* so long it is, or is not; itself: so long it runs */
	char address[FMOVE_NAME_MAX + 1];	/* of a peer, as it is configured; may be "" */
	char error[FMOVE_TEXT_MAX];	/* why it is not connected; may be "" */
};

/* This node first, then its peers. Until each() returns false; it must not use c. */
int fmove_nodes(struct fmove *c, bool (*each)(void *ctx, const struct fmove_peer *node), void *ctx,
		struct fmove_error *err);

/* The daemon's version, terminated, cut to cap. */
int fmove_version(struct fmove *c, char *out, size_t cap, struct fmove_error *err);

/* The daemon's whole status as the JSON object that fmove-api(7) describes; free() it. */
int fmove_status(struct fmove *c, char **json, struct fmove_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
