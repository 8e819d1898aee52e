/* SPDX-License-Identifier: MIT */
/* report_json - a report as one JSON object. See report.h. */
#include "client/doctor/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/doctor/unknown.h"
#include "mover/base/json.h"

#define REPORT_VERSION 1
#define REPORT_BYTES_MAX (16u << 20)
#define BYTES_OF_MBPS 125000.0

/* Lines as an array of texts. */
static void lines(struct fm_json_writer *w, const char *key, const char *text)
{
	char line[FM_FINDING_TEXT_MAX];

	fm_jw_array(w, key);
	for (const char *at = text; *at;) {
		size_t len = strcspn(at, "\n");

		memcpy(line, at, len);
		line[len] = '\0';
		fm_jw_text(w, NULL, line);
		at += len + (at[len] == '\n');
	}
	fm_jw_array_end(w);
}

static void finding(struct fm_json_writer *w, const struct fm_report *r, const struct fm_finding *f)
{
	fm_jw_object(w, NULL);
	fm_jw_text(w, "id", f->id);
	fm_jw_text(w, "severity", fm_severity_name(f->severity));
	fm_jw_text(w, "node", fm_node_label(r->set, f->node));
	lines(w, "read", f->read);
	lines(w, "means", f->means);
	lines(w, "mend", f->mend);
	fm_jw_object_end(w);
}

static void rate(struct fm_json_writer *w, const char *key, double mbps)
{
	if (mbps > 0)
		fm_jw_real(w, key, mbps * BYTES_OF_MBPS);
	else
		fm_jw_null(w, key);
}

static void ceiling(struct fm_json_writer *w, const struct fm_report *r, const struct fm_ceiling *c)
{
	fm_jw_object(w, NULL);
	fm_jw_text(w, "node", fm_node_label(r->set, c->node));
	fm_jw_text(w, "device", fm_text_of(&c->port->device));
	fm_jw_u64(w, "functions", c->functions);
	fm_jw_u64(w, "functions_used", c->functions_used);
	rate(w, "port_bytes_per_s", c->port_mbps);
	rate(w, "pcie_bytes_per_s", c->pcie_mbps);
	rate(w, "disk_pcie_bytes_per_s", c->disk_mbps);
	rate(w, "least_bytes_per_s", c->least_mbps);
	if (c->least)
		fm_jw_text(w, "least", c->least);
	else
		fm_jw_null(w, "least");
	fm_jw_object_end(w);
}

struct unknowns {
	struct fm_json_writer *w;
	const struct fm_report *report;
};

static void unknown(void *ctx, const struct fm_facts *node, const char *name, const char *why)
{
	struct unknowns *u = ctx;

	fm_jw_object(u->w, NULL);
	fm_jw_text(u->w, "node", fm_node_label(u->report->set, node));
	fm_jw_text(u->w, "fact", name);
	fm_jw_text(u->w, "why", why);
	fm_jw_object_end(u->w);
}

static void all(struct fm_json_writer *w, const struct fm_report *r)
{
	fm_jw_object(w, NULL);
	fm_jw_u64(w, "version", REPORT_VERSION);
	fm_jw_array(w, "nodes");
	for (size_t i = 0; i < r->set->count; i++)
		fm_jw_text(w, NULL, fm_node_label(r->set, r->set->at[i]));
	fm_jw_array_end(w);
	fm_jw_array(w, "missing");
	for (size_t i = 0; i < r->nodes->missing_count; i++) {
		fm_jw_object(w, NULL);
		fm_jw_text(w, "node", r->nodes->missing[i].node);
		fm_jw_text(w, "why", r->nodes->missing[i].why);
		fm_jw_object_end(w);
	}
	fm_jw_array_end(w);
	fm_jw_array(w, "findings");
	for (size_t i = 0; i < r->findings->count; i++)
		finding(w, r, &r->findings->at[i]);
	fm_jw_array_end(w);
	fm_jw_u64(w, "findings_left_out", r->findings->left_out);
	fm_jw_array(w, "ceilings");
	for (size_t i = 0; i < r->ceiling_count; i++)
		ceiling(w, r, &r->ceilings[i]);
	fm_jw_array_end(w);
	fm_jw_array(w, "unknown");
	for (size_t i = 0; i < r->set->count; i++)
		fm_unknown_each(r->set->at[i], unknown, &(struct unknowns){ w, r });
	fm_jw_array_end(w);
	fm_jw_u64(w, "exit", (uint64_t)r->exit);
	fm_jw_object_end(w);
}

int fm_report_print_json(const struct fm_report *report)
{
	char *buf = malloc(REPORT_BYTES_MAX);
	struct fm_json_writer w;
	int len;

	if (!buf)
		return -ENOMEM;
	fm_jw_begin(&w, buf, REPORT_BYTES_MAX);
	all(&w, report);
	len = fm_jw_end(&w);
	if (len >= 0)
		(void)printf("%s\n", buf);
	free(buf);
	return len < 0 ? len : 0;
}
