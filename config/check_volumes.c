/* SPDX-License-Identifier: MIT */
/* check_volumes - what must hold within a volume's entry and between several. See check.h. */
#include "config/check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "mover/base/err.h"

static int refuse(const struct fm_config_volume *v, struct fm_err *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int refuse(const struct fm_config_volume *v, struct fm_err *err, const char *fmt, ...)
{
	char text[FM_ERR_TEXT_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return fm_err_set(err, -EINVAL, "%.200s:%u: volumes.%s", v->file, v->line, text);
}

/*
 * A volume needs one address or one discovery controller. No path may be named twice: it would be
 * two connections to one end.
 */
static int check_addresses(const struct fm_config_volume *v, struct fm_err *err)
{
	const char *first = v->address[0] ? v->address : v->discovery;

	if (!first[0])
		return refuse(v, err,
			      "address: missing for \"%s\"; say where its target is, or its "
			      "discovery controller with discovery",
			      v->name);
	if (v->address[0] && v->discovery[0])
		return refuse(v, err, "discovery: \"%s\" has an address as well; say one of them",
			      v->name);
	for (unsigned i = 0; v->paths[i]; i++) {
		bool is_twice = strcmp(v->paths[i], first) == 0;

		for (unsigned j = 0; j < i; j++)
			is_twice = is_twice || strcmp(v->paths[i], v->paths[j]) == 0;
		if (is_twice)
			return refuse(v, err, "paths: \"%s\" is said twice for \"%s\"; remove one",
				      v->paths[i], v->name);
	}
	return 0;
}

static int check_writer(const struct fm_config_volume *v, struct fm_err *err)
{
	if (v->mode == FM_CONFIG_VOLUME_READ_ONLY && v->writer[0])
		return refuse(v, err,
			      "writer: nobody writes \"%s\", which is read-only; remove it or "
			      "choose another mode",
			      v->name);
	if (v->mode != FM_CONFIG_VOLUME_READ_ONLY && v->mount_point[0] && !v->writer[0])
		return refuse(v, err,
			      "writer: missing for \"%s\"; say the node.name of the one node that "
			      "may write, the same on every "
			      "node, or mode = \"read-only\"",
			      v->name);
	return 0;
}

/* "*" means every peer, so it stands alone. No node is named twice. */
static int check_nodes(const struct fm_config_volume *v, struct fm_err *err)
{
	for (unsigned i = 0; v->nodes[i]; i++) {
		if (strcmp(v->nodes[i], "*") == 0 && v->nodes[1])
			return refuse(v, err,
				      "nodes: \"*\" is every peer; remove it, or the names beside "
				      "it, for \"%s\"",
				      v->name);
		for (unsigned j = 0; j < i; j++)
			if (strcmp(v->nodes[i], v->nodes[j]) == 0)
				return refuse(v, err,
					      "nodes: \"%s\" is said twice for \"%s\"; remove one",
					      v->nodes[i], v->name);
	}
	return 0;
}

/*
 * Refuses mount options that mode and the guard decide, that would undo their decision, or that
 * hide damage.
 */
static int check_mount_options(const struct fm_config_volume *v, struct fm_err *err)
{
	static const char *const words[] = {"ro",   "rw",    "noload", "norecovery",	 "remount",
					    "bind", "rbind", "move",   "errors=continue"};
	size_t len;

	for (const char *at = v->mount_options; *at; at += len + (at[len] == ',')) {
		len = strcspn(at, ",");
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if (strlen(words[i]) == len && strncmp(at, words[i], len) == 0)
				return refuse(v, err,
					      "options: \"%s\" is not allowed; ro, rw, noload and "
					      "norecovery follow from mode and "
					      "writer, and an error must not be passed over",
					      words[i]);
	}
	return 0;
}

/*
 * Checks the timeouts against each other. A writer may not have fast_io_fail: its writes would fail
 * then, and ext4 and XFS end their journal for that. A writer must wait instead.
 */
static int check_times(const struct fm_config *cfg, const struct fm_config_volume *v,
		       struct fm_err *err)
{
	bool is_writer = v->mode != FM_CONFIG_VOLUME_READ_ONLY && v->mount_point[0] &&
			 strcmp(v->writer, cfg->node.name) == 0;

	if (is_writer && v->fast_io_fail_s != FM_CONFIG_NEVER)
		return refuse(v, err,
			      "fast_io_fail: \"%s\" is mounted read-write here, and a write that "
			      "fails stops its journal; "
			      "must be \"off\"",
			      v->name);
	if (v->ctrl_loss_s == FM_CONFIG_NEVER)
		return 0;
	if (v->ctrl_loss_s < v->reconnect_delay_s)
		return refuse(v, err,
			      "ctrl_loss_timeout: %ds is shorter than reconnect_delay (%ds); must "
			      "be at least that",
			      v->ctrl_loss_s, v->reconnect_delay_s);
	if (v->fast_io_fail_s > v->ctrl_loss_s)
		return refuse(v, err,
			      "fast_io_fail: %ds is longer than ctrl_loss_timeout (%ds); must be "
			      "at most that",
			      v->fast_io_fail_s, v->ctrl_loss_s);
	return 0;
}

/* Whether both volumes give this identity, and not the same one. */
static bool is_told_apart(const char *a, const char *b)
{
	return a[0] && b[0] && strcmp(a, b) != 0;
}

static bool is_same_text(const char *a, const char *b)
{
	return a[0] && strcmp(a, b) == 0;
}

/*
 * Whether two volumes may be one namespace. The kernel knows a subsystem by its name, whatever its
 * addresses.
 */
static bool is_same_namespace(const struct fm_config_volume *a, const struct fm_config_volume *b)
{
	if (is_same_text(a->uuid, b->uuid) || is_same_text(a->nguid, b->nguid))
		return true;
	if (strcmp(a->subsystem, b->subsystem) != 0)
		return false;
	return !(a->nsid && b->nsid && a->nsid != b->nsid) && !is_told_apart(a->uuid, b->uuid) &&
	       !is_told_apart(a->nguid, b->nguid);
}

static int check_pair(const struct fm_config_volume *v, const struct fm_config_volume *other,
		      struct fm_err *err)
{
	if (strcmp(v->name, other->name) == 0)
		return refuse(v, err,
			      "name: \"%s\" is there already, in line %u; remove or rename one",
			      v->name, other->line);
	if (is_same_text(v->mount_point, other->mount_point))
		return refuse(
			v, err,
			"mount: \"%.200s\" is the mount point of \"%s\" already; choose another",
			v->mount_point, other->name);
	if (is_same_namespace(v, other))
		return refuse(v, err,
			      "subsystem: \"%s\" and \"%s\" may be one namespace; tell them apart "
			      "by namespace, uuid or nguid",
			      v->name, other->name);
	return 0;
}

static int check_volume(const struct fm_config *cfg, const struct fm_config_volume *v,
			struct fm_err *err)
{
	int ret = check_addresses(v, err);

	if (ret == 0)
		ret = check_writer(v, err);
	if (ret == 0)
		ret = check_nodes(v, err);
	if (ret == 0)
		ret = check_mount_options(v, err);
	if (ret == 0)
		ret = check_times(cfg, v, err);
	for (const struct fm_config_volume *other = cfg->volumes; ret == 0 && other < v; other++)
		ret = check_pair(v, other, err);
	return ret;
}

int fm_config_check_volumes(const struct fm_config *cfg, struct fm_err *err)
{
	int ret = 0;

	for (unsigned i = 0; ret == 0 && i < cfg->volume_count; i++)
		ret = check_volume(cfg, &cfg->volumes[i], err);
	return ret;
}
