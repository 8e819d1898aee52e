/* SPDX-License-Identifier: MIT */
/* parts - see parts.h. */
#include "mover/daemon/parts.h"

#include <assert.h>
#include <stddef.h>

#include "mover/api/api_op.h"
#include "mover/node/engine.h"
#include "mover/services/services.h"
#include "staging/service/stager.h"

#define OPS_MAX 64u

const struct fm_service *const *fm_parts_services(void)
{
	static const struct fm_service *all[FM_SERVICES_MAX + 1];
	size_t n = 0;

	for (size_t i = 0; fm_services[i]; i++)
		all[n++] = fm_services[i];
	assert(n < FM_SERVICES_MAX);
	all[n++] = &fm_stage_service;
	all[n] = NULL;
	return all;
}

const struct fm_api_op *const *fm_parts_ops(void)
{
	static const struct fm_api_op *all[OPS_MAX + 1];
	size_t n = 0;

	for (size_t i = 0; fm_api_ops[i] && n < OPS_MAX; i++)
		all[n++] = fm_api_ops[i];
	for (size_t i = 0; fm_stage_ops[i] && n < OPS_MAX; i++)
		all[n++] = fm_stage_ops[i];
	assert(n < OPS_MAX);
	all[n] = NULL;
	return all;
}
