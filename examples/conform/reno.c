/* NewReno for `knee conform newreno -- ./reno`: a line of JSON for each event, and one back. `cc -o reno reno.c` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double cwnd, ssthresh = 0; /* bytes; 0: none yet */
static long long recovery = -1;	  /* when the latest reduction began, ns */

static long long number(const char *line, const char *key, long long otherwise)
{
	const char *at = strstr(line, key);

	return at ? atoll(at + strlen(key)) : otherwise;
}

static void answer(const char *more)
{
	if (ssthresh > 0)
		printf("{\"cwnd\":%.0f,\"ssthresh\":%.0f%s}\n", cwnd, ssthresh, more);
	else
		printf("{\"cwnd\":%.0f,\"ssthresh\":null%s}\n", cwnd, more);
	fflush(stdout);
}

static double halved(double mss)
{
	double half = (long long)cwnd / 2;

	return half > 2 * mss ? half : 2 * mss;
}

int main(void)
{
	static char line[1 << 20];
	double mss;

	if (!fgets(line, sizeof(line), stdin))
		return 1;
	mss = number(line, "\"mss\":", 1200);
	cwnd = number(line, "\"initial_cwnd\":", 12000);
	answer(",\"shows\":[\"cwnd\",\"ssthresh\"],\"takes\":[\"sent\",\"acked\",\"lost\",\"ecn\"]");
	while (fgets(line, sizeof(line), stdin)) {
		const char *acked = strstr(line, "\"acked\":["), *lost = strstr(line, "\"lost\":[");
		const char *ecn = strstr(line, "\"ecn\":["), *list = acked ? acked : lost ? lost : ecn;
		long long now = number(line, "\"t\":", 0), id, sent, size;
		int limited = strstr(line, "\"app_limited\":true") != NULL, used;

		if (lost && strstr(line, "\"persistent\":true")) {
			ssthresh = halved(mss);
			cwnd = 2 * mss;
			recovery = -1;
			list = NULL;
		}
		if (list)
			list = strchr(list, '[') + 1;
		while (list && sscanf(list, "[%lld,%lld,%lld]%n", &id, &sent, &size, &used) == 3) {
			if (acked && sent > recovery && !limited)
				cwnd += ssthresh == 0 || cwnd < ssthresh ? size : mss * size / cwnd;
			else if (!acked && sent > recovery) {
				recovery = now;
				cwnd = ssthresh = halved(mss);
			}
			list += used;
			list += *list == ',';
		}
		answer("");
	}
	return 0;
}
