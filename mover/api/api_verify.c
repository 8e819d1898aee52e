/* SPDX-License-Identifier: MIT */
/* api_verify - the events of a verification, and of a put that is held, for the local API. See api_event.h. */
#include <string.h>

#include "mover/api/api.h"
#include "mover/api/api_event.h"
#include "mover/base/json.h"
#include "mover/store/verify.h"

/* The longest path of a finding: 4095 bytes twice, each escaped as six. */
_Static_assert(2 * 4096 * 6 + 256 <= FM_API_MSG_MAX, "a finding does not fit a message");

static void begin(struct fm_json_writer *w, char *buf, size_t cap, uint64_t id, const char *event)
{
	fm_jw_begin(w, buf, cap);
	fm_jw_object(w, NULL);
	fm_jw_u64(w, "id", id);
	fm_jw_text(w, "event", event);
}

static int end(struct fm_json_writer *w)
{
	fm_jw_object_end(w);
	return fm_jw_end(w);
}

static int count_event(char *buf, size_t cap, uint64_t id, const char *event, const struct fm_verify_count *c)
{
	struct fm_json_writer w;

	begin(&w, buf, cap, id, event);
	fm_jw_u64(&w, "files", c->files);
	fm_jw_u64(&w, "bytes", c->bytes);
	fm_jw_u64(&w, "corrupt", c->corrupt);
	fm_jw_u64(&w, "unreadable", c->unreadable);
	fm_jw_u64(&w, "changed", c->changed);
	fm_jw_u64(&w, "missing", c->missing);
	fm_jw_u64(&w, "swapped", c->swapped);
	fm_jw_u64(&w, "without", c->without);
	return end(&w);
}

int fm_api_event_verifying(char *buf, size_t cap, uint64_t id, const struct fm_verify_count *c)
{
	return count_event(buf, cap, id, "progress", c);
}

int fm_api_event_verified(char *buf, size_t cap, uint64_t id, const struct fm_verify_count *c)
{
	return count_event(buf, cap, id, "done", c);
}

int fm_api_event_finding(char *buf, size_t cap, uint64_t id, enum fm_finding_kind kind, uint64_t offset, uint64_t length,
			 const char *path)
{
	static const char *const kinds[] = { [FM_FINDING_CORRUPT] = "corrupt", [FM_FINDING_UNREADABLE] = "unreadable",
					     [FM_FINDING_CHANGED] = "changed", [FM_FINDING_MISSING] = "missing",
					     [FM_FINDING_SWAPPED] = "swapped" };
	struct fm_json_writer w;

	begin(&w, buf, cap, id, "finding");
	fm_jw_text(&w, "kind", kinds[kind]);
	fm_jw_u64(&w, "offset", offset);
	fm_jw_u64(&w, "length", length);
	fm_jw_name(&w, "path", path, strlen(path));
	return end(&w);
}
