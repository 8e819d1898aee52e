/* SPDX-License-Identifier: MIT */
/* requests - what may be asked over the local API, and what may not. See client.c. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/hostile/client.h"

#define JOBS_MAX 16 /* ids of jobs that were heard of */

enum kind {
	NODE,
	STORE,
	PATH,
	BOOL,
	NUMBER,
	SMALL,
	TRANSPORT,
	DURABILITY,
	VERIFY,
	JOB,
	PATTERNS,
	BUFFER,
	BYTES,
	TEXT,
	RANGES,
	GROUP,
	GROUP_PATH,
	EXPECT,
	DATASET,
	NODES
};

struct key {
	const char *name;
	enum kind kind;
	/* of which it is a key: p(ut) g(et) s(tat ...) m(ove, link) c(ommit, cancel) j(obs, wait,
	 * resume) b(egin, commit, end a group) l(ist groups) t: stage h(ub) d(atasets: pin ...)
	 * u: buffer f(ree a buffer) */
	const char *ops;
	bool is_needed;
};

static const struct key keys[] = {
	{"node", NODE, "pgsmblt", true},
	{"store", STORE, "pgsmblt", true},
	{"path", PATH, "pgsmlth", true},
	{"path", GROUP_PATH, "b", true},
	{"group", GROUP, "b", true},
	{"members", SMALL, "b", false},
	{"expect", EXPECT, "b", false},
	{"expires_ms", NUMBER, "b", false},
	{"check_only", BOOL, "b", false},
	{"ranges", RANGES, "g", false},
	{"whole_blocks", BOOL, "g", false},
	{"accept_corrupt", BOOL, "g", false},
	{"names", BOOL, "pg", false},
	{"tree_bytes", NUMBER, "p", false},
	{"name", DATASET, "d", true},
	{"name", DATASET, "th", false},
	{"pin", BOOL, "th", false},
	{"pid", NUMBER, "th", false},
	{"check", TEXT, "th", false},
	{"nodes", NODES, "td", false},
	{"to", PATH, "m", true},
	{"force", BOOL, "pgmbth", false},
	{"transport", TRANSPORT, "pg", false},
	{"durability", DURABILITY, "pg", false},
	{"limit", NUMBER, "pg", false},
	{"timeout_ms", NUMBER, "pgsmbl", false},
	{"progress_ms", NUMBER, "pgsjthd", false},
	{"generate", SMALL, "p", false},
	{"device", TEXT, "p", false},
	{"local", TEXT, "p", false},
	{"remote", TEXT, "p", false},
	{"connections", SMALL, "p", false},
	{"file", PATH, "pg", false},
	{"local_store", STORE, "pg", false},
	{"local_path", PATH, "pg", false},
	{"priority", TEXT, "pg", false},
	{"retry_ms", NUMBER, "pg", false},
	{"detach", BOOL, "pg", false},
	{"attended", BOOL, "pg", false},
	{"job", JOB, "cj", true},
	{"verify", VERIFY, "p", false},
	{"buffered", BOOL, "p", false},
	{"hold", BOOL, "p", false},
	{"update", BOOL, "pg", false},
	{"delete", BOOL, "pg", false},
	{"checksum", BOOL, "pg", false},
	{"dry_run", BOOL, "pgsd", false},
	{"dev", NUMBER, "p", false},
	{"ino", NUMBER, "p", false},
	{"exclude", PATTERNS, "g", false},
	{"discard", BOOL, "g", false},
	{"after", PATH, "s", false},
	{"partial", BOOL, "s", false},
	{"recursive", BOOL, "s", false},
	{"code", TEXT, "c", false},
	{"text", TEXT, "c", false},
	{"keep", BOOL, "c", false},
	{"all", BOOL, "j", false},
	{"seq", NUMBER, "jd", false},
	{"bytes", BYTES, "u", true},
	{"buffer", BUFFER, "f", true},
	{"buffer", BUFFER, "pg", false},
};

