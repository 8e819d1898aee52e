/* SPDX-License-Identifier: MIT */
/* identity - see identity.h. */
#include "nvmetcp/identity.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "nvmetcp/inventory.h"
#include "nvmetcp/volume.h"

bool fm_identity_is_named(const struct fm_volume *volume)
{
	return volume->nsid != 0 || volume->uuid[0] || volume->nguid[0];
}

/* An NGUID is written with and without hyphens, by tools and by kernels. */
bool fm_identity_is_same_nguid(const char *a, const char *b)
{
	for (;; a++, b++) {
		a += strspn(a, "-");
		b += strspn(b, "-");
		if (strncasecmp(a, b, 1) != 0)
			return false;
		if (!*a)
			return true;
	}
}

static enum fm_identity other(const struct fm_inv_namespace *ns, const char *what, const char *is,
			      const char *wanted, char why[static FM_IDENTITY_WHY_MAX])
{
	snprintf(why, FM_IDENTITY_WHY_MAX,
		 "%.31s is not the expected namespace: its %s is %.63s, the configuration says "
		 "%.63s",
		 ns->name, what, is[0] ? is : "not there", wanted);
	return FM_IDENTITY_OTHER;
}

enum fm_identity fm_identity_check(const struct fm_volume *volume,
				   const struct fm_inv_namespace *ns,
				   char why[static FM_IDENTITY_WHY_MAX])
{
	char is[16], wanted[16];

	why[0] = '\0';
	if (volume->nsid && volume->nsid != ns->nsid) {
		snprintf(is, sizeof(is), "%u", ns->nsid);
		snprintf(wanted, sizeof(wanted), "%u", volume->nsid);
		return other(ns, "number", is, wanted, why);
	}
	/* Every namespace has a wwid, if only one made of its serial number: with none, the rest is
	 * not there yet either. */
	if (!ns->wwid[0] || ns->dev == 0 || ns->size_bytes == 0) {
		snprintf(why, FM_IDENTITY_WHY_MAX,
			 "%.31s is not ready: the kernel does not say yet what it is", ns->name);
		return FM_IDENTITY_UNKNOWN;
	}
	if (volume->uuid[0] && strcasecmp(volume->uuid, ns->uuid) != 0)
		return other(ns, "UUID", ns->uuid, volume->uuid, why);
	if (volume->nguid[0] && !fm_identity_is_same_nguid(volume->nguid, ns->nguid))
		return other(ns, "NGUID", ns->nguid, volume->nguid, why);
	return FM_IDENTITY_SAME;
}
