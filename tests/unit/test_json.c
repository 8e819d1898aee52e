/* SPDX-License-Identifier: MIT */
/*
 * test_json - the JSON of the local API: what is written can be read, names are bytes, hostile text
 * is refused.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/exit_code.h"
#include "mover/base/json.h"
#include "mover/base/err.h"
#include "tests/fm_test.h"

static struct fm_json *parsed(const char *text)
{
	struct fm_json *json = NULL;
	struct fm_err err;

	CU_ASSERT_EQUAL(fm_json_parse(text, strlen(text), &json, &err), 0);
	return json;
}

static void test_writer_makes_what_the_reader_reads(void)
{
	struct fm_json_writer w;
	struct fm_json *json;
	const char *text = NULL;
	uint64_t u = 0;
	int64_t i = 0;
	double d = 0;
	bool b = false;
	char buf[512];

	fm_jw_begin(&w, buf, sizeof(buf));
	fm_jw_object(&w, NULL);
	fm_jw_u64(&w, "u", INT64_MAX);
	fm_jw_u64(&w, "more", (uint64_t)INT64_MAX + 1);
	fm_jw_u64(&w, "most", UINT64_MAX);
	fm_jw_i64(&w, "i", INT64_MIN);
	fm_jw_real(&w, "d", 1.25);
	fm_jw_bool(&w, "b", true);
	fm_jw_null(&w, "n");
	fm_jw_text(&w, "t", "quote \" back \\ line \n tab \t del \x7f");
	fm_jw_array(&w, "a");
	fm_jw_u64(&w, NULL, 1);
	fm_jw_object(&w, NULL);
	fm_jw_object_end(&w);
	fm_jw_array_end(&w);
	fm_jw_object_end(&w);
	CU_ASSERT_EQUAL(fm_jw_end(&w), (int)strlen(buf));

	json = parsed(buf);
	CU_ASSERT_EQUAL(fm_json_u64(fm_json_get(json, "u"), &u), 0);
	CU_ASSERT_EQUAL(u, INT64_MAX);
	CU_ASSERT_EQUAL(fm_json_u64(fm_json_get(json, "more"), &u), 0);
	CU_ASSERT_EQUAL(u, INT64_MAX);
	CU_ASSERT_EQUAL(fm_json_u64(fm_json_get(json, "most"), &u), 0);
	CU_ASSERT_EQUAL(u, INT64_MAX);
	CU_ASSERT_EQUAL(fm_json_i64(fm_json_get(json, "i"), &i), 0);
	CU_ASSERT_EQUAL(i, INT64_MIN);
	CU_ASSERT_EQUAL(fm_json_real(fm_json_get(json, "d"), &d), 0);
	CU_ASSERT_DOUBLE_EQUAL(d, 1.25, 0);
	CU_ASSERT_EQUAL(fm_json_bool(fm_json_get(json, "b"), &b), 0);
	CU_ASSERT_TRUE(b);
	CU_ASSERT_EQUAL(fm_json_type(fm_json_get(json, "n")), FM_JSON_NULL);
	CU_ASSERT_EQUAL(fm_json_text(fm_json_get(json, "t"), &text), 0);
	CU_ASSERT_STRING_EQUAL(text, "quote \" back \\ line \n tab \t del \x7f");
	CU_ASSERT_EQUAL(fm_json_count(fm_json_get(json, "a")), 2);
	CU_ASSERT_EQUAL(fm_json_type(fm_json_at(fm_json_get(json, "a"), 1)), FM_JSON_OBJECT);
	fm_json_free(json);
}

/*
 * Goal: no byte that can be in a file name is lost. Method: names of every byte, of one byte each
 * and of growing length.
 */
