/* SPDX-License-Identifier: MIT */
/*
 * source_sent - the packs that are on their way, by their numbers.
 */
#include <stdlib.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/fault.h"
#include "mover/tree/source_priv.h"

struct fm_source_sent **fm_source_sent_slot(struct fm_source *s, uint64_t seq)
{
	struct fm_source_sent **at = &s->sent[seq % FM_SOURCE_SENT_BUCKETS];

	while (*at && (*at)->seq != seq)
		at = &(*at)->next;
	return at;
}

void fm_source_sent_put(struct fm_source_sent *sent)
{
	if (--sent->refs == 0)
		fm_budget_free(sent);
}

/* Out of the table, once nobody asks for it by its number any more. */
void fm_source_sent_settle(struct fm_source *s, struct fm_source_sent *sent)
{
	if (!sent->is_acked || !sent->is_answered)
		return;
	*fm_source_sent_slot(s, sent->seq) = sent->next;
	fm_source_sent_put(sent);
}

/* Where the change times are: behind the outline. */
static size_t ctimes_at(size_t outline_len)
{
	return (outline_len + 7) / 8 * 8;
}

static void keep_ctimes(struct fm_source_sent *sent, const int64_t *ctimes)
{
	int64_t *kept = (int64_t *)(void *)(sent->outline + ctimes_at(sent->len));
	size_t count = sent->count < FM_TREE_OFFERS_MAX ? sent->count : FM_TREE_OFFERS_MAX;

	memcpy(kept, ctimes, count * sizeof(*kept));
	sent->ctimes = kept;
}

/* Remembers a pack until it is acknowledged. NULL: no memory, or the pack was changed meanwhile. */
struct fm_source_sent *fm_source_sent_new(uint64_t seq, const void *pack, size_t len, bool is_offer,
					  const int64_t *ctimes)
{
	size_t outline_len = fm_pack_outline_len(pack, len);
	size_t ctimes_len = ctimes ? FM_TREE_OFFERS_MAX * sizeof(*ctimes) : 0;
	size_t all = sizeof(struct fm_source_sent) + ctimes_at(outline_len) + ctimes_len;
	struct fm_source_sent *sent = outline_len == 0 || FM_FAULT("source.sent_alloc")
					      ? NULL
					      : fm_budget_realloc(NULL, all);
	struct fm_pack_entry e;

	if (!sent)
		return NULL;
	*sent = (struct fm_source_sent){
		.refs = 1, .seq = seq, .is_answered = !is_offer, .len = outline_len};
	fm_list_init(&sent->link);
	if (!fm_pack_outline(pack, len, sent->outline, outline_len)) {
		fm_budget_free(sent);
		return NULL;
	}
	(void)fm_pack_open_outline(&sent->r, sent->outline, outline_len);
	sent->count = sent->r.count;
	if (ctimes)
		keep_ctimes(sent, ctimes);
	for (size_t i = 0; is_offer && fm_pack_next(&sent->r, &e) > 0; i++)
		if (e.type == FM_PACK_FILE)
			fm_source_set_bit(sent->offered, i);
	(void)fm_pack_open_outline(&sent->r, sent->outline, outline_len);
	return sent;
}
