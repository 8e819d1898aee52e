/* SPDX-License-Identifier: MIT */
/*
 * queue_deadline - how much of the time that --timeout gave is left after a restart.
 *
 * Within one boot of the kernel the loop's clock goes on, whoever runs. After a boot only the wall
 * clock tells how long it took, and somebody may have set that: it shortens what was left when the
 * job was written down last, and never lengthens it.
 */
#include "mover/queue/queue_priv.h"

#include <stdio.h>
#include <string.h>

#include "mover/journal/host.h"

void fm_queue_boot_read(char boot[static FM_QUEUE_BOOT_LEN + 1])
{
	static const uint8_t unknown[FM_JOURNAL_ID_LEN];
	struct fm_journal_host host;

	boot[0] = '\0';
	if (fm_journal_host_here(&host) < 0 || memcmp(host.boot, unknown, sizeof(unknown)) == 0)
		return;
	for (size_t i = 0; i < sizeof(host.boot); i++)
		(void)snprintf(boot + 2 * i, 3, "%02x", host.boot[i]);
}

void fm_queue_deadline_note(struct fm_queue_job *j)
{
	uint64_t now_ns = fm_loop_now(j->queue->c.loop);
	struct fm_queue_deadline *d = &j->noted;

	*d = (struct fm_queue_deadline){ 0 };
	if (!j->deadline_ns || fm_queue_has_ended(j))
		return;
	d->at_ns = j->deadline_ns;
	d->left_ns = j->deadline_ns > now_ns ? j->deadline_ns - now_ns : 0;
	d->at_ms = fm_queue_now_ms() + (int64_t)(d->left_ns / FM_NS_PER_MS);
	(void)snprintf(d->boot, sizeof(d->boot), "%s", j->queue->boot);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t fm_queue_deadline_within(const struct fm_queue_job *j, uint64_t most_ns)
{
	uint64_t now_ns = fm_loop_now(j->queue->c.loop);

	if (!j->deadline_ns)
		return most_ns;
	return j->deadline_ns > now_ns ? least(most_ns, j->deadline_ns - now_ns) : 1;
}

static uint64_t left_ns(const struct fm_queue_job *j)
{
	const struct fm_queue_deadline *d = &j->noted;
	uint64_t now_ns = fm_loop_now(j->queue->c.loop), wall_left_ms;
	int64_t now_ms = fm_queue_now_ms();

	if (!d->at_ns)		/* an earlier version noted nothing */
		return UINT64_MAX;
	if (d->boot[0] && strcmp(d->boot, j->queue->boot) == 0)
		return d->at_ns > now_ns ? d->at_ns - now_ns : 0;
	if (d->at_ms <= now_ms)
		return 0;
	wall_left_ms = (uint64_t)(d->at_ms - now_ms);
	return least(d->left_ns, wall_left_ms < UINT64_MAX / FM_NS_PER_MS
					? wall_left_ms * FM_NS_PER_MS
					: UINT64_MAX);
}

void fm_queue_deadline_restore(struct fm_queue_job *j)
{
	uint64_t given_ns = j->o.job.timeout_ns;

	j->deadline_ns = given_ns ? fm_loop_now(j->queue->c.loop) + least(given_ns, left_ns(j)) : 0;
}