static void name_travels(const char *name, size_t len)
{
	struct fm_json_writer w;
	struct fm_json *json;
	size_t out_len = 0;
	char buf[4096], out[300];

	fm_jw_begin(&w, buf, sizeof(buf));
	fm_jw_object(&w, NULL);
	fm_jw_name(&w, "name", name, len);
	fm_jw_object_end(&w);
	CU_ASSERT_TRUE(fm_jw_end(&w) > 0);
	json = parsed(buf);
	CU_ASSERT_EQUAL(fm_json_name(fm_json_get(json, "name"), out, sizeof(out), &out_len), 0);
	CU_ASSERT_EQUAL(out_len, len);
	CU_ASSERT_EQUAL(memcmp(out, name, len), 0);
	fm_json_free(json);
}

static void test_every_name_travels_unchanged(void)
{
	char name[256];

	for (unsigned c = 1; c < 256; c++) {
		name[0] = (char)c;
		name_travels(name, 1);
	}
	for (unsigned i = 0; i < 255; i++)
		name[i] = (char)(i + 1);
	for (unsigned len = 0; len <= 255; len++) {
		name_travels(name, len);			/* the first 127 are ASCII */
		name_travels(name + 255 - len, len);		/* the last are no UTF-8 */
	}
	name_travels("caf\xc3\xa9 \xf0\x9f\x9a\x80\n", 11);
	/* Characters that are not shown as they are: a mark of right-to-left, and a flag that ends
	 * in tags. */
	name_travels("\xe2\x80\x8f \xef\xbf\xbb", 7);
	name_travels("\xf0\x9f\x8f\xb4\xf3\xa0\x81\xa7\xf3\xa0\x81\xbf", 12);
}

static void test_text_that_is_no_utf8_is_mended(void)
{
	struct fm_json_writer w;
	char buf[64];

	fm_jw_begin(&w, buf, sizeof(buf));
	fm_jw_text(&w, NULL, "a\xff\xc3\xa9\xc3");
	CU_ASSERT_TRUE(fm_jw_end(&w) > 0);
	CU_ASSERT_STRING_EQUAL(buf, "\"a?\xc3\xa9?\"");
}

