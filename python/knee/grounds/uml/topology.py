"""A scenario as namespaces, devices, routes and queues of a Linux kernel, and what happens in them when.

One link: sender - router - receiver, the link's queue at the router's device towards the receiver. Several links, or
one with a queue in the other direction: each link is a pair of devices whose ends are both in the router, its queue at
the first, the reverse one's at the second, and rules by the device of arrival lead a packet through the links of its
flow. What a flow's base RTT is, is the delay of its ACKs behind the receiver.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from knee.grounds import applications, programs
from knee.grounds.uml import confine, netlink, plan, queues
from knee.kernel import modules
from knee.own import kernel_name
from knee.scenario import commands
from knee.scenario.commands import FIELDS
from knee.scenario.model import Change, Flow, Link, Program, Reverse, Scenario
from knee.scenario.registry import congestion_controls
from knee.scenario.spec import span
from knee.system.text import JsonTable

SENDER, ROUTER, RECEIVER = range(3)
_NAMES = ("sender", "router", "receiver")

#: Queue lengths of devices, sockets and backlogs that must not be what limits.
_PLENTY = 1_000_000
#: Least of a sender's socket buffer, bytes: what the reference runs asked for; and the most that the kernel takes.
_BUFFER, _MOST_BUFFER = 64 << 20, (1 << 30) - 1
#: Bounds of what a sender keeps unsent, bytes, around 40 ms of its bottleneck's rate.
_UNSENT = (64 << 10, 4 << 20)
#: What Linux has these at.
_USUAL_INITCWND, _USUAL_RTO_MIN_NS = 10, 200_000_000

#: Of programs: their first namespace, the bit in their addresses (``linux/probe/knee_probe.h``), their first port.
FIRST_PROGRAM, _PROGRAM_HOST, _PORT = 3, 0x8000, 5000
#: What a process of a program may take, bytes, and how long it has to end by itself, ns.
_PROGRAM_MEMORY, _GRACE = 256 << 20, 1_000_000_000
#: What an end of an application's flow may take, bytes.
_APPLICATION_MEMORY = 32 << 20


@dataclass(frozen=True)
class LinkEnd:
    """A queue: its number in results, its device, what it is and its rate."""

    number: int
    name: str
    device: int
    queueing: Link | Reverse


class Topology:
    """The plan of a scenario, and the order in which its queues come in results: forward, then reverse."""

    def __init__(self, scenario: Scenario, *, capture: bool = False) -> None:
        self._scenario = scenario
        self.link_names = [link.name for link in scenario.links]
        self.link_names += [f"{link.name} (reverse)" for link in scenario.links if link.reverse is not None]
        self.flows = applications.flows(scenario)
        self.plan = plan.Plan(
            len(self.flows), len(self.link_names), scenario.duration, scenario.interval, scenario.seed, namespaces=3
        )
        #: What programs may read beside the system's folders.
        self.readable: set[str] = set()
        #: Flows that are programs, in the order of their numbers there.
        self.programs = [number for number, (flow, _) in enumerate(self.flows) if flow.program is not None]
        #: Flows of applications, and all flows whose ends have namespaces of their own; these have addresses by order.
        self.applications = [number for number, (flow, _) in enumerate(self.flows) if flow.traffic is not None]
        #: Of the applications, those whose data goes over connections.
        self.connections = [
            number for number in self.applications if not applications.uses_datagrams(self.flows[number][0])
        ]
        self.homes = [*self.programs, *self.applications]
        #: The task of each process of an application, by the process's number.
        self.tasks: dict[int, JsonTable] = {}
        self._links = {link.name: i for i, link in enumerate(scenario.links)}
        self._rates = {link.name: link.rate or 0 for link in scenario.links}
        self._plain = len(scenario.links) == 1 and scenario.links[0].reverse is None
        accurate = any(isinstance(flow.ecn, str) and flow.transport == "tcp" for flow in scenario.flows)
        self._answers_ecn = plan.ANSWER_ACCURATE if accurate else plan.ANSWER_CLASSIC
        self._ends: dict[str, LinkEnd] = {}
        #: The devices of namespaces of their own.
        self._inside: dict[int, int] = {}
        self._device = 1
        paths = {self._path(flow): None for flow, _ in self.flows}
        self._paths = {path: k for k, path in enumerate(paths)}
        self._settings()
        self._devices()
        self._queues()
        self._delays()
        self._own_namespaces()
        if capture:
            self._capture()
        self._events()

    @property
    def ends(self) -> list[LinkEnd]:
        """The queues, in the order of their numbers."""
        return sorted(self._ends.values(), key=lambda end: end.number)

    # What each namespace is set to.

    def _settings(self) -> None:
        pages = " ".join([str(_PLENTY * 100)] * 3)
        for path, value in (("net/ipv4/tcp_mem", pages), ("net/core/netdev_max_backlog", str(_PLENTY))):
            self.plan.setting(plan.FIRST_NAMESPACE, path, value)
        for namespace in (SENDER, ROUTER, RECEIVER):
            self.plan.tell(namespace, netlink.up(1))
        self.plan.setting(ROUTER, "net/ipv4/ip_forward", 1)
        for namespace in (SENDER, RECEIVER):
            self._endpoint(namespace)

    def _endpoint(self, namespace: int) -> None:
        """What TCP is set to where it has an end."""
        tcp = self._scenario.tcp
        self.plan.setting(namespace, "net/ipv4/tcp_no_metrics_save", 1)
        if self._answers_ecn != plan.ANSWER_CLASSIC:
            self.plan.setting(namespace, "net/ipv4/tcp_ecn", self._answers_ecn)
            # Feedback is by the header's three bits, as in the simulator; RFC 9768's option would be on data too.
            self.plan.setting(namespace, "net/ipv4/tcp_ecn_option", 0)
        self.plan.setting(namespace, "net/ipv4/tcp_comp_sack_delay_ns", tcp.sack_delay)
        self.plan.setting(namespace, "net/ipv4/tcp_tso_rtt_log", tcp.tso_rtt_log)
        if not tcp.slow_start_after_idle:
            self.plan.setting(namespace, "net/ipv4/tcp_slow_start_after_idle", 0)

    # Devices and routes.

    def _pair(self, here: int, there: int) -> tuple[int, int]:
        """A pair of devices in two namespaces; their indices."""
        a, b = self._device + 1, self._device + 2
        self._device = b
        message = netlink.veth((a, f"k{a}"), (b, f"k{b}"), plan.NAMESPACE_FD + there)
        self.plan.tell(here, message)
        for namespace, device in ((here, a), (there, b)):
            self.plan.first(plan.OFFLOADS, namespace, f"k{device}\0".encode())
            self.plan.tell(namespace, netlink.up(device))
        return a, b

    def _route(
        self,
        namespace: int,
        to: IPv4Network,
        device: int,
        table: int = netlink.RT_TABLE_MAIN,
        metrics: dict[int, int] | None = None,
    ) -> None:
        self.plan.tell(namespace, netlink.route(to, device, table, metrics=metrics))

    def _devices(self) -> None:
        at_sender, from_sender = self._pair(SENDER, ROUTER)
        to_receiver, at_receiver = self._pair(ROUTER, RECEIVER)
        if self._plain:
            link = self._scenario.links[0]
            self._ends[link.name] = LinkEnd(0, link.name, to_receiver, link)
        else:
            self._between(from_sender, to_receiver)
        self._at = {SENDER: at_sender, RECEIVER: at_receiver}
        for path in range(len(self._paths)):
            self._route(ROUTER, _receivers(path), to_receiver)
            self._route(ROUTER, _senders(path), from_sender)
            for namespace, mine in ((SENDER, _senders(path)), (RECEIVER, _receivers(path))):
                self.plan.tell(namespace, netlink.route(mine, 1, netlink.RT_TABLE_LOCAL, local=True))
            self._route(SENDER, _receivers(path), at_sender, metrics=self._metrics())
            self._route(RECEIVER, _senders(path), at_receiver, metrics=self._metrics())

    def _metrics(self) -> dict[int, int]:
        tcp = self._scenario.tcp
        metrics: dict[int, int] = {}
        if tcp.initial_window != _USUAL_INITCWND:
            metrics[netlink.RTAX_INITCWND] = tcp.initial_window
        if tcp.rto_min != _USUAL_RTO_MIN_NS:
            metrics[netlink.RTAX_RTO_MIN] = tcp.rto_min // 1_000_000
        return metrics

    def _between(self, from_sender: int, to_receiver: int) -> None:
        """The links within the router, and the rules that lead through them."""
        pairs: dict[str, tuple[int, int]] = {}
        reverse = len(self._scenario.links)
        for number, link in enumerate(self._scenario.links):
            a, b = pairs[link.name] = self._pair(ROUTER, ROUTER)
            self._ends[link.name] = LinkEnd(number, link.name, a, link)
            if link.reverse is not None:
                name = f"{link.name} (reverse)"
                self._ends[name] = LinkEnd(reverse, name, b, link.reverse)
                reverse += 1
        ruled: set[int] = set()
        for path, k in self._paths.items():
            # Into the network, through the links, and out; and the other way round.
            onward = [(from_sender, _receivers(k)), *((pairs[name][1], _receivers(k)) for name in path)]
            exits = [*(pairs[name][0] for name in path), to_receiver]
            back = [(to_receiver, _senders(k)), *((pairs[name][0], _senders(k)) for name in reversed(path))]
            exits_back = [*(pairs[name][1] for name in reversed(path)), from_sender]
            for (arrived, to), leave in zip([*onward, *back], [*exits, *exits_back], strict=True):
                if arrived not in ruled:
                    ruled.add(arrived)
                    self.plan.tell(ROUTER, netlink.rule(f"k{arrived}", 1000 + arrived))
                self._route(ROUTER, to, leave, 1000 + arrived)

    # Queues and delays.

    def _queues(self) -> None:
        for end in self._ends.values():
            rate = end.queueing.rate or 0
            leaf = queues.leaf(end.queueing.queue, end.queueing.queue_params, end.queueing.limit, rate)
            link = queues.link(end.device, rate, end.queueing)
            self.plan.tell(ROUTER, *link, leaf.message(end.device))
            loss = getattr(end.queueing, "loss", 0.0)
            self.plan.first(plan.LINK, ROUTER, end.number, end.device, queues.LEAF, plan.share(loss))

    def _delays(self) -> None:
        directions = {flow.direction for flow, _ in self.flows}
        for direction, namespace in (("forward", RECEIVER), ("reverse", SENDER)):
            if direction in directions:
                message = netlink.qdisc(self._at[namespace], queues.ROOT, None, "knee_delay")
                self.plan.tell(namespace, message)
        senders = [flow for flow, _ in self.flows if flow.direction == "forward"]
        # With fq every flow of the sender is paced: where all are to be, it is at the sender, as in the reference runs.
        if senders and all(flow.pacing == "on" for flow in senders) and "reverse" not in directions:
            options = netlink.u32(1, _PLENTY) + netlink.u32(2, _PLENTY)
            self.plan.tell(SENDER, netlink.qdisc(self._at[SENDER], queues.ROOT, None, "fq", options))
        for number, (flow, _) in enumerate(self.flows):
            self.plan.first(plan.DELAY, 0, number, self._addresses(number)[1], flow.rtt)

    def _capture(self) -> None:
        """Packets are captured at the devices of senders."""
        directions = {flow.direction for flow, _ in self.flows}
        for direction, namespace in (("forward", SENDER), ("reverse", RECEIVER)):
            if direction in directions:
                self.plan.first(plan.CAPTURE, namespace, self._at[namespace])

    # What happens when.

    def _events(self) -> None:
        scenario = self._scenario
        for change in scenario.changes:
            self._change(change)
        starts, stops = [], []
        for number, (flow, i) in enumerate(self.flows):
            start, stop = span(scenario, flow, i)
            starts.append(start)
            stops.append(stop)
            if flow.program is not None:
                self._run_program(self.programs.index(number), start, stop)
            elif flow.traffic is not None:
                self._run_application(self.homes.index(number))
            else:
                self.plan.at(start, plan.START, number, self._start(number, flow).pack())
            self.plan.at(start + scenario.warmup, plan.MARK, 0, plan.BEGIN, number)
            if stop < scenario.duration:
                self.plan.at(stop, plan.MARK, 0, plan.END, number)
                if number not in self.homes:
                    self.plan.at(stop, plan.STOP, number)
        for end in self._ends.values():
            self.plan.at(min(starts) + scenario.warmup, plan.MARK, 0, plan.BEGIN, end.number | plan.IS_LINK)
        self.common = (max(starts) + scenario.warmup, min(stops))
        if self.common[0] < self.common[1]:
            for at in self.common:
                self.plan.at(at, plan.COMMON, 0)

    # Programs and applications.

    def _own_namespaces(self) -> None:
        """Each end of a program or an application has a namespace, from which one route leads, to the other end."""
        if not self.homes:
            return
        for namespace in (SENDER, RECEIVER):
            self.plan.setting(namespace, "net/ipv4/ip_forward", 1)
        if self.programs:
            # A program without privileges may choose any of the kernel's own algorithms, as with iperf3 -C.
            allowed = " ".join(modules.kernel_ccs())
            self.plan.setting(plan.FIRST_NAMESPACE, "net/ipv4/tcp_allowed_congestion_control", allowed)
        for k, number in enumerate(self.homes):
            flow, _ = self.flows[number]
            names = self._crossed(flow)
            ends = self._ends[names[0]].number, self._ends[names[-1]].number
            self.plan.first(plan.WATCH, 0, number, k, *ends)
            if number in self.connections:
                self.plan.first(plan.CONNECTIONS, number, flow.ecn == "l4s", kernel_name(flow.cc))
            source, destination = self._addresses(number)
            near = (SENDER, RECEIVER) if flow.direction == "forward" else (RECEIVER, SENDER)
            for role, (own, other, around) in enumerate(
                ((destination, source, near[1]), (source, destination, near[0]))
            ):
                clamp = self._scenario.tcp.receive_window if number in self.applications else None
                self._home(program_process(k, role), around, own, other, clamp)
                if number in self.applications:
                    self._sockets(FIRST_PROGRAM + program_process(k, role), flow)

    def _home(self, process: int, around: int, own: IPv4Address, other: IPv4Address, clamp: int | None = None) -> None:
        """The namespace of a program, which is joined to that of the senders or receivers.

        With ``clamp``, its receivers announce at most that many bytes.
        """
        self.plan.namespaces += 1
        home = FIRST_PROGRAM + process
        self.plan.tell(home, netlink.up(1))
        self._endpoint(home)
        inside, outside = self._pair(home, around)
        self._inside[home] = inside
        self.plan.tell(home, netlink.address(own, inside))
        metrics = self._metrics()
        if clamp is not None:
            metrics[netlink.RTAX_WINDOW] = clamp
        self.plan.tell(home, netlink.route(IPv4Network(other), inside, metrics=metrics))
        # The whole network is the namespace's around, in its local table: what is the program's is told there too.
        self.plan.tell(around, netlink.route(IPv4Network(own), outside, 255))

    def _sockets(self, home: int, flow: Flow) -> None:
        """Ports for many connections of an application, and buffers that do not limit them."""
        if flow.pacing == "on":
            options = netlink.u32(1, _PLENTY) + netlink.u32(2, _PLENTY)
            self.plan.tell(home, netlink.qdisc(self._inside[home], queues.ROOT, None, "fq", options))
        send, receive = self._sizes(flow)
        for name, size in (("tcp_wmem", send), ("tcp_rmem", receive)):
            self.plan.setting(home, f"net/ipv4/{name}", f"4096 {2 * size} {2 * size}")
        self.plan.setting(home, "net/ipv4/ip_local_port_range", "10000 65535")
        self.plan.setting(home, "net/ipv4/tcp_tw_reuse", 1)
        if flow.ecn and not applications.uses_datagrams(flow):
            asked = plan.ACCURATE_ECN if isinstance(flow.ecn, str) else plan.CLASSIC_ECN
            self.plan.setting(home, "net/ipv4/tcp_ecn", asked)

    def _run_application(self, k: int) -> None:
        """Both ends are there before time zero, of which they are told."""
        number = self.homes[k]
        flow, _ = self.flows[number]
        source, destination = self._addresses(number)
        server = source if applications.pulls(flow) else destination
        where = {"control": f"/dev/control{number}", "address": str(server), "port": _PORT}
        there, here = applications.tasks(self._scenario, number, where)
        if number in self.connections:
            # Only connections that carry the flow's data: what clients ask is not the flow's.
            there["cc"] = plan.CONNECTIONS_CC.format(number)
        for role, task in enumerate((here, there)):
            process = program_process(k, role)
            self.tasks[process] = task
            self.plan.first(plan.ENDPOINT, process, FIRST_PROGRAM + process, number)

    def _run_program(self, k: int, start: int, stop: int) -> None:
        """The receiver has started before time zero: it needs a moment that flows of the kernel do not."""
        program = self.program(k)
        root, wait = program.root, program.wait
        most = confine.PROCESSES * len(self.programs) * len(programs.ROLES)
        for role, name in enumerate(programs.ROLES):
            found = programs.locate(program, name, self.values(k))
            process = program_process(k, role)
            confine.check_reads(Path(root) / found.named.lstrip("/"))
            self.readable |= confine.readable(root, found)
            told = plan.program(FIRST_PROGRAM + process, confine.user(), most, wait, root, found.file, found.words)
            if name == "receive":
                self.plan.first(plan.PROGRAM, process, told)
            else:
                self.plan.at(start, plan.PROGRAM, process, told)
            if stop < self._scenario.duration:
                # Who was told how long it lasts ends by itself, a moment late, and may have last words.
                end = stop + (_GRACE if commands.tells_duration(program.send) else 0)
                self.plan.at(end, plan.END_PROGRAM, process)
                self.plan.at(end + _GRACE, plan.KILL, process)

    def program(self, k: int) -> Program:
        """The program with this number."""
        program = self.flows[self.programs[k]][0].program
        assert program is not None
        return program

    def values(self, k: int) -> dict[str, str]:
        """What is filled into the command lines of program ``k``."""
        number = self.programs[k]
        start, stop = span(self._scenario, *self.flows[number])
        address, ns = self._addresses(number)[1], stop - start
        texts = (str(address), str(_PORT + k), f"{ns / 1e9:.9f}".rstrip("0").rstrip("."), str(ns // 1_000_000))
        return dict(zip(FIELDS, texts, strict=True))

    def _crossed(self, flow: Flow) -> list[str]:
        """The queues that a flow's data crosses, in order."""
        path = self._path(flow)
        return list(path) if flow.direction == "forward" else [f"{name} (reverse)" for name in reversed(path)]

    def _start(self, number: int, flow: Flow) -> plan.FlowStart:
        forward = flow.direction == "forward"
        names = self._crossed(flow)
        rate = min(end.queueing.rate or 0 for name, end in self._ends.items() if name in names)
        source, destination = self._addresses(number)
        tcp = self._scenario.tcp
        send, receive = self._sizes(flow)
        per_packet, accurate = congestion_controls()[flow.cc].needs["ecn"] == "per_packet", isinstance(flow.ecn, str)
        return plan.FlowStart(
            sender=SENDER if forward else RECEIVER,
            receiver=RECEIVER if forward else SENDER,
            source=source,
            destination=destination,
            last_link=self._ends[names[-1]].number,
            phases=_phases(flow.cc),
            size=flow.bytes or 0,
            send_buffer=send,
            receive_buffer=receive,
            unsent=min(max(rate // 200, _UNSENT[0]), _UNSENT[1]),
            window_clamp=tcp.receive_window or 0,
            paced=flow.pacing == "on",
            ecn=plan.ACCURATE_ECN if accurate else plan.CLASSIC_ECN if flow.ecn or per_packet else 0,
            ecn_otherwise=self._answers_ecn,
            ect1=flow.ecn == "l4s",
            # Feedback per packet is the receiver's algorithm's; accurate ECN brings its own.
            same_at_receiver=per_packet and not accurate,
            cc=kernel_name(flow.cc),
        )

    def _sizes(self, flow: Flow) -> tuple[int, int]:
        """The buffers of a flow's sockets, bytes: neither limits, with four times what the way can hold.

        The kernel doubles them, and the receiver's window grows to half of that.
        """
        held = 4 * self._held(flow, self._path(flow))
        receive = max(self._scenario.tcp.window_growth, held)
        return min(max(_BUFFER, held), _MOST_BUFFER), min(receive, _MOST_BUFFER)

    def _addresses(self, number: int) -> tuple[IPv4Address, IPv4Address]:
        flow, _ = self.flows[number]
        k = self._paths[self._path(flow)]
        ends = ((_senders(k), "flows_per_source"), (_receivers(k), "flows_per_destination"))
        if flow.direction == "reverse":
            ends = (ends[1], ends[0])
        source, destination = (
            IPv4Address(int(network.network_address) + self._host(flow, number, key)) for network, key in ends
        )
        return source, destination

    def _host(self, flow: Flow, number: int, key: str) -> int:
        """The number of a flow's host: cake tells hosts apart, and its parameters say how many flows one has."""
        if number in self.homes:
            return _PROGRAM_HOST | (1 + self.homes.index(number))
        links = [link for link in self._scenario.links if link.name in self._path(flow)]
        each = [int(link.queue_params[key]) for link in links if link.queue == "cake"]
        return 1 + (number // each[0] if each and each[0] else 0)

    def memory(self) -> int:
        """Bytes that the packets of a run may take in the guest, where one of 1500 takes 2304, and some more."""
        ways: dict[tuple[str, ...], int] = {}
        for flow, _ in self.flows:
            path = self._path(flow)
            ways[path] = max(ways.get(path, 0), self._held(flow, path))
        unread = (512 << 10) * 2 + (96 << 10)
        processes = len(self.programs) * len(programs.ROLES) * _PROGRAM_MEMORY
        processes += len(self.applications) * 2 * _APPLICATION_MEMORY
        return (256 << 20) + 4 * sum(ways.values()) + len(self.flows) * unread + processes

    def _held(self, flow: Flow, path: tuple[str, ...]) -> int:
        """Bytes that the way of a flow can hold, at the greatest of its rates."""
        scenario = self._scenario
        most = 0
        for name in path:
            link = scenario.links[self._links[name]]
            changes = [change for change in scenario.changes if change.link == name]
            rate = max([link.rate or 0, *(change.rate or 0 for change in changes)])
            rtts = [flow.rtt, *(change.rtt or 0 for change in scenario.changes if change.flow)]
            sizes = [limit.in_bytes(rate) for limit in (link.limit, *(change.limit for change in changes)) if limit]
            most = max(most, rate * max(rtts) // 8_000_000_000 + max(sizes, default=0))
        return most

    def _change(self, change: Change) -> None:
        at = change.at
        if change.flow is not None:
            number = self._scenario.labels.index(change.flow)
            self.plan.at(at, plan.DELAY, 0, number, self._addresses(number)[1], change.rtt or 0)
            return
        end = self._ends[change.link or ""]
        link = self._scenario.links[self._links[end.name]]
        if change.rate is not None:
            self._rates[end.name] = change.rate
            for message in queues.link(end.device, change.rate, link, change=True):
                self.plan.at(at, plan.NETLINK, ROUTER, message)
        limit = change.limit or link.limit
        if change.limit is not None or (limit is not None and limit.kind == "time" and change.rate is not None):
            leaf = queues.leaf(link.queue, link.queue_params, limit, self._rates[end.name])
            self.plan.at(at, plan.NETLINK, ROUTER, leaf.message(end.device, change=True))
        if change.loss is not None:
            self.plan.at(at, plan.LOSS, 0, plan.share(change.loss), end.number)

    def _path(self, flow: Flow) -> tuple[str, ...]:
        return tuple(flow.path or ())


def _phases(cc: str) -> int:
    """How the probe tells the phase: Linux's BBR and our modules report it; of others only the window shows it."""
    if cc in modules.module_ccs():
        return plan.PHASES_INFO
    return plan.PHASES_BBR if cc == "bbr" else plan.PHASES_WINDOW


def program_process(k: int, role: int) -> int:
    """The number of the process of program ``k`` that receives (role 0) or sends (1)."""
    return len(programs.ROLES) * k + role


def _senders(path: int) -> IPv4Network:
    return IPv4Network((0x0A00_0000 + ((1 + path) << 16), 16))


def _receivers(path: int) -> IPv4Network:
    return IPv4Network((0x0A00_0000 + ((129 + path) << 16), 16))
