/* SPDX-License-Identifier: MIT */
/* volume_store - see volume_store.h. */
#include "mover/services/volume_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* No configured ID has an '@'. */
static void name_seal(const struct fm_volume_said *v, char *out, size_t size)
{
	int len = snprintf(out, size, "%s@%" PRIu64, v->wwid, v->mounted_epoch);

	if (len < 0 || (size_t)len >= size || strchr(v->wwid, '/'))
		out[0] = '\0';
}

void fm_volume_store_of(const struct fm_volume_said *said, unsigned count, const char *volume,
			struct fm_volume_store *out)
{
	*out = (struct fm_volume_store){ 0 };
	for (unsigned i = 0; i < count; i++) {
		const struct fm_volume_said *v = &said[i];

		if (strcmp(v->name, volume) != 0 || v->device == 0)
			continue;
		out->device = v->device;
		strcpy(out->written_by, v->written_by);
		if (v->mounted_epoch > 0 && v->wwid[0] && !v->is_read_write && !v->written_by[0])
			name_seal(v, out->shared, sizeof(out->shared));
		return;
	}
}

bool fm_volume_store_may_be(const struct fm_volume_said *said, unsigned count, const char *volume,
			    const char *id)
{
	const char *seal = strrchr(id, '@');
	size_t len;

	if (!seal)
		return false;
	for (unsigned i = 0; i < count; i++) {
		if (strcmp(said[i].name, volume) != 0 || !said[i].wwid[0])
			continue;
		len = strlen(said[i].wwid);
		return (size_t)(seal - id) == len && memcmp(id, said[i].wwid, len) == 0;
	}
	return true;
}

bool fm_volume_store_is(const struct fm_volume_store *v, const struct fm_store *store)
{
	return v->device == store->device && strcmp(v->shared, store->shared) == 0 &&
	       strcmp(v->written_by, store->written_by) == 0;
}
