/* SPDX-License-Identifier: MIT */
/* outbox - see outbox.h. */
#include "staging/service/outbox.h"

#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/fault.h"

struct message {
	struct fm_list at;
	unsigned node;
	size_t len;
	uint8_t body[];
};

void fm_outbox_init(struct fm_outbox *box)
{
	*box = (struct fm_outbox){ .bytes = { 0 } };
	fm_list_init(&box->waiting);
}

void fm_outbox_clear(struct fm_outbox *box)
{
	struct fm_list *at;

	while ((at = fm_list_pop(&box->waiting)))
		fm_budget_free(fm_container_of(at, struct message, at));
	memset(box->bytes, 0, sizeof(box->bytes));
}

bool fm_outbox_add(struct fm_outbox *box, unsigned node, const uint8_t *body, size_t len)
{
	size_t all = sizeof(struct message) + len;
	struct message *m;

	if (all > FM_OUTBOX_NODE_MAX - box->bytes[node])
		return false;
	m = FM_FAULT("stage.out") ? NULL : fm_budget_alloc(all);
	if (!m)
		return false;
	m->node = node;
	m->len = len;
	memcpy(m->body, body, len);
	box->bytes[node] += all;
	fm_list_append(&box->waiting, &m->at);
	return true;
}

void fm_outbox_flush(struct fm_outbox *box, const struct fm_outbox_way *way)
{
	uint64_t full = 0;

	fm_list_each(at, next, &box->waiting) {
		struct message *m = fm_container_of(at, struct message, at);

		if (full >> m->node & 1)
			continue;
		if (!way->has_room(way->ctx, m->node)) {
			full |= UINT64_C(1) << m->node;
			continue;
		}
		fm_list_del(&m->at);
		box->bytes[m->node] -= sizeof(*m) + m->len;
		way->say(way->ctx, m->node, m->body, m->len);
		fm_budget_free(m);
	}
}
