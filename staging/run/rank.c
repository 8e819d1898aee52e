/* SPDX-License-Identifier: MIT */
/* rank - see rank.h. */
#include "staging/run/rank.h"

#include <assert.h>
#include <string.h>

#include "staging/run/message.h"

/* FNV-1a over the digest and the name, then mixed (the finaliser of MurmurHash3), so that names
 * that end alike are far apart. */
static uint64_t weight(const uint8_t digest[FM_RUN_DIGEST], const char *name)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (unsigned i = 0; i < FM_RUN_DIGEST; i++)
		h = (h ^ digest[i]) * UINT64_C(0x100000001b3);
	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
	h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
	h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 33;
}

/* Whether a comes before b. Names differ, so no two are alike even if their hashes are. */
static bool is_before(const char *const *names, const uint64_t *weights, uint64_t readers,
		      unsigned a, unsigned b)
{
	unsigned reads_a = readers >> a & 1, reads_b = readers >> b & 1;

	if (reads_a != reads_b)
		return reads_a > reads_b;
	if (weights[a] != weights[b])
		return weights[a] > weights[b];
	return strcmp(names[a], names[b]) < 0;
}

void fm_run_rank(const uint8_t digest[FM_RUN_DIGEST], const char *const *names, unsigned count,
		 uint64_t readers, uint8_t *rank)
{
	uint64_t weights[FM_RUN_NODES_MAX];

	assert(count <= FM_RUN_NODES_MAX);
	for (unsigned i = 0; i < count; i++)
		weights[i] = weight(digest, names[i]);
	for (unsigned i = 0; i < count; i++) {
		rank[i] = 0;
		for (unsigned k = 0; k < count; k++)
			rank[i] = (uint8_t)(rank[i] +
					    (k != i && is_before(names, weights, readers, k, i)));
	}
}
