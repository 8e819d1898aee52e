/* SPDX-License-Identifier: MIT */
/* metrics - see metrics.h. */
#include "nvmetcp/daemon/metrics.h"

#include <string.h>

#include "config/value.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/metrics/loop_exporter.h"
#include "mover/metrics/process.h"
#include "nvmetcp/daemon/api.h"
#include "nvmetcp/helper.h"
#include "nvmetcp/inventory.h"
#include "nvmetcp/supervisor.h"

enum {
	BUILD,
	CONFIG_MISTAKE,
	CALLS_STUCK,
	VOLUMES,
	STATE,
	AS_WANTED,
	MOUNTED,
	READ_WRITE,
	ALARM,
	CHANGED,
	SIZE,
	PATHS_WANTED,
	PATHS_LIVE,
	CONTROLLER_LIVE,
	CONNECTS,
	RECONNECTS,
	MOUNTS,
	FAILURES,
	LEFT_OUT,
	PROCESS,
	METRICS = PROCESS + FM_PROCESS_COUNT
};

/* clang-format off */
static const struct fm_metric table[] = {
	[BUILD] = { "fmove_nvmed_build_info", FM_METRIC_GAUGE,
	  "1: the version of this daemon and the name of its node are its labels." },
	[CONFIG_MISTAKE] = { "fmove_nvmed_config_refused", FM_METRIC_GAUGE,
	  "1: a configuration that was read later was not taken; fmove nvme status says why." },
	[CALLS_STUCK] = { "fmove_nvmed_calls_stuck", FM_METRIC_GAUGE,
	  "Calls that hang in the kernel: a mount, for instance, whose target is gone." },
	[VOLUMES] = { "fmove_nvmed_volumes", FM_METRIC_GAUGE,
	  "Volumes of the configuration." },
	[STATE] = { "fmove_volume_state", FM_METRIC_GAUGE,
	  "1: the state of a volume is its label." },
	[AS_WANTED] = { "fmove_volume_as_wanted", FM_METRIC_GAUGE,
	  "1: it is what it was told to be: mounted, connected or down." },
	[MOUNTED] = { "fmove_volume_mounted", FM_METRIC_GAUGE,
	  "1: it is mounted here." },
	[READ_WRITE] = { "fmove_volume_read_write", FM_METRIC_GAUGE,
	  "1: so that it can be written to." },
	[ALARM] = { "fmove_volume_two_writers", FM_METRIC_GAUGE,
	  "1: another node has mounted it read-write, and so has this one." },
	[CHANGED] = { "fmove_volume_changed_timestamp_seconds", FM_METRIC_GAUGE,
	  "Since when it is in its state, as Unix time." },
	[SIZE] = { "fmove_volume_size_bytes", FM_METRIC_GAUGE,
	  "Of its namespace; left out while there is none." },
	[PATHS_WANTED] = { "fmove_volume_paths", FM_METRIC_GAUGE,
	  "Connections that it is to have." },
	[PATHS_LIVE] = { "fmove_volume_paths_live", FM_METRIC_GAUGE,
	  "Of these, those that are live." },
	[CONTROLLER_LIVE] = { "fmove_volume_controller_live", FM_METRIC_GAUGE,
	  "1: that controller of its subsystem, whoever made it, is live." },
	[CONNECTS] = { "fmove_volume_connects", FM_METRIC_COUNTER,
	  "Connections that fmove-nvmed made for it." },
	[RECONNECTS] = { "fmove_volume_reconnects", FM_METRIC_COUNTER,
	  "Connections that came up again by themselves, as the kernel tells it." },
	[MOUNTS] = { "fmove_volume_mounts", FM_METRIC_COUNTER,
	  "Mounts of it that succeeded." },
	[FAILURES] = { "fmove_volume_failures", FM_METRIC_GAUGE,
	  "How often in a row what is tried at present has failed." },
	[LEFT_OUT] = { "fmove_nvmed_metrics_left_out", FM_METRIC_GAUGE,
	  "Values that this page has no room for." },
	[PROCESS] = FM_METRICS_PROCESS_ROWS
};
/* clang-format on */

