/* SPDX-License-Identifier: MIT */
/*
 * outbox - messages of a staging run that wait for room in a session.
 *
 * A peer that does not read what it is sent, and makes this node say much, takes FM_OUTBOX_NODE_MAX
 * of the memory for each run: what is beyond is lost, as on a wire, and the run's numbers tell.
 * A whole report of the largest dataset fits. One thread.
 */
#ifndef FM_STAGE_OUTBOX_H
#define FM_STAGE_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/base/list.h"
#include "staging/run/encode.h"
#include "staging/run/message.h"

/* A report has a page for each FM_RUN_PAGE extents. Room for 64 more, and 64 bytes beside each. */
#define FM_OUTBOX_NODE_MAX                                                                         \
	((FM_RUN_EXTENTS_MAX / FM_RUN_PAGE + 64u) * (FM_RUN_BYTES_MAX + 64u))

struct fm_outbox {
	struct fm_list waiting;
	size_t bytes[FM_RUN_NODES_MAX];	/* of them, for each node */
};

void fm_outbox_init(struct fm_outbox *box);
void fm_outbox_clear(struct fm_outbox *box);

/* false: it is lost. */
bool fm_outbox_add(struct fm_outbox *box, unsigned node, const uint8_t *body, size_t len);

struct fm_outbox_way {
	bool (*has_room)(void *ctx, unsigned node);	/* or is not there: then say() drops it */
	void (*say)(void *ctx, unsigned node, const uint8_t *body, size_t len);
	void *ctx;
};

/* As much as there is room for, to each node in order. */
void fm_outbox_flush(struct fm_outbox *box, const struct fm_outbox_way *way);

#endif
