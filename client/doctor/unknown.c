/* SPDX-License-Identifier: MIT */
/* unknown - see unknown.h. */
#include "client/doctor/unknown.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 96

static void item(struct fm_facts *f, const struct fm_facts_section *s, size_t i,
		 void (*each)(void *ctx, const struct fm_facts *f, const char *name,
			      const char *why),
		 void *ctx)
{
	char name[NAME_MAX_BYTES];

	for (const struct fm_facts_row *row = s->rows; row->key; row++) {
		const struct fm_fact *fact = fm_facts_fact(f, s, i, row);

		if (fact->is_known || !fact->text)
			continue;
		if (s->max == 0)
			(void)snprintf(name, sizeof(name), "%s.%s", s->key, row->key);
		else
			(void)snprintf(name, sizeof(name), "%s[%zu].%s", s->key, i, row->key);
		each(ctx, f, name, fact->text);
	}
}

void fm_unknown_each(const struct fm_facts *facts,
		     void (*each)(void *ctx, const struct fm_facts *f, const char *name,
				  const char *why),
		     void *ctx)
{
	struct fm_facts *f = (struct fm_facts *)(uintptr_t)
		facts; /* the tables serve the reader, too; nothing is changed */
	const struct fm_fact *read;

	for (const struct fm_facts_section *s = fm_facts_sections; s->key; s++) {
		read = (const struct fm_fact *)(const void *)((const char *)f + s->read_offset);
		if (s->max > 0 && !read->is_known && read->text)
			each(ctx, f, s->key, read->text);
		for (size_t i = 0; i < fm_facts_count(f, s); i++)
			item(f, s, i, each, ctx);
	}
}

const char *fm_node_label(const struct fm_facts_set *set, const struct fm_facts *node)
{
	static char label[FM_FACT_TEXT_MAX];
	size_t i = 0;

	if (node->node.name.is_known)
		return node->node.name.text;
	while (i < set->count && set->at[i] != node)
		i++;
	(void)snprintf(label, sizeof(label), "node %zu", i + 1);
	return label;
}