_Static_assert(sizeof(table) / sizeof(table[0]) == METRICS, "a row for each");

struct page {
	struct fm_metrics *m;
	const char *volume;		/* whose controllers are being seen */
	unsigned volumes;
};

static void see_volume(void *ctx, const struct fm_supervisor_volume *v)
{
	const struct fm_metrics_label labels[] = {{"volume", v->name}, {NULL, NULL}};
	const struct fm_metrics_label state[] = {
		{"volume", v->name}, {"state", v->state}, {NULL, NULL}};
	struct page *page = ctx;
	struct fm_metrics *m = page->m;

	page->volume = v->name;
	page->volumes++;
	fm_metrics_add(m, STATE, 1, state);
	fm_metrics_add(m, AS_WANTED, v->is_as_wanted, labels);
	fm_metrics_add(m, MOUNTED, v->is_mounted, labels);
	fm_metrics_add(m, READ_WRITE, v->is_mounted && v->is_read_write, labels);
	fm_metrics_add(m, ALARM, v->has_alarm, labels);
	fm_metrics_add(m, CHANGED, (double)v->changed_ms / 1000, labels);
	if (v->size_bytes > 0)
		fm_metrics_add(m, SIZE, (double)v->size_bytes, labels);
	fm_metrics_add(m, PATHS_WANTED, v->paths_wanted, labels);
	fm_metrics_add(m, PATHS_LIVE, v->paths_live, labels);
	fm_metrics_add(m, CONNECTS, (double)v->connects, labels);
	fm_metrics_add(m, RECONNECTS, (double)v->reconnects, labels);
	fm_metrics_add(m, MOUNTS, (double)v->mounts, labels);
	fm_metrics_add(m, FAILURES, v->failures, labels);
}

static void see_controller(void *ctx, const struct fm_inv_controller *c)
{
	const struct page *page = ctx;
	const struct fm_metrics_label labels[] = {{"volume", page->volume},
						  {"controller", c->name},
						  {"address", c->traddr},
						  {"port", c->trsvcid},
						  {"state", c->state},
						  {NULL, NULL}};

	fm_metrics_add(page->m, CONTROLLER_LIVE, strcmp(c->state, "live") == 0, labels);
}

static void collect(void *ctx, struct fm_metrics *m)
{
	static const struct fm_supervisor_visitor visitor = {see_volume, see_controller};
	const struct fm_nvmed_measured *of = ctx;
	const struct fm_metrics_label build[] = {
		{"node", fm_supervisor_node(of->sup)}, {"version", FM_VERSION}, {NULL, NULL}};
	struct page page = {.m = m};

	fm_metrics_add(m, BUILD, 1, build);
	fm_metrics_add(m, CONFIG_MISTAKE, fm_nvmed_api_is_config_refused(of->api), NULL);
	fm_metrics_add(m, CALLS_STUCK, fm_helpers_stuck(of->helpers), NULL);
	fm_supervisor_visit(of->sup, &visitor, &page);
	fm_metrics_add(m, VOLUMES, page.volumes, NULL);
	fm_metrics_add(m, LEFT_OUT, fm_metrics_left_out(m), NULL);
}

int fm_nvmed_metrics_serve(const struct fm_nvmed_measured *of, const char *listen,
			   struct fm_loop_exporter **out, struct fm_err *err)
{
	char host[FM_VALUE_HOST_MAX];
	struct fm_exporter_opts opts = {.loop = of->loop,
					.at = {.host = host,
					       .path = fm_value_unix(listen),
					       .daemon = "fmove-nvmed"},
					.table = table,
					.count = METRICS,
					.process = PROCESS,
					.collect = collect,
					.ctx = (void *)of};

	if (!opts.at.path)	/* was checked when it was read */
		(void)fm_value_address(listen, false, host, sizeof(host), &opts.at.port);
	if (fm_loop_exporter_new(&opts, out, err) < 0)
		return fm_err_wrap(err, "nvme.metrics_listen");
	fm_metrics_log(listen, opts.at.path);
	return 0;
}
