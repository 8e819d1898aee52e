/* SPDX-License-Identifier: MIT */
/* collect - see collect.h. */
#include "mover/facts/collect.h"

#include <errno.h>

#include "mover/facts/collect_priv.h"
#include "mover/base/err.h"

/* The order matters where collect_priv.h says so. */
static void (*const collectors[])(struct fm_collect *c) = {
	fm_collect_node,    fm_collect_ports,	fm_collect_counters,  fm_collect_verbs,
	fm_collect_network, fm_collect_netlink, fm_collect_processes, fm_collect_storage,
	fm_collect_config,  fm_collect_daemon,	fm_collect_packets,   fm_collect_wait,
	fm_collect_growth,
};

int fm_facts_collect(const struct fm_collect_options *options, struct fm_facts **out,
		     struct fm_err *err)
{
	struct fm_collect c = { .root = options->root ? options->root : "",
				.options = options,
				.facts = fm_facts_new() };

	if (!c.facts)
		return fm_err_set(err, -ENOMEM, "no memory for facts");
	for (size_t i = 0; i < sizeof(collectors) / sizeof(collectors[0]); i++)
		collectors[i](&c);
	*out = c.facts;
	return 0;
}
