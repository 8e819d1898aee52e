/* SPDX-License-Identifier: MIT */
/* retry - see retry.h. */
#include "mover/base/retry.h"

#include "mover/base/env.h"
#include "mover/base/err.h"

void fm_retry_failed(struct fm_retry *r, uint64_t begun_ns, uint64_t now_ns, uint64_t reached)
{
	bool has_got_on = reached > r->reached;

	if (r->tries == 0 || has_got_on)
		*r = (struct fm_retry){ .since_ns = has_got_on ? now_ns : begun_ns,
					.reached = reached };
	r->tries++;
}

static uint64_t next_pause(struct fm_retry *r, const struct fm_random *random)
{
	uint64_t range;
	uint16_t part;

	r->pause_ns = r->pause_ns ? r->pause_ns * 2 : FM_RETRY_PAUSE_MIN_NS;
	if (r->pause_ns > FM_RETRY_PAUSE_MAX_NS)
		r->pause_ns = FM_RETRY_PAUSE_MAX_NS;
	random->fill(random->ctx, &part, sizeof(part));
	range = r->pause_ns / 2;
	return r->pause_ns - range / 2 + range / UINT16_MAX * part;
}

bool fm_retry_next(struct fm_retry *r, uint64_t for_ns, uint64_t now_ns,
		   const struct fm_random *random, uint64_t *pause_ns)
{
	uint64_t passed_ns = now_ns - r->since_ns, pause;

	if (for_ns != FM_RETRY_ALWAYS && passed_ns >= for_ns)
		return false;
	pause = next_pause(r, random);
	if (for_ns != FM_RETRY_ALWAYS && r->tries > 1 && pause > for_ns - passed_ns)
		pause = for_ns - passed_ns;
	*pause_ns = pause;
	return true;
}

void fm_retry_give_up(const struct fm_retry *r, uint64_t now_ns, struct fm_err *err)
{
	(void)fm_err_wrap(err, "gave up after %.1f s without progress, %u %s",
			  (double)(now_ns - r->since_ns) / (double)FM_NS_PER_S, r->tries,
			  r->tries == 1 ? "try" : "tries");
}
