/* SPDX-License-Identifier: MIT */
/*
 * units - systemd mount units for volumes: their text. Pure functions; any thread.
 *
 * A unit does what the guard of fmove-nvmed would: read-write for the one writer, otherwise
 * read-only without a replay of the journal.
 */
#ifndef FM_CLIENT_UNITS_H
#define FM_CLIENT_UNITS_H

#include <stddef.h>

struct fm_config;
struct fm_config_volume;
struct fm_err;

/* below systemd's 255: its file has a longer name until it is whole */
#define FM_UNIT_NAME_MAX 240

/* How the first line of each file begins that we wrote. */
#define FM_UNIT_MARK "# Written by fmove nvme units"

struct fm_unit {
	char name[FM_UNIT_NAME_MAX];	/* "srv-data.mount" */
	char *text;			/* the file; fm_unit_clear() */
};

/* Why this node has no unit for the volume, a few words; NULL: it has one. */
const char *fm_unit_why_none(const struct fm_config *cfg, const struct fm_config_volume *volume);

/*
 * Of a volume for which fm_unit_why_none() is NULL. -EINVAL and what the configuration lacks;
 * -ENAMETOOLONG; -ENOMEM. *out is empty unless 0 is returned.
 */
int fm_unit_make(const struct fm_config *cfg, const struct fm_config_volume *volume,
		 struct fm_unit *out, struct fm_err *err);

void fm_unit_clear(struct fm_unit *unit);

#endif
