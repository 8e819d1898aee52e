/* SPDX-License-Identifier: MIT */
/* faults - see faults.h. */
#include "mover/daemon/faults.h"

#include <assert.h>
#include <errno.h>

#include "config/preflight.h"
#include "mover/base/err.h"
#include "mover/base/within.h"

void fm_fault_say(const struct fm_preflight_fault *fault, enum fm_log_level level)
{
	char line[2 * FM_PREFLIGHT_MEND_MAX];

	fm_preflight_print(fault, line, sizeof(line));
	fm_log(level, "%s", line);
}

void fm_faults_warn(const struct fm_config *cfg)
{
	struct fm_preflight_user user;
	struct fm_preflight *found;
	struct fm_err err = { 0 };

	fm_preflight_self(&user);
	if (fm_preflight_run(cfg, &user, &found, &err) < 0) {
		fm_log_warn("%s", err.text);
		return;
	}
	for (unsigned i = 0; i < found->count; i++)
		if (!found->fault[i].is_borne)	/* of these the start itself tells more */
			fm_fault_say(&found->fault[i], FM_LOG_WARN);
	fm_preflight_free(found);
}

static void warn_run(void *cfg)
{
	fm_faults_warn(cfg);
}

void fm_faults_warn_within(struct fm_config *cfg, uint64_t max_ns)
{
	/* The thread has it for good. Volatile: who looks for leaks must find it here. */
	static struct fm_config *volatile lent;

	assert(!lent);
	if (fm_within(warn_run, cfg, max_ns) != -ETIMEDOUT)
		return;
	fm_config_share(cfg);
	lent = cfg;
}
