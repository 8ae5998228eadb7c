/* A sender of fixed rate fills a long queue, as the loop of a protocol in C would find it. */
#include <knee.h>
#include <stdio.h>

static const char UPLINK[] =
	"[link]\n"
	"rate = \"10 Mbit/s\"\n"
	"limit = \"1000 packets\"\n"
	"[[flows]]\n"
	"rtt = \"30 ms\"\n";

int main(void)
{
	char error[500];
	struct knee_net *net = knee_net_read(UPLINK, error, sizeof(error));
	if (!net) {
		fprintf(stderr, "%s\n", error);
		return 1;
	}

	/* 12 Mbit/s for a second: the program's own timer, beside that of the network. */
	static const uint8_t payload[1200];
	struct knee_packet packet;
	uint64_t timer = 0, arrived = 0;
	int got = 0;
	while (timer < 1000000000 || knee_net_next(net) != UINT64_MAX) {
		uint64_t now = knee_net_next(net);
		if (timer < 1000000000 && timer <= now) {
			now = timer;
			if (knee_net_send(net, now, 0, payload, sizeof(payload), 2) < 0)
				break;
			timer += 800000;
		}
		while ((got = knee_net_poll(net, now, &packet)) == 1)
			arrived += packet.port == 1;
		if (got < 0)
			break;
	}

	struct knee_link link;
	if (got < 0 || knee_net_link(net, "bottleneck", &link) < 0) {
		fprintf(stderr, "%s\n", knee_net_error(net));
		knee_net_free(net);
		return 1;
	}
	printf("%lu packets arrived; 95 %% of them waited up to %lu ms\n", (unsigned long)arrived,
	       (unsigned long)(link.queueing_p95 / 1000000));
	knee_net_free(net);
	return 0;
}
