/*
 * The floor of batching: one thread, one socket for requests, one for every
 * transfer, recvmmsg and sendmmsg of up to --batch packets (64, or 1 to see
 * what batching is worth). With --single-port it is one socket altogether and
 * a single call waits and reads: the least that any server can do.
 *
 * A yardstick, not a server: see tftp.h.
 */
#define _GNU_SOURCE
#include "tftp.h"

#include <errno.h>
#include <linux/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
	BATCH = 64,
	SLOTS = 1 << 16,        /* of the table of transfers; a power of two */
	MAX_PROBES = 64,        /* slots looked at; a forgotten transfer yields when all are taken */
	MAX_COPY = 128,         /* bytes of an answer that is not an image's: ACK, OACK, ERROR */
	MAX_TURNS = 16,         /* full batches read before requests get their turn */
};

struct slot {
	struct transfer t;
	bool used;
};

static struct slot *slots;

/* What waits to be sent. */
static struct outbox {
	int socket, most, n;
	struct mmsghdr msgs[BATCH];
	struct iovec iov[BATCH];
	struct sockaddr_in to[BATCH];
	unsigned char copies[BATCH][MAX_COPY];
	union {
		char bytes[CMSG_SPACE(sizeof(uint16_t))];
		struct cmsghdr align;
	} control[BATCH];
} out;

/* Where packets are received. */
static struct inbox {
	struct mmsghdr msgs[BATCH];
	struct iovec iov[BATCH];
	struct sockaddr_in from[BATCH];
	unsigned char *bytes;
} in;

static void flush(void)
{
	for (int done = 0; done < out.n;) {
		int n = sendmmsg(out.socket, out.msgs + done, (unsigned)(out.n - done), 0);
		if (n < 0 && errno == EINTR)
			continue;
		/* A client that cannot be reached must not hold up the others. */
		done += n > 0 ? n : 1;
	}
	out.n = 0;
}

static void emit(void *ctx, struct transfer *t, const unsigned char *p, size_t len, size_t segment, bool copy)
{
	(void)ctx;
	int i = out.n++;
	struct msghdr *h = &out.msgs[i].msg_hdr;
	out.to[i] = t->peer;
	out.iov[i] = (struct iovec){(void *)p, len};
	if (copy)
		out.iov[i].iov_base = memcpy(out.copies[i], p, len);
	*h = (struct msghdr){.msg_name = &out.to[i], .msg_namelen = sizeof out.to[i], .msg_iov = &out.iov[i], .msg_iovlen = 1};
	if (segment) {
		h->msg_control = &out.control[i];
		h->msg_controllen = sizeof out.control[i].bytes;
		struct cmsghdr *c = CMSG_FIRSTHDR(h);
		c->cmsg_level = IPPROTO_UDP;
		c->cmsg_type = UDP_SEGMENT;
		c->cmsg_len = CMSG_LEN(sizeof(uint16_t));
		uint16_t size = (uint16_t)segment;
		memcpy(CMSG_DATA(c), &size, sizeof size);
	}
	if (out.n == out.most)
		flush();
}

static uint32_t home(const struct sockaddr_in *a)
{
	uint32_t h = (a->sin_addr.s_addr ^ (uint32_t)a->sin_port << 16 ^ a->sin_port) * 2654435761u;
	return (h ^ h >> 15) & (SLOTS - 1);
}

static bool same(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
	return a->sin_port == b->sin_port && a->sin_addr.s_addr == b->sin_addr.s_addr;
}

/* Returns the slot of a client; if it has none, NULL or a fresh one. Slots are
 * never given back, so a search may stop at the first that was never used: a
 * machine has as many ports as there are slots. */
static struct slot *find(const struct sockaddr_in *peer, bool make)
{
	uint32_t first = home(peer);
	struct slot *idle = NULL;
	for (uint32_t i = 0; i < MAX_PROBES; i++) {
		struct slot *s = &slots[(first + i) & (SLOTS - 1)];
		if (s->used && same(&s->t.peer, peer))
			return s;
		if (!idle && s->t.block == 0)
			idle = s;
		if (!s->used)
			break;
	}
	if (!make)
		return NULL;
	if (!idle)
		idle = &slots[first];
	transfer_end(&idle->t);
	idle->t.peer = *peer;
	idle->used = true;
	return idle;
}

static void take(struct floor *f, const struct sockaddr_in *from, const unsigned char *p, size_t n)
{
	bool request = is_request(p, n);
	struct slot *s = find(from, request);
	if (!s)
		return;
	if (request)
		transfer_begin(f, &s->t, p, n);
	else if (s->t.block)
		transfer_packet(f, &s->t, p, n);
}

/* Reads and answers a batch. Returns how many packets it had. */
static int turn(struct floor *f, int socket, int flags)
{
	for (int i = 0; i < out.most; i++)
		in.msgs[i].msg_hdr.msg_namelen = sizeof in.from[i];
	int n = recvmmsg(socket, in.msgs, (unsigned)out.most, flags, NULL);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		fail("receive from", "a socket");
	f->now = floor_now();
	for (int i = 0; i < n; i++)
		take(f, &in.from[i], in.iov[i].iov_base, in.msgs[i].msg_len);
	flush();
	return n;
}

static void serve_single(struct floor *f, int requests)
{
	out.socket = requests;
	for (;;)
		turn(f, requests, MSG_WAITFORONE);
}

static void serve(struct floor *f, int requests, int transfers)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ready[2], a = {EPOLLIN, {.fd = requests}}, b = {EPOLLIN, {.fd = transfers}};
	if (ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, requests, &a) || epoll_ctl(ep, EPOLL_CTL_ADD, transfers, &b))
		fail("watch", "the sockets");
	out.socket = transfers;
	for (;;) {
		int n = epoll_wait(ep, ready, 2, -1);
		for (int i = 0; i < n; i++)
			/* A batch that came full is likely to be followed by more. */
			for (int k = 0; k < MAX_TURNS && turn(f, ready[i].data.fd, MSG_DONTWAIT) == out.most; k++)
				;
	}
}

int main(int argc, char **argv)
{
	struct floor f = {.emit = emit};
	struct sockaddr_in addr;
	bool single = false;
	out.most = BATCH;
	floor_options(&f, argc, argv, &addr, &out.most, &single);
	slots = calloc(SLOTS, sizeof *slots);
	in.bytes = malloc((size_t)BATCH * MAX_PACKET);
	if (!slots || !in.bytes)
		fail("allocate", "memory");
	for (int i = 0; i < BATCH; i++) {
		in.iov[i] = (struct iovec){in.bytes + (size_t)i * MAX_PACKET, MAX_PACKET};
		in.msgs[i].msg_hdr = (struct msghdr){.msg_name = &in.from[i], .msg_iov = &in.iov[i], .msg_iovlen = 1};
	}
	int requests = floor_socket(&addr);
	if (single)
		serve_single(&f, requests);
	addr.sin_port = 0;
	serve(&f, requests, floor_socket(&addr));
}
