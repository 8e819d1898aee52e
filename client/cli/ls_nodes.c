/* SPDX-License-Identifier: MIT */
/*
 * ls_nodes - see ls_nodes.h. A peer calls its stores what it likes, so what could move a cursor is
 * shown as \xNN, also where nobody sits at a terminal; -0 gives the bytes.
 */
#include "client/cli/ls_nodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/ask.h"
#include "client/cli/rows.h"
#include "client/cli/show.h"
#include "mover/base/json.h"

struct listing {
	struct fm_rows rows;
	const struct fm_ls_nodes *how;
	unsigned count;
};

/* ---- printing; fm_stdout_end() looks for errors ---- */

static void node_json(struct listing *l, const struct fmove_peer *n)
{
	struct fm_json_writer *w = fm_rows_next(&l->rows);

	fm_jw_text(w, "name", n->name);
	fm_jw_bool(w, "self", n->is_self);
	fm_jw_bool(w, "connected", n->is_connected);
	fm_jw_u64(w, "since_ms", n->since_ms);
	fm_jw_text(w, "address", n->address);
	fm_jw_text(w, "error", n->error);
	fm_jw_object_end(w);
}

/* Prints a node: "not connected 0:12 n2: 10.0.0.2:7471 connection refused". */
static void node_text(const struct listing *l, const struct fmove_peer *n)
{
	const char *state = n->is_self	      ? "this node"
			    : n->is_connected ? "connected"
					      : "not connected";
	char since[FM_SHOW_MAX];

	(void)printf("%-13s ", state);
	if (l->how->is_long)
		(void)printf("%9s ", fm_show_time(n->since_ms / 1000, since));
	(void)printf("%s:", n->name);
	if (l->how->is_long && n->address[0])
		(void)printf(" %s", n->address);
	if (l->how->is_long && n->error[0])
		(void)printf(" %s", n->error);
	(void)printf("\n");
}

static bool print_node(void *ctx, const struct fmove_peer *node)
{
	struct listing *l = ctx;

	if (l->how->is_json)
		node_json(l, node);
	else if (l->how->is_null)
		(void)printf("%s:%c", node->name, '\0');
	else
		node_text(l, node);
	return !ferror(stdout);
}

static void store_json(struct listing *l, const struct fmove_space *s)
{
	struct fm_json_writer *w = fm_rows_next(&l->rows);

	fm_jw_text(w, "name", s->store);
	fm_jw_bool(w, "read", s->may_read);
	fm_jw_bool(w, "write", s->may_write);
	fm_jw_u64_or_null(w, "size", s->may_read ? s->size : UINT64_MAX, UINT64_MAX);
	fm_jw_u64_or_null(w, "free", s->may_read ? s->free : UINT64_MAX, UINT64_MAX);
	fm_jw_object_end(w);
}

static const char *bytes_text(const struct fmove_space *s, uint64_t bytes,
			      char out[static FM_SHOW_MAX])
{
	return !s->may_read || bytes == UINT64_MAX ? "-" : fm_show_bytes(bytes, out);
}

/* Prints a store: "rw 1.07 GB of 2.00 GB free models/". */
static void store_text(const struct listing *l, const struct fmove_space *s)
{
	char free[FM_SHOW_MAX], size[FM_SHOW_MAX];

	(void)printf("%c%c ", s->may_read ? 'r' : '-', s->may_write ? 'w' : '-');
	if (l->how->is_long)
		(void)printf("%10s of %10s free ", bytes_text(s, s->free, free),
			     bytes_text(s, s->size, size));
	(void)printf("%s/\n", s->store);
}

static bool print_store(void *ctx, const struct fmove_space *space)
{
	struct listing *l = ctx;

	if (l->how->is_json)
		store_json(l, space);
	else if (l->how->is_null)
		(void)printf("%s/%c", space->store, '\0');
	else
		store_text(l, space);
	l->count++;
	return !ferror(stdout);
}

/* ---- asking ---- */

/* Lists the stores of a node, or the nodes if text is NULL. */
static int list(const char *text, const struct fm_ls_nodes *how)
{
	struct listing l = {.how = how};
	char node[FM_NAME_PART_MAX + 1];
	const struct fmove_name name = {node, "", ""};
	int ret, status = FM_EXIT_DONE;
	struct fmove_error why;
	struct fmove *c;

	if (fm_ask_open("ls", false, &c, &status) < 0)
		return status;
	if (how->is_null)
		fm_stdout_raw();
	if (how->is_json)
		fm_rows_begin(&l.rows, text ? "stores" : "nodes");
	if (text) {
		/* fits: it was looked at */
		(void)snprintf(node, sizeof(node), "%.*s", (int)strlen(text) - 1, text);
		ret = fmove_space(c, &name, print_store, &l, &why);
	} else {
		ret = fmove_nodes(c, print_node, &l, &why);
	}
	fmove_close(c);
	if (ret < 0)
		status = fm_ask_fail("ls", text ? node : NULL, &why);
	else if (text && l.count == 0 && !how->is_json)
		fm_say("ls: no store there that you may read or write to");
	if (how->is_json)
		fm_rows_end(&l.rows, status);
	return fm_stdout_end("ls", status);
}

int fm_ls_nodes(const struct fm_ls_nodes *how)
{
	return list(NULL, how);
}

int fm_ls_stores(const char *text, const struct fm_ls_nodes *how)
{
	return list(text, how);
}
