// SPDX-License-Identifier: Apache-2.0
/*
 * Two sources of 600 kpps of 64-byte frames into one drop-tail queue of 1,000 and one link, in ns-3.
 * Prints frames offered, frames received and the CPU time of Simulator::Run, s.
 *
 *   ns3_link RATE_BPS SIMULATED_SECONDS bare|udp SCHEDULER
 *
 * bare: packets are made and handed to the device directly, the least that ns-3 can do. udp: UdpClient
 * and the Internet stack. Packets have 84 bytes on the link, as 64-byte frames with preamble and gap.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

static const uint32_t SOURCES = 2;
static const uint32_t WIRE_BYTES = 84;
static const uint32_t PPP_BYTES = 2;
static const uint32_t UDP_BYTES = WIRE_BYTES - PPP_BYTES - 20 - 8;
/* 600 kpps; ns-3's time has whole nanoseconds unless told otherwise before its first use. */
static const int64_t INTERVAL_PS = 1666667;

static uint64_t offered, received;

/* A source without a stack. */
static void Send(Ptr<NetDevice> device, Address to)
{
	device->Send(Create<Packet>(WIRE_BYTES - PPP_BYTES), to, 0x0800);
	offered++;
	Simulator::Schedule(PicoSeconds(INTERVAL_PS), &Send, device, to);
}

static bool Receive(Ptr<NetDevice>, Ptr<const Packet>, uint16_t, const Address &)
{
	received++;
	return true;
}

static void CountReceived(Ptr<const Packet>, const Address &)
{
	received++;
}

static void Bare(const NetDeviceContainer &devices)
{
	devices.Get(1)->SetReceiveCallback(MakeCallback(&Receive));
	for (uint32_t i = 0; i < SOURCES; i++)
		Simulator::Schedule(PicoSeconds(i * INTERVAL_PS / SOURCES), &Send, devices.Get(0),
				    devices.Get(1)->GetAddress());
}

static ApplicationContainer Udp(const NodeContainer &nodes, const NetDeviceContainer &devices,
				Time end)
{
	InternetStackHelper().Install(nodes);
	Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
	Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
	/* The queue under test is the device's: none above it. */
	TrafficControlHelper().Uninstall(devices);
	PacketSinkHelper sink("ns3::UdpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9));
	ApplicationContainer receiver = sink.Install(nodes.Get(1));

	receiver.Start(Seconds(0));
	receiver.Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&CountReceived));
	ApplicationContainer clients;
	for (uint32_t i = 0; i < SOURCES; i++) {
		UdpClientHelper client(interfaces.GetAddress(1), 9);

		client.SetAttribute("MaxPackets", UintegerValue(UINT32_MAX));
		client.SetAttribute("Interval", TimeValue(PicoSeconds(INTERVAL_PS)));
		client.SetAttribute("PacketSize", UintegerValue(UDP_BYTES));
		ApplicationContainer app = client.Install(nodes.Get(0));
		app.Start(PicoSeconds(i * INTERVAL_PS / SOURCES));
		app.Stop(end);
		clients.Add(app);
	}
	return clients;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	Time::SetResolution(Time::PS);
	Time end = Seconds(atof(argv[2]));
	ObjectFactory scheduler(argv[4]);
	Simulator::SetScheduler(scheduler);

	NodeContainer nodes(2);
	PointToPointHelper link;
	link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(strtoull(argv[1], nullptr, 10))));
	link.SetChannelAttribute("Delay", TimeValue(MicroSeconds(1)));
	link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1000p"));
	NetDeviceContainer devices = link.Install(nodes);
	ApplicationContainer clients;
	if (strcmp(argv[3], "udp") == 0)
		clients = Udp(nodes, devices, end);
	else
		Bare(devices);

	Simulator::Stop(end);
	clock_t begun = clock();
	Simulator::Run();
	double took = static_cast<double>(clock() - begun) / CLOCKS_PER_SEC;
	for (uint32_t i = 0; i < clients.GetN(); i++)
		offered += DynamicCast<UdpClient>(clients.Get(i))->GetTotalTx() / UDP_BYTES;
	printf("%lu %lu %.6f\n", offered, received, took);
	Simulator::Destroy();
	return 0;
}
