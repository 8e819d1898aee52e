/* SPDX-License-Identifier: MIT */
/* services - see services.h. */
#include "mover/services/services.h"

#include <stddef.h>

#include "mover/services/node_facts.h"
#include "mover/services/request.h"
#include "mover/services/transfer/transfer.h"
#include "mover/services/upkeep.h"
#include "mover/services/verification.h"
#include "mover/services/volumes.h"

/* A row each. */
const struct fm_service *const fm_services[] = {
	&fm_transfer_service,
	&fm_request_service,
	&fm_upkeep_service,
	&fm_verification_service,
	&fm_volumes_service,
	&fm_node_facts_service,
	NULL,
};
