#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The init of the guest of scripts/selftests.py: runs packetdrill's scripts, and tdc on cocoa's cases. It writes
# "knee packetdrill SCRIPT-VERSION RESULT" and "knee tdc CASE RESULT" to the console; what failed has said why before.
export PATH=/sbin:/bin TC_LIB_DIR=/plugins

for type in proc sysfs devtmpfs; do
	case $type in proc) place=/proc ;; sysfs) place=/sys ;; *) place=/dev ;; esac
	mkdir -p "$place" && mount -t "$type" "$type" "$place"
done
mkdir -p /run/netns /tmp /dev/net
echo 1 >/proc/sys/kernel/printk
# Some need others, which come first.
for module in $(cat /modules/order); do
	insmod "/modules/$module.ko" || echo "knee guest $module failed"
done
ip link set lo up

cd /packetdrill || exit
for script in lola_*.pkt daimd_*.pkt; do
	for version in ipv4 ipv6; do
		case $version in
		ipv4) words="--local_ip=192.168.0.1 --gateway_ip=192.168.0.1 --netmask_ip=255.255.0.0 --remote_ip=192.0.2.1" ;;
		ipv6) words="--mtu=1520 --local_ip=fd3d:0a0b:17d6::1 --gateway_ip=fd3d:0a0b:17d6:8888::1
			--remote_ip=fd3d:fa7b:d17d::1" ;;
		esac
		# Each in a network of its own, since it sets parameters.
		if unshare -n packetdrill --ip_version=$version $words "$script" >/tmp/said 2>&1; then
			echo "knee packetdrill ${script%.pkt}-$version ok"
		else
			cat /tmp/said
			echo "knee packetdrill ${script%.pkt}-$version failed"
		fi
	done
done

cd /tdc || exit
python3 tdc.py -f tc-tests/qdiscs/cocoa.json >/tmp/said 2>&1
cat /tmp/said
# What is skipped after a failure counts as "ok" there.
sed -n '
s/^ok [0-9]* \([0-9a-f]*\) .*# skipped.*/knee tdc \1 skipped/
s/^ok [0-9]* \([0-9a-f]*\) .*/knee tdc \1 ok/
s/^not ok [0-9]* \([0-9a-f]*\) .*/knee tdc \1 failed/
/^knee/p
' /tmp/said
echo "knee guest end ok"
sync
reboot -f