static const struct {
	const char *name;
	char letter;
} ops[] = {
	{"put", 'p'},	 {"put", 'p'},	   {"get", 'g'},    {"get", 'g'},   {"put", 'p'},
	{"stat", 's'},	 {"list", 's'},	   {"remove", 's'}, {"mkdir", 's'}, {"verify", 's'},
	{"commit", 'c'}, {"cancel", 'c'},  {"jobs", 'j'},   {"wait", 'j'},  {"resume", 'j'},
	{"status", ' '}, {"volumes", ' '}, {"facts", ' '},  {"ping", ' '},  {"cancel", 'c'},
	{"cancel", 'c'}, {"move", 'm'},	   {"link", 'm'},   {"nothing", ' '},
	{"space", 's'},	 {"purge", 's'},   {"group_list", 'l'},
	{"group_begin", 'b'},	{"group_begin", 'b'},	{"group_commit", 'b'},
	{"group_discard", 'b'},	{"stage", 't'},		{"stage", 't'},
	{"stage_hub", 'h'},	{"stage_own", 'm'},	{"locate", 'h'},	{"datasets", 'd'},
	{"pin", 'd'},		{"unpin", 'd'},		{"unstage", 'd'},
	{"check", 'd'},
	{"buffer", 'u'}, {"buffer", 'u'},  {"buffer_free", 'f'},
};

static char jobs[JOBS_MAX][16];
static unsigned job_count;
static uint64_t buffers[JOBS_MAX];
static unsigned buffer_count;

static void add(struct request *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct request *r, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(r->text + r->len, sizeof(r->text) - r->len, format, args);
	va_end(args);
	if (n > 0 && r->len + (unsigned)n < sizeof(r->text))
		r->len += (unsigned)n;
}

static const char *any_word(struct odds *o)
{
	static const char *const words[] = {
		"",	   "auto",     "tcp",	     "rdma",	"default", "disk",
		"memory",  "none",     "readback",   "low",	"normal",  "high",
		"ENOENT",  "EIO",      "\\u001b[2J", "\\u202e", "\\r",	   "a\\nb",
		"\\u0000", "\xff\xfe", "..",	     "/",	"%n%s",
	};

	return words[below(o, sizeof(words) / sizeof(words[0]))];
}

static void add_name(struct odds *o, struct request *r)
{
	static const char *const ways[] = {"",	    "hstl-d/",	      "../",
					   "/tmp/", "hstl\\u001b[2J", "a/../../"};

	if (one_in(o, 30)) {
		add(r, "\"");
		for (unsigned n = (unsigned)below(o, 5000); n > 0; n--)
			add(r, "x");
		add(r, "\"");
	} else if (one_in(o, 10)) {
		add(r, "{\"bytes\":\"%s\"}", one_in(o, 2) ? "aHN0bP8=" : "====");
	} else {
		add(r, "\"%shstl%u\"", ways[one_in(o, 2) ? 0 : below(o, 6)],
		    (unsigned)below(o, 40));
	}
}

/* Of whatever type. */
static void add_anything(struct odds *o, struct request *r)
{
	switch (below(o, 8)) {
	case 0:
		add(r, "null");
		break;
	case 1:
		add(r, "{\"bytes\":[]}");
		break;
	case 2:
		for (unsigned n = (unsigned)below(o, 3000), i = 0; i < 2 * n; i++)
			add(r, i < n ? "[" : "]");
		if (r->text[r->len - 1] != ']')
			add(r, "[]");
		break;
	case 3:
		add(r, "%" PRIu64, any_number(o));
		break;
	case 4:
		add(r, "-%" PRIu64 ".5e%u", below(o, 100), (unsigned)below(o, 400));
		break;
	case 5:
		add(r, "true");
		break;
	default:
		add(r, "\"%s\"", any_word(o));
		break;
	}
}

/* Few, so that members meet groups. */
static void add_group_path(struct odds *o, struct request *r)
{
	add(r, "\"hstl-g%u\"", (unsigned)below(o, 4));
}

static void add_group(struct odds *o, struct request *r)
{
	add(r, "\"%032u\"", (unsigned)below(o, 2));
}

