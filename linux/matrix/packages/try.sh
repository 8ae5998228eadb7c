#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Installs, uses and removes the packages in /knee. systemd starts it in guests of "knee_house matrix --packages", which
# have Debian, a compiler and the kernel's headers, and no network. Each step is a line on the console,
# "knee PART STEP RESULT": PART is a package or an instance of the unit, RESULT is "ok" or what was said last.

export DEBIAN_FRONTEND=noninteractive LC_ALL=C
here=/knee
said=/run/knee-said

# step PART STEP COMMAND...
step() {
	part=$1 name=$2
	shift 2
	if "$@" >"$said" 2>&1; then
		echo "knee $part $name ok"
	else
		last=$(grep -v '^$' "$said" | tail -n 1 | cut -c -200)
		echo "knee $part $name ${last:-failed: $*}"
	fi
}

is_available() {
	grep -qw "$1" /proc/sys/net/ipv4/tcp_available_congestion_control
}

# Everything on the disk but what dpkg, apt, DKMS and systemd keep of their own.
files() {
	find / -xdev \( -path /run -o -path /tmp -o -path /var/log -o -path /var/cache -o -path /var/lib/apt \
		-o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path '/var/lib/dkms/mok.*' \) -prune -o -print | sort
}

installed() {
	files >"/run/before-$1"
	apt-get install -q -y --no-install-recommends "$here/$1"_*.deb
}

# Purges a package; nothing may be there that was not before it was installed.
purged() {
	apt-get purge -q -y "$1" || return
	files >"/run/after-$1"
	left=$(comm -13 "/run/before-$1" "/run/after-$1" | head -n 3 | tr '\n' ' ')
	[ -z "$left" ] || { echo "left: $left"; return 1; }
}

carried() {
	runuser -u nobody -- "$here/carry" "$1"
}

# The unit of an algorithm: started, shown, used and stopped.
started() {
	systemctl start "knee-bpf@$1" && is_available "$1"
}

shown() {
	systemctl status --no-pager "knee-bpf@$1"
}

stopped() {
	systemctl stop "knee-bpf@$1" && ! is_available "$1" && [ ! -e /sys/fs/bpf/knee ]
}

try_unit() {
	step "knee-bpf@$1" start started "$1"
	step "knee-bpf@$1" status shown "$1"
	step "knee-bpf@$1" transfer carried "$1"
	step "knee-bpf@$1" stop stopped "$1"
}

# cocoa on the loopback device. Once its unit has stopped, no device can have it anew.
put() {
	tc qdisc replace dev lo root cocoa_bpf && carried cubic && tc -s qdisc show dev lo | grep -q cocoa_bpf
}

taken() {
	tc qdisc del dev lo root && systemctl stop knee-bpf@cocoa && ! tc qdisc replace dev lo root cocoa_bpf &&
		[ ! -e /sys/fs/bpf/knee ]
}

try_discipline() {
	if dpkg --compare-versions "$(uname -r)" lt 6.16; then
		! systemctl start knee-bpf@cocoa && systemctl reset-failed && [ ! -e /sys/fs/bpf/knee ] &&
			echo "knee knee-bpf@cocoa start needs 6.16" || echo "knee knee-bpf@cocoa start does not fail"
		return
	fi
	step knee-bpf@cocoa start systemctl start knee-bpf@cocoa
	step knee-bpf@cocoa transfer put
	step knee-bpf@cocoa stop taken
}

enabled() {
	systemctl enable knee-bpf@lola && systemctl start multi-user.target && systemctl is-active knee-bpf@lola &&
		is_available lola
}

# What /etc/knee-bpf sets reaches the loader, which knows no such parameter.
settings_used() {
	mkdir -p /etc/knee-bpf
	echo 'SETTINGS=--set q_target=3000' >/etc/knee-bpf/lola.conf
	started lola && stopped lola || return
	echo 'SETTINGS=--set nonsense=1' >/etc/knee-bpf/lola.conf
	! systemctl start knee-bpf@lola && ! is_available lola && rm -r /etc/knee-bpf && systemctl reset-failed
}

unknown_refused() {
	! systemctl start knee-bpf@unknown
}

# Nothing is loaded by installing, and a unit that runs is stopped by purging.
try_bpf() {
	step knee-bpf install installed knee-bpf
	if dpkg --compare-versions "$(uname -r)" lt 6.4; then
		! started lola && ! is_available lola && [ ! -e /sys/fs/bpf/knee ] &&
			echo "knee knee-bpf start needs 6.4" || echo "knee knee-bpf start does not fail"
	else
		for object in /usr/lib/knee-bpf/*.bpf.o; do
			name=$(basename "$object" .bpf.o)
			[ "$name" = cocoa ] || try_unit "$name"
		done
		try_discipline
		step knee-bpf settings settings_used
		step knee-bpf unknown unknown_refused
		step knee-bpf enable enabled
	fi
	step knee-bpf purge purged knee-bpf
	is_available lola && echo "knee knee-bpf purge leaves lola loaded"
}

# The tar needs neither dpkg nor systemd.
unpacked() {
	mkdir /run/tar && tar -xJf "$here"/knee-bpf-*.tar.xz -C /run/tar --strip-components=1 &&
		mkdir -p /sys/fs/bpf/tar && /run/tar/usr/sbin/knee-bpf load /run/tar/usr/lib/knee-bpf/lola.bpf.o /sys/fs/bpf/tar/lola
}

removed() {
	/run/tar/usr/sbin/knee-bpf unload /sys/fs/bpf/tar/lola && rmdir /sys/fs/bpf/tar && ! is_available lola
}

try_tar() {
	dpkg --compare-versions "$(uname -r)" lt 6.4 && return
	step knee-bpf.tar load unpacked
	step knee-bpf.tar transfer carried lola
	step knee-bpf.tar unload removed
}

built() {
	dkms status && [ "$(find "/lib/modules/$(uname -r)/updates" -name '*.ko*' | wc -l)" = 3 ]
}

used_by_tc() {
	tc qdisc replace dev lo root cocoa max_guard_interval 500ms learn_initial on && carried cubic
}

# All of the transfer went through cocoa, which tc shows with its options.
counted() {
	shown=$(tc -s qdisc show dev lo)
	echo "$shown" | tr '\n' ' '
	echo "$shown" | grep -q '^qdisc cocoa .* max_guard_interval 500ms .* learn_initial on ' &&
		[ "$(echo "$shown" | sed -n 's/^ Sent \([0-9]*\) bytes.*/\1/p')" -ge 4194304 ] &&
		tc -s class show dev lo | grep '^class cocoa'
}

purged_modules() {
	purged knee-dkms && [ -z "$(find "/lib/modules/$(uname -r)" -name 'tcp_lola*')" ]
}

try_modules() {
	step knee-dkms install installed knee-dkms
	step knee-dkms build built
	step knee-dkms modprobe modprobe -a tcp_lola tcp_daimd sch_cocoa
	step knee-dkms lola carried lola
	step knee-dkms daimd carried daimd
	step knee-tc install installed knee-tc
	step knee-tc replace used_by_tc
	step knee-tc show counted
	step knee-tc delete tc qdisc del dev lo root
	step knee-tc purge purged knee-tc
	step knee-dkms unload modprobe -r -a tcp_lola tcp_daimd sch_cocoa
	step knee-dkms purge purged_modules
}

ip link set lo up
echo
echo "knee guest kernel $(uname -r)"
try_bpf
try_tar
try_modules
echo "knee guest end ok"
