package boot

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// These constants are measured costs of haul: see docs/benchmarks.md, two cores of a virtual
// machine, loopback.
const (
	// PacketCPU is the server's CPU time for a DATA packet of TFTP and its ACK, with
	// 10,000 transfers at once in lock-step, in seconds. In a window a packet costs less.
	PacketCPU = 4.24e-6

	// ByteCPU is the CPU time for a byte by HTTP, without TLS, from the page cache, in seconds.
	ByteCPU = 0.097e-9
)

// These constants are the numbers of bytes that Ethernet, IP and UDP or TCP add to a packet. For
// TFTP, these are Ethernet 38 with preamble and gap, IP 20, UDP 8 and TFTP 4. For HTTP, TCP 20 and
// 12 for its time stamps take the place of UDP and TFTP, with 1448 bytes of content in a packet.
const (
	tftpOverhead = 38 + 20 + 8 + 4
	tcpSegment   = 1448
	tcpPacket    = 1538
)

// Gigabit is 1 Gb/s in bytes a second.
const Gigabit = 1e9 / 8

// MaxSimulated bounds the machines of a Site, and MaxReplicas the replicas.
const (
	MaxSimulated = 1_000_000
	MaxReplicas  = 10_000
)

// maxContent bounds the bytes that all machines together fetch, and maxSpan the time that a site
// takes. Both leave ample room before an overflow, because machines fetch lost files again.
const (
	maxContent = 1 << 56
	maxSpan    = 10 * 365 * 24 * time.Hour
)

// A Site is the input of [Simulate]: machines, replicas of haul, and the store with the files.
// Rates are in bytes a second, on the wire.
type Site struct {
	Machines    int
	Arrival     Arrival
	MachineLink float64       // the rate of one machine's link
	RoundTrip   time.Duration // between a machine and a replica

	Replicas int
	Link     float64 // the rate of one replica's link
	Cores    float64 // cores of one replica

	Loader, Image int64 // bytes; 0 means that there is no such file

	Store float64 // the rate of the store's link, for all replicas together
	Cache bool    // replicas keep the files that they have fetched

	// LostAt is when one replica is lost, and BackAt is when it returns with an empty cache. 0
	// means never. Withdraw is how long after the loss machines still try its address.
	LostAt, BackAt, Withdraw time.Duration

	Plan Plan // Simulate sets its Loaders and Images
}

// DefaultSite returns a site with ten thousand machines that are switched on within five minutes,
// one replica with 10 Gb/s and four cores, and a loader and an image of usual sizes.
func DefaultSite() Site {
	return Site{
		Machines: 10_000, Arrival: Arrival{Over: 5 * time.Minute}, MachineLink: Gigabit, RoundTrip: 500 * time.Microsecond,
		Replicas: 1, Link: 10 * Gigabit, Cores: 4,
		Loader: 1_000_000, Image: 60_000_000,
		Store: 10 * Gigabit, Cache: true, Withdraw: 5 * time.Second,
		Plan: Plan{Firmware: EDK2, Stall: DefaultStall, Tries: DefaultTries, Away: DefaultAway, Seed: 1},
	}
}

