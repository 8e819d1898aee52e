/* SPDX-License-Identifier: MIT */
/*
 * wire_session - the messages that keep a session: HELLO, ADDRS, TOKENS_WANT, TOKENS, PING, PONG,
 * BYE, RECEIVED, RESUME.
 */
#include <errno.h>
#include <string.h>

#include "mover/wire/codec.h"

static void put_hello(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le32(w, FM_WIRE_MAGIC);
	fm_put_le16(w, m->hello.version_min);
	fm_put_le16(w, m->hello.version_max);
	fm_put_bytes(w, m->hello.boot_id, sizeof(m->hello.boot_id));
	fm_wire_put_str(w, &m->hello.name);
	if (m->hello.session || m->hello.tcp_conns || m->hello.rdma_conns) {
		fm_put_le64(w, m->hello.session);
		fm_put_le16(w, m->hello.tcp_conns);
		fm_put_le16(w, m->hello.rdma_conns);
	}
}

static int get_hello(struct fm_reader *r, struct fm_wire_msg *m)
{
	uint32_t magic = fm_get_le32(r);

	m->hello.version_min = fm_get_le16(r);
	m->hello.version_max = fm_get_le16(r);
	fm_get_bytes(r, m->hello.boot_id, sizeof(m->hello.boot_id));
	fm_wire_get_str(r, &m->hello.name);
	m->hello.session = m->hello.tcp_conns = m->hello.rdma_conns = 0;
	if (fm_reader_left(r) > 0) {		/* older nodes end with the name */
		m->hello.session = fm_get_le64(r);
		m->hello.tcp_conns = fm_get_le16(r);
		m->hello.rdma_conns = fm_get_le16(r);
	}
	return magic == FM_WIRE_MAGIC ? 0 : -EPROTO;
}

/* Whether we speak one of the versions is for the session to say: to the peer, in a BYE. */
static int check_hello(const struct fm_wire_msg *m)
{
	const struct fm_wire_hello *h = &m->hello;

	if (h->version_min == 0 || h->version_max < h->version_min)
		return -ERANGE;
	return fm_wire_is_name(&h->name, 1, FM_WIRE_NAME_MAX) ? 0 : -ERANGE;
}

const struct fm_wire_codec fm_wire_codec_hello = {
	.name = "HELLO",
	.is_extensible = true,
	.put = put_hello,
	.get = get_hello,
	.check = check_hello,
};

static void put_addr(struct fm_writer *w, const struct fm_wire_addr *a)
{
	struct fm_wire_str name = fm_wire_str(a->name);

	fm_put_u8(w, a->family);
	fm_put_u8(w, a->prefix_len);
	fm_put_u8(w, a->is_rdma);
	fm_put_u8(w, a->private_bits);
	fm_put_le32(w, a->speed_mbps);
	fm_put_bytes(w, a->address, sizeof(a->address));
	fm_wire_put_str(w, &name);
}

static int get_addr(struct fm_reader *r, struct fm_wire_addr *a)
{
	struct fm_wire_str name;

	a->family = fm_get_u8(r);
	a->prefix_len = fm_get_u8(r);
	a->is_rdma = fm_get_u8(r);
	a->private_bits = fm_get_u8(r);
	a->speed_mbps = fm_get_le32(r);
	fm_get_bytes(r, a->address, sizeof(a->address));
	fm_wire_get_str(r, &name);
	memset(a->name, 0, sizeof(a->name));
	if (!fm_wire_is_text(&name, sizeof(a->name) - 1))
		return -ERANGE;
	if (name.len > 0)
		memcpy(a->name, name.at, name.len);
	return 0;
}

static int check_addr(const struct fm_wire_addr *a)
{
	uint8_t bits_max = a->family == 4 ? 32 : 128;

	if (!fm_wire_is_address(a->family, a->address) || a->prefix_len > bits_max ||
	    a->private_bits > bits_max || a->is_rdma > 1)
		return -ERANGE;
	return memchr(a->name, '\0', sizeof(a->name)) ? 0 : -ERANGE;
}

static void put_addrs(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le16(w, m->addrs.tcp_port);
	fm_put_le16(w, m->addrs.rdma_port);
	fm_put_le16(w, m->addrs.count);
	for (unsigned i = 0; i < m->addrs.count; i++)
		put_addr(w, &m->addrs.addr[i]);
}

