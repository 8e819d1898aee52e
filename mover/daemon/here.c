/* SPDX-License-Identifier: MIT */
/* here - see here.h. */
#include "mover/daemon/here.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/api/api.h"
#include "mover/api/api_event.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/json.h"
#include "mover/base/log.h"
#include "mover/base/within.h"
#include "mover/daemon/fmoved.h"
#include "mover/facts/collect.h"
#include "mover/facts/facts.h"
#include "mover/services/node_facts.h"
#include "mover/services/volumes.h"
#include "staging/service/stager.h"

/* ---- facts: the daemon's status is taken on the loop; a worker reads the rest ---- */

static int begin_facts(void *ctx, char **status, struct fm_err *err)
{
	struct fm_fmoved *fmoved = ctx;
	int ret;

	if (!fmoved->cfg->node.show_facts)
		return fm_err_set(err, -EACCES, "%s tells nobody its facts (node.show_facts)",
				  fmoved->cfg->node.name);
	*status = malloc(FM_API_MSG_MAX);
	if (!*status)
		return fm_err_set(err, -ENOMEM, "no memory for the facts");
	ret = fm_api_event_status(*status, FM_API_MSG_MAX, 0, fmoved->engine,
				  fmoved->queue, NULL);
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

/* ---- staging ---- */

/*
 * For so long a start waits for the cache's file system. If that answers the cache is opened,
 * however long that takes.
 */
#define CACHE_NS (5 * FM_NS_PER_S)

static void look_at(void *directory)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)	/* who opens it hears of the rest */
		(void)close(fd);
	free(directory);
}

static int await_cache(const char *directory, struct fm_err *err)
{
	char *at = strdup(directory);
	int ret = at ? fm_within(look_at, at, CACHE_NS) : -ENOMEM;

	if (ret == -ETIMEDOUT)
		return fm_err_set(err, ret, "cache %.200s: its file system does not answer",
				  directory);
	if (ret < 0) {
		free(at);
		return fm_err_set(err, ret, "cache %.200s: no memory to open it", directory);
	}
	return 0;
}

_Static_assert(FM_CONFIG_UPLOAD_SLOTS_MAX == FM_STAGE_UPLOADS_MAX, "any that is configured");

/* Whom the socket's mode and group let in. */
static struct fm_stage_everybody who_may_ask(const struct fm_fmoved *fmoved)
{
	const struct fm_config_node *cfg = &fmoved->cfg->node;
	gid_t group = fmoved->socket_group;

	return (struct fm_stage_everybody){
		.is_all = cfg->socket_mode == FM_CONFIG_MODE_0666,
		.has_group = cfg->socket_mode == FM_CONFIG_MODE_0660,
		.group = group == (gid_t)-1 ? getegid() : group,
	};
}

/* A node without its cache moves files all the same: who stages hears why. */
static void start_stager(struct fm_fmoved *fmoved)
{
	const struct fm_config_staging *cfg = &fmoved->cfg->staging;
	const struct fm_stager_opts opts = {
		.loop = fmoved->loop,
		.engine = fmoved->engine,
		.queue = fmoved->queue,
		.worker = fmoved->worker,
		.node = fmoved->started->node.name,
		.cache = { .directory = cfg->directory,
			   .size = cfg->size_bytes,
			   .high = cfg->high,
			   .low = cfg->low,
			   .grace_ns = cfg->grace_ns,
			   .user_quota = cfg->user_quota_bytes },
		.peers = (const char *const *)fmoved->started->staging.peers,
		.everybody = who_may_ask(fmoved),
		.settle_ns = cfg->settle_ns,
		.uploads = cfg->upload_slots,
	};
	struct fm_err err;
	int ret;

	if (strcmp(cfg->directory, "null:") == 0)
		return;
	ret = await_cache(cfg->directory, &err);
	if (ret < 0)
		fm_stager_refuse(fmoved->engine, &err);
	else
		ret = fm_stager_start(&opts, &err);
	if (ret < 0)
		fm_log_error("staging: %s; nothing is staged until fmoved is started again",
			     err.text);
}

/* ---- all of them ---- */

void fm_here_engine_made(struct fm_fmoved *fmoved)
{
	struct fm_here *here = &fmoved->here;

	fm_volumes_file_init(&here->volumes, fmoved->cfg->nvme.socket);
	fm_volumes_set_here(fmoved->engine, &here->volumes.table);
	here->facts = (struct fm_node_facts_here){begin_facts, read_facts, fmoved};
	fm_node_facts_set_here(fmoved->engine, &here->facts);
}

void fm_here_queue_made(struct fm_fmoved *fmoved)
{
	start_stager(fmoved);
}

void fm_here_end(struct fm_fmoved *fmoved)
{
	fm_volumes_file_clear(&fmoved->here.volumes);
}