static void test_utf8_is_what_rfc_3629_says(void)
{
	static const char *const bad[] = { "\x80",
					   "\xc0\x80",
					   "\xc1\xbf",
					   "\xe0\x80\x80",
					   "\xed\xa0\x80",
					   "\xf0\x80\x80\x80",
					   "\xf4\x90\x80\x80",
					   "\xf8\x88\x80\x80\x80",
					   "\xc3",
					   "\xe2\x82",
					   "a\xff" };
	static const char *const good[] = {
		"", "a", "\xc2\x80", "\xe2\x82\xac", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_FALSE(fm_is_utf8(bad[i], strlen(bad[i])));
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CU_ASSERT_TRUE(fm_is_utf8(good[i], strlen(good[i])));
}

/* Goal: a text is whole or refused. Method: every size of buffer from nothing to enough. */
static void test_writer_never_runs_over(void)
{
	char buf[128], whole[128];
	struct fm_json_writer w;
	int len = -1;

	for (size_t cap = 1; len < 0 && cap < sizeof(buf); cap++) {
		memset(buf, '#', sizeof(buf));
		fm_jw_begin(&w, buf, cap);
		fm_jw_object(&w, NULL);
		fm_jw_name(&w, "name", "\xff\xfe", 2);
		fm_jw_text(&w, "text", "a\nb");
		fm_jw_object_end(&w);
		len = fm_jw_end(&w);
		CU_ASSERT_TRUE(len == -EMSGSIZE || len == (int)cap - 1);
		CU_ASSERT_EQUAL(buf[cap], '#');
		memcpy(whole, buf, sizeof(whole));
	}
	CU_ASSERT_STRING_EQUAL(whole, "{\"name\":{\"bytes\":\"//4=\"},\"text\":\"a\\nb\"}");
}

/*
 * Goal: an item that is begun when the buffer is full up to what is kept is refused, and what is
 * kept is there for the end. Method: every size of buffer; items until none fits, each with 16
 * bytes kept behind it.
 */
static void items_until_full(struct fm_json_writer *w)
{
	struct fm_json_writer mark;

	do {
		mark = *w;
		fm_jw_keep(w, 16);
		fm_jw_name(w, NULL, "\xff\xfe", 2);
		fm_jw_keep(w, 0);
	} while (!w->failed);
	*w = mark;
}

static void test_what_is_kept_is_there_at_the_end(void)
{
	char buf[128];
	struct fm_json_writer w;

	for (size_t cap = 1; cap < sizeof(buf); cap++) {
		memset(buf, '#', sizeof(buf));
		fm_jw_begin(&w, buf, cap);
		fm_jw_object(&w, NULL);
		fm_jw_array(&w, "a");
		items_until_full(&w);
		fm_jw_array_end(&w);
		/* as long as what was kept, or longer than what is left */
		fm_jw_array(&w, "b");
		items_until_full(&w);
		fm_jw_array_end(&w);
		fm_jw_object_end(&w);
		if (fm_jw_end(&w) >= 0)
			fm_json_free(parsed(buf));
		else
			CU_ASSERT_TRUE(cap < sizeof("{\"a\":[],\"b\":[]}"));
		CU_ASSERT_EQUAL(buf[cap], '#');
	}
}

/* What a stream gets is what a buffer would. Names of any length go through the same pieces. */
static void test_a_stream_gets_what_a_buffer_does(void)
{
	char text[2000], buf[2000], name[200], out[200];
	size_t size = 0, len;

	for (size_t n = 1; n < sizeof(name); n++) {
		FILE *to = fmemopen(text, sizeof(text), "w");
		struct fm_json_writer w[2];
		struct fm_json *json;

		CU_ASSERT_PTR_NOT_NULL_FATAL(to);
		memset(name, 0x80 + (int)(n % 60), n);
		fm_jw_stream(&w[0], to);
		fm_jw_begin(&w[1], buf, sizeof(buf));
		for (unsigned i = 0; i < 2; i++) {
			fm_jw_object(&w[i], NULL);
			fm_jw_members(&w[i], "{\"a\":1,\"b\":2}");
			fm_jw_array(&w[i], "rows");
			fm_jw_line(&w[i]);
			fm_jw_name(&w[i], NULL, name, n);
			fm_jw_line(&w[i]);
			fm_jw_u64(&w[i], NULL, n);
			fm_jw_u64(&w[i], NULL, n);
			fm_jw_array_end(&w[i]);
			fm_jw_real(&w[i], "real", 0.5);
			fm_jw_object_end(&w[i]);
		}
		size = (size_t)fm_jw_end(&w[1]);
		CU_ASSERT_EQUAL(fclose(to), 0);
		CU_ASSERT_STRING_EQUAL_FATAL(text, buf);
		json = parsed(text);
		CU_ASSERT_EQUAL(fm_json_name(fm_json_at(fm_json_get(json, "rows"), 0), out,
					     sizeof(out), &len),
				0);
		CU_ASSERT_TRUE(len == n && memcmp(out, name, n) == 0);
		fm_json_free(json);
	}
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"},\n199,199],\"real\":0.500000000}"));
	CU_ASSERT_EQUAL(strlen(text), size);
}

static void test_only_one_object_is_a_message(void)
{
	static const char *const bad[] = { "",
					   "{",
					   "[]",
					   "1",
					   "\"a\"",
					   "{}{}",
					   "{} x",
					   "{\"a\":1,\"a\":2}",
					   "{\"a\":01}",
					   "{'a':1}",
					   "{\"a\":1e999}",
					   "{\"a\":99999999999999999999}",
					   "{\"\\u0000\":1}",
					   "\xff",
					   "nul" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fm_json *json = NULL;
		struct fm_err err = { 0 };

		CU_ASSERT_EQUAL(fm_json_parse(bad[i], strlen(bad[i]), &json, &err), -EINVAL);
		CU_ASSERT_PTR_NULL(json);
		CU_ASSERT_TRUE(strlen(err.text) > 0);
	}
}