static int get_addrs(struct fm_reader *r, struct fm_wire_msg *m)
{
	int ret = 0;

	m->addrs.tcp_port = fm_get_le16(r);
	m->addrs.rdma_port = fm_get_le16(r);
	m->addrs.count = fm_get_le16(r);
	if (m->addrs.count > FM_WIRE_ADDRS_MAX)
		return -ERANGE;
	for (unsigned i = 0; i < m->addrs.count && ret == 0; i++)
		ret = get_addr(r, &m->addrs.addr[i]);
	return ret;
}

static int check_addrs(const struct fm_wire_msg *m)
{
	int ret = 0;

	if (m->addrs.count > FM_WIRE_ADDRS_MAX)
		return -ERANGE;
	for (unsigned i = 0; i < m->addrs.count && ret == 0; i++)
		ret = check_addr(&m->addrs.addr[i]);
	return ret;
}

const struct fm_wire_codec fm_wire_codec_addrs = {
	.name = "ADDRS",
	.put = put_addrs,
	.get = get_addrs,
	.check = check_addrs,
};

static void put_tokens_want(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le16(w, m->tokens.count);
}

static int get_tokens_want(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->tokens.count = fm_get_le16(r);
	return 0;
}

static int check_tokens(const struct fm_wire_msg *m)
{
	return m->tokens.count >= 1 && m->tokens.count <= FM_WIRE_TOKENS_MAX ? 0 : -ERANGE;
}

const struct fm_wire_codec fm_wire_codec_tokens_want = {
	.name = "TOKENS_WANT",
	.put = put_tokens_want,
	.get = get_tokens_want,
	.check = check_tokens,
};

static void put_tokens(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le16(w, m->tokens.count);
	for (unsigned i = 0; i < m->tokens.count; i++)
		fm_put_bytes(w, m->tokens.token[i], FM_WIRE_TOKEN_LEN);
}

static int get_tokens(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->tokens.count = fm_get_le16(r);
	if (m->tokens.count > FM_WIRE_TOKENS_MAX)
		return -ERANGE;
	for (unsigned i = 0; i < m->tokens.count; i++)
		fm_get_bytes(r, m->tokens.token[i], FM_WIRE_TOKEN_LEN);
	return 0;
}

const struct fm_wire_codec fm_wire_codec_tokens = {
	.name = "TOKENS",
	.put = put_tokens,
	.get = get_tokens,
	.check = check_tokens,
};

static void put_ping(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->ping.nonce);
}

static int get_ping(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->ping.nonce = fm_get_le64(r);
	return 0;
}

const struct fm_wire_codec fm_wire_codec_ping = {
	.name = "PING",
	.put = put_ping,
	.get = get_ping,
};

const struct fm_wire_codec fm_wire_codec_pong = {
	.name = "PONG",
	.put = put_ping,
	.get = get_ping,
};

static void put_bye(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_wire_put_str(w, &m->bye.text);
}

static int get_bye(struct fm_reader *r, struct fm_wire_msg *m)
{
	fm_wire_get_str(r, &m->bye.text);
	return 0;
}

static int check_bye(const struct fm_wire_msg *m)
{
	return fm_wire_is_text(&m->bye.text, FM_WIRE_TEXT_MAX) ? 0 : -ERANGE;
}

const struct fm_wire_codec fm_wire_codec_bye = {
	.name = "BYE",
	.put = put_bye,
	.get = get_bye,
	.check = check_bye,
};

static void put_received(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->resume.count);
}

static int get_received(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->resume.count = fm_get_le64(r);
	return 0;
}

const struct fm_wire_codec fm_wire_codec_received = {
	.name = "RECEIVED",
	.put = put_received,
	.get = get_received,
};

static void put_resume(struct fm_writer *w, const struct fm_wire_msg *m)
{
	fm_put_le64(w, m->resume.session);
	fm_put_le64(w, m->resume.count);
	fm_put_le64(w, m->resume.order);
}

static int get_resume(struct fm_reader *r, struct fm_wire_msg *m)
{
	m->resume.session = fm_get_le64(r);
	m->resume.count = fm_get_le64(r);
	m->resume.order = fm_get_le64(r);
	return 0;
}

static int check_resume(const struct fm_wire_msg *m)
{
	return m->resume.session != 0 && m->resume.order != 0 ? 0 : -ERANGE;
}

const struct fm_wire_codec fm_wire_codec_resume = {
	.name = "RESUME",
	.put = put_resume,
	.get = get_resume,
	.check = check_resume,
};
