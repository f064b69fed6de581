package record

// A Metric is the name of a figure, which includes the unit. MB and GB are 10^6 and 10^9 bytes of
// files, without any headers.
type Metric string

// Metrics that the clients see.
const (
	Seconds        Metric = "seconds"          // from the first request to the end of the last transfer
	SecondsPerFile Metric = "seconds_per_file" // median over the files
	Rate           Metric = "mb_per_second"    // all transfers together
	Transfers      Metric = "transfers"        // attempted
	FileRate       Metric = "files_per_second"
	RequestRate    Metric = "requests_per_second"
	RoundTrips     Metric = "round_trips"  // equivalent of the time from the program's start to its end
	Failed         Metric = "failed"       // of the attempted transfers, not finished or wrong
	DataPackets    Metric = "data_packets" // without repeats
	PacketRate     Metric = "packets_per_second"
	Resent         Metric = "resent"   // packets that the clients repeated
	Timeouts       Metric = "timeouts" // times that a client gave up waiting
	LatencyP50     Metric = "latency_p50_ms"
	LatencyP90     Metric = "latency_p90_ms"
	LatencyP99     Metric = "latency_p99_ms"
	LatencyMax     Metric = "latency_max_ms"
	FirstP50       Metric = "first_p50_ms" // from a request to its first answer
	FirstP99       Metric = "first_p99_ms"
)

// The cost for the server. CPU is the user and system time of the server and all of its children.
const (
	ServerCPU       Metric = "server_cpu_seconds"
	CPUPerPacket    Metric = "server_cpu_us_per_packet" // for a DATA packet with its ACK
	CPUPerGB        Metric = "server_cpu_seconds_per_gb"
	CPUPerRequest   Metric = "server_cpu_us_per_request"
	GigabitsPerCore Metric = "gbit_per_server_core_second" // 10^9 bits of files for each second of server CPU
	Memory          Metric = "server_memory_mb"            // peak of resident memory, all processes
)

// The cost of open and idle connections for the server. A kB has 1,000 bytes. Memory is PSS, and
// does not include the kernel's.
const (
	IdleMemory       Metric = "idle_memory_mb"         // with all connections open
	IdlePerConn      Metric = "idle_kb_per_connection" // increase since the start, with no connections
	IdleBeyondStacks Metric = "idle_kb_beyond_stacks"  // the same, without the stacks of goroutines
)

// The cost for a measured client, with the same meaning as for the server.
const (
	ClientCPU      Metric = "client_cpu_seconds"
	ClientCPUPerGB Metric = "client_cpu_seconds_per_gb"
	ClientMemory   Metric = "client_memory_mb"
)

// Observations of a client's connections from outside, by the bytes that crossed the wire. They
// are accurate to some milliseconds.
const (
	Login    Metric = "login_seconds"      // from the program's start to the first data
	DataRate Metric = "data_mb_per_second" // from the first data to the last

	PacketsPerMB Metric = "packets_per_mb" // packets on the wire, both directions
)

// CoresBusy is the CPU time of client and server together per second.
const CoresBusy Metric = "cores_busy"

// The cost of the other programs that share the processors, as a share of one core.
const (
	GeneratorCPU Metric = "generator_cpu_share"
	LinkCPU      Metric = "link_cpu_share"
	LinkDrops    Metric = "link_dropped" // packets that the emulator lost against its profile
	BesideCPU    Metric = "beside_cpu_share"
)

// The capacity of the link.
const (
	Bound        Metric = "bound_mb_per_second" // for any peer that waits for a window's acknowledgement
	ShareOfBound Metric = "share_of_bound"
)

// BesideRate is how many requests or packets a second the disturbance made.
const BesideRate Metric = "beside_per_second"

// How closely an emulated link matches its profile. A cycle is a TFTP block of 1,432 bytes and
// its acknowledgement; Mb are 10^6 bits of IP packets.
const (
	CycleProfile    Metric = "cycle_profile_ms"
	CycleP50        Metric = "cycle_p50_ms"
	CycleP99        Metric = "cycle_p99_ms"
	CycleOff        Metric = "cycle_off_percent" // difference between the median and the profile
	LinkRate        Metric = "link_mbit_per_second"
	LinkRateProfile Metric = "link_profile_mbit_per_second"
	Ping            Metric = "ping_mean_ms"
	IPerf3          Metric = "iperf3_mbit_per_second" // by TCP
)
