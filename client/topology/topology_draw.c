/* SPDX-License-Identifier: MIT */
/*
 * topology_draw - a topology for a terminal: nodes with their ports one below the other, a track
 * beside them for each cable or switch. See topology.h.
 *
 *   n1
 *     p0  200 Gb/s  MTU 9000  rocep1s0f0 roceP2p1s0f0  o-.
 *   n2                                                   |
 *     p0  200 Gb/s  MTU 9000  rocep1s0f0 roceP2p1s0f0  o-'
 *
 * An x in place of an o: nothing of it is up. A track is used by several cables, one below the
 * other. So whatever hangs together how fits: pairs, rings, switches and all of them at once.
 */
#include "client/topology/topology.h"

#include <stdlib.h>
#include <string.h>

#define TRACKS_MAX 48u
#define LABEL_MAX  512u
#define NO_ROW	   ((size_t)-1)

/* A line: a node, or one of its ports. */
struct row {
	bool is_node;
	unsigned at; /* which node, or which port */
	char label[LABEL_MAX];
};

struct track {
	size_t first, last; /* rows; a segment that none was free for has no track */
	unsigned segment;
	unsigned column;
};

struct picture {
	const struct fm_topology *t;
	unsigned segment[FM_TOPOLOGY_PORTS_MAX];
	struct row rows[FM_TOPOLOGY_NODES_MAX + FM_TOPOLOGY_PORTS_MAX];
	size_t row_count;
	struct track tracks[FM_TOPOLOGY_PORTS_MAX];
	size_t track_count;
	unsigned columns;
	size_t width; /* of the widest label */
};

/* ---- rows ---- */

static const char *rate_text(uint64_t mbps, char out[static 32])
{
	if (mbps == 0)
		(void)snprintf(out, 32, "rate unknown");
	else if (mbps % 1000 == 0)
		(void)snprintf(out, 32, "%llu Gb/s", (unsigned long long)mbps / 1000);
	else
		(void)snprintf(out, 32, "%.1f Gb/s", (double)mbps / 1000);
	return out;
}

/* One function by its device, or by its interface if it has no RDMA. */
static const char *function_name(const struct fm_topology_function *f)
{
	return f->device[0] ? f->device : f->interface;
}

static void port_label(const struct fm_topology_port *p, char out[static LABEL_MAX])
{
	char rate[32];
	size_t n;

	n = (size_t)snprintf(out, LABEL_MAX, "  %.64s", p->name);
	if (p->function_count == 0)
		return;
	n += (size_t)snprintf(out + n, LABEL_MAX - n, "  %s", rate_text(p->rate_mbps, rate));
	if (fm_port_mtu(p) > 0)
		n += (size_t)snprintf(out + n, LABEL_MAX - n, "  MTU %llu",
				      (unsigned long long)fm_port_mtu(p));
	for (size_t i = 0; i < p->function_count && n < LABEL_MAX - 80; i++)
		if (strcmp(function_name(&p->functions[i]), p->name) != 0)
			n += (size_t)snprintf(out + n, LABEL_MAX - n, "%s%.64s%s",
					      i == 0 ? "  " : " ", function_name(&p->functions[i]),
					      p->functions[i].address[0] ? "" : " (no address)");
	if (p->state[0] && strcmp(p->state, "ACTIVE") != 0 && n < LABEL_MAX - 80)
		(void)snprintf(out + n, LABEL_MAX - n, "  %.64s", p->state);
}

static void row_add(struct picture *p, bool is_node, unsigned at)
{
	struct row *r = &p->rows[p->row_count++];
	size_t len;

	r->is_node = is_node;
	r->at = at;
	if (is_node)
		(void)snprintf(r->label, sizeof(r->label), "%.200s%s%.250s%s", p->t->nodes[at].name,
			       p->t->nodes[at].why[0] ? "  (" : "", p->t->nodes[at].why,
			       p->t->nodes[at].why[0] ? ")" : "");
	else
		port_label(&p->t->ports[at], r->label);
	len = strlen(r->label);
	if (!is_node && len > p->width)
		p->width = len;
}

static void rows_make(struct picture *p)
{
	for (unsigned n = 0; n < p->t->node_count; n++) {
		row_add(p, true, n);
		for (unsigned i = 0; i < p->t->port_count; i++)
			if (p->t->ports[i].node == n)
				row_add(p, false, i);
	}
}

/* ---- tracks ---- */

static bool is_in(const struct picture *p, size_t row, const struct track *t)
{
	return !p->rows[row].is_node && p->segment[p->rows[row].at] == t->segment;
}