// Check returns an error if s is wrong. The error names the flag of "haul bench boot".
func (s *Site) Check() error {
	switch {
	case s.Machines < 1 || s.Machines > MaxSimulated:
		return fmt.Errorf("machines %d: must be 1 to %d with --simulate", s.Machines, MaxSimulated)
	case s.Replicas < 1 || s.Replicas > MaxReplicas:
		return fmt.Errorf("replicas %d: must be 1 to %d", s.Replicas, MaxReplicas)
	case !(s.Link > 0 && s.Link <= 1e6*Gigabit):
		return fmt.Errorf("link %v: must be above 0 and at most a million Gb/s", s.Link/Gigabit)
	case !(s.Store > 0 && s.Store <= 1e6*Gigabit):
		return fmt.Errorf("store-link %v: must be above 0 and at most a million Gb/s", s.Store/Gigabit)
	case !(s.Cores > 0 && s.Cores <= 1e6):
		return fmt.Errorf("cores %v: must be above 0", s.Cores)
	case s.Loader < 0 || s.Image < 0:
		return errors.New("loader-size and --image-size: must be 0 or more")
	case s.Loader == 0 && s.Image == 0:
		return errors.New("loader-size and --image-size are both 0: say how much the machines fetch")
	case !(s.MachineLink > 0 && s.MachineLink <= 1e6*Gigabit):
		return fmt.Errorf("machine-link %v: must be above 0 and at most a million Gb/s", s.MachineLink/Gigabit)
	case s.RoundTrip <= 0 || s.RoundTrip > time.Minute:
		return fmt.Errorf("round-trip %v: must be above 0 and at most a minute", s.RoundTrip)
	case s.LostAt < 0 || s.BackAt < 0 || s.BackAt > 0 && (s.LostAt == 0 || s.BackAt <= s.LostAt):
		return errors.New("replica-back must be after --replica-lost")
	case s.Withdraw < 0:
		return fmt.Errorf("withdraw %v: must be 0 or more", s.Withdraw)
	case float64(s.Machines)*(float64(s.Loader)+float64(s.Image)) > maxContent:
		return errors.New("loader-size and --image-size: all machines together must fetch 64 PiB at most")
	case s.span() > maxSpan.Seconds() || max(s.LostAt, s.BackAt, s.Withdraw) > maxSpan:
		return errors.New("link, --machine-link, --store-link, --cores and times: this takes more than ten years")
	}
	return s.Plan.Check()
}

// perByte returns the cost of a byte of content by TFTP (index 0) and by HTTP (1): on the link in
// bytes, and on the CPU in seconds.
func (s *Site) perByte() (wire, cpu [2]float64) {
	block := float64(s.Plan.Firmware.BlockSize)
	wire = [2]float64{(block + tftpOverhead) / block, float64(tcpPacket) / tcpSegment}
	cpu = [2]float64{PacketCPU / block, ByteCPU}
	return wire, cpu
}

// span returns the time that the slowest link or the cores need for all content, in seconds.
func (s *Site) span() float64 {
	wire, cpu := s.perByte()
	n, l, i := float64(s.Machines), float64(s.Loader), float64(s.Image)
	one := l*wire[0] + i*wire[1]
	return max(n*one/s.Link, n*(l*cpu[0]+i*cpu[1])/s.Cores, n*one/s.Store, one/s.MachineLink)
}

// A Bound holds lower bounds for the time of a site, computed without a simulation. Simulate
// cannot be faster.
type Bound struct {
	Bytes   int64         // bytes of content, for all machines
	Link    time.Duration // until the links of all replicas have carried that content
	CPU     time.Duration // until the cores of all replicas have sent it
	Arrival time.Duration // until the last machine is switched on
}

// Bound returns the bounds of a site without losses.
func (s *Site) Bound() Bound {
	wire, cpu := s.perByte()
	n, l, i := float64(s.Machines), float64(s.Loader), float64(s.Image)
	links, cores := float64(s.Replicas)*s.Link, float64(s.Replicas)*s.Cores
	return Bound{
		Bytes:   int64(s.Machines) * (s.Loader + s.Image),
		Link:    seconds(n * (l*wire[0] + i*wire[1]) / links),
		CPU:     seconds(n * (l*cpu[0] + i*cpu[1]) / cores),
		Arrival: s.Arrival.Times(s.Machines, s.Plan.Seed)[s.Machines-1],
	}
}

// ReplicasFor returns the smallest number of replicas whose links carry everything within a time.
func (s *Site) ReplicasFor(within time.Duration) int {
	one := *s
	one.Replicas = 1
	need := int((one.Bound().Link + within - 1) / within)
	return max(1, need)
}

// seconds converts s to a duration. It rounds, so that a time survives the conversion to seconds
// and back.
func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }
