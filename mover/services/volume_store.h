/* SPDX-License-Identifier: MIT */
/*
 * volume_store - what a store on a volume is, as fmove-nvmed of this node says of the volume. No
 * I/O. Any thread.
 */
#ifndef FM_VOLUME_STORE_H
#define FM_VOLUME_STORE_H

#include <stdbool.h>
#include <sys/types.h>

#include "mover/services/volumes.h"
#include "mover/store/store.h"

struct fm_volume_store {
	dev_t device;			/* that its directory must be on; 0: it is not there */
	/*
	 * The volume's identity and the number of its seal: whoever has mounted that has the same
	 * bytes, and nobody writes before all of them have unmounted it. "": it is not sealed, or
	 * has an identity of more than 45 bytes.
	 */
	char shared[FM_SHARED_LEN_MAX + 1];
	char written_by[sizeof(((struct fm_volume_said *)0)->written_by)];
};

void fm_volume_store_of(const struct fm_volume_said *said, unsigned count, const char *volume,
			struct fm_volume_store *out);

/* Whether that store was opened as this says. */
bool fm_volume_store_is(const struct fm_volume_store *v, const struct fm_store *store);

/*
 * Whether a store on that volume, which is not open now, may be shared by that ID when it is. False
 * only if the ID is of no volume, or that volume is known to be another one.
 */
bool fm_volume_store_may_be(const struct fm_volume_said *said, unsigned count, const char *volume,
			    const char *id);

#endif