static void test_deep_nesting_is_refused(void)
{
	static char text[65536];
	struct fm_json *json;
	struct fm_err err;

	memset(text, '[', sizeof(text));
	memcpy(text, "{\"a\":", 5);
	CU_ASSERT_EQUAL(fm_json_parse(text, sizeof(text), &json, &err), -EINVAL);
}

static void test_values_of_the_wrong_type_are_refused(void)
{
	struct fm_json *json = parsed("{\"s\":\"x\",\"n\":-1,\"r\":1.5,\"z\":\"a\\u0000b\",\"o\":{"
				      "\"bytes\":\"//4=\",\"x\":1}}");
	const char *text;
	size_t len;
	uint64_t u;
	double d;
	bool b;
	char out[8];

	CU_ASSERT_EQUAL(fm_json_u64(fm_json_get(json, "s"), &u), -EINVAL);
	CU_ASSERT_EQUAL(fm_json_u64(fm_json_get(json, "n"), &u), -EINVAL);
	CU_ASSERT_EQUAL(fm_json_u64(fm_json_get(json, "r"), &u), -EINVAL);
	CU_ASSERT_EQUAL(fm_json_u64(fm_json_get(json, "nothing"), &u), -EINVAL);
	CU_ASSERT_EQUAL(fm_json_bool(fm_json_get(json, "s"), &b), -EINVAL);
	CU_ASSERT_EQUAL(fm_json_real(fm_json_get(json, "s"), &d), -EINVAL);
	CU_ASSERT_EQUAL(fm_json_text(fm_json_get(json, "n"), &text), -EINVAL);
	CU_ASSERT_EQUAL(fm_json_text(fm_json_get(json, "z"), &text), -EILSEQ);
	CU_ASSERT_EQUAL(fm_json_name(fm_json_get(json, "z"), out, sizeof(out), &len), -EILSEQ);
	CU_ASSERT_EQUAL(fm_json_name(fm_json_get(json, "o"), out, sizeof(out), &len), -EINVAL);
	CU_ASSERT_EQUAL(fm_json_name(fm_json_get(json, "n"), out, sizeof(out), &len), -EINVAL);
	CU_ASSERT_EQUAL(fm_json_count(fm_json_get(json, "s")), 0);
	fm_json_free(json);
}

/* Whether it is read, or is refused for that reason. */
static bool reads(const char *text, const char *why)
{
	const char *t = "";
	int64_t n = 7;
	bool is = false;
	const struct fm_json_key keys[] = {
		{ .key = "known" },
		{ "t", FM_JSON_TEXT, false, .text = &t },
		{ "n", FM_JSON_INTEGER, true, .integer = &n },
		{ "is", FM_JSON_BOOL, true, .flag = &is },
	};
	struct fm_json *json = parsed(text);
	struct fm_err err = { 0 };
	int ret = fm_json_read_keys(json, keys, sizeof(keys) / sizeof(keys[0]), &err);
	bool is_right = ret == (why[0] ? -EINVAL : 0) && strcmp(err.text, why) == 0;

	if (ret == 0)
		is_right = is_right && strcmp(t, "x") == 0 && n == (is ? INT64_MAX : 7);
	if (!is_right)
		printf("\n%d, %s, of %s\n", ret, err.text, text);
	fm_json_free(json);
	return is_right;
}

