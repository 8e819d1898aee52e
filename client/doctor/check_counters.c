/* SPDX-License-Identifier: MIT */
/*
 * check_counters - errors that were counted while doctor looked. What was counted before says
 * nothing: it may be of the day the cable was put in. See check.h.
 */
#include "client/doctor/check.h"

static const char *const flaps[] = { "carrier_changes", "link_downed", NULL };
static const char *const again[] = { "out_of_sequence",	      "packet_seq_err",
				     "local_ack_timeout_err", "rcvd_seq_err",
				     "completer_retry_err",   NULL };
static const char *const damaged[] = { "symbol_error", "port_rcv_errors", "rx_crc_errors", NULL };
static const char *const dropped[] = { "port_xmit_discards", "rx_missed_errors",
				       "rx_discards_phy",    "tx_discards_phy",
				       "rx_out_of_buffer",   NULL };
static const char *const storms[] = { "tx_pause_storm_warning_events",
				      "tx_pause_storm_error_events", NULL };
static const char *const stalls[] = { "outbound_pci_stalled_rd_events",
				      "outbound_pci_stalled_wr_events", NULL };

static const struct {
	const char *id;
	enum fm_severity severity;
	const char *const *names;
	const char *means, *mend;
} kinds[] = {
	{ "link-flaps", FM_ERROR, flaps,
	  "The link went down or came back in that time: connections over it break.",
	  "# seat the cable and its modules anew, or take another one; then the other end's port" },
	{ "retransmits", FM_WARNING, again,
	  "Packets were lost, and all behind them was sent again. RDMA slows down much more for it "
	  "than TCP.",
	  "# between two nodes: the cable; through a switch: PFC or ECN for the priority of the "
	  "data (mover.dscp), the same at all ports" },
	{ "damaged", FM_WARNING, damaged,
	  "Packets arrive damaged and are thrown away: a cable, a module or a port is bad.",
	  "# seat the cable and its modules anew, or take another one" },
	{ "dropped", FM_WARNING, dropped,
	  "Packets were thrown away because nobody took them in time.",
	  "# through a switch: PFC or ECN at all ports; at this node: larger rings (ethtool -G)" },
	{ "pause-storm", FM_WARNING, storms,
	  "The card told the other end to pause for so long that it raised an alarm: this node "
	  "does not take data as fast as it comes. Behind a switch others wait with it.",
	  "# what holds this node up: its PCIe link (pcie-narrow), its memory, a process that was "
	  "stopped; fmove bench with it says more" },
	{ "pcie-stalled", FM_NOTE, stalls,
	  "The card had data to move and waited for PCIe. At the full rate of a port that is "
	  "narrower than its wire it is usual; else something else uses the same link.",
	  "# compare what fmove bench measures with the ceiling below" },
};

static bool is_one_of(const struct fm_fact *name, const char *const *names)
{
	for (; *names; names++)
		if (fm_fact_is(name, *names))
			return true;
	return false;
}

static void kind(const struct fm_facts *f, size_t which, struct fm_findings *list)
{
	struct fm_finding *out = NULL;

	for (size_t i = 0; i < f->counters_count; i++) {
		const struct fm_facts_counter *c = &f->counters[i];

		if (!c->object.is_known || !c->growth.is_known || c->growth.n == 0 ||
		    !is_one_of(&c->name, kinds[which].names))
			continue;
		if (!out)
			out = fm_finding_add(list, kinds[which].id, kinds[which].severity, f);
		fm_finding_read(out, "%s of %s grew by %llu in %llu ms.", c->name.text,
				c->object.text, (unsigned long long)c->growth.n,
				(unsigned long long)f->node.interval_ms.n);
	}
	fm_finding_means(out, "%s", kinds[which].means);
	fm_finding_mend(out, "%s", kinds[which].mend);
}

void fm_check_counters(const struct fm_facts_set *set, struct fm_findings *out)
{
	for (size_t n = 0; n < set->count; n++)
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			if (set->at[n]->node.interval_ms.is_known)
				kind(set->at[n], i, out);
}
