/* SPDX-License-Identifier: MIT */
/*
 * fuzz_api - any bytes as a request of the local API: understood within its limits, or refused with
 * a line that can be sent back.
 *
 * The answer is written and read again, so that the writer meets every text the reader can make.
 *
 * links: fm_parts fm_api
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mover/api/api.h"
#include "mover/api/api_event.h"
#include "mover/base/json.h"
#include "mover/api/api_op.h"
#include "mover/api/api_request.h"
#include "mover/base/err.h"
#include "mover/daemon/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static void check_request(const struct fm_api_request *r)
{
	char buf[FM_PATH_LEN_MAX * 6 + 64], name[FM_PATH_LEN_MAX + 1];
	struct fm_json_writer w;
	struct fm_json *json = NULL;
	struct fm_err err;
	size_t len;

	check(r->has_id && r->id <= FM_API_ID_MAX && r->op);
	check(r->path_len == strlen(r->path) && r->path_len <= FM_PATH_LEN_MAX);
	check(r->after_len == strlen(r->after) && r->after_len <= FM_NAME_LEN_MAX);
	check(strlen(r->node) <= FM_API_NODE_MAX && strlen(r->store) <= FM_API_NODE_MAX);
	check(strlen(r->job_id) <= FM_QUEUE_ID_LEN && r->priority < FM_QUEUE_PRIORITY_COUNT);
	check(r->local_path_len == strlen(r->local_path) && r->file_len == strlen(r->file));
	check(r->transport <= FM_WANT_TCP && r->durability <= FM_DURABILITY_MEMORY);
	check(r->bytes_generated <= FM_SIZE_LIMIT && r->timeout_ms <= FM_API_MS_MAX);
	check(r->conns <= FM_ONLY_CONNS_MAX && strlen(r->only.device) < FM_RAIL_NAME_MAX);
	check(r->buffer.offset <= INT64_MAX && r->buffer.len <= INT64_MAX);
	check(!r->buffer.is_whole || (r->buffer.offset == 0 && r->buffer.len == 0));
	check(r->has_buffer || r->buffer.number == 0);
	check(strlen(r->only.way[0].local) < FM_ONLY_ADDRESS_MAX &&
	      strlen(r->only.way[0].remote) < FM_ONLY_ADDRESS_MAX);

	fm_jw_begin(&w, buf, sizeof(buf));
	fm_jw_object(&w, NULL);
	fm_jw_name(&w, "path", r->path, r->path_len);
	fm_jw_object_end(&w);
	check(fm_jw_end(&w) > 0 && fm_json_parse(buf, w.len, &json, &err) == 0);
	check(fm_json_name(fm_json_get(json, "path"), name, sizeof(name), &len) == 0);
	check(len == r->path_len && memcmp(name, r->path, len) == 0);
	fm_json_free(json);
}

static void check_error(const struct fm_api_request *r, const struct fm_err *err)
{
	char buf[FM_ERR_TEXT_MAX * 6 + 200];
	struct fm_json *json = NULL;
	struct fm_err why;
	int len;

	check(err->code < 0 && err->text[0]);
	len = fm_api_event_error(buf, sizeof(buf), r->has_id ? &r->id : NULL, err);
	check(len > 0 && fm_json_parse(buf, (size_t)len, &json, &why) == 0);
	fm_json_free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fm_api_request r;
	struct fm_err err = { 0 };

	if (fm_api_request_parse((const char *)data, size, fm_parts_ops(), &r, &err) < 0)
		check_error(&r, &err);
	else
		check_request(&r);
	return 0;
}
