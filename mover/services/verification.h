/* SPDX-License-Identifier: MIT */
/*
 * verification - reading again what is stored, ours (node NULL or our name) or a peer's; and for
 * peers. One VERIFY, then VERIFIED about once a second until one says that it is over. ABORT ends
 * it.
 */
#ifndef FM_VERIFICATION_H
#define FM_VERIFICATION_H

#include "mover/node/engine.h"
#include "mover/node/service.h"
#include "mover/store/verify.h"

extern const struct fm_service fm_verification_service;

/*
 * What there may be at once: what local callers asked for and what all peers together did, so that
 * neither takes the other's places. What one user or peer may have of it base/share.h says; of what
 * is local, some is for root.
 */
#define FM_VERIFICATIONS_LOCAL_MAX 8u	/* each with a thread where the store is ours */
#define FM_VERIFICATIONS_LOCAL_ROOT 2u
#define FM_VERIFICATIONS_PEERS_MAX 12u

struct fm_verification;

struct fm_verification_opts {
	const char *node;
	const char *store;
	const char *path;		/* a file, or a directory with all below it */
	size_t path_len;
	struct fm_who who;
};

struct fm_verification_events {
	/* about once a second */
	void (*progress)(void *ctx, const struct fm_verify_count *count);
	void (*finding)(void *ctx, enum fm_finding_kind kind, uint64_t offset, uint64_t length,
			const char *path);
	/* Once, last; gone afterwards. err->code 0: all of it was looked at, whatever was found. */
	void (*done)(void *ctx, const struct fm_err *err, const struct fm_verify_count *count);
};

/* -ENOENT unknown node or store, -EINVAL bad path, -EBUSY no place is left, or none for that user:
 * done() is not called then. */
int fm_verification_start(struct fm_engine *engine, const struct fm_verification_opts *opts,
			  const struct fm_verification_events *events, void *ctx,
			  struct fm_verification **out, struct fm_err *err);

/* done() comes with -ECANCELED. */
void fm_verification_cancel(struct fm_verification *v);

#endif
