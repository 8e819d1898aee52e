/* SPDX-License-Identifier: MIT */
/* test_top - the pictures of fmove top, of answers written by hand. links: fm_cli */
#include "client/cli/top_frame.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/top_rows.h"
#include "client/lib/fmove.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/json.h"
#include "tests/fm_test.h"

/* clang-format off */
#define RAIL(sent) \
	"{\"kind\":\"tcp\",\"device\":\"eth0\",\"local\":\"1\",\"remote\":\"2\",\"up\":true," \
	"\"connections\":2,\"speed_mbps\":100000,\"sent_bytes\":" sent ",\"received_bytes\":0}"
#define NODE(uptime, sent) \
	"{\"node\":\"n1\",\"version\":\"9\",\"uptime_ms\":" uptime ",\"slabs\":8," \
	"\"slabs_free\":6,\"peers\":[{\"name\":\"n2\",\"address\":\"a\",\"connected\":true," \
	"\"rails\":[" RAIL(sent) "]}"
#define PUT(path, rest) \
	"{\"op\":\"put\",\"ours\":true,\"peer\":\"n2\",\"store\":\"s\",\"path\":\"" path "\"," \
	"\"state\":\"copying\"," rest "}"

static const char before_text[] =
	NODE("5000", "1000") "],\"jobs\":["
	PUT("a", "\"size\":4000,\"bytes\":1000") "," PUT("b", "\"bytes\":0") "]}";
static const char now_text[] =
	NODE("7000", "5000") ","
	"{\"name\":\"n3\",\"connected\":false,\"since_ms\":61000,"
	"\"error\":\"no \\u001b[2Jroute\",\"rails\":[]}],\"jobs\":["
	PUT("a", "\"size\":4000,\"bytes\":2000") "," PUT("b", "\"bytes\":20000") "]}";
/* clang-format on */

#define LINES_MAX 64

static struct fm_top_table tables[FM_TOP_SECTIONS];
static struct fm_top_state state;
static struct fm_top_view view;

/* The last picture. */
static char lines[LINES_MAX][FM_TOP_LINE_MAX];
static enum fm_top_style styles[LINES_MAX];
static int line_count;

static void take_line(void *ctx, int at, enum fm_top_style style, const char *text)
{
	(void)ctx;
	CU_ASSERT_FATAL(at == line_count && at < LINES_MAX); /* one after the other */
	(void)snprintf(lines[at], sizeof(lines[at]), "%s", text);
	styles[at] = style;
	line_count++;
}

static size_t draw(uint64_t now_ns)
{
	line_count = 0;
	return fm_top_frame(&state, &view, now_ns, take_line, NULL);
}

/* Which line begins with that; -1: none. */
static int line_of(const char *beginning)
{
	for (int i = 0; i < line_count; i++)
		if (strncmp(lines[i], beginning, strlen(beginning)) == 0)
			return i;
	return -1;
}

/* The line that begins with that; "": none. */
static const char *line(const char *beginning)
{
	int at = line_of(beginning);

	return at < 0 ? "" : lines[at];
}

/* Its style; -1: there is none. */
static int style(const char *beginning)
{
	int at = line_of(beginning);

	return at < 0 ? -1 : (int)styles[at];
}

