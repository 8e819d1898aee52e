/* SPDX-License-Identifier: MIT */
/* found - see found.h. */
#include "client/cli/found.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/cmd.h"
#include "client/cli/finding.h"
#include "client/cli/rows.h"
#include "mover/base/err.h"
#include "mover/base/plain.h"
#include "mover/transport/addr.h"

/* "[fe80::1%eth0]:7471", or without the port where it takes no connections there. */
static void print_place(const struct fm_finding_row *row, char out[static FM_ADDR_PORT_TEXT_MAX])
{
	struct sockaddr_storage at = {0};

	memcpy(&at, &row->from, sizeof(row->from));
	fm_addr_set_port(&at, row->said.port);
	if (row->said.port)
		fm_addr_port_text(&at, out);
	else
		fm_addr_text(&at, out);
}

static void print(const struct fm_finding *found)
{
	char place[FM_ADDR_PORT_TEXT_MAX], name[FM_PLAIN_MAX * FM_JOIN_NAME_MAX + 1];

	for (unsigned i = 0; i < found->count; i++) {
		const char *said = found->rows[i].said.name;

		print_place(&found->rows[i], place);
		(void)printf("%s says it is %s\n", place,
			     fm_plain(said, strlen(said), name, sizeof(name)));
	}
	if (found->are_more)
		fm_say("join: more than %d answered; the others are left out", FM_FINDING_MAX);
	if (found->count)
		fm_say("Nothing of that is proved, and nothing was joined. \"fmove invite\" on the "
		       "node that you mean prints the line for this one; its token proves it.");
}

static void print_json(const struct fm_finding *found, int status)
{
	char place[FM_ADDR_PORT_TEXT_MAX];
	struct fm_rows rows;

	fm_rows_begin(&rows, "found");
	for (unsigned i = 0; i < found->count; i++) {
		struct fm_json_writer *w = fm_rows_next(&rows);

		print_place(&found->rows[i], place);
		fm_jw_text(w, "name", found->rows[i].said.name);
		fm_jw_text(w, "address", place);
		fm_jw_u64(w, "port", found->rows[i].said.port);
		fm_jw_bool(w, "proved", false);
		fm_jw_object_end(w);
	}
	fm_jw_bool(fm_rows_over(&rows), "more", found->are_more);
	fm_rows_end(&rows, status);
}

int fm_found(bool is_any_port, bool is_json)
{
	struct fm_finding found;
	struct fm_err err = {0};
	int status = FM_EXIT_DONE;

	if (fm_finding_run(is_any_port ? FM_FIND_ANY : FM_FIND_RDMA, &found, &err) == 0 &&
	    found.count == 0)
		fm_err_set(&err, -ENOENT,
			   "nobody answers on %u link%s: is an invitation open there (fmove "
			   "invite), does node.find of its fmove.conf have that port, and do both "
			   "firewalls let UDP port %d through?",
			   found.link_count, found.link_count == 1 ? "" : "s", FM_FIND_PORT);
	if (err.code < 0)
		status = fm_fail("join", &err);
	if (is_json)
		print_json(&found, status);
	else
		print(&found);
	return fm_stdout_end("join", status);
}
