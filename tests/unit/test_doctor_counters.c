/* SPDX-License-Identifier: MIT */
/* Errors that grew while doctor looked. links: fm_cli */
#include "tests/unit/doctor_scene.h"

static struct fm_facts_counter *counter(struct fm_facts *f, const char *object, const char *name,
					unsigned growth)
{
	struct fm_facts_counter *c = fm_facts_add(f, f->counters, &f->counters_count);

	fm_fact_text(&c->object, FM_FACT_NAME, object);
	fm_fact_text(&c->name, FM_FACT_NAME, name);
	fm_fact_number(&c->value, 1000);
	fm_fact_number(&c->growth, growth);
	return c;
}

/* What was counted before, and marks of a switch that works, are no findings. */
static void test_quiet(void)
{
	struct fm_facts *f = scene_v100("n1", 1);

	(void)counter(f, "ens1f0np0", "carrier_changes", 0);
	(void)counter(f, "mlx5_0", "out_of_sequence", 0);
	(void)counter(f, "mlx5_0", "np_cnp_sent", 900);
	scene_check(fm_check_all, &f, 1);
	CU_ASSERT_EQUAL(scene_found.count, 0);
	fm_facts_free(f);
}

/* Each kind by itself; several counters of one kind are one finding. */
static void test_kinds(void)
{
	static const struct {
		const char *name, *id;
		enum fm_severity severity;
	} kinds[] = {
		{ "carrier_changes", "link-flaps", FM_ERROR },
		{ "link_downed", "link-flaps", FM_ERROR },
		{ "packet_seq_err", "retransmits", FM_WARNING },
		{ "rx_crc_errors", "damaged", FM_WARNING },
		{ "rx_missed_errors", "dropped", FM_WARNING },
		{ "rx_discards_phy", "dropped", FM_WARNING },
		{ "tx_pause_storm_warning_events", "pause-storm", FM_WARNING },
		{ "outbound_pci_stalled_wr_events", "pcie-stalled", FM_NOTE },
	};
	struct fm_facts *f = scene_v100("n1", 1);

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct fm_facts_counter *c = counter(f, "mlx5_0", kinds[i].name, 7);

		scene_check(fm_check_counters, &f, 1);
		CU_ASSERT_TRUE(scene_is_only(kinds[i].id, kinds[i].severity,
					     "of mlx5_0 grew by 7 in 1000 ms", "#"));
		fm_fact_number(&c->growth, 0);
	}
	(void)counter(f, "mlx5_0", "out_of_sequence", 5);
	(void)counter(f, "mlx5_0", "local_ack_timeout_err", 6);
	scene_check(fm_check_counters, &f, 1);
	CU_ASSERT_TRUE(scene_is_only("retransmits", FM_WARNING,
				     "out_of_sequence of mlx5_0 grew by 5 in 1000 ms.\n"
				     "local_ack_timeout_err of mlx5_0 grew by 6",
				     "mover.dscp"));
	fm_facts_free(f);
}

static const struct fm_test tests[] = {
	{ "what was counted before, and marks of a switch, are no finding", test_quiet },
	{ "what grew is a finding of its kind", test_kinds },
};
FM_TEST_MAIN("doctor_counters", tests)
