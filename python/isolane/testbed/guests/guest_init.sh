#!/bin/sh
# Init of a guest: a router and nothing else. The test bed gives its settings as kernel parameters,
# which the kernel puts into the environment: ISL_IN and ISL_OUT (the IPv4
# addresses), ISL_FROM and ISL_TO (neighbours, as address,MAC). It says "ready" on its first serial line, and
# then answers each line that it gets there with its counters and "end".

PATH=/usr/sbin:/usr/bin
export PATH
mount -t proc proc /proc
mount -t sysfs sysfs /sys
exec </dev/ttyS0 >/dev/ttyS0
stty raw -echo

fail() {
	echo "failed: $1"
	sleep 1
	echo o >/proc/sysrq-trigger
}

set_all() { # key below /proc/sys/net, value
	for file in /proc/sys/net/$1; do
		[ -e "$file" ] && echo "$2" >"$file"
	done
}

side() { # device, address, neighbour
	ip link set "$1" up arp off || fail "$1 does not come up"
	ip addr add "$2" dev "$1" || fail "$1 does not take the address $2"
	ip neigh add "${3%,*}" lladdr "${3#*,}" dev "$1" nud permanent || fail "no neighbour ${3%,*}"
}

counters() {
	for device in vec0 vec1; do
		for name in rx_dropped tx_dropped; do
			read -r value <"/sys/class/net/$device/statistics/$name"
			echo "$device $name $value"
		done
	done
	tc -s qdisc show dev vec1
	while read -r name rest; do
		case $name in
		Ip*) echo "$name $rest" ;;
		*) break ;;
		esac
	done </proc/net/snmp
	echo end
}

set_all 'ipv4/conf/*/rp_filter' 0
set_all 'ipv4/conf/*/send_redirects' 0
set_all ipv4/ip_forward 1
side vec0 "$ISL_IN" "$ISL_FROM"
side vec1 "$ISL_OUT" "$ISL_TO"
echo ready
while read -r request; do
	counters
done
echo o >/proc/sysrq-trigger # the test bed has gone
sleep 60
