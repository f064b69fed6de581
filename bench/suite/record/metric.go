package record

// A Metric is the name of a figure. The name includes the unit. MB and GB are 10^6 and 10^9 bytes
// of files, without any headers.
type Metric string

// These metrics are measured by the clients.
const (
	Seconds        Metric = "seconds"          // time from the first request to the end of the last transfer
	SecondsPerFile Metric = "seconds_per_file" // median time of a file
	Rate           Metric = "mb_per_second"    // rate of all transfers together
	Transfers      Metric = "transfers"        // number of transfers that were attempted
	FileRate       Metric = "files_per_second"
	RequestRate    Metric = "requests_per_second"
	RoundTrips     Metric = "round_trips"  // time from the program's start to its exit, in round trips of the link
	Failed         Metric = "failed"       // number of transfers that were not completed, or had wrong content
	DataPackets    Metric = "data_packets" // number of DATA packets, without repeats
	PacketRate     Metric = "packets_per_second"
	Resent         Metric = "resent"   // number of packets that the clients repeated
	Timeouts       Metric = "timeouts" // how many times a client's timer expired
	LatencyP50     Metric = "latency_p50_ms"
	LatencyP90     Metric = "latency_p90_ms"
	LatencyP99     Metric = "latency_p99_ms"
	LatencyMax     Metric = "latency_max_ms"
	FirstP50       Metric = "first_p50_ms" // median time from a request to its first answer
	FirstP99       Metric = "first_p99_ms"
)

// These metrics show the cost for the server. CPU is the user and system time of the server and all
// of its children.
const (
	ServerCPU       Metric = "server_cpu_seconds"
	CPUPerPacket    Metric = "server_cpu_us_per_packet" // for each DATA packet together with its ACK
	CPUPerGB        Metric = "server_cpu_seconds_per_gb"
	CPUPerRequest   Metric = "server_cpu_us_per_request"
	GigabitsPerCore Metric = "gbit_per_server_core_second" // 10^9 bits of files for each second of server CPU
	Memory          Metric = "server_memory_mb"            // peak of the resident memory of all processes
)

// These metrics show the cost of open and idle connections for the server. A kB has 1,000 bytes.
// Memory is the proportional memory (PSS) of the processes, and does not include the kernel's
// memory.
const (
	IdleMemory       Metric = "idle_memory_mb"         // memory while all connections are open
	IdlePerConn      Metric = "idle_kb_per_connection" // increase of the memory for each connection that is opened
	IdleBeyondStacks Metric = "idle_kb_beyond_stacks"  // like IdlePerConn, without the stacks of goroutines
)

// These metrics show the cost for a measured client. They are defined like those for the server.
const (
	ClientCPU      Metric = "client_cpu_seconds"
	ClientCPUPerGB Metric = "client_cpu_seconds_per_gb"
	ClientMemory   Metric = "client_memory_mb"
)

// These metrics are measured from outside the client, by counting the bytes on the wire. They are
// accurate to some milliseconds.
const (
	Login    Metric = "login_seconds"      // time from the program's start to the first data
	DataRate Metric = "data_mb_per_second" // rate from the first data to the last

	PacketsPerMB Metric = "packets_per_mb" // packets on the wire in both directions, for each MB of data
)

// CoresBusy is the CPU time that client and server together use per second.
const CoresBusy Metric = "cores_busy"

// These metrics show the CPU time of the other programs that share the processors, as a share of
// one core, and the packets that the emulator lost.
const (
	GeneratorCPU Metric = "generator_cpu_share"
	LinkCPU      Metric = "link_cpu_share"
	LinkDrops    Metric = "link_dropped" // number of packets that the emulator lost although its profile does not ask for it
	BesideCPU    Metric = "beside_cpu_share"
)

// These metrics compare the rate with the capacity of the link.
const (
	Bound        Metric = "bound_mb_per_second" // highest rate of a peer that waits for each window's ACK
	ShareOfBound Metric = "share_of_bound"
)

// BesideRate is the number of packets or requests per second that the disturbance caused.
const BesideRate Metric = "beside_per_second"

// These metrics show how closely an emulated link matches its profile. A cycle is a TFTP block of
// 1,432 bytes and its acknowledgement; Mb are 10^6 bits of IP packets.
const (
	CycleProfile    Metric = "cycle_profile_ms"
	CycleP50        Metric = "cycle_p50_ms"
	CycleP99        Metric = "cycle_p99_ms"
	CycleOff        Metric = "cycle_off_percent" // difference between the median and the profile, in percent of the profile
	LinkRate        Metric = "link_mbit_per_second"
	LinkRateProfile Metric = "link_profile_mbit_per_second"
	Ping            Metric = "ping_mean_ms"
	IPerf3          Metric = "iperf3_mbit_per_second" // rate that iperf3 measures over TCP
)
