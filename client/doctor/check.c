/* SPDX-License-Identifier: MIT */
/* check - see check.h. */
#include "client/doctor/check.h"

static void (*const checks[])(const struct fm_facts_set *set, struct fm_findings *out) = {
	fm_check_half_port, fm_check_devices, fm_check_counters, fm_check_addresses,
	fm_check_limits,    fm_check_versions, fm_check_storage, fm_check_security,
	fm_check_pairs,     fm_check_forward,
};

void fm_check_all(const struct fm_facts_set *set, struct fm_findings *out)
{
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
		checks[i](set, out);
}