/* The path and the group of a put that is a member. */
static void add_member(struct odds *o, struct request *r)
{
	static const char *const ways[] = {"", "hstl-d/", "../", ".fmove.", "a/../../"};

	add(r, ",\"path\":\"hstl-g%u/%shstl%u\",\"group\":", (unsigned)below(o, 4),
	    ways[one_in(o, 2) ? 0 : below(o, 5)], (unsigned)below(o, 4));
	add_group(o, r);
}

/* In any order, over one another, of more than there is. */
static void add_ranges(struct odds *o, struct request *r)
{
	unsigned n = one_in(o, 20) ? (unsigned)below(o, 2000) : 1 + (unsigned)below(o, 5);

	add(r, "[");
	for (unsigned i = 0; i < n; i++)
		add(r, "%s[%" PRIu64 ",%" PRIu64 "]", i > 0 ? "," : "",
		    one_in(o, 8) ? any_number(o) : below(o, 120000),
		    one_in(o, 8) ? any_number(o) : below(o, 9000));
	add(r, "]");
}

static void add_expected(struct odds *o, struct request *r)
{
	unsigned n = one_in(o, 20) ? (unsigned)below(o, 8000) : (unsigned)below(o, 6);

	add(r, "\"");
	for (unsigned i = 0; i < n; i++)
		add(r, "%s%shstl%u", i > 0 ? "\\n" : "", one_in(o, 30) ? "../" : "",
		    (unsigned)below(o, 5));
	add(r, "\"");
}

static void add_dataset(struct odds *o, struct request *r)
{
	static const char *const names[] = {"hstl-set",	      "secret", "../hstl", ".fmove.hstl",
					    "hstl\\u001b[2J", "",	"hstl-1"};

	add(r, "\"%s\"", names[below(o, sizeof(names) / sizeof(names[0]))]);
}

static void add_choice(struct odds *o, struct request *r, const char *const *words, unsigned count)
{
	add(r, "\"%s\"", words[below(o, count)]);
}

/* All of one that we have or had, or a part, which is not always in it. */
static void add_buffer(struct odds *o, struct request *r)
{
	unsigned known = buffer_count < JOBS_MAX ? buffer_count : JOBS_MAX;

	add(r, "[%" PRIu64, known > 0 && !one_in(o, 10) ? buffers[below(o, known)] : any_number(o));
	if (one_in(o, 2))
		add(r, ",%" PRIu64 ",%" PRIu64, below(o, BUFFER_BYTES + 2),
		    one_in(o, 10) ? any_number(o) : below(o, BUFFER_BYTES + 2));
	add(r, "]");
}

static void add_value(struct odds *o, struct request *r, enum kind kind)
{
	static const char *const nodes[] = {"n2", "n2", "h1", "h2", "n1", "nobody"};
	static const char *const stores[] = {"s",    "s",	 "s",  "s",  "own", "null",
					     "read", "none", "", "a/b", "..",  "\\u001b[2J"};
	static const char *const transports[] = {"auto", "tcp", "rdma"};
	static const char *const durabilities[] = {"default", "disk", "memory"};
	static const char *const verifies[] = {"none", "readback"};
	static const char *const nodes_of[] = {"n1", "n1,n2", "n1,h1,h2", "n1,,n1", "\\u001b[1m"};

	switch (kind) {
	case NODE:
		add_choice(o, r, nodes, 6);
		break;
	case STORE:
		add_choice(o, r, stores, 12);
		break;
	case PATH:
		add_name(o, r);
		break;
	case BOOL:
		add(r, "%s", one_in(o, 2) ? "true" : "false");
		break;
	case NUMBER:
		add(r, "%" PRIu64, any_number(o) >> below(o, 2));
		break;
	case SMALL:
		add(r, "%" PRIu64, below(o, 1u << 20));
		break;
	case TRANSPORT:
		add_choice(o, r, transports, 3);
		break;
	case DURABILITY:
		add_choice(o, r, durabilities, 3);
		break;
	case VERIFY:
		add_choice(o, r, verifies, 2);
		break;
	case JOB:
		if (job_count > 0 && one_in(o, 2))
			add(r, "\"%.15s\"",
			    jobs[below(o, job_count < JOBS_MAX ? job_count : JOBS_MAX)]);
		else
			add(r, "%" PRIu64, below(o, 60));
		break;
	case PATTERNS:
		add(r, "%s", one_in(o, 2) ? "[\"*.tmp\",\"[a\"]" : "[{\"bytes\":\"/w==\"},\"\"]");
		break;
	case BUFFER:
		add_buffer(o, r);
		break;
	case BYTES:
		add(r, "%" PRIu64, one_in(o, 20) ? any_number(o) : BUFFER_BYTES);
		break;
	case TEXT:
		add(r, "\"%s\"", any_word(o));
		break;
	case RANGES:
		add_ranges(o, r);
		break;
	case GROUP:
		add_group(o, r);
		break;
	case GROUP_PATH:
		add_group_path(o, r);
		break;
	case EXPECT:
		add_expected(o, r);
		break;
	case DATASET:
		add_dataset(o, r);
		break;
	case NODES:
		add_choice(o, r, nodes_of, 5);
		break;
	}
}

