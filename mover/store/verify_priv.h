/* SPDX-License-Identifier: MIT */
/*
 * verify_priv - inside of a verification: verify.c walks, verify_listed.c goes through manifests,
 * verify_file.c reads one file and compares.
 */
#ifndef FM_STORE_VERIFY_PRIV_H
#define FM_STORE_VERIFY_PRIV_H

#include "mover/journal/siphash.h"
#include "mover/store/path.h"
#include "mover/store/verify.h"
#include "mover/store/walk.h"
#include "mover/tree/digest.h"
#include "mover/tree/tree.h"

#define FM_VERIFY_BUF_BYTES (4u << 20)	/* divides every block of a digest */
#define FM_VERIFY_PATH_MAX (2 * FM_PATH_SHOWN_MAX + 8192)

/* Paths that a manifest listed: what the walk finds again. Of each a hash; what it has no memory
 * for it forgets. */
struct fm_verify_seen {
	struct fm_sip key;
	uint64_t *at;			/* open addressing; 0: free */
	size_t cap;
	size_t count;
};

struct fm_verify_run {
	struct fm_verify *v;
	int root;			/* of the store */
	struct fm_walk *walk;
	uint8_t *buf;
	const char *top;		/* path of what was asked for */
	bool is_directory;		/* that */
	struct fm_verify_seen seen;
	char path[FM_VERIFY_PATH_MAX];	/* of what is looked at, below the store */
};

/* ---- verify.c ---- */

bool fm_verify_is_stopped(struct fm_verify *v);
void fm_verify_add(struct fm_verify *v, uint64_t *counter, uint64_t by);

/* A finding at r->path. Waits for somebody to take findings. -ENOMEM. */
int fm_verify_say(struct fm_verify_run *r, enum fm_finding_kind kind, uint64_t offset,
		  uint64_t length);

/* ---- verify_file.c ---- */

/* What a manifest says of a file. */
struct fm_verify_listed {
	uint64_t size;
	int64_t mtime_ns;
	bool has_crc;
	uint32_t crc;
};

/*
 * r->path, which is `name` in dir: compared with what a manifest says of it, or (NULL) with the
 * digest that was kept with it. 0 also if something was found; -ENOENT: it is not there.
 */
int fm_verify_file(struct fm_verify_run *r, int dir, const char *name,
		   const struct fm_verify_listed *listed);

/* ---- verify_listed.c ---- */

/*
 * The directory `name` in parent, r->path: if it has a manifest, all that it lists, or, where below
 * is not "", what is listed under that path in it. Returns how many entries, 0: no manifest; or an
 * error.
 */
int64_t fm_verify_listed(struct fm_verify_run *r, int parent, const char *name, const char *below);

/* Whether r->path was among what some manifest listed. */
bool fm_verify_was_listed(const struct fm_verify_run *r);

void fm_verify_forget(struct fm_verify_run *r);

#endif
