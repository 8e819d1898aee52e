/* SPDX-License-Identifier: MIT */
/* queue_engine - what the queue needs, of a real engine. See queue.h. */
#include "mover/node/node.h"
#include "mover/queue/queue.h"
#include "mover/services/request.h"
#include "mover/services/target.h"

const struct fm_queue_needs fm_queue_engine = {
	.check = fm_job_check,
	.start = fm_job_start,
	.cancel = fm_job_cancel,
	.named = fm_job_named,
	.commit = fm_job_commit,
	.progress = fm_job_progress,
	.request = fm_request_start,
	.store_get = fm_target_store,
	.store_put = fm_engine_store_put,
};
