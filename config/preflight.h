/* SPDX-License-Identifier: MIT */
/*
 * preflight - try, as the user that fmoved runs as, what fmoved does with the files and directories
 * of its configuration, and say the command that mends what fails.
 *
 * Everything is tried by the calls that the daemon makes, so access lists, read-only mounts and
 * parents that may not be searched count. Nothing of it stays. May block, as those files do. For
 * `fmove init`, `fmove join`, `fmoved --check` and the start of fmoved.
 */
#ifndef FM_CONFIG_PREFLIGHT_H
#define FM_CONFIG_PREFLIGHT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "config/config.h"

struct fm_err;

#define FM_SERVICE_USER "fmove"		/* whom fmoved.service names */
#define FM_PREFLIGHT_MEND_MAX (2 * PATH_MAX)
/* four for each store, two for each socket (its user and its group), and those of the node */
#define FM_PREFLIGHT_FAULTS_MAX (4 * FM_CONFIG_STORES_MAX + 2 * FM_CONFIG_SOCKETS_MAX + 16)

struct fm_preflight_fault {
	char what[FM_PREFLIGHT_MEND_MAX];
	char mend[FM_PREFLIGHT_MEND_MAX];	/* a command line; "": nobody knows one */
	bool is_borne;				/* fmoved works all the same, less well */
};

struct fm_preflight {
	unsigned count;
	struct fm_preflight_fault fault[FM_PREFLIGHT_FAULTS_MAX];
};

struct fm_preflight_user {
	uid_t uid;
	gid_t gid;
	char name[64];
};

/* Whether fmoved.service is installed where systemd looks for units. */
bool fm_preflight_has_unit(void);

/* systemd runs here; as sd_booted(3) has it. */
bool fm_preflight_is_booted(void);

/* The command that makes the user fmove. */
const char *fm_preflight_make_user(void);

void fm_preflight_self(struct fm_preflight_user *out);

/*
 * Whom fmoved will be. Not as root: ourselves. As root: the owner of the key, which nobody else can
 * read; where that is root, the service's user if the configuration is the service's. -ENOENT, with
 * what to do: the service has no user yet.
 */
int fm_preflight_user(const struct fm_config *cfg, struct fm_preflight_user *out,
		      struct fm_err *err);

/* What fails; out->count is 0 if nothing does. *out is to be fm_preflight_free()d. An error: it
 * could not be tried. */
int fm_preflight_run(const struct fm_config *cfg, const struct fm_preflight_user *user,
		     struct fm_preflight **out, struct fm_err *err);

/* "WHAT. To mend it: COMMAND". */
void fm_preflight_print(const struct fm_preflight_fault *fault, char *out, size_t max);

void fm_preflight_free(struct fm_preflight *found);

#endif
