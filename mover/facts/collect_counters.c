/* SPDX-License-Identifier: MIT */
/*
 * collect_counters - what RDMA ports and their interfaces count of errors, and by how much it grew
 * while we looked. See collect_priv.h.
 */
#include "mover/facts/collect_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "mover/base/env.h"

#define PORT "/sys/class/infiniband/%s/ports/%llu/%s/%s"
#define NET "/sys/class/net/%s/%s%s"

/* Not every device has every one. */
static const char *const hardware[] = {
	"out_of_sequence", "packet_seq_err",	  "local_ack_timeout_err",
	"np_cnp_sent",	   "rp_cnp_handled",	  "np_ecn_marked_roce_packets",
	"rcvd_seq_err",	   "completer_retry_err", NULL,
};
static const char *const generic[] = {
	"link_downed", "symbol_error", "port_rcv_errors", "port_xmit_discards", NULL,
};
static const char *const interface[] = { "rx_crc_errors", "rx_missed_errors", NULL };
static const char *const ethtool[] = {
	"rx_discards_phy",		"tx_discards_phy",
	"rx_out_of_buffer",		"tx_pause_storm_warning_events",
	"tx_pause_storm_error_events",	"outbound_pci_stalled_rd_events",
	"outbound_pci_stalled_wr_events", NULL,
};

/* One that is not there is no item. */
static void add(struct fm_collect *c, const char *object, const char *name,
		const struct fm_fact *value)
{
	struct fm_facts_counter *counter;

	if (!value->is_known)
		return;
	counter = fm_facts_add(c->facts, c->facts->counters, &c->facts->counters_count);
	if (!counter)
		return;
	fm_fact_text(&counter->object, FM_FACT_NAME, object);
	fm_fact_text(&counter->name, FM_FACT_NAME, name);
	fm_fact_number(&counter->value, value->n);
	fm_fact_number(&counter->growth, 0);
}

/* A device may have several ports, each with counters of the same names. */
static void of_port(struct fm_collect *c, const struct fm_facts_port *p, const char *dir,
		    const char *const *names)
{
	unsigned long long port = p->port.n;
	struct fm_fact value = { 0 };
	char object[NAME_MAX + 32];

	(void)snprintf(object, sizeof(object), "%s:%llu", p->device.text, port);
	for (; *names; names++) {
		fm_collect_number(c, &value, PORT, p->device.text, port, dir, *names);
		add(c, object, *names, &value);
	}
	fm_fact_drop(&value);
}

struct of {
	struct fm_collect *c;
	const char *interface;
};

static void take(void *ctx, const char *name, uint64_t value)
{
	const struct of *of = ctx;
	struct fm_fact fact = { 0 };

	for (const char *const *n = ethtool; *n; n++) {
		if (strcmp(*n, name) != 0)
			continue;
		fm_fact_number(&fact, value < FM_FACT_UNLIMITED ? value : FM_FACT_UNLIMITED);
		add(of->c, of->interface, name, &fact);
	}
	fm_fact_drop(&fact);
}

static void of_interface(struct fm_collect *c, const char *name)
{
	struct of of = { c, name };

	struct fm_fact value = { 0 };

	fm_collect_number(c, &value, NET, name, "", "carrier_changes");
	add(c, name, "carrier_changes", &value);
	for (const char *const *n = interface; *n; n++) {
		fm_collect_number(c, &value, NET, name, "statistics/", *n);
		add(c, name, *n, &value);
	}
	fm_fact_drop(&value);
	if (!*c->root)
		(void)fm_collect_ethtool(name, take, &of); /* what is not there is no item */
}

void fm_collect_counters(struct fm_collect *c)
{
	fm_fact_number(&c->facts->counters_read, 1);
	for (size_t i = 0; i < c->facts->ports_count; i++) {
		const struct fm_facts_port *p = &c->facts->ports[i];

		if (!p->device.is_known)
			continue;
		of_port(c, p, "hw_counters", hardware);
		of_port(c, p, "counters", generic);
		if (p->interface.is_known)
			of_interface(c, p->interface.text);
	}
	c->counted_ns = fm_clock_real.now_ns(fm_clock_real.ctx);
}

/* ---- the second look ---- */

static struct fm_facts_counter *find(struct fm_facts *f, size_t from,
				     const struct fm_facts_counter *of)
{
	for (size_t i = from; i < f->counters_count; i++)
		if (fm_fact_is_same(&f->counters[i].object, &of->object) &&
		    fm_fact_is_same(&f->counters[i].name, &of->name))
			return &f->counters[i];
	return NULL;
}

/* Those of the first look stay, with the later value. One that was set back did not grow. */
void fm_collect_growth(struct fm_collect *c)
{
	struct fm_facts *f = c->facts;
	size_t before = f->counters_count;
	uint64_t looked_ns = c->counted_ns;

	fm_collect_counters(c);
	fm_fact_number(&f->node.interval_ms, (c->counted_ns - looked_ns) / FM_NS_PER_MS);
	for (size_t i = 0; i < before; i++) {
		struct fm_facts_counter *was = &f->counters[i], *is = find(f, before, was);

		if (!is)
			continue;
		fm_fact_number(&was->growth,
			       is->value.n > was->value.n ? is->value.n - was->value.n : 0);
		fm_fact_number(&was->value, is->value.n);
	}
	while (f->counters_count > before) {
		struct fm_facts_counter *last = &f->counters[--f->counters_count];

		fm_fact_drop(&last->object);
		fm_fact_drop(&last->name);
		fm_fact_drop(&last->value);
		fm_fact_drop(&last->growth);
	}
}

/* Of a machine without ports nothing is waited for, nor of files. */
void fm_collect_wait(struct fm_collect *c)
{
	uint64_t now_ns = fm_clock_real.now_ns(fm_clock_real.ctx);
	uint64_t end_ns = c->counted_ns + FM_COLLECT_INTERVAL_MS * FM_NS_PER_MS;
	struct timespec left;

	if (*c->root || c->facts->ports_count == 0 || now_ns >= end_ns)
		return;
	left.tv_sec = (time_t)((end_ns - now_ns) / FM_NS_PER_S);
	left.tv_nsec = (long)((end_ns - now_ns) % FM_NS_PER_S);
	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}