static void test_objects_are_read_strictly(void)
{
	CU_ASSERT_TRUE(reads("{\"known\":[],\"t\":\"x\"}", ""));
	CU_ASSERT_TRUE(reads("{\"is\":true,\"n\":9223372036854775807,\"t\":\"x\",\"known\":0}",
			     ""));
	CU_ASSERT_TRUE(reads("{\"t\":\"x\"}", "Object item not found: known"));
	CU_ASSERT_TRUE(reads("{\"known\":1}", "Object item not found: t"));
	CU_ASSERT_TRUE(reads("{\"known\":1,\"t\":null}", "Expected string, got null"));
	CU_ASSERT_TRUE(reads("{\"known\":1,\"t\":\"a\\u0000\"}", "t has a NUL byte in it"));
	CU_ASSERT_TRUE(reads("{\"known\":1,\"t\":\"x\",\"n\":false}",
			     "Expected integer, got false"));
	CU_ASSERT_TRUE(reads("{\"known\":1,\"t\":\"x\",\"is\":{}}",
			     "Expected true or false, got object"));
	CU_ASSERT_TRUE(reads("{\"a\":1,\"known\":1,\"t\":\"x\",\"b\":1}",
			     "2 object item(s) left unpacked: a, b"));
}

/* The names of those that nobody knows are cut, however many there are. */
static void test_many_unknown_keys(void)
{
	static const char begins[] = "200 object item(s) left unpacked: unknown0, unknown1, ";
	char many[4096] = "{", *end = many + 1;
	struct fm_json *json;
	struct fm_err err = { 0 };

	for (unsigned i = 0; i < 200; i++)
		end += sprintf(end, "%s\"unknown%u\":1", i ? "," : "", i);
	strcpy(end, "}");
	json = parsed(many);
	CU_ASSERT_EQUAL(fm_json_read_keys(json, NULL, 0, &err), -EINVAL);
	CU_ASSERT_EQUAL(strncmp(err.text, begins, strlen(begins)), 0);
	fm_json_free(json);
}

static void test_base64_has_one_spelling(void)
{
	static const struct {
		const char *text;
		int ret;
	} cases[] = {
		{ "{\"n\":{\"bytes\":\"/w==\"}}", 0 },
		{ "{\"n\":{\"bytes\":\"/w=\"}}", -EINVAL },
		{ "{\"n\":{\"bytes\":\"/w\"}}", -EINVAL },
		{ "{\"n\":{\"bytes\":\"/x==\"}}", -EINVAL },
		{ "{\"n\":{\"bytes\":\"/w==/w==\"}}", -EINVAL },
		{ "{\"n\":{\"bytes\":\"====\"}}", -EINVAL },
		{ "{\"n\":{\"bytes\":\"AP8=\"}}", -EILSEQ },
		{ "{\"n\":{\"bytes\":1}}", -EINVAL },
		{ "{\"n\":{\"bytes\":\"/////////////w==\"}}", -ENAMETOOLONG },
	};
	char out[8];
	size_t len;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fm_json *json = parsed(cases[i].text);

		CU_ASSERT_EQUAL(fm_json_name(fm_json_get(json, "n"), out, sizeof(out), &len),
				cases[i].ret);
		fm_json_free(json);
	}
}

static void is_written(const struct fm_json *json, enum fm_json_style style, const char *wanted)
{
	char *text = fm_json_dump(json, style);

	CU_ASSERT_STRING_EQUAL_FATAL(text ? text : "(none)", wanted);
	free(text);
}