static bool has_key(struct odds *o, const struct key *k, char letter)
{
	if (!strchr(k->ops, letter) || letter == ' ')
		return one_in(o, 1500);
	return k->is_needed ? !one_in(o, 60) : one_in(o, 14);
}

static void add_fds(struct odds *o, struct request *r, char letter, int api)
{
	bool is_needed = letter == 'p' || letter == 'g' || letter == 'b';
	unsigned count = is_needed + one_in(o, is_needed ? 8 : 20);

	if (one_in(o, 40))
		count = (unsigned)below(o, FDS_MAX + 1);

	for (unsigned i = 0; i < count; i++) {
		int fd = one_in(o, 3)	 ? fd_any(o, api)
			 : letter == 'b' ? fd_buffer(o)
			 : letter == 'g' ? fd_target(o)
					 : fd_source(o);

		if (fd >= 0)
			r->fds[r->fd_count++] = fd;
	}
}

/* Bytes of it are hit, or it is cut, or grows. */
static void spoil(struct odds *o, struct request *r)
{
	switch (below(o, 5)) {
	case 0:
		r->len = (unsigned)below(o, r->len + 1);
		break;
	case 1:
		memset(r->text + r->len, ' ', sizeof(r->text) - r->len);
		r->len += (unsigned)below(o, sizeof(r->text) - r->len);
		break;
	default:
		for (unsigned n = 1 + (unsigned)below(o, 3); n > 0; n--)
			r->text[below(o, r->len)] = (char)any_number(o);
		break;
	}
}

void request_make(struct odds *o, int api, struct request *r)
{
	unsigned op = (unsigned)below(o, sizeof(ops) / sizeof(ops[0]));
	char letter = ops[op].letter;
	bool is_member = letter == 'p' && one_in(o, 4);

	r->len = 0;
	r->fd_count = 0;
	add(r, "{\"op\":\"%s\",\"id\":%u", ops[op].name, (unsigned)below(o, 400));
	for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (!has_key(o, &keys[i], letter) ||
		    (is_member && strcmp(keys[i].name, "path") == 0))
			continue;
		add(r, ",\"%s\":", keys[i].name);
		if (one_in(o, 100))
			add_anything(o, r);
		else
			add_value(o, r, keys[i].kind);
	}
	if (is_member)
		add_member(o, r);
	if ((letter == 'p' || letter == 'g') && one_in(o, 3)) {
		r->fd_count = channel_begin(o, r->fds);
		add(r, ",\"tree\":true");
	}
	if (r->fd_count == 0)
		add_fds(o, r, letter, api);
	add(r, "}");
	if (one_in(o, 40))
		spoil(o, r);
}

void request_heard(struct odds *o, const char *event)
{
	const char *at = strstr(event, "\"buffer\":");

	(void)o;
	if (at && sscanf(at, "\"buffer\":%" SCNu64, &buffers[buffer_count % JOBS_MAX]) == 1)
		buffer_count++;
	at = strstr(event, "\"job\"");
	if (!at || sscanf(at, "\"job\": \"%15[^\"]\"", jobs[job_count % JOBS_MAX]) != 1) {
		if (!at || sscanf(at, "\"job\":\"%15[^\"]\"", jobs[job_count % JOBS_MAX]) != 1)
			return;
	}
	job_count++;
}
