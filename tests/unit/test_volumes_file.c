/* SPDX-License-Identifier: MIT */
/*
 * volumes_file: what fmove-nvmed keeps for fmoved: read anew when it is another one, refused whole
 * when it is none.
 *
 * links: fm_services
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/services/volumes_file.h"
#include "tests/fm_test.h"

#define ONE                                                                                        \
	"{\"name\":\"data\",\"subsystem\":\"disk1\",\"wwid\":\"uuid.a\",\"writer\":\"n1\","        \
	"\"mounted\":true,\"read_write\":false,"                                                   \
	"\"sealed\":true,\"epoch\":3}"

static struct fm_volume_said *volumes;
static unsigned count;

static int parse(const char *text)
{
	struct fm_err err;

	return fm_volumes_parse(text, strlen(text), &volumes, &count, &err);
}

static void test_good(void)
{
	CU_ASSERT_EQUAL_FATAL(parse("{\"volumes\":[" ONE "]}"), 0);
	CU_ASSERT_EQUAL_FATAL(count, 1);
	CU_ASSERT_STRING_EQUAL(volumes[0].name, "data");
	CU_ASSERT_STRING_EQUAL(volumes[0].subsystem, "disk1");
	CU_ASSERT_STRING_EQUAL(volumes[0].wwid, "uuid.a");
	CU_ASSERT_STRING_EQUAL(volumes[0].writer, "n1");
	CU_ASSERT_TRUE(volumes[0].is_mounted && !volumes[0].is_read_write && volumes[0].is_sealed &&
		       volumes[0].epoch == 3);
	free(volumes);
	CU_ASSERT_EQUAL_FATAL(parse("{\"volumes\":[]}"), 0);
	CU_ASSERT_EQUAL(count, 0);
	free(volumes);
}

/* Goal: what is said of a mount here is read if it is there, and then it must be whole. */
static void test_here(void)
{
	static const char head[] = "{\"volumes\":[{\"name\":\"data\",\"subsystem\":\"disk1\","
				   "\"wwid\":\"\",\"writer\":\"\",\"mounted\":true,"
				   "\"read_write\":false,\"sealed\":false,\"epoch\":3";
	static const char *const bad[] = {
		",\"device\":5",
		",\"device\":-1,\"mounted_epoch\":3,\"written_by\":\"\"",
		",\"device\":5,\"mounted_epoch\":\"3\",\"written_by\":\"\"",
		",\"device\":5,\"mounted_epoch\":3,\"written_by\":\"a/b\"",
		",\"device\":5,\"mounted_epoch\":3,\"written_by\":7",
	};
	char text[512];

	snprintf(text, sizeof(text), "%s}]}", head);
	CU_ASSERT_TRUE_FATAL(parse(text) == 0 && volumes[0].device == 0);
	free(volumes);
	snprintf(text, sizeof(text),
		 "%s,\"device\":5,\"mounted_epoch\":3,\"written_by\":\"n2\"}]}", head);
	CU_ASSERT_EQUAL_FATAL(parse(text), 0);
	CU_ASSERT_TRUE(volumes[0].device == 5 && volumes[0].mounted_epoch == 3);
	CU_ASSERT_STRING_EQUAL(volumes[0].written_by, "n2");
	free(volumes);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "%s%s}]}", head, bad[i]);
		CU_ASSERT_EQUAL(parse(text), -EINVAL);
	}
}

/* ONE with `from` replaced. */
static int parse_with(const char *from, const char *to)
{
	static const char one[] = "{\"volumes\":[" ONE "]}";
	const char *at = strstr(one, from);
	char text[1024];

	CU_ASSERT_PTR_NOT_NULL_FATAL(at);
	snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - one), one, to, at + strlen(from));
	return parse(text);
}

static void test_bad(void)
{
	static const char *const bad[] = {"",
					  "[]",
					  "{}",
					  "{\"volumes\":{}}",
					  "{\"volumes\":[1]}",
					  "{\"volumes\":[{}]}",
					  "{\"volumes\":[" ONE};
	static const char *const changes[][2] = {
		{"\"data\"", "\"\""},
		{"\"data\"", "\"a/b\""},
		{"\"data\"", "7"},
		{"\"disk1\"", "\"\""},
		{"\"n1\"", "\"n/1\""},
		{"true", "1"},
		{"false", "null"},
		{":3", ":-1"},
		{":3", ":3.5"},
		{"\"wwid\"", "\"wwit\""},
		{"\"uuid.a\"", "\"\\u0000\""},
	};
	char name[80], quoted[100];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(parse(bad[i]), -EINVAL);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
		CU_ASSERT_EQUAL(parse_with(changes[i][0], changes[i][1]), -EINVAL);
	/* 64 bytes are a name, 65 are not. */
	for (size_t len = 64; len <= 65; len++) {
		memset(name, 'x', len);
		name[len] = '\0';
		snprintf(quoted, sizeof(quoted), "\"%s\"", name);
		CU_ASSERT_EQUAL(parse_with("\"data\"", quoted), len == 64 ? 0 : -EINVAL);
	}
	free(volumes);
}

static void put(const char *path, const char *text)
{
	char other[200];
	FILE *to;

	snprintf(other, sizeof(other), "%s.new", path);
	to = fopen(other, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(to);
	fputs(text, to);
	fclose(to);
	CU_ASSERT_EQUAL(rename(other, path), 0);
}

static int ask(struct fm_volumes_file *file)
{
	struct fm_err err;
	int ret = file->table.read(file->table.ctx, &volumes, &count, &err);

	if (ret == 0)
		free(volumes);
	return ret;
}

static void test_file(void)
{
	char dir[] = "/tmp/test_volumes_file.XXXXXX", socket[64], path[64];
	struct fm_volumes_file file;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	snprintf(socket, sizeof(socket), "%s/nvmed.sock", dir);
	snprintf(path, sizeof(path), "%s/volumes.json", dir);
	fm_volumes_file_init(&file, socket);
	CU_ASSERT_EQUAL(ask(&file), -ENOENT);
	put(path, "{\"volumes\":[" ONE "]}");
	CU_ASSERT_TRUE(ask(&file) == 0 && count == 1);
	CU_ASSERT_TRUE(ask(&file) == 0 && count == 1);
	put(path, "{\"volumes\":[" ONE "," ONE "]}");
	CU_ASSERT_TRUE(ask(&file) == 0 && count == 2);
	put(path, "{\"volumes\":[");
	CU_ASSERT_EQUAL(ask(&file), -EINVAL);
	CU_ASSERT_EQUAL(ask(&file), -EINVAL);
	CU_ASSERT_EQUAL(unlink(path), 0);
	CU_ASSERT_EQUAL(ask(&file), -ENOENT);
	fm_volumes_file_clear(&file);
	CU_ASSERT_EQUAL(rmdir(dir), 0);
}

int main(void)
{
	static const struct fm_test tests[] = {
		{ "what is said is taken as it is", test_good },
		{ "what is not understood is refused, all of it", test_bad },
		{ "what is said of a mount here", test_here },
		{ "the file: none, one, another, none", test_file },
	};

	return fm_test_main("volumes_file", tests, sizeof(tests) / sizeof(tests[0]));
}