/* Answered at second 10, by a node with all kinds of things. */
static void answered(void)
{
	const struct fmove_space stores[] = {
		{.store = "s",
		 .size = 2000,
		 .free = 1500,
		 .used = 500,
		 .quota = UINT64_MAX,
		 .may_read = true},
		{.store = "far", .size = UINT64_MAX, .silent_ms = 7000, .may_read = true},
	};
	const struct fmove_cache cache = {.size = 8000000, .used = 5000000, .promised = 1000000};
	struct fm_json *before, *now;
	struct fm_err err;

	CU_ASSERT_EQUAL_FATAL(fm_json_parse(before_text, strlen(before_text), &before, &err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_json_parse(now_text, strlen(now_text), &now, &err), 0);
	state = (struct fm_top_state){.since_ns = FM_NS_PER_S, .every_ns = 2 * FM_NS_PER_S};
	for (unsigned i = 0; i < FM_TOP_SECTIONS; i++) {
		fm_top_clear(&tables[i]);
		state.part[i].table = &tables[i];
		state.part[i].answered_ns = 10 * FM_NS_PER_S;
	}
	view = (struct fm_top_view){.width = 80, .section = FM_TOP_ALL};
	fm_top_transfers(&tables[FM_TOP_WAITING], before, NULL, 0); /* any table */
	fm_top_node(&state.node, now, before, 2);
	fm_top_rails(&tables[FM_TOP_RAILS], now, before, 2);
	fm_top_transfers(&tables[FM_TOP_TRANSFERS], now, &tables[FM_TOP_WAITING], 2);
	fm_top_clear(&tables[FM_TOP_WAITING]);
	fm_top_cache(&tables[FM_TOP_CACHE], &cache);
	for (size_t i = 0; i < 2; i++)
		fm_top_space(&tables[FM_TOP_STORES], &stores[i]);
	fm_json_free(before);
	fm_json_free(now);
}

static void test_rates(void)
{
	answered();
	(void)draw(11 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(strncmp(lines[0], "n1  out 2.00 kB/s  in 0 B/s  up 0:07  ", 38), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(lines[1], "1 of 2 peers  6 of 8 slabs free"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(line("n2 tcp eth0 1 -> 2"), "up      2.00kB/s         -   100Gb/s     2"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(line("put n2:s/a"), "copying      50%  2.00kB    500B/s     0:04"));
	CU_ASSERT_PTR_NOT_NULL(strstr(line("put n2:s/b"), "20.0kB  10.0kB/s"));
}

/* Goal: what is wrong is marked, with why; what others say moves no cursor. */
static void test_wrong(void)
{
	answered();
	(void)draw(11 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(style("n3  not connected for 1:01: no \\x1b[2Jroute"), FM_TOP_BAD);
	CU_ASSERT_EQUAL(style("far  its file system has not answered for 0:07"), FM_TOP_BAD);
	CU_ASSERT_EQUAL(style("n2 tcp"), FM_TOP_PLAIN);
}

/* Goal: an answer that is missing, an error and a daemon that need not run are told apart. */
static void test_no_answer(void)
{
	answered();
	state.part[FM_TOP_VOLUMES].answered_ns = 0;
	(void)draw(2 * FM_NS_PER_S);
	CU_ASSERT_TRUE(line_of("VOLUMES  asked") > 0);
	(void)draw(13 * FM_NS_PER_S);
	CU_ASSERT_TRUE(line_of("VOLUMES  no answer for 0:12") > 0);
	CU_ASSERT_EQUAL(line_of("all  5.00 MB of 8.00 MB used, 1.00 MB of it still to come "),
			line_of("CACHE ") + 1);
	(void)draw(15 * FM_NS_PER_S); /* 5 s, of 2 + 2 */
	CU_ASSERT_TRUE(line_of("CACHE  no answer for 0:05") > 0);
	CU_ASSERT_TRUE(line_of("STORES  no answer for 0:05") > 0);
	CU_ASSERT_TRUE(line_of("s    ") > 0); /* what was known is there still */
	strcpy(state.part[FM_TOP_CACHE].error, "wrong");
	state.part[FM_TOP_STORES].absent = "of its own accord";
	strcpy(state.part[FM_TOP_RAILS].error, "gone");
	(void)draw(11 * FM_NS_PER_S);
	CU_ASSERT_TRUE(line_of("CACHE  not known: wrong") > 0);
	CU_ASSERT_TRUE(line_of("STORES  none: of its own accord") > 0);
	CU_ASSERT_EQUAL(line_of("fmoved does not answer, asked again every 2 s: gone"), 1);
	CU_ASSERT_EQUAL(styles[1], FM_TOP_BAD);
}

/* Goal: a daemon that runs for less long than before was restarted, and no rate is negative. */
static void test_restart(void)
{
	struct fm_json *before, *now;
	struct fm_err err;

	answered();
	CU_ASSERT_EQUAL_FATAL(fm_json_parse(now_text, strlen(now_text), &before, &err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_json_parse(before_text, strlen(before_text), &now, &err), 0);
	fm_top_node(&state.node, now, before, 2);
	(void)draw(11 * FM_NS_PER_S);
	CU_ASSERT_PTR_NOT_NULL(strstr(lines[0], "out 0 B/s  in 0 B/s  up 0:05 (fmoved was rest"));
	fm_json_free(before);
	fm_json_free(now);
}

/* Goal: every line is as wide as the terminal, whatever that is, and no column of numbers is cut
 * in two: it is there or not. */
static void test_widths(void)
{
	answered();
	for (view.width = 1; view.width <= 300; view.width++) {
		(void)draw(11 * FM_NS_PER_S);
		for (int i = 0; i < line_count; i++)
			CU_ASSERT_EQUAL(strlen(lines[i]), (size_t)view.width);
	}
	view.width = 20;
	(void)draw(11 * FM_NS_PER_S);
	CU_ASSERT_TRUE(line_of("n2 tcp et~  2.00kB/s") > 0);
	CU_ASSERT_TRUE(line_of("put n2:s/a    500B/s") > 0);
	view.width = 100000;
	(void)draw(11 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(strlen(lines[0]), FM_TOP_WIDTH_MAX);
}

static void test_scroll(void)
{
	size_t all;
	char first[FM_TOP_LINE_MAX];

	answered();
	all = draw(11 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(all + FM_TOP_HEAD_LINES, (size_t)line_count);
	strcpy(first, lines[3]);
	view.height = 5;
	view.scroll = 1;
	CU_ASSERT_EQUAL(draw(11 * FM_NS_PER_S), all);
	CU_ASSERT_EQUAL(line_count, 5);
	CU_ASSERT_STRING_EQUAL(lines[2], first);
	view.scroll = 1000;
	(void)draw(11 * FM_NS_PER_S);
	CU_ASSERT_EQUAL(line_count, FM_TOP_HEAD_LINES);
	view = (struct fm_top_view){.width = 80, .height = 1, .section = FM_TOP_STORES};
	CU_ASSERT_EQUAL(draw(11 * FM_NS_PER_S), 3);
	CU_ASSERT_EQUAL(line_count, 1);
	view.height = 0;
	view.is_help = true;
	(void)draw(11 * FM_NS_PER_S);
	CU_ASSERT_TRUE(line_of("?  this    q  quit") > 0);
}

static void test_sort(void)
{
	answered();
	(void)draw(11 * FM_NS_PER_S);
	CU_ASSERT_TRUE(line_of("put n2:s/a") < line_of("put n2:s/b"));
	view.is_by_rate = true;
	(void)draw(11 * FM_NS_PER_S);
	CU_ASSERT_TRUE(line_of("put n2:s/a") > line_of("put n2:s/b"));
	CU_ASSERT_TRUE(line_of("s   ") < line_of("far")); /* both have none */
}

/* Goal: there is an end to the rows, and who is left out is counted. */
static void test_many(void)
{
	const struct fmove_dataset dataset = {.name = "d", .state = "ready", .holds = 2};

	answered();
	fm_top_clear(&tables[FM_TOP_CACHE]);
	for (unsigned i = 0; i < FM_TOP_ROWS_MAX + 3; i++)
		fm_top_dataset(&tables[FM_TOP_CACHE], &dataset);
	view.section = FM_TOP_CACHE;
	view.height = LINES_MAX;
	view.scroll = FM_TOP_ROWS_MAX;
	CU_ASSERT_EQUAL(draw(11 * FM_NS_PER_S), 1 + FM_TOP_ROWS_MAX + 1);
	CU_ASSERT_TRUE(line_of("and 3 more") > 0);
}

/* Goal: jobs that run or have ended do not wait. */
static void test_jobs(void)
{
	static struct fmove_job job = {
		.id = "abcdefgh", .node = "n2", .store = "s", .path = "p", .size = UINT64_MAX};

	answered();
	for (job.state = FMOVE_JOB_QUEUED; job.state <= FMOVE_JOB_OTHER; job.state++)
		fm_top_job(&tables[FM_TOP_WAITING], &job);
	CU_ASSERT_EQUAL(tables[FM_TOP_WAITING].count, 3);
	(void)draw(11 * FM_NS_PER_S);
	CU_ASSERT_PTR_NOT_NULL(strstr(line("get n2:s/p"), "abcdefgh queued"));
}

static void test_volumes(void)
{
	static const char text[] =
		"{\"volumes\":[{\"name\":\"v\",\"state\":\"mounted\",\"is_mounted\":true,"
		"\"paths_live\":1,\"paths_wanted\":2,\"device\":\"/dev/x\",\"size_bytes\":1000},"
		"{\"name\":\"w\",\"state\":\"refused\",\"alarm\":\"two\\nwriters\"}]}";
	struct fm_json *done;
	struct fm_err err;

	answered();
	CU_ASSERT_EQUAL_FATAL(fm_json_parse(text, strlen(text), &done, &err), 0);
	fm_top_volumes(&tables[FM_TOP_VOLUMES], done);
	fm_json_free(done);
	(void)draw(11 * FM_NS_PER_S);
	CU_ASSERT_PTR_NOT_NULL(strstr(line("v  "), "mounted      1/2  1.00kB read-only"));
	CU_ASSERT_TRUE(line_of("w  two\\nwriters") > 0);
	CU_ASSERT_EQUAL(style("w  "), FM_TOP_BAD);
}

static void fits(const char *text, int width, const char *wanted)
{
	char out[FM_TOP_LINE_MAX];

	CU_ASSERT_EQUAL(fm_top_fit(text, width, false, out), strlen(wanted));
	CU_ASSERT_STRING_EQUAL(out, wanted);
}

/* Goal: columns are counted, not bytes; what the locale cannot show is said byte by byte; no number
 * of marks without a column overflows the line. */
static void test_characters(void)
{
	char marks[4096] = "a", out[4 * 8 + 1], right[9];

	fits("h\xc3\xa9", 4, "h\xc3\xa9  ");
	fits("\xe6\xbc\xa2\xe6\xbc\xa2", 4, "\xe6\xbc\xa2\xe6\xbc\xa2");
	fits("\xe6\xbc\xa2\xe6\xbc\xa2", 3, "\xe6\xbc\xa2~");
	fits("\xe6\xbc\xa2\xe6\xbc\xa2", 2, "~ ");
	fits("\xff", 4, "\\xff");
	fits("abc", 0, "");
	CU_ASSERT_EQUAL(fm_top_fit("ab", 4, true, right), 4);
	CU_ASSERT_STRING_EQUAL(right, "  ab");
	for (size_t i = 1; i + 2 < sizeof(marks); i += 2)
		memcpy(marks + i, "\xcc\x81", 3);
	CU_ASSERT_TRUE(fm_top_fit(marks, 8, false, out) < sizeof(out));
	CU_ASSERT_PTR_NOT_NULL_FATAL(setlocale(LC_CTYPE, "C"));
	fits("h\xc3\xa9", 9, "h\\xc3\\xa9");
	CU_ASSERT_PTR_NOT_NULL_FATAL(setlocale(LC_CTYPE, "C.UTF-8"));
}

static const struct fm_test tests[] = {
	{"rates are differences of two looks", test_rates},
	{"what is wrong stands out", test_wrong},
	{"no answer, an error, and nobody to ask", test_no_answer},
	{"a daemon that was restarted", test_restart},
	{"terminals of any width", test_widths},
	{"scrolling", test_scroll},
	{"sorting", test_sort},
	{"more rows than there is room for", test_many},
	{"jobs that wait", test_jobs},
	{"volumes", test_volumes},
	{"characters and columns", test_characters},
};

int main(void)
{
	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		return 1;
	return fm_test_main("top", tests, sizeof(tests) / sizeof(tests[0]));
}
