/* SPDX-License-Identifier: MIT */
/* refusals - see refusals.h. */
#include "staging/service/refusals.h"

#include <stdio.h>
#include <string.h>

static bool is_kept(const struct fm_refusal *one, uint64_t now_ns)
{
	return one->at_ns && now_ns < one->at_ns + FM_REFUSALS_KEPT_NS;
}

static unsigned count_of(const struct fm_refusals *r, const char *by)
{
	unsigned count = 0;

	for (unsigned i = 0; i < FM_REFUSALS_MAX; i++)
		count += strcmp(r->one[i].by, by) == 0;
	return count;
}

/* The oldest of whoever has the most; all are taken. */
static struct fm_refusal *to_give_up(struct fm_refusals *r)
{
	struct fm_refusal *best = NULL;
	unsigned most = 0;

	for (unsigned i = 0; i < FM_REFUSALS_MAX; i++) {
		struct fm_refusal *one = &r->one[i];
		unsigned count = count_of(r, one->by);

		if (!best || count > most || (count == most && one->at_ns < best->at_ns)) {
			best = one;
			most = count;
		}
	}
	return best;
}

static struct fm_refusal *of_run(struct fm_refusals *r, const uint8_t *run)
{
	for (unsigned i = 0; i < FM_REFUSALS_MAX; i++)
		if (r->one[i].at_ns && memcmp(r->one[i].run, run, sizeof(r->one[i].run)) == 0)
			return &r->one[i];
	return NULL;
}

static struct fm_refusal *place_for(struct fm_refusals *r, const uint8_t *run, uint64_t now_ns)
{
	struct fm_refusal *one = of_run(r, run);

	for (unsigned i = 0; i < FM_REFUSALS_MAX && !one; i++)
		if (!is_kept(&r->one[i], now_ns))
			one = &r->one[i];
	return one ? one : to_give_up(r);
}

void fm_refusals_note(struct fm_refusals *r, const uint8_t run[static FM_WIRE_STAGE_RUN_LEN],
		      const char *by, uint64_t now_ns, const struct fm_err *why)
{
	struct fm_refusal *one = place_for(r, run, now_ns);

	*one = (struct fm_refusal){ .at_ns = now_ns, .why = *why };
	memcpy(one->run, run, sizeof(one->run));
	(void)snprintf(one->by, sizeof(one->by), "%s", by);
}

int fm_refusals_find(const struct fm_refusals *r, const uint8_t run[static FM_WIRE_STAGE_RUN_LEN],
		     uint64_t now_ns, struct fm_err *why)
{
	const struct fm_refusal *one = of_run((struct fm_refusals *)r, run);

	if (!one || !is_kept(one, now_ns))
		return 0;
	*why = one->why;
	return why->code;
}

void fm_refusals_forget(struct fm_refusals *r, const uint8_t run[static FM_WIRE_STAGE_RUN_LEN])
{
	struct fm_refusal *one = of_run(r, run);

	if (one)
		*one = (struct fm_refusal){ .at_ns = 0 };
}