static int by_length(const void *a, const void *b)
{
	const struct track *x = a, *y = b;
	size_t lx = x->last - x->first, ly = y->last - y->first;

	if (lx != ly)
		return lx < ly ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static bool is_free(const struct picture *p, size_t count, unsigned column, const struct track *t)
{
	for (size_t i = 0; i < count; i++)
		if (p->tracks[i].column == column && p->tracks[i].first <= t->last &&
		    t->first <= p->tracks[i].last)
			return false;
	return true;
}

/* The shortest are next to the ports. */
static void tracks_make(struct picture *p)
{
	for (unsigned s = 0; s < p->t->port_count; s++) {
		struct track t = {.first = NO_ROW, .segment = s};

		if (p->segment[s] != s || fm_segment_size(p->t, p->segment, s) < 2)
			continue;
		for (size_t row = 0; row < p->row_count; row++)
			if (is_in(p, row, &t)) {
				t.first = t.first == NO_ROW ? row : t.first;
				t.last = row;
			}
		p->tracks[p->track_count++] = t;
	}
	qsort(p->tracks, p->track_count, sizeof(p->tracks[0]), by_length);
	for (size_t i = 0; i < p->track_count; i++) {
		struct track *t = &p->tracks[i];

		while (t->column < TRACKS_MAX && !is_free(p, i, t->column, t))
			t->column++;
		if (t->column < TRACKS_MAX && t->column >= p->columns)
			p->columns = t->column + 1;
	}
}

/* What stands in a column of a row: two places, the line that comes from the left and the track. */
static void cell(const struct picture *p, size_t row, char *line)
{
	unsigned reach = 0; /* so many columns does the line of this row go through */

	for (size_t i = 0; i < p->track_count; i++)
		if (p->tracks[i].column < TRACKS_MAX && is_in(p, row, &p->tracks[i]))
			reach = p->tracks[i].column + 1;
	memset(line, ' ', 2 * p->columns);
	memset(line, '-', 2 * reach);
	for (size_t i = 0; i < p->track_count; i++) {
		const struct track *t = &p->tracks[i];
		char *at = &line[2 * t->column + 1];

		if (t->column >= TRACKS_MAX || row < t->first || row > t->last)
			continue;
		if (is_in(p, row, t))
			*at = row == t->first ? '.' : row == t->last ? '\'' : '+';
		else
			*at = '|';
	}
	line[2 * p->columns] = '\0';
	for (size_t n = 2 * p->columns; n > 0 && line[n - 1] == ' '; n--)
		line[n - 1] = '\0';
}

/* Where its line begins: 'o', or 'x' if nothing of it is up. */
static char mark(const struct picture *p, size_t row)
{
	unsigned port = p->rows[row].at;

	if (p->rows[row].is_node || fm_segment_size(p->t, p->segment, p->segment[port]) < 2)
		return ' ';
	for (size_t i = 0; i < p->t->link_count; i++) {
		const struct fm_topology_link *l = &p->t->links[i];

		if (!l->is_relayed && (l->from == port || l->to == port) && fm_link_is_up(l))
			return 'o';
	}
	return 'x';
}

static void print_row(const struct picture *p, size_t row, FILE *out)
{
	char line[2 * TRACKS_MAX + 1];

	cell(p, row, line);
	if (line[0] == '\0')
		(void)fprintf(out, "%s\n", p->rows[row].label);
	else
		(void)fprintf(out, "%-*s  %c%s\n", (int)p->width, p->rows[row].label, mark(p, row),
			      line);
}

/* ---- what is below ---- */

static void print_end(const struct fm_topology *t, unsigned port, FILE *out)
{
	(void)fprintf(out, "%s %s", t->nodes[t->ports[port].node].name, t->ports[port].name);
}

static void print_links(const struct fm_topology *t, bool is_relayed, const char *title, FILE *out)
{
	char text[1024];

	for (size_t i = 0; i < t->link_count; i++) {
		const struct fm_topology_link *l = &t->links[i];

		if (l->is_relayed != is_relayed)
			continue;
		if (title)
			(void)fprintf(out, "\n%s\n", title);
		title = NULL;
		(void)fprintf(out, "  ");
		print_end(t, l->from, out);
		(void)fprintf(out, " - ");
		print_end(t, l->to, out);
		(void)fprintf(out, ": %s\n", fm_link_text(l, text, sizeof(text)));
	}
}

static void print_switches(const struct picture *p, FILE *out)
{
	unsigned count = 0;

	for (unsigned s = 0; s < p->t->port_count; s++) {
		if (p->segment[s] != s || fm_segment_size(p->t, p->segment, s) < 3)
			continue;
		(void)fprintf(out, "%s  switch %u:",
			      count == 0 ? "\nseveral ports reach each other\n" : "", count + 1);
		count++;
		for (unsigned i = 0, n = 0; i < p->t->port_count; i++)
			if (p->segment[i] == s) {
				(void)fprintf(out, "%s ", n++ == 0 ? "" : ",");
				print_end(p->t, i, out);
			}
		(void)fprintf(out, "\n");
	}
}

static void print_storage(const struct fm_topology *t, FILE *out)
{
	for (size_t i = 0; i < t->storage_count; i++) {
		const struct fm_topology_storage *s = &t->storage[i];

		(void)fprintf(out, "%s  %s %s: %s over %s to %s, %s, %s\n",
			      i == 0 ? "\nstorage\n" : "", t->nodes[s->node].name, s->name,
			      s->transport, s->port[0] ? s->port : "a port that is not known",
			      s->address[0] ? s->address : "an address that is not known",
			      s->subsystem, s->state[0] ? s->state : "state unknown");
	}
}

static void print_apart(const struct fm_topology *t, FILE *out)
{
	for (size_t i = 0; i < t->apart_count; i++)
		(void)fprintf(out, "%s  %s has no session with %s%s%s\n", i == 0 ? "\napart\n" : "",
			      t->nodes[t->apart[i].node].name, t->nodes[t->apart[i].peer].name,
			      t->apart[i].why[0] ? ": " : "", t->apart[i].why);
}

void fm_topology_draw(const struct fm_topology *t, FILE *out)
{
	struct picture *p = calloc(1, sizeof(*p));

	if (p) {
		p->t = t;
		fm_topology_segments(t, p->segment);
		rows_make(p);
		tracks_make(p);
		for (size_t row = 0; row < p->row_count; row++)
			print_row(p, row, out);
		print_switches(p, out);
	}
	print_links(t, false, "links", out);
	print_links(t, true, "relayed: the two ends share no network", out);
	print_apart(t, out);
	print_storage(t, out);
	if (t->left_out > 0)
		(void)fprintf(out, "\n%llu more than fit\n", (unsigned long long)t->left_out);
	free(p);
}