static void test_a_document_is_built_and_changed(void)
{
	struct fm_json *json =
		fm_json_pack("{s:s, s:[i], s:s*}", "b", "\303\244", "a", 1, "c", NULL);
	struct fm_json *copy = fm_json_copy(json);

	is_written(json, FM_JSON_ONE_LINE, "{\"b\":\"\303\244\",\"a\":[1]}");
	is_written(json, FM_JSON_ASCII, "{\"b\":\"\\u00E4\",\"a\":[1]}");
	is_written(json, FM_JSON_FILE, "{\n \"b\": \"\303\244\",\n \"a\": [\n  1\n ]\n}");
	is_written(json, FM_JSON_SORTED_FILE, "{\n \"a\": [\n  1\n ],\n \"b\": \"\303\244\"\n}");

	CU_ASSERT_EQUAL(fm_json_set(json, "b", fm_json_of_bool(true)), 0);
	CU_ASSERT_EQUAL(fm_json_add(fm_json_part(json, "a"), fm_json_of_i64(2)), 0);
	CU_ASSERT_EQUAL(fm_json_add_all(fm_json_part(json, "a"), fm_json_get(copy, "a")), 0);
	CU_ASSERT_EQUAL(fm_json_remove(fm_json_part(json, "a"), 0), 0);
	is_written(json, FM_JSON_ONE_LINE, "{\"b\":true,\"a\":[2,1]}");
	is_written(copy, FM_JSON_ONE_LINE, "{\"b\":\"\303\244\",\"a\":[1]}");
	CU_ASSERT_FALSE(fm_json_is_equal(json, copy));

	CU_ASSERT_EQUAL(fm_json_set_all(json, fm_json_share(copy)), 0);
	CU_ASSERT_TRUE(fm_json_is_equal(json, copy));
	CU_ASSERT_EQUAL(fm_json_delete(json, "b"), 0);
	CU_ASSERT_TRUE(fm_json_delete(json, "b") < 0);
	CU_ASSERT_EQUAL(fm_json_member_count(json), 1);
	fm_json_clear(fm_json_part(json, "a"));
	is_written(json, FM_JSON_ONE_LINE, "{\"a\":[]}");
	fm_json_clear(json);
	is_written(json, FM_JSON_ONE_LINE, "{}");
	fm_json_free(json);
	fm_json_free(copy);
}

/* What no memory left is passed on, and asked for once at the end; no share is lost (ASan). */
static void test_what_could_not_be_built_is_passed_on(void)
{
	struct fm_json *array = fm_json_array(), *value = fm_json_of_i64(1);
	void *at = NULL;
	const char *key;

	CU_ASSERT_PTR_NULL(fm_json_of_text("\377"));
	CU_ASSERT_PTR_NULL(fm_json_pack("{s:o}", "k", NULL));
	CU_ASSERT_TRUE(fm_json_add(array, NULL) < 0);
	CU_ASSERT_TRUE(fm_json_add(NULL, fm_json_share(value)) < 0);
	CU_ASSERT_TRUE(fm_json_set(NULL, "k", fm_json_share(value)) < 0);
	CU_ASSERT_TRUE(fm_json_set(array, "k", fm_json_share(value)) < 0);
	CU_ASSERT_PTR_NULL(fm_json_share(NULL));
	CU_ASSERT_PTR_NULL(fm_json_copy(NULL));
	CU_ASSERT_PTR_NULL(fm_json_dump(NULL, FM_JSON_ONE_LINE));
	CU_ASSERT_FALSE(fm_json_is(NULL, FM_JSON_OBJECT));
	CU_ASSERT_FALSE(fm_json_is_true(NULL));
	CU_ASSERT_PTR_NULL(fm_json_as_text(NULL));
	CU_ASSERT_EQUAL(fm_json_as_i64(NULL), 0);
	CU_ASSERT_FALSE(fm_json_next(NULL, &at, &key, &value));
	fm_json_free(value);
	fm_json_free(array);
}

