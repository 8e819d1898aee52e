/* SPDX-License-Identifier: MIT */
/*
 * Goal:   whatever somebody else said, nothing that a terminal obeys gets into a line for people, a
 *         log, an error, or
 * JSON. Method: escape sequences, OSC, CR, C1 and direction marks through each of them; what they
 * write is looked at byte by byte.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/json.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/base/plain.h"
#include "mover/base/show.h"
#include "tests/fm_test.h"

/* ESC, OSC with BEL, CR, DEL, C1 CSI as UTF-8 and as a byte, overrides and isolates, a line
 * separator, half a character. */
static const char *const hostile[] = {
	"\033[2J",
	"\033]0;title\007",
	"a\rb",
	"\x7f",
	"\xc2\x9b"
	"31m",
	"\x9b"
	"31m",
	"\xe2\x80\xae"
	"txt.exe",
	"\xe2\x81\xa6x",
	"\xd8\x9c",
	"\xe2\x80\x8f",
	"\xe2\x80\xa8y",
	"\xe2\x80",
	"line\nline",
	"\xf3\xa0\x81\x81",
};
#define HOSTILE (sizeof(hostile) / sizeof(hostile[0]))

/* Written down once more, in another way than in plain.c: what must not be in a text. */
static bool is_harmless(const char *text)
{
	static const char *const bad[] = {
		"\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaa", "\xe2\x80\xab", "\xe2\x80\xac",
		"\xe2\x80\xad", "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x81\xa7", "\xe2\x81\xa8",
		"\xe2\x81\xa9", "\xe2\x80\x8e", "\xe2\x80\x8f", "\xd8\x9c",	"\xf3\xa0"};

	for (const char *p = text; *p; p++)
		if ((uint8_t)*p < 0x20 || *p == 0x7f ||
		    ((uint8_t)*p == 0xc2 && (uint8_t)p[1] < 0xa0))
			return false;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (strstr(text, bad[i]))
			return false;
	return true;
}

static void test_plain(void)
{
	char out[64];

	for (size_t i = 0; i < HOSTILE; i++) {
		fm_plain(hostile[i], strlen(hostile[i]), out, sizeof(out));
		CU_ASSERT_TRUE(is_harmless(out));
		CU_ASSERT_PTR_NOT_NULL(strstr(out, "\\x"));
	}
	CU_ASSERT_STRING_EQUAL(fm_plain("a\033b", 3, out, sizeof(out)), "a\\x1bb");
	CU_ASSERT_STRING_EQUAL(
		fm_plain("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\\\"", 11, out, sizeof(out)),
		"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\\\"");
	/* No half of anything where it is cut. */
	CU_ASSERT_STRING_EQUAL(fm_plain("ab\xe2\x82\xac", 5, out, 5), "ab");
	CU_ASSERT_STRING_EQUAL(fm_plain("ab\033", 3, out, 6), "ab");
	CU_ASSERT_STRING_EQUAL(fm_plain("", 0, out, 1), "");
}

static void test_err(void)
{
	struct fm_err err = {0};

	for (size_t i = 0; i < HOSTILE; i++) {
		fm_err_set(&err, -EIO, "n3 ended the session: %s", hostile[i]);
		CU_ASSERT_TRUE(is_harmless(err.text));
		fm_err_wrap(&err, "%s", hostile[i]);
		CU_ASSERT_TRUE(is_harmless(err.text));
		fm_err_sys(&err, -EIO, "%s", hostile[i]);
		CU_ASSERT_TRUE(is_harmless(err.text));
	}
}

static void test_path(void)
{
	struct fm_path_shown shown;

	for (size_t i = 0; i < HOSTILE; i++)
		CU_ASSERT_TRUE(is_harmless(fm_path_show(hostile[i], &shown)));
	CU_ASSERT_STRING_EQUAL(fm_path_show("a\"b\\c", &shown), "a\\x22b\\x5cc");
}

/* A parser gets back what was said, where that was UTF-8; a terminal shows no more of it than
 * escapes. */
static void test_json(void)
{
	char buf[256];
	const char *text;
	struct fm_json_writer w;
	struct fm_json *json;
	struct fm_err err;

	for (size_t i = 0; i < HOSTILE; i++) {
		fm_jw_begin(&w, buf, sizeof(buf));
		fm_jw_object(&w, NULL);
		fm_jw_text(&w, "text", hostile[i]);
		fm_jw_object_end(&w);
		CU_ASSERT_TRUE_FATAL(fm_jw_end(&w) > 0);
		CU_ASSERT_TRUE(is_harmless(buf));
		CU_ASSERT_EQUAL_FATAL(fm_json_parse(buf, strlen(buf), &json, &err), 0);
		CU_ASSERT_EQUAL(fm_json_text(fm_json_get(json, "text"), &text), 0);
		/* bytes that are no character; tags, which nobody needs */
		if (i != 5 && i != 11 && i != 13)
			CU_ASSERT_STRING_EQUAL(text, hostile[i]);
		fm_json_free(json);
	}
}

static void test_log(void)
{
	char line[512];
	int ends[2], saved = dup(STDERR_FILENO);
	ssize_t n;

	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	for (size_t i = 0; i < HOSTILE; i++) {
		dup2(ends[1], STDERR_FILENO);
		fm_log_info("n3 calls itself %s", hostile[i]);
		dup2(saved, STDERR_FILENO);
		n = read(ends[0], line, sizeof(line) - 1);
		CU_ASSERT_TRUE_FATAL(n > 1);
		line[n - 1] = '\0'; /* the line's end */
		CU_ASSERT_TRUE(is_harmless(line));
	}
	close(ends[0]);
	close(ends[1]);
	close(saved);
}

static const struct fm_test tests[] = {
	{"what is not plain becomes \\xNN", test_plain},
	{"errors", test_err},
	{"paths", test_path},
	{"JSON", test_json},
	{"the log", test_log},
};
FM_TEST_MAIN("plain", tests)
