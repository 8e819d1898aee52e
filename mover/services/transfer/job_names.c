/* SPDX-License-Identifier: MIT */
/*
 * job_names - which names of a tree were added, replaced and removed, told to whoever asked for it.
 * See job.h.
 *
 * Sink, happy path: published (or the end of a dry run) -> a worker reads a page -> it goes to the
 * source (NAMES) or, of a get, to the caller -> that wants more -> the next page ... -> none is
 * left: DONE. Source: a page goes to the caller; when that wants more, NAMES without names says so.
 * So there is one page under way, whoever is slow. Who wants no more for a while is not waited for,
 * and pages that cannot be read are not told: the tree is there all the same, and a note says it.
 */
#include <errno.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/services/transfer/job.h"
#include "mover/tree/names.h"

#define WAIT_NS (30 * FM_NS_PER_S)

_Static_assert(FM_TREE_NAMES_LEN == FM_WIRE_NAMES_LEN, "a page is one message");

static void send_names(struct fm_job *j, const struct fm_tree_names *page)
{
	struct fm_wire_msg m = { .type = FM_WIRE_NAMES };

	m.names = (struct fm_wire_names){ .xfer = j->id };
	if (page) {
		m.names.len = (uint16_t)page->len;
		m.names.at = page->at;
	}
	fm_session_send(j->session, &m);
}

/* ---- sink ---- */

static void end(struct fm_job *j, const char *note)
{
	j->tree.names.note = note;
	fm_budget_free(j->tree.names.page);
	j->tree.names.page = NULL;
	j->deadline_ns = 0;
	fm_job_sink_told(j);
}

static void page_run(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);
	struct fm_tree *t = j->file->tree;

	fm_err_clear(&j->work_err);
	if (t->ops->names(t, &j->tree.names.next, j->tree.names.page, &j->work_err) < 0)
		j->tree.names.page->len = 0;	/* its note says so */
	j->file->note = t->note;
	j->work_ret = 0;
}

static void page_done(struct fm_work *work)
{
	struct fm_job *j = fm_container_of(work, struct fm_job, work);

	if (!fm_job_goes_on(j))
		return;
	if (j->tree.names.page->len == 0) {
		end(j, NULL);
		return;
	}
	j->tree.names.state = FM_NAMES_SHOWN;
	j->deadline_ns = fm_engine_now(j->engine) + WAIT_NS;
	if (j->is_ours)
		j->events.names(j->ctx, j->tree.names.page);
	else
		send_names(j, j->tree.names.page);
}

void fm_job_tell_names(struct fm_job *j)
{
	struct fm_job_names *names = &j->tree.names;
	bool is_told = names->state != FM_NAMES_UNASKED && j->is_tree &&
		       j->file->tree->ops->names && (!j->is_ours || j->events.names);

	if (is_told && !names->page)
		names->page = FM_FAULT("job.names") ? NULL : fm_budget_alloc(sizeof(*names->page));
	if (!is_told)
		fm_job_sink_told(j);
	else if (!names->page)
		end(j, "there is no memory to tell the names that changed");
	else
		fm_job_work(j, page_run, page_done);
}

void fm_job_names_unread(struct fm_job *j)
{
	j->tree.names.state = FM_NAMES_ASKED;
	end(j, "the names that changed were not all told: nobody took them for half a minute");
}

/* ---- source ---- */

/* Copies a page of names out of the session's message, and passes it to who asked. */
static void take_page(struct fm_job *j, const struct fm_wire_names *m)
{
	struct fm_tree_names page = { .len = m->len };

	memcpy(page.at, m->at, m->len);
	j->tree.names.state = FM_NAMES_SHOWN;
	if (j->events.names)
		j->events.names(j->ctx, &page);
	else
		fm_job_named(j);
}

void fm_job_on_names(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_names *m = &msg->names;
	struct fm_job *j = fm_job_find(s, m->xfer);
	bool is_page = m->len > 0, is_awaited;

	if (!j)
		return;		/* it crossed our ABORT, or our DONE */
	if (is_page)
		is_awaited = j->is_source && j->state == FM_JOB_FINISHING &&
			     j->tree.names.state == FM_NAMES_ASKED;
	else
		is_awaited = !j->is_source && !j->is_ours && j->tree.names.state == FM_NAMES_SHOWN;
	if (!is_awaited)
		fm_session_protocol_error(s, "NAMES out of turn");
	else if (is_page)
		take_page(j, m);
	else
		fm_job_named(j);
}

/* ---- both ---- */

void fm_job_named(struct fm_job *j)
{
	if (j->tree.names.state != FM_NAMES_SHOWN || j->state == FM_JOB_ENDED)
		return;
	j->tree.names.state = FM_NAMES_ASKED;
	if (j->is_source) {
		send_names(j, NULL);
		return;
	}
	j->deadline_ns = 0;
	fm_job_work(j, page_run, page_done);
}