static void test_a_document_is_unpacked(void)
{
	struct fm_json *json = fm_json_load("{\"s\":\"text\",\"i\":4,\"more\":{\"x\":1,\"y\":2}}");
	const struct fm_json *more = NULL;
	const char *text = "", *other = "as it was", *key;
	struct fm_json *value;
	struct fm_err err = {0};
	int64_t sum = 0;
	int i = 0;

	CU_ASSERT_EQUAL(fm_json_unpack(json, "{s:s, s:i, s?s}", "s", &text, "i", &i, "o", &other),
			0);
	CU_ASSERT_STRING_EQUAL(text, "text");
	CU_ASSERT_STRING_EQUAL(other, "as it was");
	CU_ASSERT_EQUAL(i, 4);
	CU_ASSERT_EQUAL(fm_json_unpack(json, "{s:i}", "s", &i), -EINVAL);
	CU_ASSERT_EQUAL(fm_json_unpack_strict(json, &err, "{s:s, s:i}", "s", &text, "i", &i),
			-EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "more"));
	CU_ASSERT_EQUAL(fm_json_unpack_strict(json, &err, "{s:s, s:i, s:o}", "s", &text, "i", &i,
					      "more", &more),
			0);
	for (void *at = NULL; fm_json_next(more, &at, &key, &value);)
		sum = sum * 10 + fm_json_as_i64(value) * (key[0] == 'x' ? 1 : 100);
	CU_ASSERT_TRUE(sum == 210 || sum == 2001);
	CU_ASSERT_EQUAL(fm_json_unpack(NULL, "{s:s}", "s", &text), -EINVAL);
	fm_json_free(json);

	CU_ASSERT_PTR_NULL(fm_json_load(NULL));
	CU_ASSERT_PTR_NULL(fm_json_load("{\"a\":1,\"a\":2}"));
	CU_ASSERT_PTR_NULL(fm_json_load("{\"a\":\"\\u0000\"}"));
	CU_ASSERT_PTR_NULL(fm_json_load("{} {}"));
}

static void test_errnos_have_names_and_exits(void)
{
	CU_ASSERT_STRING_EQUAL(fm_api_errno_name(-ENOENT), "ENOENT");
	CU_ASSERT_EQUAL(fm_api_errno("ENOENT"), -ENOENT);
	CU_ASSERT_EQUAL(fm_api_errno("EKEYREJECTED"), -EKEYREJECTED);
	CU_ASSERT_EQUAL(fm_api_errno("nonsense"), -EIO);
	CU_ASSERT_EQUAL(fm_api_exit(0), FM_EXIT_DONE);
	CU_ASSERT_EQUAL(fm_api_exit(-ENOENT), FM_EXIT_FAILED);
	CU_ASSERT_EQUAL(fm_api_exit(ETIMEDOUT), FM_EXIT_UNREACHABLE);
	CU_ASSERT_EQUAL(fm_api_exit(-EBADMSG), FM_EXIT_CORRUPT);
	CU_ASSERT_EQUAL(fm_api_exit(-EEXIST), FM_EXIT_REFUSED);
	CU_ASSERT_EQUAL(fm_api_exit(-ECANCELED), FM_EXIT_CANCELLED);
	CU_ASSERT_EQUAL(fm_api_exit(INT32_MIN), FM_EXIT_FAILED);
}

static const struct fm_test tests[] = {
	{"what the writer makes the reader reads", test_writer_makes_what_the_reader_reads},
	{"every name travels unchanged", test_every_name_travels_unchanged},
	{"text that is no UTF-8 is mended", test_text_that_is_no_utf8_is_mended},
	{"UTF-8 is what RFC 3629 says", test_utf8_is_what_rfc_3629_says},
	{"the writer never runs over its buffer", test_writer_never_runs_over},
	{"what is kept is there at the end", test_what_is_kept_is_there_at_the_end},
	{"a stream gets what a buffer does", test_a_stream_gets_what_a_buffer_does},
	{"only one object is a message", test_only_one_object_is_a_message},
	{"deep nesting is refused", test_deep_nesting_is_refused},
	{"values of the wrong type are refused", test_values_of_the_wrong_type_are_refused},
	{"objects are read strictly", test_objects_are_read_strictly},
	{"unknown keys are named as far as there is room", test_many_unknown_keys},
	{"base64 has one spelling", test_base64_has_one_spelling},
	{"a document is built and changed", test_a_document_is_built_and_changed},
	{"what could not be built is passed on", test_what_could_not_be_built_is_passed_on},
	{"a document is unpacked", test_a_document_is_unpacked},
	{"errnos have names and exit statuses", test_errnos_have_names_and_exits},
};
FM_TEST_MAIN("json", tests)
