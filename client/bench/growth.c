/* SPDX-License-Identifier: MIT */
/* growth - see growth.h. */
#include "client/bench/growth.h"

#include <stdio.h>

static void add(struct fm_bench *b, const struct fm_fact *object, const char *name,
		const struct fm_fact *was, const struct fm_fact *is)
{
	struct fm_bench_counter *c;

	if (!was->is_known || !is->is_known || is->n < was->n ||
	    b->counter_count >= FM_BENCH_COUNTERS_MAX)
		return;
	c = &b->counters[b->counter_count++];
	(void)snprintf(c->object, sizeof(c->object), "%s", fm_text_of(object));
	(void)snprintf(c->name, sizeof(c->name), "%s", name);
	c->growth = is->n - was->n;
}

static const struct fm_facts_counter *counter_of(const struct fm_facts *f,
						 const struct fm_facts_counter *of)
{
	for (size_t i = 0; i < f->counters_count; i++)
		if (fm_fact_is_same(&f->counters[i].object, &of->object) &&
		    fm_fact_is_same(&f->counters[i].name, &of->name))
			return &f->counters[i];
	return NULL;
}

/* One that leads to another subsystem now has only got the name of the other one. */
static const struct fm_facts_controller *controller_of(const struct fm_facts *f,
						       const struct fm_facts_controller *of)
{
	for (size_t i = 0; i < f->controllers_count; i++)
		if (fm_fact_is_same(&f->controllers[i].name, &of->name) &&
		    fm_fact_is_same(&f->controllers[i].subsystem, &of->subsystem))
			return &f->controllers[i];
	return NULL;
}

void fm_bench_growth(struct fm_bench *b, const struct fm_facts *before,
		     const struct fm_facts *after)
{
	for (size_t i = 0; i < after->counters_count; i++) {
		const struct fm_facts_counter *is = &after->counters[i],
					      *was = counter_of(before, is);

		if (was)
			add(b, &is->object, fm_text_of(&is->name), &was->value, &is->value);
	}
	for (size_t i = 0; i < after->controllers_count; i++) {
		const struct fm_facts_controller *is = &after->controllers[i],
						 *was = controller_of(before, is);

		if (was)
			add(b, &is->name, "reconnects", &was->reconnects, &is->reconnects);
	}
}
