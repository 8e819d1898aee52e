/* SPDX-License-Identifier: MIT */
/* report - see report.h. As JSON it is in report_json.c. */
#include "client/doctor/report.h"

#include <stdio.h>
#include <string.h>

#include "client/doctor/lookup.h"
#include "client/doctor/unknown.h"
#include "mover/base/err.h"
#include "mover/base/plain.h"

#define LABEL_COLUMN 8
#define WIDTH 100

/* What a node, or who called, named; cut if it is very long. */
static void print_plain(const char *text)
{
	char shown[FM_ERR_TEXT_MAX * FM_PLAIN_MAX];

	(void)fputs(fm_plain(text, strlen(text), shown, sizeof(shown)), stdout);
}

/* Lines of a sentence, wrapped at blanks. */
static void print_wrapped(const char *label, const char *text)
{
	size_t room = WIDTH - 2 - LABEL_COLUMN, len;

	for (const char *at = text; *at; label = "") {
		len = strcspn(at, "\n");
		if (len > room) {
			len = room;
			while (len > 0 && at[len] != ' ')
				len--;
			if (len == 0)
				len = strcspn(at, " \n");
		}
		(void)printf("  %-*s%.*s\n", LABEL_COLUMN, label, (int)len, at);
		at += len;
		at += *at == ' ' || *at == '\n';
	}
}

/* As it is: a line that was broken would be another one. */
static void print_lines(const char *label, const char *text)
{
	for (const char *at = text; *at; label = "") {
		size_t len = strcspn(at, "\n");

		(void)printf("  %-*s%.*s\n", LABEL_COLUMN, label, (int)len, at);
		at += len + (at[len] == '\n');
	}
}

static void print_finding(const struct fm_report *r, const struct fm_finding *f)
{
	(void)printf("%s: %s, at ", fm_severity_name(f->severity), f->id);
	print_plain(fm_node_label(r->set, f->node));
	(void)printf("\n");
	print_wrapped("read", f->read);
	print_wrapped("means", f->means);
	print_lines("mend", f->mend);
	(void)printf("\n");
}

static void print_part(const char *name, double mbps)
{
	if (mbps > 0)
		(void)printf("%s %.1f Gb/s", name, mbps / 1000);
	else
		(void)printf("%s not known", name);
}

static void print_ceiling(const struct fm_report *r, const struct fm_ceiling *c)
{
	(void)printf("ceiling of %s at ", fm_text_of(&c->port->device));
	print_plain(fm_node_label(r->set, c->node));
	(void)printf(": ");
	if (c->functions_used == 0) {
		(void)printf("nothing, it has no address\n");
		return;
	}
	if (c->least)
		(void)printf("%.1f Gb/s (%.2f GB/s), the least is the %s\n", c->least_mbps / 1000,
			     c->least_mbps / 8000, c->least);
	else
		(void)printf("not known\n");
	(void)printf("  ");
	print_part("port", c->port_mbps);
	print_part("; PCIe", c->pcie_mbps);
	if (c->functions > 1)
		(void)printf(" with %u of %u functions", c->functions_used, c->functions);
	if (c->pcie_mbps > 0 && !c->port->mps.is_known)
		(void)printf(" before the headers of its packets");
	print_part("; PCIe of the slowest disk", c->disk_mbps);
	(void)printf("; disk and processors themselves are measured, not read\n");
}

static void count_one(void *ctx, const struct fm_facts *node, const char *name, const char *why)
{
	(void)node;
	(void)name;
	(void)why;
	++*(size_t *)ctx;
}

void fm_report_print(const struct fm_report *r)
{
	size_t unknown = 0;

	for (size_t i = 0; i < r->nodes->missing_count; i++) {
		(void)printf("no facts of ");
		print_plain(r->nodes->missing[i].node);
		(void)printf(": ");
		print_plain(r->nodes->missing[i].why);
		(void)printf("\n");
	}
	for (size_t i = 0; i < r->findings->count; i++)
		print_finding(r, &r->findings->at[i]);
	if (r->findings->left_out > 0)
		(void)printf("(and %zu more findings than fit)\n", r->findings->left_out);
	if (r->findings->count == 0)
		(void)printf("no finding\n");
	for (size_t i = 0; i < r->ceiling_count; i++)
		print_ceiling(r, &r->ceilings[i]);
	if (r->ceiling_count == 0)
		(void)printf("no RDMA port with a link\n");
	for (size_t i = 0; i < r->set->count; i++)
		fm_unknown_each(r->set->at[i], count_one, &unknown);
	(void)printf("%zu facts are unknown; with --json the reason of each\n", unknown);
}
