# SPDX-License-Identifier: Apache-2.0
# Two sources of 600 kpps of 64-byte frames into one queue of 1,000 and one link, in ns-2.
# Prints frames offered, frames received and the CPU time of the run, s.
#
#   ns ns2_link.tcl RATE_BPS SIMULATED_SECONDS DropTail|DRR SCHEDULER Null|LossMonitor
#
# Only LossMonitor counts what it receives, but it runs Tcl at every loss: for checking, not for speed.
#
# Packets have 84 bytes, as 64-byte frames with preamble and gap; only the headers in use are kept,
# nothing is traced.
foreach {rate seconds queue scheduler receiver} $argv break
remove-all-packet-headers
add-packet-header IP RTP

set ns [new Simulator]
$ns use-scheduler $scheduler
Queue/DRR set buckets_ 2
Queue/DRR set blimit_ 84000
Queue/DRR set quantum_ 1500

set from [$ns node]
set to [$ns node]
$ns simplex-link $from $to $rate 1us $queue
$ns queue-limit $from $to 1000
if {$queue eq "DRR"} {
	# A bucket per source node and port.
	[[$ns link $from $to] queue] set mask_ 0
}
set sinks {}
foreach start {0.0 0.000000833333} {
	set agent [new Agent/UDP]
	$agent set packetSize_ 84
	$agent set fid_ [llength $sinks]
	$ns attach-agent $from $agent
	set sink [new Agent/$receiver]
	$ns attach-agent $to $sink
	$ns connect $agent $sink
	set source [new Application/Traffic/CBR]
	$source set packetSize_ 84
	$source set interval_ [expr 1.0 / 600000]
	$source attach-agent $agent
	$ns at $start "$source start"
	lappend sinks $sink
}

proc cpu_ns {} {
	set file [open /proc/self/schedstat]
	set ns [lindex [gets $file] 0]
	close $file
	return $ns
}

proc finish {} {
	global sinks begun seconds receiver
	set took [expr ([cpu_ns] - $begun) / 1e9]
	set received 0
	if {$receiver eq "LossMonitor"} {
		foreach sink $sinks { incr received [$sink set npkts_] }
	}
	puts "[expr round(2 * 600000 * $seconds)] $received $took"
	exit 0
}
$ns at $seconds finish
set begun [cpu_ns]
$ns run
