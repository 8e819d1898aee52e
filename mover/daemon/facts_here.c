/* SPDX-License-Identifier: MIT */
/*
 * facts_here - the facts of this node, read for peers (mover/services/node_facts.h). The daemon's
 * status is taken on the loop; a worker reads the rest.
 */
#include "mover/daemon/fmoved.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mover/api/api.h"
#include "mover/api/api_event.h"
#include "mover/base/err.h"
#include "mover/base/json.h"
#include "mover/facts/collect.h"
#include "mover/facts/facts.h"
#include "mover/services/node_facts.h"

static int begin(void *ctx, char **status, struct fm_err *err)
{
	struct fm_fmoved *fmoved = ctx;
	int ret;

	if (!fmoved->cfg->node.show_facts)
		return fm_err_set(err, -EACCES, "%s tells nobody its facts (node.show_facts)",
				  fmoved->cfg->node.name);
	*status = malloc(FM_API_MSG_MAX);
	if (!*status)
		return fm_err_set(err, -ENOMEM, "no memory for the facts");
	ret = fm_api_event_status(*status, FM_API_MSG_MAX, 0, fmoved->engine);
	if (ret < 0)
		**status = '\0';
	return 0;
}

static int write_out(const struct fm_facts *facts, char **out, struct fm_err *err)
{
	char *text = malloc(FM_NODE_FACTS_BYTES_MAX);
	int ret = text ? fm_facts_write(facts, text, FM_NODE_FACTS_BYTES_MAX) : -ENOMEM;

	if (ret < 0) {
		free(text);
		return fm_err_sys(err, ret, "write the facts");
	}
	*out = text;
	return ret;
}

static int read_facts(void *ctx, const char *status, char **out, struct fm_err *err)
{
	const struct fm_fmoved *fmoved = ctx;
	struct fm_err why = {0};
	struct fm_json *json = NULL;
	struct fm_collect_options options = {.config = fmoved->opts.config_file,
					     .is_within_daemon = true};
	struct fm_facts *facts;
	int ret;

	if (fm_json_parse(status, strlen(status), &json, &why) < 0)
		options.status_why = why.text;
	options.status = json;
	ret = fm_facts_collect(&options, &facts, err);
	if (json)
		fm_json_free(json);
	if (ret < 0)
		return ret;
	ret = write_out(facts, out, err);
	fm_facts_free(facts);
	return ret;
}

void fm_facts_here_begin(struct fm_fmoved *fmoved)
{
	fmoved->facts = (struct fm_node_facts_here){begin, read_facts, fmoved};
	fm_node_facts_set_here(fmoved->engine, &fmoved->facts);
}
